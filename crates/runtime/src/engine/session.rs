//! A live session: one task that owns the state, does what is owed and records what comes of it.

mod ask;
mod capture;
mod closing;
mod compact;
mod drive;
mod fitting;
mod gated;
mod history;
mod inquire;
mod interact;
mod interrupt;
mod live;
mod obey;
mod queue;
mod requests;
mod resume;
mod settle;
mod spending;
mod telling;
mod tools;
mod vet;
mod viewing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{Delta, Fault, Lease, Progress, Snapshot, StoreError, Workspace};
use policy::Policy;
use protocol::event::{Notice, NoticeLevel, SessionEnd};
use protocol::{
    CheckpointId, EventBody, FrameId, PromptId, Refusal, Seq, SessionId, Timestamp, ToolCallId,
    TreeId,
};
use runtime_api::AgentSettings;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::face::Face;
use super::mailbox::Message;
use super::options::Services;
use super::outbox::{Outbox, Taken};
use super::viewers::Viewers;
use crate::kernel::{Command, State, Transcript, decide, evolve};
use live::Live;

/// Live pieces of an answer or of tools that may wait for the session.
const LIVE: usize = 256;

/// How long stopped calls get to end their processes before they are dropped, which ends them
/// without a word.
const STOP_GRACE: Duration = Duration::from_secs(15);

/// How long facts may wait for company on their way to the log while a model is asked. What a fast
/// model answers within that time shares their commit; to a person it is no time at all.
const COMMIT_WINDOW: Duration = Duration::from_millis(2);

/// A snapshot is written when the log has grown by this many events since the last one.
const SNAPSHOT_EVERY: u64 = 1_000;

/// How a session's task ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its owner let go of it.
    Closed,
    /// Nobody used it; it is folded again on demand.
    Hibernated,
    /// It lost its lease, or the store failed.
    Lost,
}

/// An outcome of an effect.
#[derive(Debug)]
enum Outcome {
    Answered(Result<driver_api::ModelResponse, driver_api::ModelError>),
    PauseOver,
    Ran {
        call: ToolCallId,
        outcome: driver_api::ToolOutcome,
        took: Duration,
    },
    /// A summary was written, or not.
    Summarised(Box<compact::Summarised>),
    /// The files were captured before a change.
    Captured(CheckpointId, Result<driver_api::Captured, driver_api::CheckpointError>),
    /// Hooks and checks have looked at a call.
    Vetted(ToolCallId, Box<vet::Vetted>),
    /// Hooks were told of a moment.
    Told(PromptId, Vec<(driver_api::Moment, driver_api::HookAnswer)>),
    /// What a turn left was captured.
    Recorded(CheckpointId, Option<(TreeId, u64)>),
}

/// A live piece of a tool's output, under its call.
type Piece = (ToolCallId, Progress);

/// A call as the model asked for it.
#[derive(Clone, Debug)]
struct Asked {
    input: Map<String, Value>,
    malformed: Option<String>,
    /// The real paths that it touches, once it was looked up.
    paths: Vec<String>,
    /// What it was judged by.
    judged: Option<(protocol::Mode, Arc<Policy>)>,
}

/// A live session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) services: Arc<Services>,
    pub(crate) id: SessionId,
    pub(crate) state: State,
    pub(crate) lease: Lease,
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) agent: AgentSettings,
    /// The layers above the session's own, as they were when it was opened.
    pub(crate) above: Arc<Policy>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) viewers: Arc<Viewers>,
    pub(crate) outbox: Outbox,
    pub(crate) frame: FrameId,
    pub(crate) created_at: Timestamp,
    pub(crate) snapshot_at: Seq,
    /// What others see of it without asking.
    pub(crate) face: Arc<Face>,
    live: Live,
}

