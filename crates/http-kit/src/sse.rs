//! Event streams (`text/event-stream`).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{Fuse, Stream, StreamExt};
use http::{HeaderName, HeaderValue, header};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often a heartbeat comment goes out, whether the stream is busy or not. A multiple of it
/// is what a client may wait before it gives a connection up.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Bytes of one write: a burst of deltas goes out in one packet train instead of one by one, and
/// a viewer that is slow holds no more than this beside what its source keeps.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// The heartbeat as it stands in the stream.
pub const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// One event as it stands in a stream, encoded once however many viewers there are.
///
/// `id` is left out where the event is no point to resume from. `data` may have several lines.
/// Line ends and NUL in `id` and `event` are dropped: they would end or void the field.
pub fn frame(id: Option<&str>, event: &str, data: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + event.len() + 64);
    if let Some(id) = id {
        put_field(&mut out, b"id: ", id);
    }
    put_field(&mut out, b"event: ", event);
    for line in data.split('\n') {
        put_field(&mut out, b"data: ", line);
    }
    out.put_u8(b'\n');
    out.freeze()
}

fn put_field(out: &mut BytesMut, name: &[u8], value: &str) {
    out.put_slice(name);
    for piece in value.split(['\r', '\n', '\0']) {
        out.put_slice(piece.as_bytes());
    }
    out.put_u8(b'\n');
}

/// The response that sends `frames` (each as [`frame`] made it) until they end, with a
/// heartbeat every [`HEARTBEAT_EVERY`].
///
/// The headers leave at once. Frames that wait are joined into one write of up to 64 KiB. The
/// stream is polled only as fast as the client reads, so a bound on what waits is the source's.
/// It is dropped as soon as the client is gone.
pub fn response<S>(frames: S) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    beating(frames, HEARTBEAT_EVERY, HEARTBEAT)
}

/// [`response`] with another comment as its heartbeat, as it stands in the stream.
pub fn response_with<S>(frames: S, heartbeat: &'static [u8]) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    beating(frames, HEARTBEAT_EVERY, heartbeat)
}

/// [`response`] with another time between heartbeats, for tests and for proxies that give up
/// earlier.
pub fn response_every<S>(frames: S, heartbeat_every: Duration) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    beating(frames, heartbeat_every, HEARTBEAT)
}

fn beating<S>(frames: S, every: Duration, comment: &'static [u8]) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    let mut heartbeat = interval_at(Instant::now() + every, every);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let frames = Box::pin(frames.fuse());
    let body = Body::new(Events { frames, heartbeat, comment, kept: None });
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Some proxies hold a response back until it is complete.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// The body of a stream.
struct Events<S> {
    frames: Pin<Box<Fuse<S>>>,
    heartbeat: Interval,
    comment: &'static [u8],
    /// A frame that no longer fitted into the last write.
    kept: Option<Bytes>,
}

impl<S: Stream<Item = Bytes>> Events<S> {
    /// All that waits, up to the limit. A single piece is handed on without a copy.
    fn poll_joined(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut joined = Joined::default();
        if self.heartbeat.poll_tick(cx).is_ready() {
            joined.add(Bytes::from_static(self.comment));
            // A tick that was taken has to be asked for the next one, or nobody wakes for it.
            while self.heartbeat.poll_tick(cx).is_ready() {}
        }
        loop {
            let next = match self.kept.take() {
                Some(kept) => Poll::Ready(Some(kept)),
                None => self.frames.as_mut().poll_next(cx),
            };
            match next {
                Poll::Ready(Some(frame)) if joined.fits(&frame) => joined.add(frame),
                Poll::Ready(Some(frame)) => {
                    self.kept = Some(frame);
                    return Poll::Ready(joined.take());
                }
                Poll::Ready(None) => return Poll::Ready(joined.take()),
                Poll::Pending => {
                    return joined.take().map_or(Poll::Pending, |all| Poll::Ready(Some(all)));
                }
            }
        }
    }
}

impl<S: Stream<Item = Bytes>> HttpBody for Events<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_joined(cx).map(|joined| joined.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Frames on their way into one write.
#[derive(Default)]
struct Joined {
    first: Option<Bytes>,
    more: BytesMut,
}

impl Joined {
    /// The first frame always fits.
    fn fits(&self, frame: &Bytes) -> bool {
        let held = self.first.as_ref().map_or(0, Bytes::len) + self.more.len();
        held == 0 || held + frame.len() <= WRITE_BYTES_MAX
    }

    fn add(&mut self, frame: Bytes) {
        match self.first.take() {
            None if self.more.is_empty() => self.first = Some(frame),
            first => {
                self.more.extend_from_slice(&first.unwrap_or_default());
                self.more.extend_from_slice(&frame);
            }
        }
    }

    fn take(self) -> Option<Bytes> {
        let more = self.more.freeze();
        self.first.or_else(|| (!more.is_empty()).then_some(more))
    }
}

#[cfg(test)]
mod tests;
