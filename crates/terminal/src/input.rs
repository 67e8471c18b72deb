//! Standard input: lines when they are asked for, or all of it.
//!
//! Reading blocks, so it happens on a thread of its own that starts with the first question and
//! that nobody waits for at the end.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::editor;

/// The limit of one line, as of every line of a protocol.
pub const LINE_BYTES_MAX: u64 = 32 << 20;
/// The limit of a prompt's text.
pub const TEXT_BYTES_MAX: u64 = 25 << 20;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The next line, a prompt or a command; on a terminal it goes into the history.
    Line(String),
    /// An answer to a question; it goes into no history.
    Answer(String),
    /// A text that is there already, to be changed; it goes into no history. Without a line
    /// editor an empty line leaves the text as it is.
    Edit(String, String),
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line, without its end.
    Line(String),
    /// A line that answered a question which is gone: it means nothing.
    Stale,
    /// Ctrl-C at the line editor.
    Interrupted,
    /// Nothing more comes.
    End,
    /// A line over its limit; it was skipped.
    TooLong,
    /// Input failed.
    Failed(String),
}

/// Where lines come from.
enum Source {
    /// A pipe, a file, a test.
    Plain(Box<dyn BufRead + Send>),
    /// The line editor, with the file of its history.
    Editor(Option<PathBuf>, Words),
    /// The thread has it.
    Taken,
}

/// Words that the line editor completes: the beginnings of lines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Words(Arc<Mutex<Vec<String>>>);

impl Words {
    /// Sets the words.
    pub fn set(&self, words: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Returns those that begin so.
    pub(crate) fn like(&self, begin: &str) -> Vec<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.iter().filter(|word| word.starts_with(begin)).cloned().collect()
    }
}

/// Standard input.
pub struct Input {
    source: Source,
    asks: Option<std::sync::mpsc::SyncSender<Ask>>,
    heard: Option<mpsc::Receiver<Heard>>,
    is_waiting: bool,
    /// The open question is gone; what is still typed at it means nothing.
    is_stale: bool,
    /// Throws away what the terminal holds and nobody has read.
    forget: Forget,
    /// A line that was read and is still to be dealt with.
    returned: Option<Heard>,
}

/// Throws away what was typed and not yet read.
pub type Forget = Box<dyn FnMut() + Send>;

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("is_waiting", &self.is_waiting).finish_non_exhaustive()
    }
}

impl Input {
    /// Makes the input of a reader; `forget` throws away what it has not read yet.
    pub fn plain(reader: Box<dyn BufRead + Send>, forget: Forget) -> Self {
        Self {
            source: Source::Plain(reader),
            asks: None,
            heard: None,
            is_waiting: false,
            is_stale: false,
            forget,
            returned: None,
        }
    }

    /// Reads from now on with the line editor of a terminal, which completes the words.
    pub fn edit(&mut self, history: Option<PathBuf>, words: Words) {
        self.source = Source::Editor(history, words);
        // A reader of before ends with its questions.
        (self.asks, self.heard) = (None, None);
        (self.is_waiting, self.is_stale) = (false, false);
    }

    /// Throws away what was typed before now: what the terminal holds, and a line that the reader
    /// brought already. The line editor keeps nothing between two questions.
    pub fn forget(&mut self) {
        (self.forget)();
        self.returned = None;
        if let Some(heard) = &mut self.heard
            && self.is_waiting
            && heard.try_recv().is_ok()
        {
            (self.is_waiting, self.is_stale) = (false, false);
        }
    }

    /// Gives back a line that somebody else is to deal with: it comes next.
    pub fn give_back(&mut self, heard: Heard) {
        self.returned = Some(heard);
    }

    /// The open question is gone: the line that is being typed at it comes as [`Heard::Stale`].
    pub fn drop_question(&mut self) {
        self.is_stale = self.is_waiting;
    }

    /// Tells whether a question is open whose answer has not come.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Asks, unless a question is open already, and waits. Cancel-safe: the answer to an open
    /// question comes with the next call.
    pub async fn next(&mut self, ask: Ask) -> Heard {
        if let Some(heard) = self.returned.take() {
            return heard;
        }
        self.start();
        let (Some(asks), Some(heard)) = (&self.asks, &mut self.heard) else { return Heard::End };
        if !self.is_waiting {
            if asks.try_send(ask).is_err() {
                return Heard::End;
            }
            self.is_waiting = true;
        }
        let answer = heard.recv().await.unwrap_or(Heard::End);
        self.is_waiting = false;
        match (std::mem::take(&mut self.is_stale), answer) {
            (true, Heard::Line(_) | Heard::Interrupted | Heard::TooLong) => Heard::Stale,
            (_, answer) => answer,
        }
    }

