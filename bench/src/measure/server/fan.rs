//! One session that many watch.

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use super::{Ground, House, Seen, all, float, watch};
use crate::program::Subject;
use crate::served::Served;
use crate::served::client::get;
use crate::served::script::Script;
use crate::served::viewer::Viewer;
use crate::table::Row;

/// How many deltas a stream has that is handed out as fast as it is read.
const DELTAS: usize = 10_000;

/// How many a stream has whose pace the viewers can keep.
const PACED_DELTAS: usize = 1_000;

/// The time between two of those, in microseconds: a third of a million frames a second for a
/// thousand viewers, somewhat more than the goal.
const PACE_US: usize = 3_000;

/// The largest number of viewers.
const CROWD: usize = 1_000;

/// Bytes of the text of one delta, at least.
const DELTA_BYTES_MIN: usize = 18;

/// What stands in for a frame where there is no program that made one.
const INVENTED: &str = "id: 4294967300\nevent: text_delta\ndata: {\"type\":\"text_delta\",\
    \"text\":\"word 000001 of many \",\"sessionId\":\"01m8recaywe8za4zfb4b5smwqx\",\
    \"ts\":\"2026-12-01T09:00:00.000Z\"}\n\n";

/// How a stream ends for a viewer of the bench.
const END: &str = "event: prompt_finished\ndata: {\"reason\":\"completed\"}\n\n";

#[derive(Default)]
struct Figures {
    per_s: Vec<f64>,
    lost: Vec<f64>,
    cpu_ms: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let mut frame = INVENTED.to_owned();
    if let Some(narthex) = ground.narthex() {
        let mut house = House::open(ground, narthex).await?;
        let session = house.client.create().await?;
        let script = Script { deltas: 10, ..ground.script() };
        frame = house.run(&session, &script).await?.sample.context("no delta was streamed")?;
        house.stop()?;
    }
    let place = ground.place()?;
    std::fs::write(place.recording(), frame.repeat(DELTAS) + END).context("record a stream")?;
    let still = ground.start(&Subject::Floor, &place)?;
    let mut rows = Vec::new();
    for viewers in [1, 100, CROWD] {
        let (mut floor, mut narthex) = (Figures::default(), Figures::default());
        for _ in 0..ground.rounds() {
            floor.bare(&still, viewers, &format!("/fan/{viewers}")).await?;
            if let Some(subject) = ground.narthex() {
                let script = Script { deltas: DELTAS, ..ground.script() };
                narthex.run(ground, subject, (viewers, script)).await?;
            }
        }
        rows.extend(floor.beside(&narthex, &format!("{DELTAS} deltas to {viewers} viewers"), ""));
    }
    let (mut floor, mut narthex) = (Figures::default(), Figures::default());
    let path = format!("/paced/{CROWD}/{PACED_DELTAS}/{PACE_US}");
    for _ in 0..ground.rounds() {
        floor.bare(&still, CROWD, &path).await?;
        if let Some(subject) = ground.narthex() {
            let script = Script { deltas: PACED_DELTAS, pace_us: PACE_US, ..ground.script() };
            narthex.run(ground, subject, (CROWD, script)).await?;
        }
    }
    let what = format!("{PACED_DELTAS} deltas, one each {PACE_US} µs, to {CROWD} viewers");
    rows.extend(floor.beside(&narthex, &what, "≥ 300,000"));
    still.stop()?;
    Ok(rows)
}

impl Figures {
    /// Lets the floor write to as many viewers.
    async fn bare(&mut self, still: &Served, viewers: usize, path: &str) -> Result<()> {
        let cpu_ms = still.cpu_ms();
        let mut streams = JoinSet::new();
        for _ in 0..viewers {
            streams.spawn(watch(Viewer::ask(still.address, &get(path)).await?, 1));
        }
        self.add(&all(streams).await?, still.cpu_ms() - cpu_ms)
    }

    async fn run(
        &mut self,
        ground: &Ground<'_>,
        subject: &Subject,
        (viewers, script): (usize, Script),
    ) -> Result<()> {
        let mut house = House::open(ground, subject).await?;
        let session = house.client.create().await?;
        // The first prompt of a server starts what later ones find.
        house.run(&session, &ground.script()).await?;
        let mut streams = JoinSet::new();
        for _ in 0..viewers {
            streams.spawn(watch(house.view(&session).await?, 1));
        }
        let cpu_ms = house.served.cpu_ms();
        house.client.prompt(&session, &script).await?;
        let seen = all(streams).await?;
        // Whoever lost deltas must have the whole text, in the event that ends them.
        let least = script.deltas * DELTA_BYTES_MIN;
        if let Some(viewer) = seen.iter().find(|viewer| viewer.answer_bytes < least) {
            bail!("a viewer has {} bytes of a text of {least}", viewer.answer_bytes);
        }
        self.add(&seen, house.served.cpu_ms() - cpu_ms)?;
        house.stop()
    }

    /// Adds a run. A delta is lost where its id lies between those that somebody saw, and a
    /// viewer did not see it.
    fn add(&mut self, seen: &[Seen], cpu_ms: f64) -> Result<()> {
        let ids = || seen.iter().filter_map(|viewer| viewer.ids);
        let at = || seen.iter().filter_map(|viewer| viewer.at);
        let first = ids().map(|(first, _)| first).min().context("nobody saw a delta")?;
        let last = ids().map(|(_, last)| last).max().unwrap_or(first);
        let sent = last - first + 1;
        let (mut got, mut lost) = (0_u64, 0_u64);
        for viewer in seen {
            // The floor's frames all have the same id.
            let missed = sent.saturating_sub(viewer.deltas);
            got += viewer.deltas;
            lost += missed;
        }
        let begun = at().map(|(first, _)| first).min().unwrap_or(0);
        let ended = at().map(|(_, last)| last).max().unwrap_or(0);
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let (got, lost, time) = (got as f64, lost as f64, (ended - begun).max(1) as f64 / 1e9);
        self.per_s.push(got / time);
        self.lost.push(lost / float(seen.len().max(1)));
        self.cpu_ms.push(cpu_ms);
        Ok(())
    }

    fn beside(&self, narthex: &Self, what: &str, goal: &'static str) -> [Row; 3] {
        [
            Row::new(format!("{what}: frames a second delivered"), goal)
                .floor(&self.per_s)
                .narthex(&narthex.per_s),
            Row::new("the same: deltas that a viewer went without", "").narthex(&narthex.lost),
            Row::new("the same: processor time of the server, ms", "")
                .floor(&self.cpu_ms)
                .narthex(&narthex.cpu_ms),
        ]
    }
}
