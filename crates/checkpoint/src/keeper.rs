//! The driver: every call does its work on a blocking thread.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Captured, ChangeKind, CheckpointError, Checkpoints, Fault, PathChange, Restore, Restored,
};
use protocol::{SessionId, TreeId};

use crate::capture::capture;
use crate::depot::Depot;
use crate::error::Result;
use crate::library::{Difference, Library, State};
use crate::options::Options;
use crate::sweep::sweep;

/// Keeps the trees of local folders in a folder of its own.
#[derive(Clone, Debug)]
pub struct Keeper {
    depot: Arc<Depot>,
}

impl Keeper {
    /// Makes a keeper. Nothing is read or written before the first call needs it.
    pub fn open(options: Options) -> Self {
        Self { depot: Arc::new(Depot::new(options)) }
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Depot) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, CheckpointError> {
        let depot = Arc::clone(&self.depot);
        let heal = move |depot: &Depot| work(depot).inspect_err(|error| depot.heal(error));
        let done = tokio::task::spawn_blocking(move || heal(&depot)).await;
        let done = done.map_err(|error| Fault::with("work on checkpoints", error))?;
        Ok(done?)
    }
}

#[async_trait]
impl Checkpoints for Keeper {
    async fn capture(
        &self,
        session: &SessionId,
        roots: &[PathBuf],
    ) -> std::result::Result<Captured, CheckpointError> {
        let (session, roots) = (session.clone(), roots.to_vec());
        self.on_disk(move |depot| capture(depot, &session, &roots)).await
    }

    async fn changes(
        &self,
        _session: &SessionId,
        from: &TreeId,
        to: &TreeId,
    ) -> std::result::Result<Vec<PathChange>, CheckpointError> {
        let (from, to) = (from.clone(), to.clone());
        self.on_disk(move |depot| {
            let _lock = depot.enter()?;
            let library = Library::new(&depot.objects);
            let (from, to) = (library.tree(&from)?, library.tree(&to)?);
            let differences = library.compare(&from, &to)?;
            // A tree of a time when they were not left out may have them.
            let fence = depot.fence(&to.roots);
            let is_told = |one: &&Difference| one.is_change() && fence.place_of(&one.key).is_none();
            Ok(differences.iter().filter(is_told).map(told).collect())
        })
        .await
    }

    async fn restore(&self, restore: Restore) -> std::result::Result<Restored, CheckpointError> {
        self.on_disk(move |depot| crate::restore::restore(depot, &restore)).await
    }

    async fn adopt(
        &self,
        from: &SessionId,
        to: &SessionId,
    ) -> std::result::Result<(), CheckpointError> {
        let (from, to) = (from.clone(), to.clone());
        self.on_disk(move |depot| {
            let _lock = depot.enter()?;
            depot.sessions.adopt(&from, &to)
        })
        .await
    }

    async fn forget(&self, session: &SessionId) -> std::result::Result<(), CheckpointError> {
        let session = session.clone();
        self.on_disk(move |depot| {
            let lock = depot.enter()?;
            depot.sessions.forget(&session)?;
            drop(lock);
            sweep(depot, None, depot.limits.kept_bytes_max)
        })
        .await
    }
}

fn told(difference: &Difference) -> PathChange {
    PathChange {
        path: difference.key.shown(),
        kind: kind(&difference.before, &difference.after),
        is_restorable: difference.is_restorable(),
    }
}

/// Names what became of a path.
pub(crate) fn kind(before: &State, after: &State) -> ChangeKind {
    match (before, after) {
        (State::Absent, _) => ChangeKind::Added,
        (_, State::Absent) => ChangeKind::Removed,
        (State::There(_) | State::Unknown, State::There(_) | State::Unknown) => {
            ChangeKind::Modified
        }
    }
}
