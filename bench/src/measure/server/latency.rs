//! How old a delta is when a viewer has it.

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::task::JoinSet;

use super::{Ground, House, Seen, all, watch};
use crate::program::Subject;
use crate::served::client::post;
use crate::served::script::Script;
use crate::served::viewer::Viewer;
use crate::summary::percentile;
use crate::table::Row;

const DELTAS: usize = 200;
const PACE_US: usize = 5_000;

#[derive(Default)]
struct Ages {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (sessions, viewers, goal) in [(1, 1, ""), (32, 1, "≤ 3"), (1, 100, "≤ 2")] {
        let (mut floor, mut narthex) = (Ages::default(), Ages::default());
        for _ in 0..ground.rounds() {
            floor.add(&bare(ground, sessions * viewers).await?)?;
            if let Some(subject) = ground.narthex() {
                narthex.add(&served(ground, subject, (sessions, viewers)).await?)?;
            }
        }
        let what = match (sessions, viewers) {
            (1, 1) => "1 session".to_owned(),
            (1, many) => format!("1 session with {many} viewers"),
            (many, _) => format!("{many} sessions"),
        };
        rows.push(
            Row::new(format!("age of a delta at a viewer, {what}, p50 ms"), "")
                .floor(&floor.p50)
                .narthex(&narthex.p50),
        );
        rows.push(Row::new("the same, p99 ms", goal).floor(&floor.p99).narthex(&narthex.p99));
    }
    Ok(rows)
}

fn script(ground: &Ground<'_>) -> Script {
    Script { deltas: DELTAS, pace_us: PACE_US, ..ground.script() }
}

/// The viewers ask the model server themselves, with nothing in between.
async fn bare(ground: &Ground<'_>, streams: usize) -> Result<Vec<Seen>> {
    let mut viewers = JoinSet::new();
    for _ in 0..streams {
        let request = post("/v1/messages", &json!({"prompt": script(ground).prompt()}));
        viewers.spawn(watch(Viewer::ask(ground.model.address(), &request).await?, 1));
    }
    all(viewers).await
}

async fn served(
    ground: &Ground<'_>,
    subject: &Subject,
    (sessions, viewers): (usize, usize),
) -> Result<Vec<Seen>> {
    let mut house = House::open(ground, subject).await?;
    let sessions = house.create(sessions).await?;
    // The first prompt of a server starts what later ones find.
    let warm: Vec<_> = sessions.iter().map(|id| (id.clone(), ground.script())).collect();
    house.run_all(&warm).await?;
    let mut streams = JoinSet::new();
    for session in sessions.iter().flat_map(|id| std::iter::repeat_n(id, viewers)) {
        streams.spawn(watch(house.view(session).await?, 1));
    }
    for session in &sessions {
        house.client.prompt(session, &script(ground)).await?;
    }
    let seen = all(streams).await?;
    house.stop()?;
    Ok(seen)
}

impl Ages {
    fn add(&mut self, seen: &[Seen]) -> Result<()> {
        if let Some(short) = seen.iter().find(|viewer| viewer.ages_ms.len() != DELTAS) {
            bail!("a viewer saw {} of {DELTAS} deltas", short.ages_ms.len());
        }
        let ages: Vec<f64> = seen.iter().flat_map(|viewer| viewer.ages_ms.clone()).collect();
        self.p50.push(percentile(&ages, 50).context("no delta")?);
        self.p99.push(percentile(&ages, 99).context("no delta")?);
        Ok(())
    }
}
