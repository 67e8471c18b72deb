//! Calls to the runtime that are on their way while events are read.
//!
//! A session may wait for its viewer before it looks at its mailbox, so a viewer that waited for
//! an answer without reading would wait for ever.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use protocol::event::Answer;
use protocol::{RequestId, SessionId};
use runtime_api::{Error, Handle, Interrupt, Prompt};

/// How many calls may be on their way before no further input is read.
pub(crate) const ERRANDS_MAX: usize = 16;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Report {
    /// A prompt was accepted, or not.
    Prompt(Result<(), Error>),
    /// The answer to this request was taken, or not.
    Answer(RequestId, Result<(), Error>),
    /// A stop was delivered, or not.
    Interrupt(Result<(), Error>),
}

type Errand = Pin<Box<dyn Future<Output = Report> + Send>>;

/// Calls in order, one at a time.
#[derive(Default)]
pub(crate) struct Errands(VecDeque<Errand>);

impl std::fmt::Debug for Errands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Errands").field(&self.0.len()).finish()
    }
}

impl Errands {
    pub(crate) fn prompt(&mut self, handle: &Handle, session: &SessionId, prompt: Prompt) {
        let (handle, session) = (handle.clone(), session.clone());
        self.0.push_back(Box::pin(async move {
            Report::Prompt(handle.prompt(&session, prompt).await.map(|_| ()))
        }));
    }

    pub(crate) fn answer(
        &mut self,
        handle: &Handle,
        session: &SessionId,
        request: RequestId,
        answer: Answer,
    ) {
        let (handle, session) = (handle.clone(), session.clone());
        self.0.push_back(Box::pin(async move {
            let taken = handle.answer(&session, &request, answer).await;
            Report::Answer(request, taken)
        }));
    }

    pub(crate) fn interrupt(&mut self, handle: &Handle, session: &SessionId, which: Interrupt) {
        let (handle, session) = (handle.clone(), session.clone());
        self.0.push_back(Box::pin(async move {
            Report::Interrupt(handle.interrupt(&session, which).await.map(|_| ()))
        }));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits for the next report; for ever when nothing is on its way. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Report {
        let Some(errand) = self.0.front_mut() else { return std::future::pending().await };
        let report = errand.as_mut().await;
        self.0.pop_front();
        report
    }
}
