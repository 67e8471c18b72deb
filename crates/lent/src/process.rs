//! A command in a client's terminal, as a process of the workspace.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use driver_api::{
    Exit, ExitStatus, Fault, LendError, LentTerminal, Output, Process, WorkspaceError,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::tail::Tail;
use crate::workspace::refused;

/// How long between two looks at the output of a command that runs: soon enough for a person that
/// watches, and four small messages a second for the client.
const LOOK: Duration = Duration::from_millis(250);

/// How long a command that was told to end is waited for.
const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// Bytes of one piece of output: what the local workspace sends at most.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Minds a command until it has ended and its terminal was given back. Dropping the process ends
/// the command.
pub(crate) fn mind(
    terminal: Arc<dyn LentTerminal>,
    output: mpsc::Sender<Output>,
    tasks: &TaskTracker,
) -> Box<dyn Process> {
    let (ended, end) = watch::channel(None);
    let stop = CancellationToken::new();
    let minder = Minder {
        terminal,
        output,
        stop: stop.clone(),
        tail: Tail::default(),
        unsent: VecDeque::new(),
    };
    // It ends with the terminal: the client's answers have limits, and a stop is heard always.
    let _task = tasks.spawn(async move {
        let how = minder.run().await;
        ended.send_replace(Some(how));
    });
    Box::new(LentProcess { end, stop: stop.clone(), _guard: stop.drop_guard() })
}

#[derive(Debug)]
struct LentProcess {
    end: watch::Receiver<Option<Result<Exit, LendError>>>,
    stop: CancellationToken,
    _guard: DropGuard,
}

#[async_trait]
impl Process for LentProcess {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let end = self.end.wait_for(Option::is_some).await;
        match end.as_deref() {
            Ok(Some(Ok(exit))) => Ok(*exit),
            Ok(Some(Err(error))) => Err(refused(error.clone())),
            _ => Err(Fault::new("watch a command in the application's terminal").into()),
        }
    }

    fn kill(&self, _grace: Duration) {
        // How gently a command is ended is the client's matter.
        self.stop.cancel();
    }
}

struct Minder {
    terminal: Arc<dyn LentTerminal>,
    output: mpsc::Sender<Output>,
    stop: CancellationToken,
    tail: Tail,
    /// What was seen and not sent on yet.
    unsent: VecDeque<Bytes>,
}

impl Minder {
    async fn run(mut self) -> Result<Exit, LendError> {
        let ended = self.follow().await;
        let shown = match ended {
            Ok(_) => self.look().await,
            Err(_) => Ok(()),
        };
        if let Err(error) = self.terminal.release().await {
            tracing::debug!(%error, "give a terminal back to the application");
        }
        let (status, killed) = ended?;
        // Without its last output the command's end would be told wrongly.
        shown?;
        Ok(Exit { status, leftovers: 0, killed })
    }

    /// Shows the output until the command ends; returns how, and whether it was told to.
    async fn follow(&mut self) -> Result<(ExitStatus, bool), LendError> {
        let terminal = Arc::clone(&self.terminal);
        let mut end = terminal.wait();
        loop {
            let stop = self.stop.clone();
            tokio::select! {
                status = &mut end => return Ok((status?, false)),
                () = stop.cancelled() => break,
                () = sleep(LOOK) => {}
            }
            tokio::select! {
                // Output is shown, and waited for, beside the stop: a full queue holds up none.
                looked = self.look() => match looked {
                    Err(LendError::Gone) => return Err(LendError::Gone),
                    Err(error) => tracing::debug!(%error, "look at a terminal"),
                    Ok(()) => {}
                },
                () = stop.cancelled() => break,
            }
        }
        terminal.kill().await?;
        match timeout(KILL_WAIT_MAX, end).await {
            Ok(status) => Ok((status?, true)),
            Err(_) => Err(LendError::Gone),
        }
    }

    /// Sends on what the terminal shows anew. Cancel-safe.
    async fn look(&mut self) -> Result<(), LendError> {
        let shown = self.terminal.output().await?;
        if let Some(added) = self.tail.advance(shown.text) {
            let added = Bytes::from(added);
            self.unsent.extend(
                (0..added.len())
                    .step_by(PIECE_BYTES_MAX)
                    .map(|from| added.slice(from..added.len().min(from + PIECE_BYTES_MAX))),
            );
        }
        while !self.unsent.is_empty() {
            // Nobody who listens is no reason not to mind the command.
            let Ok(place) = self.output.reserve().await else {
                self.unsent.clear();
                break;
            };
            place.send(Output::Stdout(self.unsent.pop_front().unwrap_or_default()));
        }
        Ok(())
    }
}
