//! How many streams may be open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_kit::Problem;
use protocol::SessionId;

use crate::error::Code;

/// Streams of one session: a team with dashboards fits, a loop that never closes one does not.
const VIEWERS_MAX: usize = 1_024;

/// Multiplexed streams: each asks the runtime about every change, so they are fewer.
const FEEDS_MAX: usize = 256;

/// The streams that are open, by session; without a session the multiplexed ones.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<HashMap<Option<SessionId>, usize>>);

/// A stream's place. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    of: Option<SessionId>,
}

impl Seats {
    /// Takes a place for a stream of a session, or for a multiplexed one.
    ///
    /// # Errors
    /// 429 `too_many_viewers` when there is none left.
    pub(crate) fn take(self: &Arc<Self>, of: Option<&SessionId>) -> Result<Seat, Problem> {
        let max = if of.is_some() { VIEWERS_MAX } else { FEEDS_MAX };
        let of = of.cloned();
        let mut taken = self.taken();
        let count = taken.entry(of.clone()).or_default();
        if *count >= max {
            let what = format!("{max} streams are open already; close one first");
            return Err(Code::TooManyViewers.says(what));
        }
        *count += 1;
        drop(taken);
        Ok(Seat { seats: Arc::clone(self), of })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Option<SessionId>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_per_session_and_given_back() {
        let seats = Arc::new(Seats::default());
        let (one, two) = (SessionId::new("one"), SessionId::new("two"));
        let mut held: Vec<_> = (0..VIEWERS_MAX).map(|_| seats.take(Some(&one)).unwrap()).collect();
        assert_eq!(seats.take(Some(&one)).unwrap_err().code, "too_many_viewers");
        drop(seats.take(Some(&two)).unwrap());
        drop(seats.take(None).unwrap());
        held.pop();
        held.push(seats.take(Some(&one)).unwrap());
        drop(held);
        assert!(seats.taken().is_empty());
    }
}
