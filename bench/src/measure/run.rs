//! Runs of the command line: start, steps, memory.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::Bench;
use crate::program::{Place, Subject, Want};
use crate::summary::{middle, ms, percentile};
use crate::table::Row;
use crate::{floor, program, wire};

/// How many writes are synced to see what the disk costs.
const SYNCS: usize = 20;

/// How large each of them is, in bytes: about what the events of a step need.
const SYNC_BYTES: usize = 4096;

/// From the start of a process to its first request, and a whole run without a tool.
pub(super) fn start(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let place = bench.warm_place(0)?;
    let (mut floor, mut warm, mut empty) = (Figures::default(), Figures::default(), Vec::new());
    // A start is short: more of them steady the median.
    for _ in 0..bench.options.rounds * 3 {
        floor.add(&bench.run(&Subject::Floor, &place, 0)?);
        let Some(narthex) = &bench.narthex else { continue };
        warm.add(&bench.run(narthex, &place, 0)?);
        let fresh = Place::new(&bench.folder)?;
        empty.push(bench.run(narthex, &fresh, 0)?.start_ms());
    }
    Ok(vec![
        Row::new("start to the first request, ms", "≤ 15").floor(&floor.start).narthex(&warm.start),
        Row::new("the same with an empty home, ms", "").narthex(&empty),
        Row::new("whole run without a tool call, ms", "").floor(&floor.whole).narthex(&warm.whole),
        Row::new("last answer to the end of the process, ms", "")
            .floor(&floor.end)
            .narthex(&warm.end),
        Row::new("body of the first request, kB", "").narthex(&warm.bytes),
    ])
}

#[derive(Default)]
struct Figures {
    start: Vec<f64>,
    whole: Vec<f64>,
    end: Vec<f64>,
    bytes: Vec<f64>,
}

impl Figures {
    fn add(&mut self, ran: &program::Ran) {
        self.start.push(ran.start_ms());
        self.whole.push(ms(ran.ended.saturating_duration_since(ran.started)));
        self.end.push(ran.end_ms());
        #[allow(clippy::cast_precision_loss, reason = "sizes of requests are far below 2^52")]
        self.bytes.extend(ran.exchanges.first().map(|first| first.bytes as f64 / 1000.0));
    }
}

/// The time from each answer to the next request.
pub(super) fn steps(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let steps = bench.options.steps;
    let place = bench.warm_place(steps)?;
    let (mut tool, mut sync) = (Vec::new(), Vec::new());
    let (mut floor, mut narthex) = (Turnarounds::default(), Turnarounds::default());
    let mut own = Vec::new();
    for _ in 0..bench.options.rounds {
        let mut tools = tool_ms(steps)?;
        sync.push(sync_ms(&place.work())?);
        floor.add(&bench.run(&Subject::Floor, &place, steps)?);
        if let Some(subject) = &bench.narthex {
            narthex.add(&bench.run(subject, &place, steps)?);
        }
        // Before and after the subjects, so that a slow minute of the machine shows in both.
        tools.extend(tool_ms(steps)?);
        let tool_ms = middle(&tools).context("no tool was run")?;
        tool.push(tool_ms);
        own.extend(narthex.median.last().map(|median| median - tool_ms));
    }
    let floor_own: Vec<f64> =
        floor.median.iter().zip(&tool).map(|(median, tool)| median - tool).collect();
    Ok(vec![
        Row::new(format!("overhead a step over {steps} steps, ms (tool included)"), "≤ 1.3x")
            .floor(&floor.median)
            .narthex(&narthex.median),
        Row::new("the same, 90th of 100, ms", "").floor(&floor.p90).narthex(&narthex.p90),
        Row::new("own time a step, ms (tool taken off)", "≤ 1").floor(&floor_own).narthex(&own),
        Row::new("first step's overhead, ms", "").floor(&floor.first).narthex(&narthex.first),
        Row::new(format!("whole run of {steps} steps, ms"), "")
            .floor(&floor.whole)
            .narthex(&narthex.whole),
        Row::new("this machine: bash -c 'true N' from start to end, ms", "").floor(&tool),
        Row::new("this machine: write and sync 4 KiB, ms", "").floor(&sync),
    ])
}

#[derive(Default)]
struct Turnarounds {
    median: Vec<f64>,
    p90: Vec<f64>,
    first: Vec<f64>,
    whole: Vec<f64>,
}

impl Turnarounds {
    fn add(&mut self, ran: &program::Ran) {
        let turnarounds = ran.turnarounds_ms();
        self.first.extend(turnarounds.first());
        self.median.extend(middle(&turnarounds));
        self.p90.extend(percentile(&turnarounds, 90));
        self.whole.push(ms(ran.ended.saturating_duration_since(ran.started)));
    }
}

/// Returns how long the tool's process takes by itself, time by time.
fn tool_ms(steps: usize) -> Result<Vec<f64>> {
    let mut lengths = Vec::with_capacity(steps);
    for step in 0..steps {
        let command = wire::command(step);
        let start = Instant::now();
        floor::run_command(&command)?;
        lengths.push(ms(start.elapsed()));
    }
    Ok(lengths)
}

/// Returns how long a small durable write takes on this disk.
fn sync_ms(folder: &Path) -> Result<f64> {
    let path = folder.join("synced");
    let mut file = File::create(&path).context("make a file to sync")?;
    let bytes = [1; SYNC_BYTES];
    let mut lengths = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&bytes).and_then(|()| file.sync_data()).context("sync a file")?;
        lengths.push(ms(start.elapsed()));
    }
    std::fs::remove_file(&path).context("remove the synced file")?;
    middle(&lengths).context("nothing was synced")
}

/// The memory of a run, in runs of their own: looking costs time.
pub(super) fn memory(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let steps = bench.options.steps;
    let place = bench.warm_place(steps)?;
    let mut floor = Vec::new();
    let mut narthex = Vec::new();
    let watched = |subject| {
        let place = &place;
        let want = Want { subject, place, steps, flags: &[], watches: true, keeps_bodies: false };
        program::run(&bench.server, want).map(|ran| ran.peak)
    };
    for _ in 0..bench.options.rounds {
        floor.push(watched(&Subject::Floor)?);
        if let Some(subject) = &bench.narthex {
            narthex.push(watched(subject)?);
        }
    }
    let row = |what: &str, goal, figure: fn(&crate::memory::Peak) -> f64| {
        let floor: Vec<f64> = floor.iter().map(figure).collect();
        let narthex: Vec<f64> = narthex.iter().map(figure).collect();
        Row::new(what, goal).floor(&floor).narthex(&narthex)
    };
    Ok(vec![
        row("peak memory of the whole tree, MiB (tools included)", "≤ 25", |peak| peak.tree),
        row("peak memory without the tools, MiB", "", |peak| peak.own),
        row("peak memory of the main process, MiB", "", |peak| peak.root),
    ])
}
