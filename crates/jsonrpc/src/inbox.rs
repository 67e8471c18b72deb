//! What the other side asks.

use std::fmt;
use std::sync::Arc;

use tokio::io::AsyncRead;

use crate::line::{LINE_BYTES_MAX, Line, Lines};
use crate::message::{Call, ErrorObject, Id, Message};
use crate::peer::Shared;

/// The reading half of a connection. Answers find their way to whoever waits for them while
/// [`Inbox::next`] is asked, and what is no message is answered.
pub struct Inbox<R> {
    lines: Lines<R>,
    shared: Arc<Shared>,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    pub(crate) fn new(reader: R, shared: Arc<Shared>) -> Self {
        Self { lines: Lines::new(reader), shared }
    }

    /// Waits for the next request or notification; none when the other side has said its last, or
    /// the connection was closed here. Nobody is answered any more then. Cancel-safe but for the
    /// answer to a line that is no message, which may get lost.
    pub async fn next(&mut self) -> Option<Call> {
        loop {
            let closing = self.shared.closing.clone();
            let line = tokio::select! {
                biased;
                () = closing.cancelled() => Ok(None),
                line = self.lines.next() => line,
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "read of the connection");
                    break;
                }
            };
            let message = match line {
                Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::Whole(line) => Message::read(&line),
                Line::TooLong => {
                    let what = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                    Message::Wrong(Id::NONE, ErrorObject::new(ErrorObject::PARSE, what))
                }
            };
            match message {
                Message::Call(call) => return Some(call),
                Message::Answer(number, answer) => self.shared.settle(number, answer),
                Message::Stray => tracing::debug!("an answer to nothing that was asked"),
                Message::Wrong(id, error) => self.shared.answer(&id, &Err(error)).await,
            }
        }
        self.shared.hang_up();
        None
    }
}

impl<R> fmt::Debug for Inbox<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
