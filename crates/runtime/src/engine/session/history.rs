//! Going back: undo and rewind.

use std::sync::Arc;

use driver_api::{ChangeKind, ChangeSet, CheckpointError, Kept, PathChange, Restore, Restored};
use protocol::event::{RewindScope, Rewound};
use protocol::{CheckpointId, Refusal, RefusalCode, Seq};
use runtime_api::{Error, GoBack, WentBack};

use super::Session;
use crate::engine::stored;
use crate::kernel::{Command, Point};

/// In what way somebody goes back.
#[derive(Clone, Copy, Debug)]
enum Back {
    /// The changes of the newest turn alone.
    Undo,
    /// To a point.
    Rewind(RewindScope),
}

/// How many paths one event names.
const PATHS_MAX: usize = 1_000;

impl Session {
    /// Takes back what the newest turn did to the files.
    pub(super) async fn undo(&mut self, how: GoBack) -> Result<WentBack, Error> {
        self.finish_recording().await.map_err(|error| stored::told(&error))?;
        self.refuse_if_busy()?;
        self.take_back(how).await
    }

    /// Does that within the turn of a command.
    pub(super) async fn take_back(&mut self, how: GoBack) -> Result<WentBack, Error> {
        let newest = self.state.points.iter().rev().find(|point| is_open(point));
        let Some(point) = newest.cloned() else { return Ok(WentBack::default()) };
        let sets = vec![set_of(&point)];
        let restored = self.restore(sets, how).await?;
        self.went_back(&point, Back::Undo, how, restored).await
    }

