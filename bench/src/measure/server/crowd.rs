//! Many sessions that take steps at once.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Ground, House, float};
use crate::model_server::Exchange;
use crate::program::Subject;
use crate::served::script::{Script, tag};
use crate::summary::{ms, percentile};
use crate::table::Row;
use crate::{floor, memory};

const STEPS: usize = 10;
const SESSIONS: usize = 32;
const MANY_SESSIONS: usize = 1_000;

#[derive(Default)]
struct Figures {
    wall_s: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu_ms: Vec<f64>,
    peak: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let bodies = recorded(ground).await?;
    let (mut floor, mut narthex) = (Figures::default(), Figures::default());
    for _ in 0..ground.rounds() {
        bare(ground, &bodies, &mut floor).await?;
        if let Some(subject) = ground.narthex() {
            served(ground, subject, SESSIONS, &mut narthex).await?;
        }
    }
    let what = format!("{SESSIONS} sessions of {STEPS} steps at once");
    let mut rows = vec![
        Row::new(format!("{what}, s"), "≤ 0.9").floor(&floor.wall_s).narthex(&narthex.wall_s),
        Row::new("the same: overhead a step, p50 ms (tool included)", "")
            .floor(&floor.p50)
            .narthex(&narthex.p50),
        Row::new("the same: p99 ms", "").floor(&floor.p99).narthex(&narthex.p99),
        Row::new("the same: own processor time a step, ms", "").narthex(&narthex.cpu_ms),
        Row::new("the same: peak of the main process, MiB", "").narthex(&narthex.peak),
    ];
    if let (true, Some(subject)) = (ground.bench.options.is_slow, ground.narthex()) {
        let mut many = Figures::default();
        served(ground, subject, MANY_SESSIONS, &mut many).await?;
        let what = format!("{MANY_SESSIONS} sessions of {STEPS} steps at once, none lost");
        rows.push(Row::new(format!("{what}, s"), "").narthex(&many.wall_s));
        rows.push(Row::new("the same: own processor time a step, ms", "").narthex(&many.cpu_ms));
        rows.push(Row::new("the same: peak of the main process, MiB", "").narthex(&many.peak));
    }
    Ok(rows)
}

/// The requests of one session, which the floor sends again.
async fn recorded(ground: &Ground<'_>) -> Result<Vec<Vec<u8>>> {
    let script = Script { steps: STEPS, ..ground.script() };
    let Some(subject) = ground.narthex() else {
        let result = r#"{"type":"tool_result"}"#;
        let body = |step| format!("{}{}", script.prompt(), result.repeat(step)).into_bytes();
        return Ok((0..=STEPS).map(body).collect());
    };
    let mut house = House::open(ground, subject).await?;
    ground.model.begin(Some(script.id));
    let session = house.client.create().await?;
    house.run(&session, &script).await?;
    house.stop()?;
    Ok(ground.model.bodies())
}

/// As many bare clients, each on a thread, that send the same requests under ids of their own.
async fn bare(ground: &Ground<'_>, bodies: &[Vec<u8>], figures: &mut Figures) -> Result<()> {
    let place = ground.place()?;
    let first = bodies.first().and_then(|body| std::str::from_utf8(body).ok());
    let (old, _) = first.and_then(Script::find).context("a recorded request has no script")?;
    let mut recordings = Vec::new();
    for at in 0..SESSIONS {
        let own = tag(ground.script().id);
        let body =
            |body: &Vec<u8>| String::from_utf8_lossy(body).replace(&tag(old.id), &own).into_bytes();
        let path = place.work().join(format!("requests-{at}"));
        floor::record(&path, &bodies.iter().map(body).collect::<Vec<_>>())?;
        recordings.push(path);
    }
    ground.model.begin(None);
    let address = ground.model.address().to_string();
    let begun = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for recording in recordings {
        let address = address.clone();
        clients.spawn_blocking(move || floor::run(&address, &recording));
    }
    super::all(clients).await?;
    figures.wall_s.push(begun.elapsed().as_secs_f64());
    figures.add(&ground.model.exchanges(), SESSIONS)
}

async fn served(
    ground: &Ground<'_>,
    subject: &Subject,
    sessions: usize,
    figures: &mut Figures,
) -> Result<()> {
    let mut house = House::open(ground, subject).await?;
    let mut runs = Vec::new();
    for session in house.create(sessions).await? {
        runs.push((session, Script { steps: STEPS, ..ground.script() }));
    }
    // The first prompt of a server starts what later ones find.
    let first = house.client.create().await?;
    house.run(&first, &Script { steps: 1, ..ground.script() }).await?;
    ground.model.begin(None);
    let cpu_ms = house.served.cpu_ms();
    let begun = Instant::now();
    let seen = house.run_all(&runs).await?;
    let wall_s = begun.elapsed().as_secs_f64();
    let cpu_ms = house.served.cpu_ms() - cpu_ms;
    if let Some(viewer) = seen.iter().find(|viewer| viewer.done != 1 || viewer.dropped != 0) {
        bail!("a viewer saw {} ends of turns and lost {}", viewer.done, viewer.dropped);
    }
    figures.add(&ground.model.exchanges(), sessions)?;
    figures.wall_s.push(wall_s);
    figures.cpu_ms.push(cpu_ms / float(sessions * STEPS));
    figures.peak.push(memory::greatest(house.served.pid()));
    house.stop()
}

impl Figures {
    /// Adds what the model saw; every session has to have made all its requests.
    fn add(&mut self, exchanges: &HashMap<usize, Vec<Exchange>>, sessions: usize) -> Result<()> {
        let count: usize = exchanges.values().map(Vec::len).sum();
        let is_whole = exchanges.values().all(|own| own.len() == STEPS + 1);
        if exchanges.len() != sessions || !is_whole {
            bail!("{} sessions made {count} requests", exchanges.len());
        }
        let mut turnarounds = Vec::new();
        for own in exchanges.values() {
            let pairs = own.iter().zip(own.iter().skip(1));
            turnarounds.extend(
                pairs.map(|(one, next)| ms(next.arrived.saturating_duration_since(one.sent))),
            );
        }
        self.p50.push(percentile(&turnarounds, 50).context("no step")?);
        self.p99.push(percentile(&turnarounds, 99).context("no step")?);
        Ok(())
    }
}
