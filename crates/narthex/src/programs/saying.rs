//! What a program says: messages for whoever speaks with it, and its last words.

use std::time::Duration;

use async_trait::async_trait;
use connect::LastLines;
use driver_api::{Exit, Output, Process, WorkspaceError};
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Bytes of standard output that may wait for whoever reads the messages in it.
const UNREAD_MAX: usize = 256 << 10;

/// The longest line of standard error in bytes, and the most of what a program says that never
/// began; the rest is left out.
pub(super) const WORDS_BYTES_MAX: usize = 4 << 10;

/// How long the end of a program waits until all that it said was taken. It takes a moment, unless
/// nobody reads its messages, and then nobody asks for its last words either.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

/// A program that is listened to.
pub(super) struct Heard {
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) stderr: LastLines,
    pub(super) process: Box<dyn Process>,
}

/// Listens to a program from now on; `first` is what it said to us already.
pub(super) fn hear(
    first: Vec<u8>,
    output: mpsc::Receiver<Output>,
    process: Box<dyn Process>,
    tasks: &TaskTracker,
) -> Heard {
    let (ours, theirs) = tokio::io::duplex(UNREAD_MAX);
    let (stderr, silent) = (LastLines::default(), CancellationToken::new());
    let (lines, done) = (stderr.clone(), silent.clone().drop_guard());
    let sorting = Sorting { messages: Some(theirs), lines, _done: done };
    tasks.spawn(sorting.run(first, output));
    let process = Box::new(Told { process, silent });
    Heard { stdout: Box::new(ours), stderr, process }
}

/// A process whose end is told after its last words were taken.
#[derive(Debug)]
struct Told {
    process: Box<dyn Process>,
    silent: CancellationToken,
}

#[async_trait]
impl Process for Told {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let exit = self.process.wait().await;
        let _late = tokio::time::timeout(LAST_WORDS_WAIT, self.silent.cancelled()).await;
        exit
    }

    fn kill(&self, grace: Duration) {
        self.process.kill(grace);
    }
}

/// Takes output apart: messages, and lines for people.
struct Sorting {
    /// None once nobody listens.
    messages: Option<DuplexStream>,
    lines: LastLines,
    _done: DropGuard,
}

impl Sorting {
    async fn run(mut self, first: Vec<u8>, mut output: mpsc::Receiver<Output>) {
        self.hand_on(&first).await;
        let mut line = Vec::new();
        while let Some(piece) = output.recv().await {
            match piece {
                Output::Stdout(bytes) => self.hand_on(&bytes).await,
                Output::Stderr(bytes) => tell(&bytes, &mut line, &self.lines),
            }
        }
        finish(&mut line, &self.lines);
    }

    async fn hand_on(&mut self, bytes: &[u8]) {
        if let Some(to) = &mut self.messages
            && to.write_all(bytes).await.is_err()
        {
            // Nobody listens any more; the program may go on saying things.
            self.messages = None;
        }
    }
}

fn tell(bytes: &[u8], line: &mut Vec<u8>, lines: &LastLines) {
    for byte in bytes {
        if *byte == b'\n' {
            finish(line, lines);
        } else if line.len() < WORDS_BYTES_MAX {
            line.push(*byte);
        }
    }
}

fn finish(line: &mut Vec<u8>, lines: &LastLines) {
    lines.push(&String::from_utf8_lossy(line));
    line.clear();
}

#[cfg(test)]
mod tests {
    use driver_api::ExitStatus;
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn lines_are_taken_apart_and_the_rest_of_a_long_one_is_left_out() {
        let (lines, mut line) = (LastLines::default(), Vec::new());
        let long = "x".repeat(WORDS_BYTES_MAX + 5);
        tell(format!("a\n\n{long}").as_bytes(), &mut line, &lines);
        assert_eq!((line.len(), lines.to_vec()), (WORDS_BYTES_MAX, vec!["a".to_owned()]));
        tell(b"\nre", &mut line, &lines);
        assert_eq!((line.as_slice(), lines.to_vec().len()), (&b"re"[..], 2));
        finish(&mut line, &lines);
        assert_eq!(lines.to_vec().pop().unwrap(), "re");
    }

    /// A process that has ended.
    #[derive(Debug)]
    struct Ended(watch::Receiver<bool>);

    #[async_trait]
    impl Process for Ended {
        async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
            self.0.wait_for(|is_over| *is_over).await.unwrap();
            Ok(Exit { status: ExitStatus::Code(3), leftovers: 0, killed: false })
        }

        fn kill(&self, _grace: Duration) {}
    }

    #[tokio::test]
    async fn the_last_words_are_there_when_the_end_is_told() {
        // Everything is sent before anybody gets to read it.
        let (pieces, output) = mpsc::channel(200);
        for number in 0..150 {
            let text = format!("line {number}\n");
            pieces.try_send(Output::Stderr(text.into_bytes().into())).unwrap();
        }
        pieces.try_send(Output::Stderr("the reason".as_bytes().into())).unwrap();
        drop(pieces);
        let (end, ended) = watch::channel(true);
        let mut heard = hear(Vec::new(), output, Box::new(Ended(ended)), &TaskTracker::new());
        heard.process.wait().await.unwrap();
        assert_eq!(heard.stderr.to_vec().pop().as_deref(), Some("the reason"));
        drop(end);
    }
}
