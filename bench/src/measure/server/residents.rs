//! Memory of a session in the server.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use super::{Ground, House, all, float, until, watch};
use crate::program::Subject;
use crate::served::script::Script;
use crate::table::Row;

/// How many sessions do nothing.
const IDLE: usize = 500;

/// How many wait for their model.
const LIVE: usize = 64;

/// Steps of a transcript of 50 messages: the prompt, and a call and a result each.
const STEPS: usize = 24;

/// How long idle sessions are left alone.
const SETTLED: Duration = Duration::from_secs(3);

/// The same where there is time: longer than anything is kept for an idle session.
const ASLEEP: Duration = Duration::from_secs(70);

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let Some(subject) = ground.narthex() else { return Ok(Vec::new()) };
    let (mut fresh, mut asleep, mut further) = (Vec::new(), Vec::new(), Vec::new());
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    let (mut held, mut after) = (Vec::new(), Vec::new());
    for round in 0..ground.rounds().min(3) {
        let mut house = warm(ground, subject).await?;
        let before = house.served.resident_kib();
        house.create(IDLE).await?;
        tokio::time::sleep(SETTLED).await;
        fresh.push((house.served.resident_kib() - before) / float(IDLE));
        if ground.bench.options.is_slow && round == 0 {
            tokio::time::sleep(ASLEEP).await;
            asleep.push((house.served.resident_kib() - before) / float(IDLE));
            // The first ones have shown the process how much it may need at once; what further
            // ones add is what is kept of each.
            let before = house.served.resident_kib();
            house.create(IDLE).await?;
            tokio::time::sleep(ASLEEP).await;
            further.push((house.served.resident_kib() - before) / float(IDLE));
        }
        house.stop()?;
        let live = live(ground, subject, false).await?;
        alone.push(live.each_kib);
        held.push(live.held_mib);
        after.push(live.after_mib);
        watched.push(live_watched(ground, subject).await?);
    }
    Ok(vec![
        Row::new(format!("memory a fresh idle session after 3 s ({IDLE}), KiB"), "0")
            .narthex(&fresh),
        Row::new("the same after 70 s, KiB", "0").narthex(&asleep),
        Row::new(format!("the same of {IDLE} more, KiB"), "0").narthex(&further),
        Row::new(format!("memory a live session between steps, 50 messages ({LIVE}), KiB"), "≤ 60")
            .narthex(&alone),
        Row::new("the same with a viewer each, KiB", "").narthex(&watched),
        Row::new(format!("resident memory with {LIVE} live sessions, MiB"), "").narthex(&held),
        Row::new("the same 3 s after they have ended, MiB", "").narthex(&after),
    ])
}

/// A server that has done everything once.
async fn warm(ground: &Ground<'_>, subject: &Subject) -> Result<House> {
    let mut house = House::open(ground, subject).await?;
    let mut runs = Vec::new();
    for session in house.create(8).await? {
        runs.push((session, Script { steps: STEPS, ..ground.script() }));
    }
    house.run_all(&runs).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(house)
}

struct Live {
    each_kib: f64,
    held_mib: f64,
    after_mib: f64,
}

async fn live_watched(ground: &Ground<'_>, subject: &Subject) -> Result<f64> {
    live(ground, subject, true).await.map(|live| live.each_kib)
}

async fn live(ground: &Ground<'_>, subject: &Subject, is_watched: bool) -> Result<Live> {
    let mut house = warm(ground, subject).await?;
    let before = house.served.resident_kib();
    let mut viewers = JoinSet::new();
    let sessions = house.create(LIVE).await?;
    for session in &sessions {
        if is_watched {
            viewers.spawn(watch(house.view(session).await?, 1));
        }
        let script = Script { steps: STEPS, is_held: true, ..ground.script() };
        house.client.prompt(session, &script).await?;
    }
    until("all sessions to wait for their model", || ground.model.held() == LIVE).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = house.served.resident_kib();
    ground.model.release();
    all(viewers).await?;
    until("the answers to go out", || ground.model.held() == 0).await?;
    tokio::time::sleep(SETTLED).await;
    let after_mib = house.served.resident_kib() / 1024.0;
    house.stop()?;
    Ok(Live { each_kib: (held - before) / float(LIVE), held_mib: held / 1024.0, after_mib })
}
