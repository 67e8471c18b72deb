//! A long session: how large it is on disk, how fast it opens and replays.
//!
//! The session is a true one: the program itself takes its steps.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use narthex::Narthex;
use protocol::event::SessionEnd;
use protocol::{Event, EventBody, SessionId};
use runtime_api::{AgentSettings, SessionFilter};

use super::Bench;
use crate::program::Place;
use crate::summary::ms;
use crate::table::Row;

/// About how many events a step records; only how long the session gets depends on it.
const EVENTS_A_STEP: usize = 6;

/// What the SDK told about the long session.
struct Inside {
    events: f64,
    /// The size of the events as streams show them, in bytes.
    json_bytes: f64,
    open_ms: Vec<f64>,
    replay_per_s: Vec<f64>,
}

/// Measures a long session.
pub(super) fn long(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let Some(subject) = &bench.narthex else { return Ok(Vec::new()) };
    let place = Place::new(&bench.folder)?;
    let steps = bench.options.events / EVENTS_A_STEP + 1;
    bench.run(subject, &place, steps).context("make the long session")?;
    let stored = log_bytes(&place.home())?;
    let inside = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start an async runtime")?
        .block_on(inside(&place, bench.options.rounds))?;
    let (mut fresh, mut continued, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let other = bench.warm_place(0)?;
    for _ in 0..bench.options.rounds {
        fresh.push(bench.run(subject, &other, 0)?.start_ms());
        let ran = bench.run_with(subject, &place, 0, &["--continue"])?;
        continued.push(ran.start_ms());
        #[allow(clippy::cast_precision_loss, reason = "sizes of requests are far below 2^52")]
        bytes.extend(ran.exchanges.first().map(|first| first.bytes as f64 / 1000.0));
    }
    let count = inside.events;
    Ok(vec![
        Row::new("log on disk an event, bytes (floor: its JSON)", "≤ 1.3x")
            .floor(&[inside.json_bytes / count])
            .narthex(&[stored / count]),
        Row::new(format!("open a session of {count} events in a process, ms"), "≤ 10")
            .narthex(&inside.open_ms),
        Row::new("read it back and decode it, events a second", "≥ 200,000")
            .narthex(&inside.replay_per_s),
        Row::new("`run --continue` on it to its first request, ms (floor: a new session)", "")
            .floor(&fresh)
            .narthex(&continued),
        Row::new("body of that request, kB", "").narthex(&bytes),
    ])
}

/// Returns the size of the database and its large bodies; a log that is not yet carried into the
/// database counts too.
fn log_bytes(home: &Path) -> Result<f64> {
    let mut total = 0;
    let mut folders: Vec<PathBuf> = vec![home.join("blobs")];
    for name in ["narthex.db", "narthex.db-wal"] {
        total += std::fs::metadata(home.join(name)).map_or(0, |meta| meta.len());
    }
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", folder.display()))?;
            let meta = entry.metadata().context("look at a large body")?;
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                total += meta.len();
            }
        }
    }
    if total == 0 {
        bail!("there is no database in {}", home.display());
    }
    #[allow(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
    Ok(total as f64)
}

async fn inside(place: &Place, rounds: usize) -> Result<Inside> {
    let (mut open_ms, mut replay_per_s) = (Vec::new(), Vec::new());
    let (mut events, mut json_bytes) = (0.0, 0.0);
    for round in 0..rounds {
        // A new assembly each time, so that nothing is remembered from the round before.
        let narthex = assemble(place).await?;
        let handle = narthex.handle();
        let filter = SessionFilter { limit: 1, ..SessionFilter::default() };
        let found = handle.list(filter).await.context("list the sessions")?;
        let session = found.first().context("the long session is not there")?.id.clone();
        if round == 0 {
            (events, json_bytes) = sizes(&narthex, &session).await?;
        }
        let start = Instant::now();
        let agent = AgentSettings::default();
        handle.open(&session, agent).await.context("open the long session")?;
        open_ms.push(ms(start.elapsed()));
        replay_per_s.push(replay(&narthex, &session).await?);
        handle.close(&session, SessionEnd::Closed).await.context("close the long session")?;
        handle.shutdown().await;
    }
    Ok(Inside { events, json_bytes, open_ms, replay_per_s })
}

async fn assemble(place: &Place) -> Result<Narthex> {
    let mut options = narthex::Options::new(place.home());
    options.has_checkpoints = false;
    narthex::build(options).await.context("open the home")
}

/// Returns how many events a session has and how many bytes they are as JSON.
async fn sizes(narthex: &Narthex, session: &SessionId) -> Result<(f64, f64)> {
    let exported = narthex.handle().export(session).await.context("export the long session")?;
    let mut bytes = 0;
    for row in &exported.rows {
        let event = Event {
            body: EventBody::decode(row.kind, &row.body).context("read an event")?,
            session_id: session.clone(),
            seq: Some(row.seq),
            frame: row.frame,
            ts: row.at,
        };
        bytes += serde_json::to_vec(&event).context("write an event")?.len();
    }
    #[allow(clippy::cast_precision_loss, reason = "sizes of logs are far below 2^52")]
    Ok((exported.rows.len() as f64, bytes as f64))
}

/// Reads the whole log from the store and decodes every event; returns how many a second.
///
/// Not by watching: a viewer gets the newest events of a long session alone.
async fn replay(narthex: &Narthex, session: &SessionId) -> Result<f64> {
    let start = Instant::now();
    let exported = narthex.handle().export(session).await.context("read the long session")?;
    let mut state = 0;
    for row in &exported.rows {
        let body = EventBody::decode(row.kind, &row.body).context("read an event")?;
        state += usize::from(matches!(body, EventBody::ToolResult(_)));
    }
    // The work must not be left out by the compiler.
    std::hint::black_box(state);
    #[allow(clippy::cast_precision_loss, reason = "counts of events are far below 2^52")]
    Ok(exported.rows.len() as f64 / start.elapsed().as_secs_f64())
}
