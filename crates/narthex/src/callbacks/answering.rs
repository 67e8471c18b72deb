//! Callbacks at work: each request of a session, until it is decided.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use protocol::event::Answer;
use protocol::{EventBody, RequestId};

use super::{Callbacks, Request};

/// What the model reads where the program has no callback for permissions or plans.
const NOBODY: &str = "nobody is here who could approve it";

/// What the model reads where a callback panicked.
const BROKEN: &str = "the program that should have decided failed";

/// The requests that callbacks are at work on.
#[derive(Debug)]
pub(crate) struct Answering {
    callbacks: Callbacks,
    running: FuturesUnordered<Abortable<BoxFuture<'static, (RequestId, Answer)>>>,
    open: HashMap<RequestId, AbortHandle>,
}

impl Answering {
    pub(crate) fn new(callbacks: Callbacks) -> Self {
        Self { callbacks, running: FuturesUnordered::new(), open: HashMap::new() }
    }

    /// Looks at an event: a request is begun to be answered, a decision ends that.
    pub(crate) fn see(&mut self, body: &EventBody) {
        if let Some(request) = Request::of(body) {
            self.ask(request);
        } else if let EventBody::RequestResolved(resolved) = body {
            self.settle(&resolved.request_id);
        }
    }

    /// Begins to answer a request; one that is answered already is passed over.
    pub(crate) fn ask(&mut self, request: Request) {
        let id = request.id().clone();
        if self.open.contains_key(&id) {
            return;
        }
        let (handle, registration) = AbortHandle::new_pair();
        self.open.insert(id.clone(), handle);
        let callbacks = self.callbacks.clone();
        let answer = async move {
            let no = request.no(NOBODY);
            let broken = request.no(BROKEN);
            // The callback itself may panic before there is a future.
            let asked = AssertUnwindSafe(async move {
                match callbacks.ask(request) {
                    Some(answer) => answer.await,
                    None => no,
                }
            });
            (id, asked.catch_unwind().await.unwrap_or(broken))
        };
        self.running.push(Abortable::new(answer.boxed(), registration));
    }

    /// Drops the callback of a request that was decided.
    pub(crate) fn settle(&mut self, id: &RequestId) {
        if let Some(handle) = self.open.remove(id) {
            handle.abort();
        }
    }

    /// Drops the callbacks of all requests but these.
    pub(crate) fn keep_only(&mut self, waiting: &[RequestId]) {
        self.open.retain(|id, handle| {
            let waits = waiting.contains(id);
            if !waits {
                handle.abort();
            }
            waits
        });
    }

    /// Waits for the next answer; for ever while there is none. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (RequestId, Answer) {
        loop {
            match self.running.next().await {
                Some(Ok(answered)) => return answered,
                // Its request was decided elsewhere.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
