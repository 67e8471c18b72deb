//! The server: `narthex serve` as a process, over loopback HTTP.

mod crowd;
mod fan;
mod history;
mod idle;
mod latency;
mod requests;
mod residents;

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::task::JoinSet;

use super::Bench;
use crate::arguments::Part;
use crate::moment;
use crate::program::{Place, Subject};
use crate::served::Served;
use crate::served::client::{Client, text_of};
use crate::served::model::Model;
use crate::served::script::Script;
use crate::served::viewer::{Frame, Viewer};
use crate::table::Row;

/// How long one part of a measurement may take: a thousand sessions of ten steps fit.
const PART_MAX: Duration = Duration::from_secs(900);

/// How long something that should happen at once is waited for.
const SOON: Duration = Duration::from_secs(60);

/// What all parts need.
struct Ground<'a> {
    bench: &'a Bench<'a>,
    model: Model,
    next_id: Cell<usize>,
}

/// Measures one part.
///
/// # Errors
/// The first answer that is wrong.
pub(super) fn part(bench: &Bench<'_>, part: Part) -> Result<Vec<Row>> {
    let ground = Ground { bench, model: Model::start()?, next_id: Cell::new(1) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start an async runtime")?;
    let rows = runtime.block_on(async {
        let measured = async {
            match part {
                Part::Idle => idle::rows(&ground).await,
                Part::Requests => requests::rows(&ground).await,
                Part::Fan => fan::rows(&ground).await,
                Part::Latency => latency::rows(&ground).await,
                Part::Residents => residents::rows(&ground).await,
                Part::Crowd => crowd::rows(&ground).await,
                Part::History => history::rows(&ground).await,
                other => bail!("{other:?} is no part of the server"),
            }
        };
        tokio::time::timeout(PART_MAX, measured).await.context("a part takes too long")?
    })?;
    match ground.model.strays() {
        0 => Ok(rows),
        strays => bail!("{strays} requests that no script asks for"),
    }
}

impl Ground<'_> {
    fn narthex(&self) -> Option<&Subject> {
        self.bench.narthex.as_ref()
    }

    fn rounds(&self) -> usize {
        self.bench.options.rounds
    }

    fn place(&self) -> Result<Place> {
        Place::new(&self.bench.folder)
    }

    fn start(&self, subject: &Subject, place: &Place) -> Result<Served> {
        Served::start(subject, place, self.model.address())
    }

    /// Returns a script with an id that no other has.
    fn script(&self) -> Script {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        Script { id, ..Script::default() }
    }
}

/// A running server with a home of its own, and a connection to it.
struct House {
    place: Place,
    served: Served,
    client: Client,
}

impl House {
    async fn open(ground: &Ground<'_>, subject: &Subject) -> Result<Self> {
        let place = ground.place()?;
        let served = ground.start(subject, &place)?;
        let client = Client::connect(served.address).await?;
        Ok(Self { place, served, client })
    }

    /// Ends the server and starts another on the same home.
    async fn restart(self, ground: &Ground<'_>, subject: &Subject) -> Result<Self> {
        let Self { place, served, client } = self;
        drop(client);
        served.stop()?;
        let served = ground.start(subject, &place)?;
        let client = Client::connect(served.address).await?;
        Ok(Self { place, served, client })
    }

    async fn create(&mut self, count: usize) -> Result<Vec<String>> {
        let mut sessions = Vec::with_capacity(count);
        for _ in 0..count {
            sessions.push(self.client.create().await?);
        }
        Ok(sessions)
    }

    async fn view(&self, session: &str) -> Result<Viewer> {
        Viewer::open(self.served.address, session, None).await
    }

    /// Sends a prompt and waits for its end.
    async fn run(&mut self, session: &str, script: &Script) -> Result<Seen> {
        let viewer = self.view(session).await?;
        self.client.prompt(session, script).await?;
        watch(viewer, 1).await
    }

