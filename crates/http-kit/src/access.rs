//! The access log: one line per request, when its response is over.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use bytes::{Buf, Bytes};
use http::Method;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::{Caller, RequestId};

/// Bytes of a path that no route knows: enough to see what was looked for.
const PATH_LOGGED_MAX: usize = 200;

/// What is logged for a client that left before there was an answer.
const CLIENT_LEFT: u16 = 499;

/// The line of one request. Written when dropped, so that no way out is without one.
#[derive(Debug)]
pub(crate) struct Line {
    id: RequestId,
    method: Method,
    path: String,
    caller: Option<Caller>,
    status: u16,
    body_bytes: u64,
    began: Instant,
}

impl Line {
    /// A request came in. Neither its query nor its body is kept.
    pub(crate) fn begin(id: &RequestId, request: &Request) -> Self {
        let path = match request.extensions().get::<MatchedPath>() {
            Some(route) => route.as_str().to_owned(),
            None => request.uri().path().escape_debug().take(PATH_LOGGED_MAX).collect(),
        };
        Self {
            id: id.clone(),
            method: request.method().clone(),
            path,
            caller: None,
            status: CLIENT_LEFT,
            body_bytes: 0,
            began: Instant::now(),
        }
    }

    /// Who it was.
    pub(crate) fn by(&mut self, caller: Option<Caller>) {
        self.caller = caller;
    }

    /// The answer begins: the line waits for its end.
    pub(crate) fn answered(mut self, response: Response) -> Response {
        self.status = response.status().as_u16();
        response.map(|inner| Body::new(Counted { inner, line: self }))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let caller = self.caller.as_ref().map_or("-", |caller| &caller.name);
        let took_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            method = %self.method,
            path = %self.path,
            status = self.status,
            took_ms,
            body_bytes = self.body_bytes,
            request = %self.id,
            caller,
            "request"
        );
    }
}

/// A response body that counts what leaves.
struct Counted {
    inner: Body,
    line: Line,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|f| f.as_ref().ok()).and_then(Frame::data_ref) {
            self.line.body_bytes += data.remaining() as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
