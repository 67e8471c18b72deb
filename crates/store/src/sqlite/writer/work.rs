//! What the writer is asked to do.

use driver_api::{Lease, Letter, NewSession, SessionHead, Snapshot};
use protocol::{Seq, SessionId};
use tokio::sync::oneshot;

use super::transaction::Answer;
use crate::row::StoredRow;

/// One piece of work.
#[derive(Debug)]
pub(in crate::sqlite) enum Work {
    /// Create a session with its first rows (`NewSession::rows` is empty).
    Create(Box<NewSession>, Vec<StoredRow>),
    Claim(SessionId),
    Release(Lease),
    Append(Lease, Vec<StoredRow>, Option<Box<SessionHead>>),
    Truncate(Lease, Seq),
    PutSnapshot(Lease, Snapshot),
    Post(SessionId, Letter),
    DropLetter(Lease, String),
    Remove(Lease),
    /// Write what is there already. It is about no session; the id is empty.
    Probe(SessionId),
}

impl Work {
    /// Returns the session that it is about.
    pub(super) fn session(&self) -> &SessionId {
        match self {
            Work::Create(session, _) => &session.id,
            Work::Claim(session) | Work::Post(session, _) | Work::Probe(session) => session,
            Work::Release(lease)
            | Work::Append(lease, ..)
            | Work::Truncate(lease, _)
            | Work::PutSnapshot(lease, _)
            | Work::DropLetter(lease, _)
            | Work::Remove(lease) => &lease.session,
        }
    }

    /// Tells whether the commit must be synced before the answer. The others may be lost with the
    /// power: then their process is gone too, so that a lost claim or release harms nobody.
    pub(super) fn is_durable(&self) -> bool {
        match self {
            Work::Create(..)
            | Work::Append(..)
            | Work::Truncate(..)
            | Work::Post(..)
            | Work::DropLetter(..)
            | Work::Remove(_)
            | Work::Probe(_) => true,
            Work::Claim(_) | Work::Release(_) | Work::PutSnapshot(..) => false,
        }
    }

    /// Returns about how many bytes it writes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Create(_, rows) | Work::Append(_, rows, _) => {
                rows.iter().map(|row| row.body.len()).sum()
            }
            Work::PutSnapshot(_, snapshot) => snapshot.bytes.len(),
            Work::Post(_, letter) => letter.body.len(),
            Work::Claim(_)
            | Work::Release(_)
            | Work::Truncate(..)
            | Work::DropLetter(..)
            | Work::Remove(_)
            | Work::Probe(_) => 0,
        }
    }
}

/// A piece of work and who waits for it.
#[derive(Debug)]
pub(in crate::sqlite) enum Job {
    Do(Work, oneshot::Sender<Answer>),
    /// Do what came before, then close the file.
    Close(oneshot::Sender<Answer>),
}