    fn start(&mut self) {
        if self.asks.is_some() {
            return;
        }
        let source = std::mem::replace(&mut self.source, Source::Taken);
        let (asks, questions) = std::sync::mpsc::sync_channel(1);
        let (answers, heard) = mpsc::channel(1);
        let spawned = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            let mut listen: Box<dyn FnMut(Ask) -> Heard> = match source {
                Source::Plain(mut reader) => {
                    Box::new(move |ask| left_as_it_is(ask, read_line(&mut reader)))
                }
                Source::Editor(history, words) => editor::listener(history, words),
                Source::Taken => return,
            };
            while let Ok(ask) = questions.recv() {
                if answers.blocking_send(listen(ask)).is_err() {
                    return;
                }
            }
        });
        if spawned.is_ok() {
            (self.asks, self.heard) = (Some(asks), Some(heard));
        }
    }

    /// Begins to read all of a plain input, at most [`TEXT_BYTES_MAX`].
    pub fn reading(&mut self) -> io::Result<Reading> {
        let source = std::mem::replace(&mut self.source, Source::Taken);
        let mut reader: Box<dyn BufRead + Send> = match source {
            Source::Plain(reader) => reader,
            Source::Editor(..) | Source::Taken => Box::new(io::empty()),
        };
        let (begin, begun) = oneshot::channel();
        let (send, whole) = oneshot::channel();
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            // A failure shows again when it is read to the end.
            drop(reader.fill_buf());
            let _ = begin.send(());
            let mut bytes = Vec::new();
            let read = reader.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes);
            drop(send.send(read.map(|_| bytes)));
        })?;
        Ok(Reading { begun, whole })
    }

    /// Waits beside everything else for the end of a plain input, and throws away what comes.
    ///
    /// # Errors
    /// When no thread can be started for it.
    pub fn ended(&mut self) -> io::Result<oneshot::Receiver<()>> {
        let source = std::mem::replace(&mut self.source, Source::Taken);
        let mut reader: Box<dyn BufRead + Send> = match source {
            Source::Plain(reader) => reader,
            Source::Editor(..) | Source::Taken => Box::new(io::empty()),
        };
        let (send, ended) = oneshot::channel();
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            // A failure is an end as well.
            drop(io::copy(&mut reader, &mut io::sink()));
            let _ = send.send(());
        })?;
        Ok(ended)
    }

    /// Reads all of a plain input, at most [`TEXT_BYTES_MAX`].
    pub async fn read_all(&mut self) -> io::Result<String> {
        self.reading()?.whole().await
    }
}

/// All of an input on its way.
#[derive(Debug)]
pub struct Reading {
    begun: oneshot::Receiver<()>,
    whole: oneshot::Receiver<io::Result<Vec<u8>>>,
}

impl Reading {
    /// Waits until something has come, or the end. Cancel-safe; only once.
    pub async fn begun(&mut self) {
        // A thread that is gone has nothing to wait for.
        let _ = (&mut self.begun).await;
    }

    /// Waits for all of it.
    pub async fn whole(self) -> io::Result<String> {
        let bytes = self.whole.await.map_err(io::Error::other)??;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > TEXT_BYTES_MAX) {
            let limit = stdx::bytes(TEXT_BYTES_MAX);
            return Err(io::Error::other(format!("it is longer than the limit of {limit}")));
        }
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
    }
}

/// Takes an empty line for the text that was to be changed: without a line editor nobody could
/// have wiped it out.
fn left_as_it_is(ask: Ask, heard: Heard) -> Heard {
    match (ask, heard) {
        (Ask::Edit(_, text), Heard::Line(line)) if line.trim().is_empty() => Heard::Line(text),
        (_, heard) => heard,
    }
}

