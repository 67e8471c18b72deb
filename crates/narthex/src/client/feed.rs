//! The event stream of a session, over broken connections.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::StreamExt;
use outbound::{Response, sse};
use protocol::EventBody;
use protocol::event::SessionEnd;
use tokio::time::Instant;

use super::backoff::{Backoff, Patience};
use super::error::Repeat;
use super::line::{Ask, Line, decode};
use super::server_event::{self, RemoteEvent};
use super::shapes::SessionSummary;
use super::{ClientError, RemoteSession};

/// A connection that still brings something after so long counts as good, be it heartbeats: the
/// next failure is a first one again.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The events of a session, in order, none of them twice. A broken or silent connection is opened
/// again and goes on after the last event.
///
/// Live text between that event and the new connection is not sent again; the
/// `assistant_message` that ends it has the whole. The stream ends after the session was closed,
/// but not where the server stopped: that may come back.
/// An error is its last item: the server said no (for example 401, or 404 `session_not_found`), or
/// could not be reached for as long as [`ClientOptions`](crate::client::ClientOptions) says.
pub struct EventFeed {
    events: Pin<Box<dyn Stream<Item = Result<RemoteEvent, ClientError>> + Send>>,
}

impl EventFeed {
    /// Waits for the next event; none at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<RemoteEvent, ClientError>> {
        self.events.next().await
    }
}

impl Stream for EventFeed {
    type Item = Result<RemoteEvent, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventFeed").finish_non_exhaustive()
    }
}

/// What reads the stream.
#[derive(Debug)]
pub(super) struct Feed {
    line: Line,
    session: String,
    last_id: Option<u64>,
    connection: Option<Connection>,
    ready: VecDeque<sse::Event>,
    backoff: Backoff,
    /// What ends the stream once `ready` was read.
    failure: Option<ClientError>,
    /// Whether an event was no JSON, and none came since that had a place to go on from.
    is_garbled: bool,
    /// Whether the newest event said that the session was closed for good. A log may hold the end
    /// of a former life: it is the end where nothing follows.
    is_closed: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    decoder: sse::Decoder,
    since: Instant,
}

impl Feed {
    pub(super) fn new(session: &RemoteSession, last_id: Option<u64>) -> Self {
        let line = session.line().clone();
        Self {
            backoff: Backoff::new(line.options(), Patience::Time(line.options().give_up_after)),
            line,
            session: session.id().as_str().to_owned(),
            last_id,
            connection: None,
            ready: VecDeque::new(),
            failure: None,
            is_garbled: false,
            is_closed: false,
            is_over: false,
        }
    }

    /// Opens the first connection.
    pub(super) async fn connect(&mut self) -> Result<(), ClientError> {
        while self.connection.is_none() && !self.is_over {
            self.open().await?;
        }
        Ok(())
    }

    pub(super) fn into_stream(self) -> EventFeed {
        let events = futures_util::stream::unfold(self, |mut feed| async move {
            let event = feed.next().await?;
            Some((event, feed))
        });
        EventFeed { events: Box::pin(events) }
    }

    async fn next(&mut self) -> Option<Result<RemoteEvent, ClientError>> {
        loop {
            if self.is_over {
                return None;
            }
            let read = match self.ready.pop_front() {
                Some(event) => match self.taken(&event).await {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                },
                None => match (self.failure.take(), self.connection.is_some()) {
                    (Some(error), _) => Err(error),
                    (None, true) => self.read().await,
                    (None, false) => self.open().await,
                },
            };
            if let Err(error) = read {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }

    /// Takes an event; none where it came before, or is broken.
    async fn taken(&mut self, event: &sse::Event) -> Result<Option<RemoteEvent>, ClientError> {
        let id = server_event::id(event);
        if let (Some(id), Some(last)) = (id, self.last_id)
            && id <= last
        {
            return Ok(None);
        }
        let Some(event) = server_event::read(event) else {
            // It may have been broken on its way: once.
            let error = ClientError::Protocol("an event is no JSON".to_owned());
            if std::mem::replace(&mut self.is_garbled, true) {
                return Err(error);
            }
            self.ready.clear();
            self.failure = None;
            self.connection = None;
            self.backoff.after(error).await?;
            return Ok(None);
        };
        if id.is_some() {
            self.last_id = id;
            self.is_garbled = false;
            self.backoff.reset();
        }
        self.is_closed = matches!(
            event.body.known(),
            Some(EventBody::SessionClosed(closed)) if closed.reason != SessionEnd::Shutdown
        );
        Ok(Some(event))
    }

    /// Opens a connection, or waits for the next attempt.
    async fn open(&mut self) -> Result<(), ClientError> {
        match self.opened().await {
            Ok(response) => {
                let (decoder, since) = (sse::Decoder::default(), Instant::now());
                self.connection = Some(Connection { response, decoder, since });
                Ok(())
            }
            // Its end was seen, though not that nothing follows.
            Err(error) if self.is_closed && error.status() == Some(404) => {
                self.is_over = true;
                Ok(())
            }
            Err(error) if error.allows(Repeat::Read) => self.backoff.after(error).await,
            Err(error) => Err(error),
        }
    }

    async fn opened(&mut self) -> Result<Response, ClientError> {
        if self.last_id.is_none() {
            // Without a place, what happens before the next connection would be lost.
            let ask = Ask {
                path: &["sessions", &self.session],
                patience: Some(Patience::Attempts(1)),
                limit: Some(self.line.options().silence_timeout),
                ..Ask::default()
            };
            let info: SessionSummary = decode(&self.line.send(ask).await?)?;
            self.last_id = Some(info.last_event_id);
        }
        self.line.stream(&["sessions", &self.session, "events"], self.last_id).await
    }

    /// Reads a piece of the connection.
    async fn read(&mut self) -> Result<(), ClientError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let bytes = match connection.response.chunk().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) if self.is_closed && connection.decoder.rest().is_none() => {
                self.is_over = true;
                return Ok(());
            }
            // What was begun of an event comes again.
            Ok(None) => return self.lost(None).await,
            Err(error) => return self.lost(Some(error)).await,
        };
        if connection.since.elapsed() >= SETTLED_AFTER {
            self.backoff.reset();
        }
        let mut events = Vec::new();
        let pushed = connection.decoder.push(&bytes, &mut events);
        self.ready.extend(events);
        self.failure = pushed.err().map(|sse::TooLong| {
            let limit = stdx::bytes(u64::try_from(sse::LINE_BYTES_MAX).unwrap_or(u64::MAX));
            ClientError::Protocol(format!("an event has more than {limit}"))
        });
        Ok(())
    }

    async fn lost(&mut self, error: Option<outbound::Error>) -> Result<(), ClientError> {
        self.connection = None;
        let error = error.unwrap_or_else(|| outbound::Error::Broken {
            place: "the server".to_owned(),
            reason: "it ended the event stream".to_owned(),
        });
        self.backoff.after(error.into()).await
    }
}