    /// Lets each session run a script, all at once, with a viewer each.
    async fn run_all(&mut self, runs: &[(String, Script)]) -> Result<Vec<Seen>> {
        let mut viewers = JoinSet::new();
        for (session, _) in runs {
            viewers.spawn(watch(self.view(session).await?, 1));
        }
        for (session, script) in runs {
            self.client.prompt(session, script).await?;
        }
        all(viewers).await
    }

    fn stop(self) -> Result<()> {
        let Self { served, client, place } = self;
        drop(client);
        served.stop()?;
        drop(place);
        Ok(())
    }
}

/// What a viewer saw until the end of a prompt.
#[derive(Debug, Default)]
struct Seen {
    /// Deltas of text.
    deltas: u64,
    /// The ids of the first and the last of them.
    ids: Option<(u64, u64)>,
    /// When they came.
    at: Option<(u64, u64)>,
    /// How large the whole text was that ended the deltas, in bytes.
    answer_bytes: usize,
    /// How many events it was told that it lost.
    dropped: u64,
    /// How old stamped deltas were, in milliseconds.
    ages_ms: Vec<f64>,
    /// How many turns ended.
    done: usize,
    /// How many prompts ended.
    finished: usize,
    /// What was wrong.
    fault: Option<String>,
    /// A frame of a delta, as it stood in the stream.
    sample: Option<String>,
}

impl Seen {
    fn take(&mut self, frame: &Frame<'_>) {
        match frame.event {
            // What a model itself streams, for the floor.
            "text_delta" | "content_block_delta" => self.delta(frame),
            "replay_gap" => {
                let told = serde_json::from_str::<Value>(frame.data).ok();
                let told = told.as_ref().and_then(|gap| gap.get("dropped")?.as_u64());
                self.dropped += told.unwrap_or(0);
            }
            "assistant_message" => self.answer_bytes = frame.data.len(),
            "done" => self.done += 1,
            "prompt_finished" => {
                self.finished += 1;
                if !frame.data.contains(r#""reason":"completed""#) {
                    self.fault = Some(frame.data.to_owned());
                }
            }
            "message_stop" => self.finished += 1,
            _ => {}
        }
    }

    fn delta(&mut self, frame: &Frame<'_>) {
        self.deltas += 1;
        let id = frame.id.unwrap_or(0);
        self.ids = Some((self.ids.map_or(id, |(first, _)| first), id));
        self.at = Some((self.at.map_or(frame.at, |(first, _)| first), frame.at));
        if self.sample.is_none() {
            let Frame { id, event, data, .. } = frame;
            let id = id.unwrap_or(0);
            self.sample = Some(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"));
        }
        #[allow(clippy::cast_precision_loss, reason = "lengths of time are far below 2^52")]
        let age = |stamp: u64| frame.at.saturating_sub(stamp) as f64 / 1e6;
        self.ages_ms.extend(moment::stamps(frame.data).map(age));
    }
}

/// Reads a stream until as many prompts have ended.
async fn watch(mut viewer: Viewer, prompts: usize) -> Result<Seen> {
    let mut seen = Seen::default();
    while seen.finished < prompts {
        if !viewer.read(|frame| seen.take(frame)).await? && seen.finished < prompts {
            bail!("a stream ended before its prompt: {seen:?}");
        }
    }
    match seen.fault.take() {
        None => Ok(seen),
        Some(fault) => bail!("a prompt was not completed: {fault}"),
    }
}

/// Waits for all tasks of a set.
async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut found = Vec::with_capacity(tasks.len());
    while let Some(task) = tasks.join_next().await {
        found.push(task.context("a task of the bench")??);
    }
    Ok(found)
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited).await.with_context(|| format!("waited for {what}"))
}

/// Returns the id of the first session of a list.
fn first_session(list: &Value) -> Result<String> {
    text_of(list, "/sessions/0/id")
}

/// Counts are far below 2^52.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}
