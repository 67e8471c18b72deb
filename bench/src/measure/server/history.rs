//! What was: replay for a viewer, and a stored session after a restart.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Ground, House, first_session};
use crate::served::client::{count_of, text_of};
use crate::served::script::Script;
use crate::served::viewer::Viewer;
use crate::summary::ms;
use crate::table::Row;

/// Prompts of the stored session, and the steps of each: a turn has at most 200.
const PROMPTS: usize = 10;
const STEPS: usize = 99;

/// The messages that this makes: a prompt, two for each step, and the last answer.
const MESSAGES: usize = PROMPTS * (2 + 2 * STEPS);

/// Recorded events that a viewer may have again, and how many more it may be given.
const REPLAYED: usize = 1_000;
const REPLAYED_MORE_MAX: usize = 63;

/// Messages of a page.
const PAGE: usize = 1_000;

#[derive(Default)]
struct Figures {
    replay: Vec<f64>,
    replay_first: Vec<f64>,
    list: Vec<f64>,
    open: Vec<f64>,
    page: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let Some(subject) = ground.narthex() else { return Ok(Vec::new()) };
    let mut house = House::open(ground, subject).await?;
    let session = house.client.create().await?;
    for prompt in 0..PROMPTS {
        let script = Script { steps: STEPS, first: prompt * STEPS, ..ground.script() };
        house.run(&session, &script).await.context("make the long session")?;
    }
    let mut figures = Figures::default();
    for _ in 0..ground.rounds() {
        figures.replay.push(replay(&mut house, &session).await?);
        house = house.restart(ground, subject).await?;
        let begun = Instant::now();
        let list = house.client.get("/v1/sessions?state=stored").await?;
        figures.list.push(ms(begun.elapsed()));
        if first_session(&list)? != session {
            bail!("the stored session is not listed: {list}");
        }
        let begun = Instant::now();
        house.client.resume(&session).await?;
        figures.open.push(ms(begun.elapsed()));
        let begun = Instant::now();
        let messages = page(&mut house, &session).await?;
        figures.page.push(ms(begun.elapsed()));
        if messages != MESSAGES {
            bail!("{messages} of {MESSAGES} messages were found");
        }
        figures.replay_first.push(replay(&mut house, &session).await?);
    }
    house.stop()?;
    Ok(vec![
        Row::new(format!("a viewer that comes back: {REPLAYED} events replayed, ms"), "")
            .narthex(&figures.replay),
        Row::new("the same, first viewer after a restart, ms", "").narthex(&figures.replay_first),
        Row::new("after a restart: list the stored sessions, ms", "").narthex(&figures.list),
        Row::new(format!("open the stored session of {MESSAGES} messages, ms"), "")
            .narthex(&figures.open),
        Row::new(format!("page through its messages, {PAGE} at a time, ms"), "")
            .narthex(&figures.page),
    ])
}

/// Reads the replay of a viewer that saw nothing yet, to the last event of the session.
async fn replay(house: &mut House, session: &str) -> Result<f64> {
    let info = house.client.get(&format!("/v1/sessions/{session}")).await?;
    let last = info.pointer("/lastEventId").and_then(Value::as_u64).context("no last event id")?;
    let begun = Instant::now();
    let mut viewer = Viewer::open(house.served.address, session, Some(0)).await?;
    let (mut count, mut is_over, mut gaps) = (0, false, 0);
    while !is_over {
        let goes_on = viewer.read(|frame| {
            gaps += usize::from(frame.event == "replay_gap");
            count += usize::from(frame.id.is_some());
            is_over |= frame.id.is_some_and(|id| id >= last);
        });
        if !goes_on.await? && !is_over {
            bail!("the stream ended after {count} events");
        }
    }
    let took = ms(begun.elapsed());
    if !(REPLAYED..=REPLAYED + REPLAYED_MORE_MAX).contains(&count) || gaps != 1 {
        bail!("{count} of {REPLAYED} events and {gaps} gaps were replayed");
    }
    Ok(took)
}

/// Reads all messages of a session; returns how many.
async fn page(house: &mut House, session: &str) -> Result<usize> {
    let (mut count, mut after) = (0, String::new());
    loop {
        let path = format!("/v1/sessions/{session}/messages?limit={PAGE}{after}");
        let page = house.client.get(&path).await?;
        let found = count_of(&page, "/messages")?;
        count += found;
        if page.pointer("/hasMore") != Some(&Value::Bool(true)) {
            return Ok(count);
        }
        let last = found.checked_sub(1).context("an empty page says that there is more")?;
        after = format!("&after={}", text_of(&page, &format!("/messages/{last}/id"))?);
    }
}
