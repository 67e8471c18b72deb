//! A process that is followed, with the end of its output.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driver_api::{Exit, Fault, Output, WorkspaceError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Started;
use crate::run_shell::clean::Cleaner;
use crate::run_shell::{KILL_GRACE, KILL_WAIT_MAX, status_line};

/// Bytes of output that are kept at least: the last thousands of lines of a log. Twice as many are
/// held, so that not every piece moves all of it.
const TAIL_BYTES: usize = 128 << 10;

/// A process that is followed to its end.
#[derive(Debug)]
pub(super) struct Minded {
    pub(super) id: String,
    pub(super) scope: String,
    pub(super) command: String,
    begun: Instant,
    heard: Mutex<Heard>,
    /// Told of everything that happens.
    changed: watch::Sender<()>,
    /// Cancelled when somebody wants its end.
    stop: CancellationToken,
}

/// What is known of it.
#[derive(Debug, Default)]
struct Heard {
    /// The end of what it wrote.
    text: String,
    /// Bytes that it wrote before `text`.
    before: u64,
    end: Option<End>,
}

/// How it ended.
#[derive(Clone, Debug)]
struct End {
    line: String,
    after: Duration,
}

/// A part of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The text.
    pub(super) text: String,
    /// Bytes that were asked for and are not kept any more.
    pub(super) lost: u64,
    /// Where the next part begins.
    pub(super) next: u64,
    /// Whether there is more already.
    pub(super) has_more: bool,
}

impl Minded {
    pub(super) fn new(id: String, scope: String, command: String) -> Self {
        Self {
            id,
            scope,
            command,
            begun: Instant::now(),
            heard: Mutex::default(),
            changed: watch::Sender::new(()),
            stop: CancellationToken::new(),
        }
    }

    /// Tells whether it runs, or is about to.
    pub(super) fn is_running(&self) -> bool {
        self.heard().end.is_none()
    }

    /// Asks for the end of the process and everything that descends from it.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Says how it stands.
    pub(super) fn state(&self) -> String {
        match &self.heard().end {
            None => format!("running for {}", seconds(self.begun.elapsed())),
            Some(end) => format!("{} after {}", end.line, seconds(end.after)),
        }
    }

    /// Returns how many bytes it has written.
    pub(super) fn written(&self) -> u64 {
        let heard = self.heard();
        heard.before.saturating_add(heard.text.len() as u64)
    }

