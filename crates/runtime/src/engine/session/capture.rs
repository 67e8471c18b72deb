//! Capturing files: before a turn's first change, and when the turn is over.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Captured, CheckpointError, StoreError};
use protocol::event::{ChangesRecorded, Checkpoint, CheckpointMade, Notice, NoticeLevel};
use protocol::{CheckpointId, Effect, EventBody, TreeId};

use super::{Outcome, Session};
use crate::kernel::Command;

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
    /// A folder that is not of this machine cannot be captured: nothing is promised there.
    pub(super) fn waits_for_capture(&mut self, effect: Effect) -> bool {
        if effect <= Effect::Interact || !self.workspace.is_local() {
            return false;
        }
        let Some(checkpoints) = &self.services.options.checkpoints else { return false };
        match self.live.capture {
            Capture::Over => false,
            Capture::Running => true,
            Capture::Due => {
                let is_made = self.state.newest_point().is_none_or(|it| it.changes.is_some());
                if is_made {
                    self.live.capture = Capture::Over;
                    return false;
                }
                self.live.capture = Capture::Running;
                let (checkpoints, id) = (Arc::clone(checkpoints), self.id.clone());
                let roots = self.capture_roots();
                self.live.effects.spawn(async move {
                    Outcome::Captured(checkpoints.capture(&id, &roots).await)
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
        captured: Result<Captured, CheckpointError>,
    ) -> Result<(), StoreError> {
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
    pub(super) async fn label_of(&mut self, seq: protocol::Seq) -> Result<String, StoreError> {
        self.flush().await?;
        let rows = self.services.options.store.read(&self.id, seq, 1).await?;
        let body = rows.first().and_then(|row| EventBody::decode(row.kind, &row.body).ok());
        Ok(match body {
            Some(EventBody::PromptStarted(started)) => {
                crate::kernel::title_of(&started.content).unwrap_or_default()
            }
            _ => String::new(),
        })
    }

    /// Tells whether what the newest turn left has still to be captured.
    pub(super) fn is_recording_due(&self) -> bool {
        let newest = self.state.newest_point().and_then(|point| point.changes.as_ref());
        self.live.is_recording || newest.is_some_and(|changes| !changes.is_recorded)
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
        if self.live.is_recording {
            return;
        }
        let found = self.state.points.iter().find(|it| it.id == point);
        let before = found.and_then(|it| it.changes.as_ref()).map(|it| it.before.clone());
        let (Some(checkpoints), Some(before)) = (&self.services.options.checkpoints, before) else {
            self.take_changes(point, None);
            return;
        };
        self.live.is_recording = true;
        let (checkpoints, id) = (Arc::clone(checkpoints), self.id.clone());
        let roots = self.capture_roots();
        self.live.effects.spawn(async move {
            let captured = match checkpoints.capture(&id, &roots).await {
                Ok(captured) => captured,
                Err(error) => {
                    tracing::warn!(session = %id, %error, "capture what a turn left");
                    return Outcome::Recorded(point, None);
                }
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
        self.live.is_recording = false;
        let (tree, paths) = left.map_or((None, 0), |(tree, paths)| (Some(tree), paths));
        self.apply_sure(Command::RecordChanges(ChangesRecorded { checkpoint_id, tree, paths }));
    }
}
