//! Programs inside of a neuron, started through its workspace: they see what its commands see,
//! reach what it may reach, count to its limits, and end with it.
//!
//! A workspace hands a command what it reads in one piece. A program that is spoken with reads from
//! a pipe of the neuron instead, and each message is written into that by a command of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connect::{Child, StdioServer};
use driver_api::{Exit, ExitStatus, Fault, Output, Process, Spawn, Workspace, WorkspaceError};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::saying::{Heard, WORDS_BYTES_MAX, hear};
use super::{OPEN_WAIT, PIECES_MAX, Programs, env_of, last_words};

/// Bytes of messages that may wait to be written: one command carries all that wait.
const UNSENT_MAX: usize = 256 << 10;

/// How long a program has after SIGTERM. Its pipe never ends, so that it is told so.
const GRACE: Duration = Duration::from_secs(2);

/// Makes the pipe that its first argument names, opens it, takes the name away, says which process
/// it is, and becomes the program that the rest names. Opened for both ends, the pipe outlives each
/// of its writers.
const BECOME: &str = "mkfifo -m 600 \"$1\" && exec <>\"$1\" && rm -f \"$1\" && shift && \
                      echo $$ && exec \"$@\"";

/// Writes its input into the pipe that a process reads from. Opened for both ends, since one that
/// nobody reads from any more would make an opening wait for ever.
const WRITE: &str = "exec cat 1<>\"/proc/$1/fd/0\"";

/// Most bytes of the word that the pipe is open: a number and the end of its line.
const WORD_BYTES_MAX: usize = 32;

/// Starts a program in a neuron.
pub(super) async fn launch(
    programs: &Programs,
    server: &StdioServer,
    workspace: &Arc<dyn Workspace>,
) -> Result<Child, Fault> {
    let what = &server.command;
    let starting = |error: WorkspaceError| Fault::with(format!("start {what} in a neuron"), error);
    let path = format!("/tmp/narthex-program-{:016x}.in", programs.ids.random());
    let mut argv = vec![path, what.clone()];
    argv.extend(server.args.iter().map(|arg| arg.expose().clone()));
    // The working folder of the neuron itself: its sessions may each have another.
    let own = || workspace.roots().last().map_or(workspace.cwd(), PathBuf::as_path).to_owned();
    let cwd = server.cwd.clone().unwrap_or_else(own);
    let spawn = Spawn { argv: shell(BECOME, argv), cwd, env: env_of(server), stdin: Vec::new() };
    let (pieces, mut output) = mpsc::channel(PIECES_MAX);
    let mut process = workspace.spawn(spawn, pieces).await.map_err(starting)?;
    let mute = |said: String| Fault::new(format!("{what} cannot be spoken with in a neuron{said}"));
    let (process_id, first) = tokio::select! {
        opened = opened(&mut output) => opened.map_err(mute)?,
        exit = process.wait() => {
            exit.map_err(starting)?;
            return Err(mute(last_words(output)));
        }
        () = tokio::time::sleep(OPEN_WAIT) => {
            return Err(mute(": it did not open its input".to_owned()));
        }
    };
    let (ours, theirs) = tokio::io::duplex(UNSENT_MAX);
    let (closed, gone) = (CancellationToken::new(), CancellationToken::new());
    let pipe = Pipe { process_id, workspace: Arc::clone(workspace) };
    programs.tasks.spawn(pipe.carry(theirs, closed.clone(), gone.clone()));
    let Heard { stdout, stderr, process } = hear(first, output, process, &programs.tasks);
    let process = Box::new(Inside { process, closed, is_asked: false, _gone: gone.drop_guard() });
    Ok(Child { stdin: Box::new(ours), stdout, stderr, process })
}

