//! Capturing files: before a turn's first change, and when the turn is over.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{Captured, CheckpointError, Fault, StoreError};
use futures_util::FutureExt;
use protocol::event::{ChangesRecorded, Checkpoint, CheckpointMade, Notice, NoticeLevel};
use protocol::{Block, CheckpointId, Effect, EventBody, Seq, TreeId, Writes};

use super::{Outcome, Session};
use crate::kernel::Command;

/// How long one waits until it is captured what the last turn left of the files.
const RECORDING_GRACE: Duration = Duration::from_secs(8);

/// How far the capture before a turn's first change is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Capture {
    /// Not wanted so far.
    #[default]
    Due,
    /// Under way: what may change files waits for it.
    Running,
    /// Made, or given up for this turn.
    Over,
}

impl Session {
    /// Tells whether a call has to wait for the capture; begins it at the first such call.
    ///
    /// A folder that is not of this machine cannot be captured: nothing is promised there. A
    /// sandbox that writes through has the machine's own folder, by the same path.
    pub(super) fn waits_for_capture(&mut self, effect: Effect) -> bool {
        let writes_through =
            self.state.sandbox.is_some_and(|sandbox| sandbox.writes == Writes::Folder);
        if effect <= Effect::Interact || !(self.workspace.is_local() || writes_through) {
            return false;
        }
        if self.live.recording.is_some() || self.is_stopping() {
            // What the turn before left is looked at before this one changes more.
            return true;
        }
        let Some(checkpoints) = &self.services.options.checkpoints else { return false };
        match self.live.capture {
            Capture::Over => false,
            Capture::Running => true,
            Capture::Due => {
                let newest = self.state.newest_point().filter(|it| it.changes.is_none());
                let Some(point) = newest.map(|point| point.id.clone()) else {
                    self.live.capture = Capture::Over;
                    return false;
                };
                self.live.capture = Capture::Running;
                let (checkpoints, id) = (Arc::clone(checkpoints), self.id.clone());
                let roots = self.capture_roots();
                self.live.effects.spawn(async move {
                    let capturing = AssertUnwindSafe(checkpoints.capture(&id, &roots));
                    let captured = capturing.catch_unwind().await;
                    let broke = || CheckpointError::Fault(Fault::new("the capture broke inside"));
                    Outcome::Captured(point, captured.unwrap_or_else(|_| Err(broke())))
                });
                true
            }
        }
    }

    /// Returns the folders that are captured.
    pub(super) fn capture_roots(&self) -> Vec<PathBuf> {
        self.workspace.roots().to_vec()
    }

