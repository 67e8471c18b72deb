//! Request bodies that have to keep coming.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::Pulse;

/// Why the reading of a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// No piece came for too long, or all of them took too long.
    #[error("the request body stopped coming")]
    Stalled,
    /// The connection or the framing broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// How long a body may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyTimes {
    pub(crate) gap_max: Duration,
    pub(crate) all_max: Duration,
}

/// The body of one request as it comes in.
pub(crate) struct Arriving {
    inner: Incoming,
    times: BodyTimes,
    /// When all of it has to be there; set by the first wait.
    until: Option<Instant>,
    waiting: Option<Pin<Box<Sleep>>>,
    is_over: bool,
    pulse: Arc<Pulse>,
}

impl Arriving {
    /// An axum body around it; one that is empty from the start needs no watch.
    pub(crate) fn watched(inner: Incoming, times: BodyTimes, pulse: &Arc<Pulse>) -> Body {
        if inner.is_end_stream() {
            return Body::empty();
        }
        let pulse = Arc::clone(pulse);
        Body::new(Self { inner, times, until: None, waiting: None, is_over: false, pulse })
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.waiting = None;
            self.is_over |= frame.is_none();
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let now = Instant::now();
        let all_by = now + self.times.all_max;
        let until = (*self.until.get_or_insert(all_by)).min(now + self.times.gap_max);
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(until)));
        waiting.as_mut().poll(cx).map(|()| Some(Err(BodyError::Stalled)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.is_over && !self.inner.is_end_stream() {
            self.pulse.leave_unread();
        }
    }
}
