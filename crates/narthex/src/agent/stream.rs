//! The events of one prompt, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use protocol::Event;
use tokio::sync::mpsc;

use crate::{Error, RunResult};

/// How many events are on their way to the reader: what has not been read beyond them is joined
/// where it can be.
const HANDED_OVER: usize = 16;

/// What the task that drives a prompt hands over.
#[derive(Debug)]
pub(super) enum Item {
    /// An event.
    Event(Box<Event>),
    /// The end.
    End(Box<Result<RunResult, Error>>),
}

/// The events of one prompt. Dropping it before its end interrupts the prompt.
///
/// It is a [`Stream`], and can be read without any trait by [`EventStream::next`]. An error is the
/// last item; the result of a prompt that ended is had by [`EventStream::result`] or
/// [`EventStream::finish`].
#[derive(Debug)]
pub struct EventStream {
    items: mpsc::Receiver<Item>,
    end: Option<Result<RunResult, Error>>,
}

impl EventStream {
    pub(super) fn new() -> (mpsc::Sender<Item>, Self) {
        let (sender, items) = mpsc::channel(HANDED_OVER);
        (sender, Self { items, end: None })
    }

    /// Waits for the next event; none at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns what came of the prompt, once the stream has been read to its end.
    #[must_use]
    pub fn result(&self) -> Option<&RunResult> {
        self.end.as_ref()?.as_ref().ok()
    }

    /// Reads to the end and returns what came of the prompt.
    ///
    /// # Errors
    /// As [`Agent::prompt`](crate::Agent::prompt); one that was an item already comes as
    /// [`Error::Closed`].
    pub async fn finish(mut self) -> Result<RunResult, Error> {
        while let Some(event) = self.next().await {
            event?;
        }
        self.end.take().unwrap_or(Err(Error::Closed))
    }
}

impl Stream for EventStream {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.is_some() {
            return Poll::Ready(None);
        }
        let end = match ready!(self.items.poll_recv(context)) {
            Some(Item::Event(event)) => return Poll::Ready(Some(Ok(*event))),
            Some(Item::End(end)) => *end,
            // The tokio runtime went down with the task that drove the prompt.
            None => Err(Error::Closed),
        };
        match end {
            Ok(result) => {
                self.end = Some(Ok(result));
                Poll::Ready(None)
            }
            Err(error) => {
                self.end = Some(Err(Error::Closed));
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}
