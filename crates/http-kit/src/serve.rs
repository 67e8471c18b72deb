//! The listener: connections with limits, and an orderly end.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection;
use crate::gate::panic_text;

/// Connections at once. Each costs a descriptor and some KiB; more wait in the backlog.
const CONNECTIONS_MAX: usize = 4096;

/// From a request's first byte to the end of its headers: clients send them in one piece.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// Between two requests of a connection: longer than what clients and proxies keep theirs for.
const IDLE_MAX: Duration = Duration::from_secs(75);

/// How long a peer may take nothing: three heartbeats of an event stream.
const STALL_MAX: Duration = Duration::from_secs(45);

/// Between two pieces of a request's body: a network that lost some packets has recovered.
const BODY_GAP_MAX: Duration = Duration::from_secs(30);

/// For a whole body: 25 MiB at less than a megabit per second.
const BODY_TIME_MAX: Duration = Duration::from_secs(300);

/// From `stop` to the end: longer than event streams go on to say how turns ended; a supervisor
/// sends SIGKILL some time after its SIGTERM.
const DRAIN_MAX: Duration = Duration::from_secs(12);

/// The wait after a first accept that failed; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest such wait: descriptors come back as connections end.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The limits of a listener. All have a default.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Connections at once; more wait to be accepted.
    pub connections_max: usize,
    /// From a request's first byte (or a connection's beginning) to the end of its headers.
    pub header_time_max: Duration,
    /// How long a connection may be open between two requests.
    pub idle_max: Duration,
    /// How long a peer may take no byte of what waits for it.
    pub stall_max: Duration,
    /// Between two pieces of a request's body.
    pub body_gap_max: Duration,
    /// For a whole request body, however steadily it trickles.
    pub body_time_max: Duration,
    /// From `stop` until connections that still run are dropped.
    pub drain_max: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            header_time_max: HEADER_TIME_MAX,
            idle_max: IDLE_MAX,
            stall_max: STALL_MAX,
            body_gap_max: BODY_GAP_MAX,
            body_time_max: BODY_TIME_MAX,
            drain_max: DRAIN_MAX,
        }
    }
}

/// Serves `app` (HTTP/1.1) until `stop`, then lets running requests end and returns.
///
/// On `stop` nothing new is accepted and idle connections are closed; event streams are ended by
/// their doors. What still runs after `drain_max` is dropped. A connection whose client hangs up
/// or half-closes is over at once: its handlers and streams are dropped.
///
/// # Errors
/// Only when the listener cannot be asked for its address; a failed accept is waited out.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    options: ServerOptions,
    stop: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    tracing::debug!(%address, "listening");
    let permits = Arc::new(Semaphore::new(options.connections_max));
    let options = Arc::new(options);
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    let accepting = async {
        let mut failures = 0;
        loop {
            let permit = permit(&permits).await;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    wait_out(&error, &mut failures).await;
                    continue;
                }
            };
            failures = 0;
            let (app, options) = (app.clone(), Arc::clone(&options));
            let tokens = (stop.clone(), cut.clone());
            connections.spawn(async move {
                let run = AssertUnwindSafe(connection::run(stream, app, &options, tokens));
                if let Err(panic) = run.catch_unwind().await {
                    let panic = panic_text(panic.as_ref());
                    tracing::error!(panic, "a connection panicked and was closed");
                }
                drop(permit);
            });
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = accepting => {}
    }
    drop(listener);
    connections.close();
    if timeout(options.drain_max, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut at the end");
        cut.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// A place for one more connection.
async fn permit(permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return Some(permit);
    }
    tracing::warn!("all connections are taken: more wait until one ends");
    // Only a closed semaphore has no permits to come, and nobody closes this one.
    Arc::clone(permits).acquire_owned().await.ok()
}

/// A failed accept never ends the listener, and never spins.
async fn wait_out(error: &io::Error, failures: &mut u32) {
    let Some(pause) = pause_after(error, *failures) else {
        return;
    };
    // Once per series: the cause, most often too many open files, lasts for a while.
    if *failures == 0 {
        tracing::warn!(%error, "no connection could be accepted; trying on");
    }
    *failures = failures.saturating_add(1);
    sleep(pause).await;
}

/// How long to wait after the `failures`th failure in a row; `None` where only the one
/// connection failed that was about to be accepted.
fn pause_after(error: &io::Error, failures: u32) -> Option<Duration> {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    match error.kind() {
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted => None,
        _ => Some((PAUSE_MIN * 2_u32.saturating_pow(failures.min(10))).min(PAUSE_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::{PAUSE_MAX, PAUSE_MIN, pause_after};

    #[test]
    fn too_many_open_files_are_waited_out_longer_and_longer() {
        for code in [23, 24, 12, 105] {
            let error = io::Error::from_raw_os_error(code);
            let pauses: Vec<Duration> =
                (0..12).map(|failures| pause_after(&error, failures).unwrap()).collect();
            assert_eq!(pauses[0], PAUSE_MIN);
            assert!(pauses.windows(2).all(|two| two[0] <= two[1]), "{pauses:?}");
            assert_eq!(pauses[11], PAUSE_MAX);
            assert_eq!(pause_after(&error, u32::MAX), Some(PAUSE_MAX));
        }
    }

    #[test]
    fn a_client_that_left_before_its_turn_costs_no_pause() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset] {
            assert_eq!(pause_after(&kind.into(), 3), None);
        }
    }
}