    /// Takes the capture before a change.
    pub(super) async fn captured(
        &mut self,
        point: &CheckpointId,
        captured: Result<Captured, CheckpointError>,
    ) -> Result<(), StoreError> {
        let is_due = self.state.turn.is_some()
            && self.live.capture == Capture::Running
            && self.state.newest_point().is_some_and(|newest| newest.id == *point);
        if !is_due {
            // The turn that wanted it was stopped.
            return Ok(());
        }
        self.live.capture = Capture::Over;
        let Captured { tree, files, left_out } = match captured {
            Ok(captured) => captured,
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "capture the files");
                let message = format!(
                    "the files could not be captured, so what this turn changes cannot be undone: \
                     {error}"
                );
                let (level, code) = (NoticeLevel::Warn, Some("no_checkpoint".to_owned()));
                self.apply_sure(Command::Notify(Notice { level, code, message }));
                return Ok(());
            }
        };
        let Some(point) = self.state.newest_point().cloned() else { return Ok(()) };
        let label = self.label_of(point.seq).await?;
        let checkpoint = Checkpoint {
            id: point.id,
            created_at: point.at,
            message_id: point.message_id,
            label,
            files,
        };
        self.apply_sure(Command::Checkpoint(CheckpointMade { checkpoint, tree, left_out }));
        Ok(())
    }

    /// Returns the first line of the prompt that began at a position.
    pub(super) async fn label_of(&mut self, seq: Seq) -> Result<String, StoreError> {
        let content = self.prompt_at(seq).await?;
        Ok(crate::kernel::title_of(&content).unwrap_or_default())
    }

    /// Reads what the prompt says that began at a position.
    pub(super) async fn prompt_at(&mut self, seq: Seq) -> Result<Vec<Block>, StoreError> {
        self.flush().await?;
        let rows = self.services.options.store.read(&self.id, seq, 1).await?;
        let body = rows.first().and_then(|row| EventBody::decode(row.kind, &row.body).ok());
        Ok(match body {
            Some(EventBody::PromptStarted(started)) => started.content,
            _ => Vec::new(),
        })
    }

    /// Tells whether what the newest turn left has still to be captured.
    pub(super) fn is_recording_due(&self) -> bool {
        let newest = self.state.newest_point().and_then(|point| point.changes.as_ref());
        self.live.recording.is_some() || newest.is_some_and(|changes| !changes.is_recorded)
    }

    /// Waits until it is captured what the newest turn left, for a while.
    pub(super) async fn finish_recording(&mut self) -> Result<(), StoreError> {
        self.finish_recording_within(RECORDING_GRACE).await
    }

    pub(super) async fn finish_recording_within(
        &mut self,
        grace: Duration,
    ) -> Result<(), StoreError> {
        let clock = Arc::clone(&self.services.options.clock);
        let until = clock.elapsed() + grace;
        while self.state.turn.is_none() && self.is_recording_due() {
            self.drive().await?;
            let left = until.saturating_sub(clock.elapsed());
            tokio::select! {
                Some(outcome) = self.live.effects.join_next() => match outcome {
                    Ok(outcome) => self.settle(outcome).await?,
                    Err(error) => self.broken(&error).await?,
                },
                () = clock.sleep(left) => {
                    self.give_up_recording();
                    return self.flush().await;
                }
            }
        }
        self.flush().await
    }

    /// Says that nobody looked what a cut turn left.
    pub(crate) fn give_up_recording(&mut self) {
        let newest = self.state.newest_point();
        let due = newest.filter(|it| it.changes.as_ref().is_some_and(|it| !it.is_recorded));
        if let Some(id) = due.map(|point| point.id.clone()) {
            self.take_changes(id, None);
        }
    }

    /// Captures what the newest turn left.
    pub(super) fn record_changes(&mut self, point: CheckpointId) {
        if self.live.recording.is_some() {
            return;
        }
        let found = self.state.points.iter().find(|it| it.id == point);
        let before = found.and_then(|it| it.changes.as_ref()).map(|it| it.before.clone());
        let (Some(checkpoints), Some(before)) = (&self.services.options.checkpoints, before) else {
            self.take_changes(point, None);
            return;
        };
        self.live.recording = Some(point.clone());
        let (checkpoints, id) = (Arc::clone(checkpoints), self.id.clone());
        let roots = self.capture_roots();
        self.live.effects.spawn(async move {
            let capturing = AssertUnwindSafe(checkpoints.capture(&id, &roots));
            let captured = match capturing.catch_unwind().await {
                Ok(Ok(captured)) => captured,
                Ok(Err(error)) => {
                    tracing::warn!(session = %id, %error, "capture what a turn left");
                    return Outcome::Recorded(point, None);
                }
                Err(_) => return Outcome::Recorded(point, None),
            };
            let changes = checkpoints.changes(&id, &before, &captured.tree).await;
            let count = changes.map_or(0, |changes| changes.len() as u64);
            Outcome::Recorded(point, Some((captured.tree, count)))
        });
    }

    /// Takes what was captured of what a turn left.
    pub(super) fn take_changes(
        &mut self,
        checkpoint_id: CheckpointId,
        left: Option<(TreeId, u64)>,
    ) {
        self.live.recording = None;
        let (tree, paths) = left.map_or((None, 0), |(tree, paths)| (Some(tree), paths));
        self.apply_sure(Command::RecordChanges(ChangesRecorded { checkpoint_id, tree, paths }));
    }
}