    /// Waits until it has written more than `since` bytes, or has ended.
    pub(super) async fn news(&self, since: u64) {
        let mut changes = self.changed.subscribe();
        while self.is_running() && self.written() <= since {
            // The sender is a field of what is asked.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        self.news(u64::MAX).await;
    }

    /// Returns at most so many bytes of its output: from `since` on, else the newest.
    pub(super) fn part(&self, since: Option<u64>, bytes_max: usize) -> Part {
        let heard = self.heard();
        let kept = heard.text.len();
        let newest = || kept.saturating_sub(bytes_max);
        let (begin, lost) = match since {
            None => (newest(), 0),
            Some(since) => {
                let lost = heard.before.saturating_sub(since);
                let from = usize::try_from(since.saturating_sub(heard.before)).unwrap_or(kept);
                (from.min(kept), lost)
            }
        };
        let begin = (begin..=kept).find(|at| heard.text.is_char_boundary(*at)).unwrap_or(kept);
        let end = begin.saturating_add(bytes_max).min(kept);
        let end = (begin..=end).rev().find(|at| heard.text.is_char_boundary(*at)).unwrap_or(begin);
        Part {
            text: heard.text.get(begin..end).unwrap_or_default().to_owned(),
            lost,
            next: heard.before.saturating_add(end as u64),
            has_more: end < kept,
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, text: &str) {
        if !text.is_empty() {
            self.heard().push(text);
            self.changed.send_replace(());
        }
    }

    fn end(&self, exit: &Result<Exit, WorkspaceError>) {
        let line = match exit {
            Ok(exit) => status_line(exit.status),
            // Its neuron, or what minded it there, has gone.
            Err(error) => format!("lost: {error}"),
        };
        self.heard().end = Some(End { line, after: self.begun.elapsed() });
        self.changed.send_replace(());
    }
}

impl Heard {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > 2 * TAIL_BYTES {
            let cut = self.text.len() - TAIL_BYTES;
            let cut = (cut..).find(|at| self.text.is_char_boundary(*at)).unwrap_or(cut);
            self.text.drain(..cut);
            self.before = self.before.saturating_add(cut as u64);
        }
    }
}

/// What comes next of a process.
enum Next {
    Stop,
    Piece(Option<Output>),
    Exit(Result<Exit, WorkspaceError>),
    /// It was stopped, and nothing is heard of it.
    Silence,
}

/// Follows a process to its end, which is asked for when its session is over.
pub(super) async fn follow(
    minded: std::sync::Arc<Minded>,
    started: Started,
    over: CancellationToken,
) {
    let Started { mut process, mut pieces, workspace } = started;
    let (mut out, mut err) = (Cleaner::default(), Cleaner::default());
    let (mut is_open, mut is_stopped) = (true, false);
    let silence = tokio::time::sleep(Duration::MAX);
    tokio::pin!(silence);
    let take = |piece: &Output, out: &mut Cleaner, err: &mut Cleaner| match piece {
        Output::Stdout(bytes) => minded.keep(&out.push(bytes)),
        Output::Stderr(bytes) => minded.keep(&err.push(bytes)),
    };
    let exit = loop {
        let next = tokio::select! {
            // A flood of output must not keep a stop waiting.
            biased;
            () = minded.stop.cancelled(), if !is_stopped => Next::Stop,
            () = over.cancelled(), if !is_stopped => Next::Stop,
            piece = pieces.recv(), if is_open => Next::Piece(piece),
            exit = process.wait() => Next::Exit(exit),
            // What nobody minds any more takes no place for ever.
            () = &mut silence, if is_stopped => Next::Silence,
        };
        match next {
            Next::Stop => {
                is_stopped = true;
                process.kill(KILL_GRACE);
                silence.as_mut().reset(Instant::now() + KILL_WAIT_MAX + KILL_GRACE);
            }
            Next::Piece(Some(piece)) => take(&piece, &mut out, &mut err),
            Next::Piece(None) => is_open = false,
            Next::Exit(exit) => break exit,
            Next::Silence => break Err(Fault::new("hear of a process that was ended").into()),
        }
    };
    // All output has been sent by now.
    while let Ok(piece) = pieces.try_recv() {
        take(&piece, &mut out, &mut err);
    }
    minded.keep(&out.finish());
    minded.keep(&err.finish());
    minded.end(&exit);
    drop(workspace);
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minded(pieces: &[&str]) -> Minded {
        let minded = Minded::new("p1".into(), "s".into(), "it".into());
        pieces.iter().for_each(|piece| minded.keep(piece));
        minded
    }

    fn part(text: &str, lost: u64, next: u64, has_more: bool) -> Part {
        Part { text: text.to_owned(), lost, next, has_more }
    }

    #[test]
    fn an_output_is_read_on_in_parts() {
        let minded = minded(&["one\n", "zwö", "lf\n"]);
        assert_eq!(minded.part(None, 100), part("one\nzwölf\n", 0, 11, false));
        assert_eq!(minded.part(None, 4), part("lf\n", 0, 11, false));
        assert_eq!(minded.part(Some(4), 3), part("zw", 0, 6, true), "no half character");
        assert_eq!(minded.part(Some(6), 100), part("ölf\n", 0, 11, false));
        assert_eq!(minded.part(Some(11), 100), part("", 0, 11, false));
        assert_eq!(minded.part(Some(u64::MAX), 100), part("", 0, 11, false));
    }

    #[test]
    fn the_end_of_a_long_output_is_kept_and_what_is_lost_is_told() {
        let line = "ü".repeat(512) + "\n";
        let long: Vec<&str> = std::iter::repeat_n(line.as_str(), 1_000).collect();
        let minded = minded(&long);
        let written = minded.written();
        assert_eq!(written, 1_025_000);
        let kept = minded.heard().text.len();
        assert!((TAIL_BYTES..=2 * TAIL_BYTES + 2).contains(&kept), "{kept}");
        let first = minded.part(Some(0), 64);
        assert_eq!(first.lost, written - kept as u64);
        assert_eq!(first.next, first.lost + first.text.len() as u64);
        assert!(first.has_more && first.text.len() >= 62);
        assert_eq!(minded.part(None, 3).text, "ü\n");
    }
}
