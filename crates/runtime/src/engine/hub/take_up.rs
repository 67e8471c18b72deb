//! Taking sessions up whose turns a crash cut, or that wait for a person.

use std::path::Path;
use std::sync::Arc;

use driver_api::{Fault, ListFilter, SessionRow};
use futures_util::future::join_all;
use protocol::{Refusal, RefusalCode};
use runtime_api::{AgentSettings, Error, SessionInfo, TakeUp};

use super::slots::Core;
use crate::engine::stored::refused;

/// How many sessions are opened at a time: their logs are read beside each other.
const TOGETHER_MAX: usize = 8;

/// How many sessions are looked at: the newest that work or wait. A store with more of them has
/// been left behind by more than one start.
const LOOK_MAX: usize = 1_000;

impl Core {
    /// Opens what nobody owns and somebody waits for, the newest first. Only the facts for lists
    /// are read of the others.
    pub(super) async fn take_up(
        self: &Arc<Self>,
        which: TakeUp,
    ) -> Result<Vec<SessionInfo>, Error> {
        let TakeUp { roots, agent, limit } = which;
        let agent = AgentSettings { carries_on: true, ..agent };
        let filter = ListFilter { is_busy: true, limit: LOOK_MAX, ..ListFilter::default() };
        let rows = self.services.options.store.list(filter).await.map_err(refused)?;
        let is_ours = |row: &SessionRow| {
            row.owner.is_none() && roots.iter().any(|root| Path::new(&row.cwd).starts_with(root))
        };
        let mut ours = Vec::new();
        for row in rows.into_iter().filter(is_ours) {
            // The folder of a session in a neuron is none of the machine's.
            if self.neuron_of(&row.id).await?.is_none() {
                ours.push(row);
            }
        }
        let mut left = unmoved(ours).await?.into_iter();
        let mut taken = Vec::new();
        loop {
            let count = TOGETHER_MAX.min(limit.saturating_sub(taken.len()));
            let some: Vec<SessionRow> = left.by_ref().take(count).collect();
            if some.is_empty() {
                return Ok(taken);
            }
            let opened = some.iter().map(|row| self.open(&row.id, agent.clone()));
            for (row, opened) in some.iter().zip(join_all(opened).await) {
                match opened {
                    Ok(info) => taken.push(info),
                    Err(Error::Refusal(Refusal { code: RefusalCode::TooManySessions, .. })) => {
                        tracing::warn!(session = %row.id, "no place to take a session up");
                        return Ok(taken);
                    }
                    Err(Error::Refusal(Refusal { code: RefusalCode::ShuttingDown, .. })) => {
                        return Ok(taken);
                    }
                    // Another process was faster, or its folder has gone: it is not ours.
                    Err(error) => {
                        tracing::warn!(session = %row.id, %error, "take a session up");
                    }
                }
            }
        }
    }
}

/// Leaves out the sessions whose folder was replaced by a link since they were created: what it
/// leads to may be outside the roots. Of one that is gone, opening says so.
async fn unmoved(mut rows: Vec<SessionRow>) -> Result<Vec<SessionRow>, Error> {
    let looked = tokio::task::spawn_blocking(move || {
        rows.retain(|row| {
            let folder = Path::new(&row.cwd);
            let is_there = folder.canonicalize().map_or(true, |real| real == folder);
            if !is_there {
                tracing::warn!(session = %row.id, "the folder was replaced: not taken up");
            }
            is_there
        });
        rows
    });
    looked.await.map_err(|error| Fault::with("look at folders", error).into())
}
