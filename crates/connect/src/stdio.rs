//! A server that is a program: its streams, its last words and its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver_api::{Clock, ExitStatus, Process};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Child;
use crate::words::cut;

/// Longest message, in bytes: a result with images fits, a runaway program does not.
const LINE_BYTES_MAX: usize = 32 << 20;

/// How long a program has to end by itself once its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a killed tree is waited for; what outlives that hangs in the kernel.
const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// How many of its last lines are kept for whoever asks why it ended.
const LINES_MAX: usize = 20;

/// Most characters of such a line.
const LINE_CHARS_MAX: usize = 300;

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
    lines: Arc<Lines>,
}

/// Takes a program apart into its streams and whoever watches over it.
pub(crate) fn watch_over(
    child: Child,
    clock: Arc<dyn Clock>,
    tasks: &TaskTracker,
) -> (Streams, Warden) {
    let Child { stdin, stdout, stderr, process } = child;
    let streams = Streams::new_client(stdout, stdin).with_max_line_length(LINE_BYTES_MAX);
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    let stop = CancellationToken::new();
    let (told, ended) = watch::channel(None);
    let (asked, kept) = (stop.clone(), Arc::clone(&lines));
    tasks.spawn(async move {
        let mut stderr = stderr;
        let end = {
            let end = end_of(process, asked, &*clock);
            tokio::pin!(end);
            tokio::select! {
                end = &mut end => end,
                () = keep_lines(&mut stderr, &kept) => end.await,
            }
        };
        // What it said last may still wait.
        while let Ok(line) = stderr.try_recv() {
            keep(&kept, &line);
        }
        // Whoever waited may have gone.
        let _told = told.send(Some(end));
    });
    (streams, Warden { stop, ended, lines })
}

type Lines = Mutex<VecDeque<String>>;

async fn keep_lines(stderr: &mut mpsc::Receiver<String>, lines: &Lines) {
    while let Some(line) = stderr.recv().await {
        keep(lines, &line);
    }
}

fn keep(lines: &Lines, line: &str) {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(cut(line.trim_end(), LINE_CHARS_MAX));
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
            () = clock.sleep(Duration::from_millis(500)) => None,
        };
        let end = end.unwrap_or_else(|| "closed its output".to_owned());
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return format!("the program {end}");
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("the program {end}; it said: {}", lines.join(" / "))
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
