//! Bodies on their way through: piece by piece, without trailers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tokio_util::task::AbortOnDropHandle;

/// What a client is sent.
pub(crate) type Answer = Either<Full<Bytes>, Relayed>;

/// A body that is handed on as it comes. Nothing is held but the piece that is on its way.
#[derive(Debug)]
pub(crate) struct Relayed<B = Incoming> {
    inner: B,
    /// What keeps the body coming; it ends with it.
    _connection: Option<AbortOnDropHandle<()>>,
}

impl<B> Relayed<B> {
    /// The body of a request.
    pub(crate) fn request(inner: B) -> Self {
        Self { inner, _connection: None }
    }

    /// The body of an answer, and the task that reads it.
    pub(crate) fn response(inner: B, connection: AbortOnDropHandle<()>) -> Self {
        Self { inner, _connection: Some(connection) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Relayed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
            // Trailers are headers that nobody has looked at.
            if let Some(Ok(frame)) = &frame
                && frame.is_trailers()
            {
                continue;
            }
            return Poll::Ready(frame);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderMap;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[tokio::test]
    async fn pieces_pass_and_trailers_do_not() {
        let pieces = ["a", "b"].map(|text| Frame::data(Bytes::from_static(text.as_bytes())));
        let trailers = Frame::trailers(HeaderMap::new());
        let frames = pieces.into_iter().chain([trailers]).map(Ok::<_, Infallible>);
        let mut body = Relayed::request(StreamBody::new(futures_util::stream::iter(frames)));
        let mut kinds = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            kinds.push(frame.into_data().map_err(|frame| frame.is_trailers()));
        }
        assert_eq!(kinds, [Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]);
    }
}