/// Waits for the word that the pipe is open. Returns the process that reads from it, and what came
/// with the word; else what was said instead.
async fn opened(output: &mut mpsc::Receiver<Output>) -> Result<(u32, Vec<u8>), String> {
    let mut said = Vec::new();
    while let Some(Output::Stdout(bytes) | Output::Stderr(bytes)) = output.recv().await {
        said.extend_from_slice(&bytes);
        if let Some(end) = said.iter().take(WORD_BYTES_MAX).position(|byte| *byte == b'\n') {
            let rest = said.split_off(end + 1);
            let word = String::from_utf8_lossy(&said);
            let word = word.trim();
            return word.parse().map(|process| (process, rest)).map_err(|_| format!(": {word}"));
        }
        if said.len() > WORD_BYTES_MAX {
            break;
        }
    }
    said.truncate(WORDS_BYTES_MAX);
    Err(format!(": {}", String::from_utf8_lossy(&said).trim()))
}

fn shell(script: &str, arguments: Vec<String>) -> Vec<String> {
    let mut argv = ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    argv.extend(arguments);
    argv
}

/// The pipe that a process of a neuron reads from.
#[derive(Debug)]
struct Pipe {
    process_id: u32,
    workspace: Arc<dyn Workspace>,
}

impl Pipe {
    /// Writes what comes into the pipe, in its order, until nobody sends any more or the program is
    /// gone.
    async fn carry(
        self,
        mut from: DuplexStream,
        closed: CancellationToken,
        gone: CancellationToken,
    ) {
        let mut bytes = vec![0; UNSENT_MAX];
        let carrying = async {
            while let Ok(count @ 1..) = from.read(&mut bytes).await {
                let piece = bytes.get(..count).unwrap_or_default().to_vec();
                if let Err(error) = self.write(piece).await {
                    tracing::warn!(%error, "speak with a program in a neuron");
                    break;
                }
            }
        };
        tokio::select! {
            () = carrying => {}
            () = gone.cancelled() => {}
        }
        closed.cancel();
    }

    async fn write(&self, piece: Vec<u8>) -> Result<(), WorkspaceError> {
        let argv = shell(WRITE, vec![self.process_id.to_string()]);
        let (pieces, output) = mpsc::channel(PIECES_MAX);
        let spawn = Spawn { argv, cwd: PathBuf::from("/"), env: Vec::new(), stdin: piece };
        let mut process = self.workspace.spawn(spawn, pieces).await?;
        let exit = process.wait().await?;
        if exit.status == ExitStatus::Code(0) {
            return Ok(());
        }
        Err(Fault::new(format!("its input takes nothing{}", last_words(output))).into())
    }
}

/// A program in a neuron. It is asked to end once nobody speaks with it any more.
#[derive(Debug)]
struct Inside {
    process: Box<dyn Process>,
    closed: CancellationToken,
    is_asked: bool,
    /// Told when the program has ended, or nobody waits for that any more.
    _gone: DropGuard,
}

#[async_trait]
impl Process for Inside {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        loop {
            tokio::select! {
                exit = self.process.wait() => {
                    self.closed.cancel();
                    return exit;
                }
                () = self.closed.cancelled(), if !self.is_asked => {
                    self.is_asked = true;
                    self.process.kill(GRACE);
                }
            }
        }
    }

    fn kill(&self, grace: Duration) {
        self.process.kill(grace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn hear_word(pieces: &[&str]) -> Result<(u32, Vec<u8>), String> {
        let (sender, mut output) = mpsc::channel(8);
        for piece in pieces {
            sender.try_send(Output::Stdout(piece.as_bytes().to_vec().into())).unwrap();
        }
        drop(sender);
        opened(&mut output).await
    }

    #[tokio::test]
    async fn the_word_that_the_pipe_is_open_names_the_process() {
        assert_eq!(hear_word(&["42\n"]).await, Ok((42, Vec::new())));
        assert_eq!(hear_word(&["4", "2\n{}\n"]).await, Ok((42, b"{}\n".to_vec())));
        for (pieces, words) in [
            (&["mkfifo: no room\n"][..], ": mkfifo: no room"),
            (&["something long that never ends as a line does"], ": something long"),
            (&[], ": "),
        ] {
            let told = hear_word(pieces).await.unwrap_err();
            assert!(told.starts_with(words), "{told}");
        }
    }
}
