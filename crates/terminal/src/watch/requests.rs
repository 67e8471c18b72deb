//! The requests of a turn that wait, and which of them were answered from here.
//!
//! A request stays until the runtime says that it is settled: an answer may be refused, and then
//! somebody has to be asked again.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::card::Request;
use protocol::RequestId;

/// What became of a request here, since its answer was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// An answer that can be given anew.
    Answer,
    /// The last that can be said, since nobody is left to say more.
    LastWord,
}

/// The open requests, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: VecDeque<Request>,
    /// An answer may have been taken before its request is read here, so that this is no mark on
    /// the request. It holds no more than the open requests and the answers on their way.
    sent: HashMap<RequestId, Sent>,
    /// Open requests of which people were told how to answer them elsewhere.
    told: HashSet<RequestId>,
    /// How many were settled since none was open.
    settled: usize,
}

impl Requests {
    pub(super) fn open(&mut self, request: Request) {
        if !self.open.iter().any(|known| known.id() == request.id()) {
            self.open.push_back(request);
        }
    }

    /// Returns the first request that has no answer yet.
    pub(super) fn first(&self) -> Option<&Request> {
        self.open.iter().find(|request| !self.sent.contains_key(request.id()))
    }

    /// Tells whether this is the first request that has no answer yet.
    pub(super) fn is_first(&self, id: &RequestId) -> bool {
        self.first().is_some_and(|request| request.id() == id)
    }

    /// Returns which of how many the first one without an answer is.
    pub(super) fn place(&self) -> (usize, usize) {
        let waiting = self.open.iter().filter(|request| !self.sent.contains_key(request.id()));
        let count = self.settled + self.open.len();
        (count - waiting.count() + 1, count)
    }

    /// Returns a request of which nobody was told yet how to answer it elsewhere.
    pub(super) fn untold(&mut self) -> Option<Request> {
        let fresh = |request: &&Request| {
            !self.told.contains(request.id()) && !self.sent.contains_key(request.id())
        };
        let request = self.open.iter().find(fresh).cloned()?;
        self.told.insert(request.id().clone());
        Some(request)
    }

    pub(super) fn answer(&mut self, id: &RequestId) {
        self.sent.insert(id.clone(), Sent::Answer);
    }

    pub(super) fn answer_for_good(&mut self, id: &RequestId) {
        self.sent.insert(id.clone(), Sent::LastWord);
    }

    pub(super) fn is_last_word(&self, id: &RequestId) -> bool {
        self.sent.get(id) == Some(&Sent::LastWord)
    }

    /// The answer was not taken: the request waits for another.
    pub(super) fn reopen(&mut self, id: &RequestId) {
        self.sent.remove(id);
    }

    /// The request is decided, or there is no such request.
    pub(super) fn settle(&mut self, id: &RequestId) {
        self.sent.remove(id);
        self.told.remove(id);
        let before = self.open.len();
        self.open.retain(|request| request.id() != id);
        self.settled += before - self.open.len();
        if self.open.is_empty() {
            self.settled = 0;
        }
    }
}