/// Reads one line; bytes that are not UTF-8 are replaced, for a line may then still be refused
/// by whoever reads it.
fn read_line(reader: &mut dyn BufRead) -> Heard {
    let mut line = Vec::new();
    match reader.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line) {
        Ok(0) => return Heard::End,
        Ok(_) => {}
        Err(error) => return Heard::Failed(error.to_string()),
    }
    let is_whole = line.pop_if(|last| *last == b'\n').is_some();
    if !is_whole && u64::try_from(line.len()).is_ok_and(|length| length > LINE_BYTES_MAX) {
        return skip_line(reader);
    }
    line.pop_if(|last| *last == b'\r');
    Heard::Line(String::from_utf8_lossy(&line).into_owned())
}

fn skip_line(reader: &mut dyn BufRead) -> Heard {
    loop {
        let (used, is_end) = match reader.fill_buf() {
            Ok([]) => (0, true),
            Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(place) => (place + 1, true),
                None => (bytes.len(), false),
            },
            Err(error) => return Heard::Failed(error.to_string()),
        };
        reader.consume(used);
        if is_end {
            return Heard::TooLong;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &'static [u8]) -> Vec<Heard> {
        let mut reader: Box<dyn BufRead + Send> = Box::new(io::Cursor::new(bytes));
        std::iter::from_fn(|| match read_line(&mut reader) {
            Heard::End => None,
            heard => Some(heard),
        })
        .collect()
    }

    #[test]
    fn lines_end_with_any_line_end_or_none() {
        let heard = lines(b"one\r\ntwo\n\nlast");
        let texts = ["one", "two", "", "last"].map(|text| Heard::Line(text.to_owned()));
        assert_eq!(heard, texts);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_is_read() {
        let length = usize::try_from(LINE_BYTES_MAX).unwrap() + 10;
        let mut bytes = vec![b'x'; length];
        bytes.extend_from_slice(b"\nnext\n");
        let mut reader: Box<dyn BufRead + Send> = Box::new(io::Cursor::new(bytes));
        assert_eq!(read_line(&mut reader), Heard::TooLong);
        assert_eq!(read_line(&mut reader), Heard::Line("next".to_owned()));
        assert_eq!(read_line(&mut reader), Heard::End);
    }

    #[tokio::test]
    async fn an_open_question_is_not_asked_twice() {
        let mut input = Input::plain(Box::new(io::Cursor::new(b"a\nb\n")), Box::new(|| {}));
        for text in ["a", "b"] {
            let heard = input.next(Ask::Line(String::new())).await;
            assert_eq!(heard, Heard::Line(text.to_owned()));
        }
        assert_eq!(input.next(Ask::Line(String::new())).await, Heard::End);
        assert!(!input.is_waiting());
    }

    #[tokio::test]
    async fn without_an_editor_an_empty_line_leaves_a_text_as_it_is() {
        let mut input = Input::plain(Box::new(io::Cursor::new(b"\n\nb\n")), Box::new(|| {}));
        let edit = || Ask::Edit(String::new(), "held".to_owned());
        assert_eq!(input.next(edit()).await, Heard::Line("held".to_owned()));
        assert_eq!(input.next(Ask::Line(String::new())).await, Heard::Line(String::new()));
        assert_eq!(input.next(edit()).await, Heard::Line("b".to_owned()));
    }

    #[tokio::test]
    async fn a_line_that_came_before_is_forgotten() {
        let reader = Box::new(io::Cursor::new(b"early\nlate\n"));
        let mut input = Input::plain(reader, Box::new(|| {}));
        {
            let mut next = std::pin::pin!(input.next(Ask::Line(String::new())));
            let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
            // The question is open now, whether or not its answer was there at once.
            if next.as_mut().poll(&mut waker).is_ready() {
                return;
            }
        }
        while input.heard.as_ref().is_some_and(mpsc::Receiver::is_empty) {
            std::thread::yield_now();
        }
        input.forget();
        assert!(!input.is_waiting());
        assert_eq!(input.next(Ask::Line(String::new())).await, Heard::Line("late".to_owned()));
    }

    #[tokio::test]
    async fn a_line_at_a_question_that_is_gone_means_nothing() {
        let reader = Box::new(io::Cursor::new(b"late answer\nnext\n"));
        let mut input = Input::plain(reader, Box::new(|| {}));
        {
            let mut next = std::pin::pin!(input.next(Ask::Answer(String::new())));
            let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
            if next.as_mut().poll(&mut waker).is_ready() {
                return;
            }
        }
        input.drop_question();
        assert_eq!(input.next(Ask::Line(String::new())).await, Heard::Stale);
        assert_eq!(input.next(Ask::Line(String::new())).await, Heard::Line("next".to_owned()));
    }
}
