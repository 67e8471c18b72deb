//! A server that is a program: its streams, its last words and its end.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Clock, ExitStatus, Process};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Child, LastLines};

/// Longest message, in bytes: a result with images fits, a runaway program does not.
const LINE_BYTES_MAX: usize = 32 << 20;

/// How long a program has to end by itself once its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long an end that is near is waited for: a program closes its streams a moment before it
/// ends, and its tree takes another moment to be gone.
const END_WAIT: Duration = Duration::from_secs(2);

/// How long the end of a killed tree is waited for; what outlives that hangs in the kernel.
const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// The transport over a program's streams.
pub(crate) type Streams = AsyncRwTransport<
    RoleClient,
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
>;

/// Watches over a program. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Warden {
    stop: CancellationToken,
    ended: watch::Receiver<Option<String>>,
    lines: LastLines,
}

/// Takes a program apart into its streams and whoever watches over it.
pub(crate) fn watch_over(
    child: Child,
    clock: Arc<dyn Clock>,
    tasks: &TaskTracker,
) -> (Streams, Warden) {
    let Child { stdin, stdout, stderr, process } = child;
    let streams = Streams::new_client(stdout, stdin).with_max_line_length(LINE_BYTES_MAX);
    let stop = CancellationToken::new();
    let (told, ended) = watch::channel(None);
    let asked = stop.clone();
    tasks.spawn(async move {
        let end = end_of(process, asked, &*clock).await;
        // Whoever waited may have gone.
        let _told = told.send(Some(end));
    });
    (streams, Warden { stop, ended, lines: stderr })
}

/// Waits for the end of a program, or brings it about.
async fn end_of(
    mut process: Box<dyn Process>,
    stop: CancellationToken,
    clock: &dyn Clock,
) -> String {
    let exit = tokio::select! {
        exit = process.wait() => exit,
        () = stop.cancelled() => {
            let own = tokio::select! {
                exit = process.wait() => Some(exit),
                () = clock.sleep(GRACE) => None,
            };
            match own {
                Some(exit) => exit,
                None => {
                    process.kill(GRACE);
                    tokio::select! {
                        exit = process.wait() => exit,
                        () = clock.sleep(KILL_WAIT_MAX) => {
                            return "could not be ended".to_owned();
                        }
                    }
                }
            }
        }
    };
    match exit {
        Ok(exit) => match exit.status {
            ExitStatus::Code(code) => format!("ended with exit code {code}"),
            ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
        },
        Err(error) => format!("cannot be watched: {error}"),
    }
}

impl Warden {
    /// Ends the program, whose input is closed by now, and waits until its whole tree is gone.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        // An error means that its task has ended with it.
        let _ended = self.ended.wait_for(Option::is_some).await;
    }

    /// Says how the program ended and what it said last; waits a moment for an end that is near.
    pub(crate) async fn last_words(&mut self, clock: &dyn Clock) -> String {
        let end = tokio::select! {
            ended = self.ended.wait_for(Option::is_some) => {
                ended.ok().and_then(|end| end.clone())
            }
            () = clock.sleep(END_WAIT) => None,
        };
        let end = end.unwrap_or_else(|| "closed its output".to_owned());
        let lines = self.lines.to_vec();
        if lines.is_empty() {
            return format!("the program {end}");
        }
        format!("the program {end}; it said: {}", lines.join(" / "))
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