impl Session {
    /// Makes the live form of an opened session.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { services, id, state, lease, workspace, agent, above, policy, viewers } = parts;
        let now = services.options.clock.now();
        let live = Live::new(&services, &state, agent.tools.as_ref());
        let (outbox, frame) = (Outbox::default(), FrameId::default());
        let (snapshot_at, face) = (Seq(0), Arc::new(Face::new(agent.clone())));
        Self {
            services,
            id,
            state,
            lease,
            workspace,
            agent,
            above,
            policy: Arc::new(policy),
            viewers,
            outbox,
            frame,
            created_at: now,
            snapshot_at,
            face,
            live,
        }
    }

    /// Says that the log is empty so far: the transcript need not be read.
    pub(crate) fn begins_empty(&mut self) {
        self.live.transcript = Some(Transcript::default());
    }

    /// Applies a command that mends what a crash left.
    pub(crate) fn mend(&mut self, command: Command) {
        self.apply_sure(command);
    }

    /// Makes what was mended durable.
    pub(crate) async fn flush_opened(&mut self) -> Result<(), StoreError> {
        self.flush().await
    }

    /// Lives until the session is closed, hibernates or is lost. Boxed, as are the waits of what
    /// happens seldom: a future holds what it took twice, and room for its largest wait.
    pub(crate) async fn run(mut self: Box<Self>, mut mailbox: mpsc::Receiver<Message>) -> Ended {
        let ended = self.live(&mut mailbox).await;
        self.live.cancel.cancel();
        self.live.effects.shutdown().await;
        match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(session = %self.id, %error, "a session lost its log");
                Box::pin(self.tell_loss(&error)).await;
                self.let_go().await;
                Ended::Lost
            }
        }
    }

    /// Gives the lease up where that can be done: whoever opens the session next need not wait
    /// for the end of this process.
    pub(crate) async fn let_go(&self) {
        if let Err(error) = self.services.options.store.release(&self.lease).await {
            tracing::warn!(session = %self.id, %error, "release a session that was lost");
        }
    }

    /// Tells viewers why their stream ends. It is no event of the log, which cannot be written.
    async fn tell_loss(&mut self, error: &StoreError) {
        let message = match error {
            StoreError::Stale(_) => "another process has taken the session over",
            _ => "the log cannot be written, so the session has stopped here",
        };
        let (level, code) = (NoticeLevel::Error, Some("log_lost".to_owned()));
        let body = Notice { level, code, message: message.to_owned() }.into();
        // Under the last frame that was shown: what else was handed out is in no log.
        self.show_unrecorded(body, self.viewers.last_frame()).await;
    }

    async fn live(&mut self, mailbox: &mut mpsc::Receiver<Message>) -> Result<Ended, StoreError> {
        loop {
            self.drive().await?;
            let is_idle = self.state.turn.is_none()
                && self.state.queue.is_empty()
                && self.live.recording.is_none();
            let idle_ms = self.services.idle_ms();
            let clock = Arc::clone(&self.services.options.clock);
            let grace = self.stop_grace();
            let flush_in = self.flush_in();
            if self.state.is_waiting() && self.live.attend_due.is_none() {
                let now = self.services.options.clock.elapsed();
                self.live.attend_due = Some(now);
            }
            let attention_in = self.attention_in();
            let time_left = self.turn_time_left().filter(|_| grace.is_none());
            tokio::select! {
                biased;
                // First, so that no flood of live pieces keeps a stop from being heard.
                message = mailbox.recv() => match message {
                    Some(Message::Close(reason, reply)) => {
                        Box::pin(self.close(reason)).await?;
                        // The asker may have gone; the session is closed all the same.
                        let _gone = reply.send(Ok(()));
                        return Ok(Ended::Closed);
                    }
                    Some(message) => Box::pin(self.handle(message)).await?,
                    None => {
                        Box::pin(self.close(SessionEnd::Shutdown)).await?;
                        return Ok(Ended::Closed);
                    }
                },
                Some(delta) = next_delta(&mut self.live.deltas) => self.delta(delta).await?,
                (call, piece) = self.live.progress.next() => {
                    self.progress(call, piece).await?;
                }
                inquiry = self.live.inquiries.next() => self.inquire(*inquiry),
                Some(outcome) = self.live.effects.join_next(), if !self.live.effects.is_empty() => {
                    match outcome {
                        Ok(outcome) => Box::pin(self.settle(outcome)).await?,
                        Err(error) => Box::pin(self.broken(&error)).await?,
                    }
                }
                () = clock.sleep(flush_in.unwrap_or_default()), if flush_in.is_some() => {
                    self.flush().await?;
                }
                () = clock.sleep(attention_in.unwrap_or_default()), if attention_in.is_some() => {
                    Box::pin(self.attend()).await?;
                }
                () = clock.sleep(time_left.unwrap_or_default()), if time_left.is_some() => {
                    self.time_is_over();
                }
                () = clock.sleep(grace.unwrap_or_default()), if grace.is_some() => {
                    Box::pin(self.abandon()).await?;
                }
                () = clock.sleep(Duration::from_millis(idle_ms)), if is_idle => {
                    if !self.viewers.any() && mailbox.is_empty() {
                        self.snapshot(1).await?;
                        self.face.fall_asleep();
                        return Ok(Ended::Hibernated);
                    }
                }
            }
        }
    }

    /// Returns how long stopped calls still have, once the turn is stopping.
    fn stop_grace(&self) -> Option<Duration> {
        let since = self.live.stopping_since?;
        let spent = self.services.options.clock.elapsed().saturating_sub(since);
        Some(STOP_GRACE.saturating_sub(spent))
    }

    /// Returns how long the facts that wait may still wait.
    fn flush_in(&self) -> Option<Duration> {
        let due = self.live.flush_due?;
        Some(due.saturating_sub(self.services.options.clock.elapsed()))
    }

    /// Lets facts wait for the answer that a model may give at once.
    fn flush_soon(&mut self) {
        if !self.outbox.is_empty() && self.live.flush_due.is_none() {
            self.live.flush_due = Some(self.services.options.clock.elapsed() + COMMIT_WINDOW);
        }
    }

    /// Decides a command and folds its events; they become durable with the next flush.
    fn apply(&mut self, command: Command) -> Result<(), Refusal> {
        let now = self.services.options.clock.now();
        for body in decide(&self.state, command, now)? {
            self.fold(now, body);
        }
        Ok(())
    }

    /// Decides a command that is never refused by the state it is made for.
    fn apply_sure(&mut self, command: Command) {
        if let Err(refusal) = self.apply(command) {
            debug_assert!(false, "refused: {refusal}");
            tracing::error!(session = %self.id, %refusal, "a sure command was refused");
        }
    }

    fn fold(&mut self, at: Timestamp, body: EventBody) {
        let seq = self.state.seq.next();
        evolve(&mut self.state, seq, at, &body);
        let is_other_view = matches!(
            body,
            EventBody::Compacted(_) | EventBody::CompactionUndone(_) | EventBody::Rewound(_)
        );
        if is_other_view {
            // The model reads another part of the log from here on: it is read anew.
            self.live.transcript = None;
        } else if let Some(transcript) = &mut self.live.transcript {
            transcript.push(at, &body);
        }
        if let EventBody::RequestResolved(resolved) = &body {
            self.live.inquiries.resolved(resolved);
        }
        let frame = self.frame_of(body.kind());
        self.outbox.push(seq, frame, at, body);
    }

    /// Makes everything folded so far durable, then shows it.
    async fn flush(&mut self) -> Result<(), StoreError> {
        self.live.flush_due = None;
        if self.outbox.is_empty() {
            return Ok(());
        }
        let taken = self.outbox.take(&self.id, &self.state);
        let Taken { rows, events, head } =
            taken.map_err(|error| Fault::with("encode events", error))?;
        if let Some(last) = rows.last() {
            self.live.updated_at = last.at;
        }
        self.services.options.store.append(&self.lease, rows, head).await?;
        self.live.inquiries.answer();
        self.show_face();
        for event in events {
            self.show_recorded(event).await;
        }
        if self.state.seq.0 >= self.snapshot_at.0 + SNAPSHOT_EVERY {
            self.snapshot(SNAPSHOT_EVERY).await?;
        }
        Ok(())
    }

    /// Shows what the session is to whoever looks without asking. All of it is durable.
    pub(crate) fn show_face(&mut self) {
        if self.live.window.0 != self.state.model {
            let model = self.services.options.models.resolve(&self.state.model).ok();
            let window = model.and_then(|model| model.info().context_window);
            self.live.window = (self.state.model.clone(), window);
        }
        self.face.show(self.info());
    }

    /// Keeps a snapshot when the log has grown by `every` events since the last one.
    async fn snapshot(&mut self, every: u64) -> Result<(), StoreError> {
        if self.state.seq.0 < self.snapshot_at.0 + every {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&self.state).map_err(|e| Fault::with("encode state", e))?;
        let seq = self.state.seq;
        let version = crate::kernel::SNAPSHOT_VERSION;
        let snapshot = Snapshot { seq, version, bytes };
        match self.services.options.store.put_snapshot(&self.lease, snapshot).await {
            Err(error @ StoreError::Stale(_)) => return Err(error),
            // It only saves time: the log has everything.
            Err(error) => tracing::warn!(session = %self.id, %error, "keep a snapshot"),
            Ok(()) => {}
        }
        self.snapshot_at = seq;
        Ok(())
    }

    fn spill_dir(&self) -> PathBuf {
        self.services.options.spill.join(self.id.as_str())
    }

    fn fresh_prompt_id(&self) -> PromptId {
        PromptId::new(self.services.fresh_id())
    }
}

/// What a session is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) services: Arc<Services>,
    pub(crate) id: SessionId,
    pub(crate) state: State,
    pub(crate) lease: Lease,
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) agent: AgentSettings,
    pub(crate) above: Arc<Policy>,
    pub(crate) policy: Policy,
    pub(crate) viewers: Arc<Viewers>,
}

async fn next_delta(deltas: &mut Option<mpsc::Receiver<Delta>>) -> Option<Delta> {
    match deltas {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}