    /// Goes back to a point.
    pub(super) async fn rewind(
        &mut self,
        id: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<WentBack, Error> {
        self.finish_recording().await.map_err(|error| stored::told(&error))?;
        self.refuse_if_busy()?;
        self.go_back_to(id, scope, how).await
    }

    /// Does that within the turn of a command.
    pub(super) async fn go_back_to(
        &mut self,
        id: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<WentBack, Error> {
        let points = &self.state.points;
        let Some(at) = points.iter().position(|point| point.id == *id) else {
            let message = format!("no point {id} to go back to; the newest 200 prompts have one");
            return Err(Refusal::new(RefusalCode::CheckpointNotFound, message).into());
        };
        let Some(point) = points.get(at).cloned() else { return Ok(WentBack::default()) };
        if point.is_cut && scope != RewindScope::Files {
            let message = format!(
                "the conversation went back to before {id} already; only its files can be gone \
                 back to"
            );
            return Err(Refusal::new(RefusalCode::CheckpointNotFound, message).into());
        }
        let restored = match scope {
            RewindScope::Conversation => Restored::default(),
            RewindScope::Both | RewindScope::Files => {
                let later = points.iter().skip(at).rev().filter(|point| is_open(point));
                let sets = later.map(set_of).collect();
                self.restore(sets, how).await?
            }
        };
        self.went_back(&point, Back::Rewind(scope), how, restored).await
    }

    fn refuse_if_busy(&self) -> Result<(), Refusal> {
        if self.state.turn.is_none() && self.live.recording.is_none() {
            return Ok(());
        }
        let message = "the session is in the middle of a turn: stop it or wait for its end";
        Err(Refusal::new(RefusalCode::SessionBusy, message))
    }

    async fn restore(&self, sets: Vec<ChangeSet>, how: GoBack) -> Result<Restored, Error> {
        if sets.is_empty() {
            return Ok(Restored::default());
        }
        let Some(checkpoints) = self.services.options.checkpoints.clone() else {
            let message = "files are not captured here, so they cannot be brought back";
            return Err(Refusal::new(RefusalCode::CheckpointNotFound, message).into());
        };
        let GoBack { is_forced, is_dry } = how;
        let (session, roots) = (self.id.clone(), self.capture_roots());
        let restore = Restore { session, roots, sets, is_forced, is_dry };
        checkpoints.restore(restore).await.map_err(|error| match error {
            CheckpointError::Gone(tree) => {
                let message = format!("the captured files {tree} are not kept any more");
                Refusal::new(RefusalCode::CheckpointNotFound, message).into()
            }
            CheckpointError::Fault(fault) => Error::Fault(fault),
        })
    }

    /// Records what went back, and says it.
    async fn went_back(
        &mut self,
        point: &Point,
        back: Back,
        how: GoBack,
        restored: Restored,
    ) -> Result<WentBack, Error> {
        let (scope, undo) = match back {
            Back::Undo => (RewindScope::Files, true),
            Back::Rewind(scope) => (scope, false),
        };
        let from = (scope != RewindScope::Files).then_some(point.seq);
        let messages_removed = match from {
            Some(from) => self.messages_since(from).await?,
            None => 0,
        };
        let Restored { changed, kept } = restored;
        let beyond = changed
            .iter()
            .filter(|change| !change.is_restorable)
            .map(|change| format!("{}: its older contents were too large to keep", change.path));
        let beyond: Vec<String> = beyond.collect();
        let is_nothing = changed.is_empty() && kept.is_empty() && messages_removed == 0;
        let is_recorded = !(undo && is_nothing);
        if is_recorded && !how.is_dry {
            self.forget_seen(&changed);
            let rewound = Rewound {
                checkpoint_id: point.id.clone(),
                scope,
                from,
                undo,
                files_changed: changed.iter().take(PATHS_MAX).map(|it| it.path.clone()).collect(),
                files_kept: kept.iter().take(PATHS_MAX).map(said).collect(),
                messages_removed,
            };
            self.apply(Command::Rewind(rewound))?;
            // The turn of a command ends in the same commit: cut in between it would go back
            // once more.
            if self.state.turn.is_none() {
                self.flush().await.map_err(|error| stored::told(&error))?;
            }
        }
        Ok(WentBack {
            point: Some(point.id.clone()),
            changed: changed.iter().map(|change| (mark(change), change.path.clone())).collect(),
            kept: kept.into_iter().map(|kept| (kept.path, kept.why)).collect(),
            beyond,
            messages_removed,
        })
    }

    /// A file that was brought back is not what the session last saw: it has to be read again
    /// before it is edited.
    fn forget_seen(&self, changed: &[PathChange]) {
        for change in changed {
            self.live.seen.note(change.path.clone(), None);
        }
    }

    /// Counts the messages for people that a rewinding takes out of the model's sight.
    async fn messages_since(&mut self, from: Seq) -> Result<u64, Error> {
        self.flush().await.map_err(|error| stored::told(&error))?;
        let store = Arc::clone(&self.services.options.store);
        let mut count = 0;
        let mut reading = stored::Reading::new(from, self.state.seq);
        while let Some(page) = reading.page(&*store, &self.id).await.map_err(stored::refused)? {
            let shown = page.iter().filter(|row| !self.state.view.is_cut(row.seq));
            count += shown.filter(|row| stored::is_message(row.kind)).count() as u64;
        }
        Ok(count)
    }
}

/// Tells whether a turn's changes are there to be taken back.
fn is_open(point: &Point) -> bool {
    point.changes.as_ref().is_some_and(|changes| {
        !changes.is_undone && changes.is_recorded && (changes.paths > 0 || changes.after.is_none())
    })
}

fn set_of(point: &Point) -> ChangeSet {
    let changes = point.changes.clone();
    let before = changes.as_ref().map(|changes| changes.before.clone());
    ChangeSet {
        before: before.unwrap_or_else(|| protocol::TreeId::new("")),
        after: changes.and_then(|changes| changes.after),
    }
}

fn mark(change: &PathChange) -> char {
    // What was added in the meantime is gone again, and the other way round.
    match change.kind {
        ChangeKind::Added => '-',
        ChangeKind::Removed => '+',
        ChangeKind::Modified => '~',
    }
}

fn said(kept: &Kept) -> String {
    format!("{}: {}", kept.path, kept.why)
}
