//! A server that runs, and its end.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use door_cli::{Failure, Server, ServerFacts};
use http_kit::ServerOptions;
use narthex::{Handle, Narthex};
use runtime_api::TakeUp;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::announcement::Announcement;
use super::measures::Measures;
use crate::logging;

/// How long an orderly stop may take before the program ends without it: sessions get eight seconds
/// to end their turns and to capture what those left, connections twelve from the same moment on,
/// and the last spans some more. Who stops a service waits for half a minute or more.
const STOP_WAIT: Duration = Duration::from_secs(20);
/// How long requests wait for the sessions that are taken up, in place of not finding them. What
/// takes longer goes on beside.
const TAKE_UP_WAIT: Duration = Duration::from_secs(1);

/// A task that ends when nobody holds it any more.
#[derive(Debug)]
pub(super) struct Beside<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Beside<T> {
    /// Returns what has ended, and was told already.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Starts it.
    pub(super) fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        #[allow(clippy::disallowed_methods, reason = "whoever holds it ends it")]
        Self(Some(tokio::spawn(work)))
    }

    /// Waits for its end, which is told once. Cancel-safe.
    pub(super) async fn end(&mut self) -> Option<Result<T, JoinError>> {
        let ended = self.0.as_mut()?.await;
        self.0 = None;
        Some(ended)
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Makes the routes, which know when the server stops.
pub(super) type Routes = Box<dyn FnOnce(CancellationToken) -> Router + Send>;

/// What a server begins with.
pub(super) struct Opening {
    pub(super) routes: Routes,
    pub(super) listener: TcpListener,
    /// Which sessions are taken up, if any.
    pub(super) which: Option<TakeUp>,
}

/// A server that runs, or is about to.
pub(crate) struct Running {
    pub(super) facts: ServerFacts,
    pub(super) house: Narthex,
    /// Absent once it has begun.
    pub(super) opening: Option<Opening>,
    /// Ends the listener, and tells the doors.
    pub(super) stopping: CancellationToken,
    pub(super) listener: Beside<io::Result<()>>,
    /// What goes on beside the listener.
    pub(super) beside: Vec<Beside<()>>,
    /// The file with url and token; it goes when this does.
    pub(super) announcement: Option<Announcement>,
    pub(super) measures: Measures,
    /// Writes what was logged last.
    pub(super) log: logging::Flush,
}

impl Server for Running {
    fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    async fn begin(&mut self) {
        let Some(Opening { routes, listener, which }) = self.opening.take() else { return };
        if let Some(which) = which {
            let (taken, taking) = take_up(self.house.handle(), which);
            self.beside.push(taking);
            let taken = tokio::time::timeout(TAKE_UP_WAIT, taken).await;
            self.facts.taken_up = taken.ok().and_then(Result::ok).unwrap_or(0);
        }
        let routes = routes(self.stopping.clone());
        let stopping = self.stopping.clone();
        let serving = http_kit::serve(listener, routes, ServerOptions::default(), stopping);
        self.listener = Beside::start(serving);
        self.tell();
    }

    async fn failed(&mut self) -> Failure {
        let how = match self.listener.end().await {
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(Ok(()))) | None => "it ended".to_owned(),
        };
        Failure::failed(format!("the listener at {} failed: {how}", self.facts.url))
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        tracing::info!("stopping");
        self.stopping.cancel();
        self.beside.clear();
        let waits_for = Cell::new("sessions, which did not end");
        let end = async {
            self.house.handle().shutdown().await;
            waits_for.set("connections, which did not close");
            // How it ended is of no interest any more.
            drop(self.listener.end().await);
            waits_for.set("MCP servers, which did not end");
            self.house.close().await;
            waits_for.set("a collector of traces, which did not take the last");
            self.measures.finish().await;
        };
        let ended = tokio::time::timeout(STOP_WAIT, end).await;
        self.announcement = None;
        let stopped = ended.map_err(|_| {
            let limit = stdx::duration(STOP_WAIT);
            Failure::failed(format!("stopping took longer than {limit}: {}", waits_for.get()))
        });
        match &stopped {
            Ok(()) => tracing::info!("stopped"),
            Err(failure) => tracing::error!("{}", failure.message),
        }
        self.log.now();
        stopped
    }
}

impl Running {
    /// Writes into the log what begins, and what a person should know where that is read by
    /// programs.
    fn tell(&mut self) {
        let facts = &mut self.facts;
        if self.log.is_json() {
            for notice in facts.notices.drain(..) {
                tracing::warn!("{notice}");
            }
        }
        let roots = facts.roots.join(", ");
        tracing::info!(
            url = %facts.url, pid = facts.pid, version = %facts.version, roots,
            mode = %facts.mode, "serving"
        );
    }
}

/// Takes up sessions whose turns were cut, or wait for a person. Returns how many, when that is
/// known, and what goes on until then.
fn take_up(handle: Handle, which: TakeUp) -> (oneshot::Receiver<u64>, Beside<()>) {
    let (send, taken) = oneshot::channel();
    let taking = Beside::start(async move {
        let count = match handle.take_up(which).await {
            Ok(infos) => u64::try_from(infos.len()).unwrap_or(u64::MAX),
            Err(error) => {
                tracing::error!(%error, "take up sessions");
                0
            }
        };
        if count > 0 {
            tracing::info!(sessions = count, "took sessions up");
        }
        // Nobody waits so long.
        let _ = send.send(count);
    });
    (taken, taking)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_told_once_and_what_is_dropped_ends() {
        let mut quick = Beside::start(async { 7 });
        assert_eq!(quick.end().await.unwrap().unwrap(), 7);
        assert!(quick.end().await.is_none());
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let endless = Beside::start(async move {
            std::future::pending::<()>().await;
            drop(alive);
        });
        drop(endless);
        assert!(gone.await.is_err());
    }
}
