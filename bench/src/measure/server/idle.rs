//! The start of a server, and what it costs when nobody asks for anything.

use std::time::Duration;

use anyhow::Result;

use super::Ground;
use crate::memory;
use crate::program::Subject;
use crate::table::Row;

/// How long a server is left alone before it is looked at.
const SETTLED: Duration = Duration::from_secs(2);

/// How long it is looked at.
const WATCHED: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Quiet {
    resident: Vec<f64>,
    proportional: Vec<f64>,
    cpu_ms: Vec<f64>,
    wakes: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let (mut floor, mut warm, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let place = ground.place()?;
    if let Some(narthex) = ground.narthex() {
        ground.start(narthex, &place)?.stop()?;
    }
    // A start is short: more of them steady the median.
    for _ in 0..ground.rounds() * 3 {
        floor.push(start_ms(ground, &Subject::Floor, &place)?);
        let Some(narthex) = ground.narthex() else { continue };
        warm.push(start_ms(ground, narthex, &place)?);
        empty.push(start_ms(ground, narthex, &ground.place()?)?);
    }
    let (mut still, mut quiet) = (Quiet::default(), Quiet::default());
    for _ in 0..ground.rounds().min(3) {
        still.look(ground, &Subject::Floor).await?;
        if let Some(narthex) = ground.narthex() {
            quiet.look(ground, narthex).await?;
        }
    }
    let row = |what: &str, goal, figure: fn(&Quiet) -> &[f64]| {
        Row::new(what, goal).floor(figure(&still)).narthex(figure(&quiet))
    };
    Ok(vec![
        Row::new("server: start to its ready line, ms", "").floor(&floor).narthex(&warm),
        Row::new("the same with an empty home, ms", "").narthex(&empty),
        row("idle server after 2 s: resident memory, MiB", "≤ 20", |quiet| &quiet.resident),
        row("the same, proportional (PSS), MiB", "", |quiet| &quiet.proportional),
        row("idle server: processor time in 5 s, ms", "0", |quiet| &quiet.cpu_ms),
        row("idle server: wake-ups in 5 s", "", |quiet| &quiet.wakes),
    ])
}

fn start_ms(ground: &Ground<'_>, subject: &Subject, place: &crate::program::Place) -> Result<f64> {
    let served = ground.start(subject, place)?;
    let ready_ms = served.ready_ms;
    served.stop()?;
    Ok(ready_ms)
}

impl Quiet {
    async fn look(&mut self, ground: &Ground<'_>, subject: &Subject) -> Result<()> {
        let place = ground.place()?;
        let served = ground.start(subject, &place)?;
        tokio::time::sleep(SETTLED).await;
        self.resident.push(memory::resident(served.pid()));
        self.proportional.push(memory::proportional(served.pid()));
        let (cpu_ms, wakes) = (served.cpu_ms(), served.wakes());
        tokio::time::sleep(WATCHED).await;
        self.cpu_ms.push(served.cpu_ms() - cpu_ms);
        self.wakes.push(served.wakes() - wakes);
        served.stop()
    }
}
