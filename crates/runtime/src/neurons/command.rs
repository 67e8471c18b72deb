//! A command in a neuron: its output kept to the end of it, its time limited.

use std::collections::VecDeque;
use std::time::Duration;

use driver_api::{
    Clock, Exit, ExitStatus, Fault, Output, Process, Spawn, Workspace, WorkspaceError,
};
use runtime_api::neuron::Executed;
use tokio::sync::mpsc;

/// Bytes that are kept of each stream: the end of any log that a person reads, and small enough
/// for a hundred commands at once.
const STREAM_BYTES_MAX: usize = 1 << 20;

/// Pieces of output that wait to be taken; then the command waits.
const OUTPUT_QUEUE_MAX: usize = 64;

/// How long a tree has to end by itself after SIGTERM.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// How long the end of a killed tree is waited for; a process that outlives that hangs in the
/// kernel.
const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// Added to the number of the signal that ended a command, as shells do.
const SIGNAL_CODE_BASE: i32 = 128;

/// Variables that keep programs from waiting for a person or painting for a terminal.
const VARIABLES: [(&str, &str); 4] =
    [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

/// Why a command has no end of its own.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be started.
    Start(WorkspaceError),
    /// It could not be watched to its end.
    Watch(WorkspaceError),
}

/// Runs a command to its end, or to the end of its time. Dropping the future ends its tree.
pub(super) async fn run(
    workspace: &dyn Workspace,
    mut spawn: Spawn,
    limit: Duration,
    clock: &dyn Clock,
) -> Result<Executed, Failure> {
    let begun = clock.elapsed();
    let quiet = VARIABLES.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    spawn.env.splice(0..0, quiet);
    let (output, pieces) = mpsc::channel(OUTPUT_QUEUE_MAX);
    let mut process = workspace.spawn(spawn, output).await.map_err(Failure::Start)?;
    let mut heard = Heard { pieces, stdout: Tail::default(), stderr: Tail::default() };
    let ended = heard.follow(&mut *process, clock.sleep(limit)).await.map_err(Failure::Watch)?;
    let exit = match ended {
        Some(exit) => exit,
        None => {
            process.kill(KILL_GRACE);
            let gone = heard.follow(&mut *process, clock.sleep(KILL_WAIT_MAX)).await;
            gone.map_err(Failure::Watch)?.ok_or_else(|| {
                let limit = KILL_WAIT_MAX.as_secs();
                let fault = Fault::new(format!("end the processes of a command within {limit} s"));
                Failure::Watch(fault.into())
            })?
        }
    };
    // It may have ended by itself a moment before its time.
    let timed_out = ended.is_none() && exit.killed;
    let duration_ms = clock.elapsed().saturating_sub(begun).as_millis();
    let ((stdout, out_cut), (stderr, err_cut)) = heard.texts();
    Ok(Executed {
        stdout,
        stderr,
        exit_code: (!timed_out).then(|| code(exit)),
        duration_ms: u64::try_from(duration_ms).unwrap_or(u64::MAX),
        timed_out,
        truncated: out_cut || err_cut,
    })
}

fn code(exit: Exit) -> i32 {
    match exit.status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => SIGNAL_CODE_BASE + signal,
    }
}

/// What a command has said.
#[derive(Debug)]
struct Heard {
    pieces: mpsc::Receiver<Output>,
    stdout: Tail,
    stderr: Tail,
}

impl Heard {
    /// Takes output until the tree is gone, or until `over`: none then.
    async fn follow(
        &mut self,
        process: &mut dyn Process,
        over: impl Future<Output = ()>,
    ) -> Result<Option<Exit>, WorkspaceError> {
        let exit = process.wait();
        tokio::pin!(exit, over);
        let mut is_open = true;
        loop {
            tokio::select! {
                // A flood of output must not keep the end of its time waiting.
                biased;
                () = &mut over => return Ok(None),
                piece = self.pieces.recv(), if is_open => match piece {
                    Some(piece) => self.take(&piece),
                    None => is_open = false,
                },
                exit = &mut exit => return exit.map(Some),
            }
        }
    }

    fn take(&mut self, piece: &Output) {
        match piece {
            Output::Stdout(bytes) => self.stdout.push(bytes),
            Output::Stderr(bytes) => self.stderr.push(bytes),
        }
    }

    /// Returns both texts and whether each lacks its beginning. All output has been sent by now.
    fn texts(mut self) -> ((String, bool), (String, bool)) {
        while let Ok(piece) = self.pieces.try_recv() {
            self.take(&piece);
        }
        (self.stdout.text(), self.stderr.text())
    }
}

/// The end of a stream.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    fn push(&mut self, piece: &[u8]) {
        let piece = match piece.len().checked_sub(STREAM_BYTES_MAX) {
            Some(over) if over > 0 => {
                self.is_cut = true;
                piece.get(over..).unwrap_or_default()
            }
            _ => piece,
        };
        let over = (self.bytes.len() + piece.len()).saturating_sub(STREAM_BYTES_MAX);
        if over > 0 {
            self.is_cut = true;
            self.bytes.drain(..over);
        }
        self.bytes.extend(piece);
    }

    /// Returns it as text of at most [`STREAM_BYTES_MAX`] bytes, and whether its beginning is
    /// left out. Bytes that are no text become U+FFFD, which is longer than they are.
    fn text(mut self) -> (String, bool) {
        if self.is_cut {
            // The rest of a character whose beginning is gone.
            let rest = self.bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).take(3).count();
            self.bytes.drain(..rest);
        }
        let mut text = String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned();
        if let Some(mut over) = text.len().checked_sub(STREAM_BYTES_MAX).filter(|over| *over > 0) {
            while !text.is_char_boundary(over) {
                over += 1;
            }
            text.drain(..over);
            self.is_cut = true;
        }
        (text, self.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(pieces: &[&[u8]]) -> (String, bool) {
        let mut tail = Tail::default();
        pieces.iter().for_each(|piece| tail.push(piece));
        tail.text()
    }

    #[test]
    fn the_end_of_a_stream_is_kept() {
        assert_eq!(tail(&[b"a", b"", b"bc"]), ("abc".to_owned(), false));
        let full = vec![b'x'; STREAM_BYTES_MAX];
        assert_eq!(tail(&[&full]), ("x".repeat(STREAM_BYTES_MAX), false));
        let (text, is_cut) = tail(&[&full, b"end"]);
        assert!(is_cut && text.len() == STREAM_BYTES_MAX && text.ends_with("xend"));
        let (text, is_cut) = tail(&[b"begin", &full, &full]);
        assert!(is_cut && text.len() == STREAM_BYTES_MAX && text.starts_with('x'));
    }

    #[test]
    fn a_cut_leaves_no_half_character_and_no_more_than_the_limit() {
        let long = "ü".repeat(STREAM_BYTES_MAX);
        let (text, is_cut) = tail(&[b"y", long.as_bytes(), b"."]);
        assert!(
            is_cut && text.starts_with('ü') && text.ends_with("ü.") && !text.contains('\u{fffd}')
        );
        let (text, is_cut) = tail(&[&vec![0xff; STREAM_BYTES_MAX]]);
        assert!(is_cut && text.len() <= STREAM_BYTES_MAX && text.starts_with('\u{fffd}'));
    }
}
