//! The requests of a turn that wait, and which of them were answered from here.
//!
//! A request stays until the runtime says that it is settled: an answer may be refused, and then
//! somebody has to be asked again.

use std::collections::{HashMap, VecDeque};

use protocol::RequestId;
use protocol::event::PermissionRequest;

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
    open: VecDeque<PermissionRequest>,
    /// An answer may have been taken before its request is read here, so that this is no mark on
    /// the request. It holds no more than the open requests and the answers on their way.
    sent: HashMap<RequestId, Sent>,
}

impl Requests {
    pub(super) fn open(&mut self, request: PermissionRequest) {
        self.open.push_back(request);
    }

    /// Returns the first request that has no answer yet.
    pub(super) fn first(&self) -> Option<&PermissionRequest> {
        self.open.iter().find(|request| !self.sent.contains_key(&request.request_id))
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
        self.open.retain(|request| request.request_id != *id);
    }
}
