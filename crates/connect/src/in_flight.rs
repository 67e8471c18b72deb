//! The calls that a server works on: who a question or a sign of progress belongs to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver_api::{Asks, Clock, Progress, ToolContext, ToolHost};
use protocol::event::Answer;
use rmcp::model::{ProgressToken, RequestId};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// One call.
#[derive(Debug)]
pub(crate) struct Running {
    host: Arc<dyn ToolHost>,
    progress: mpsc::Sender<Progress>,
    /// How many questions wait for a person.
    asking: watch::Sender<u32>,
    /// The request that is under way for it, as the server knows it.
    sent: Mutex<Option<(RequestId, ProgressToken)>>,
    /// Cancelled once the call has ended, whoever is still asked for it.
    pub(crate) over: CancellationToken,
}

impl Running {
    pub(crate) fn new(context: &ToolContext) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(&context.host),
            progress: context.progress.clone(),
            asking: watch::Sender::new(0),
            sent: Mutex::new(None),
            over: CancellationToken::new(),
        })
    }

    /// Takes note of the request that is sent for it.
    pub(crate) fn sent(&self, id: RequestId, token: ProgressToken) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, token));
    }

    fn is_sent_as(&self, matches: impl FnOnce(&RequestId, &ProgressToken) -> bool) -> bool {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.as_ref().is_some_and(|(id, token)| matches(id, token))
    }

    /// Asks whoever decides for the call's session. The call's time stands still meanwhile: a
    /// person who thinks must not make it fail.
    pub(crate) async fn ask(&self, asks: Asks) -> Option<Answer> {
        self.asking.send_modify(|count| *count += 1);
        let _asked = Asked(&self.asking);
        self.host.ask(asks).await
    }

    /// Shows a sign of progress; it may be lost.
    pub(crate) fn show(&self, text: String) {
        let _sent = self.progress.try_send(Progress { text, stream: None });
    }

    /// Waits until the call has taken `limit`, waits for a person left out.
    pub(crate) async fn time_is_up(&self, limit: Duration, clock: &dyn Clock) {
        let mut asking = self.asking.subscribe();
        let mut left = limit;
        loop {
            // The sender lives in this very struct.
            if asking.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            let start = clock.elapsed();
            tokio::select! {
                () = clock.sleep(left) => return,
                _ = asking.changed() => left = left.saturating_sub(clock.elapsed() - start),
            }
        }
    }
}

/// Counts a question down, also when nobody waits for its answer any more.
struct Asked<'a>(&'a watch::Sender<u32>);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    running: BTreeMap<u64, Arc<Running>>,
    /// Told when a call ends.
    ended: Arc<Notify>,
}

impl InFlight {
    /// Adds a call until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, running: Arc<Running>) -> Entered {
        let mut calls = self.lock();
        calls.next += 1;
        let number = calls.next;
        calls.running.insert(number, running);
        Entered { in_flight: Arc::clone(self), number }
    }

    /// Waits until no call is left.
    pub(crate) async fn drained(&self) {
        loop {
            let ended = Arc::clone(&self.lock().ended);
            let ended = ended.notified();
            if self.lock().running.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Returns the call that a request was sent for.
    pub(crate) fn by_request(&self, request: &RequestId) -> Option<Arc<Running>> {
        self.find(|running| running.is_sent_as(|id, _| id == request))
    }

    /// Returns the call that a sign of progress belongs to.
    pub(crate) fn by_token(&self, wanted: &ProgressToken) -> Option<Arc<Running>> {
        self.find(|running| running.is_sent_as(|_, token| token == wanted))
    }

    /// Returns the call if there is exactly one. Of several, nobody can tell which one a question
    /// belongs to, and a question must not reach another session's person.
    pub(crate) fn only(&self) -> Option<Arc<Running>> {
        let calls = self.lock();
        let mut running = calls.running.values();
        match (running.next(), running.next()) {
            (Some(one), None) => Some(Arc::clone(one)),
            _ => None,
        }
    }

    fn find(&self, fits: impl Fn(&Running) -> bool) -> Option<Arc<Running>> {
        self.lock().running.values().find(|running| fits(running)).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's place among those in flight.
#[derive(Debug)]
pub(crate) struct Entered {
    in_flight: Arc<InFlight>,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut calls = self.in_flight.lock();
        if let Some(running) = calls.running.remove(&self.number) {
            running.over.cancel();
        }
        calls.ended.notify_waiters();
    }
}
