//! One run at a time: a session that works on one takes no other.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::SessionId;

use crate::door::Door;
use crate::error::{Code, Refused};

/// The place of the one run of a session. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct Busy {
    all: Arc<Mutex<HashSet<SessionId>>>,
    session: SessionId,
}

impl Busy {
    /// Takes the place.
    ///
    /// # Errors
    /// 409 `SESSION_BUSY` when it is taken.
    pub(crate) fn take(door: &Door, session: &SessionId) -> Result<Self, Refused> {
        let all = Arc::clone(&door.busy);
        let is_free = all.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone());
        if is_free {
            Ok(Self { all, session: session.clone() })
        } else {
            Err(Code::SessionBusy.into())
        }
    }

    /// Returns the sessions in which a run of this door goes on.
    pub(crate) fn all(door: &Door) -> Vec<SessionId> {
        door.busy.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}
