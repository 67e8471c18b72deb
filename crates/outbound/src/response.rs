//! An answer whose body is read under limits.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::error::{Error, Part, Wait, root};
use crate::transport::place;

/// An answer: its head is here, its body comes piece by piece. Dropping it ends the connection.
#[derive(Debug)]
pub struct Response {
    status: StatusCode,
    headers: HeaderMap,
    url: Url,
    body: Incoming,
    bounds: Bounds,
    read_bytes: u64,
}

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: u64,
    pub(crate) idle: Duration,
    /// When the request as a whole must be over, and how long that was.
    pub(crate) whole: Option<(Instant, Duration)>,
}

impl Response {
    pub(crate) fn new(response: http::Response<Incoming>, url: Url, bounds: Bounds) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, url, body, bounds, read_bytes: 0 }
    }

    /// Returns the status. No status is an error by itself.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns where the answer came from, redirects followed.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the media type with its parameters, as the server wrote it.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// Returns the length that the server promised or the body is known to have, in bytes.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Waits for the next piece of the body; none at its end. Of a body that is too large, all
    /// pieces up to the limit come before the error, so that whoever wants its start has it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Timeout`], [`Error::Broken`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(frame) = self.frame().await? else { return Ok(None) };
            let Ok(mut bytes) = frame.into_data() else { continue };
            if bytes.is_empty() {
                continue;
            }
            let room = self.bounds.bytes_max.saturating_sub(self.read_bytes);
            if room == 0 {
                return Err(self.too_large());
            }
            bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            self.read_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Ok(Some(bytes));
        }
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    /// As [`Response::chunk`]; a body whose promised length is over the limit is not begun.
    pub async fn bytes(mut self) -> Result<Vec<u8>, Error> {
        if self.content_length().is_some_and(|length| length > self.bounds.bytes_max) {
            return Err(self.too_large());
        }
        let mut whole = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    async fn frame(&mut self) -> Result<Option<hyper::body::Frame<Bytes>>, Error> {
        let (wait, limit, patience) = self.patience();
        let place = || place(&self.url);
        match timeout(patience, self.body.frame()).await {
            Err(_) => Err(Error::Timeout { place: place(), wait, limit }),
            Ok(None) => Ok(None),
            Ok(Some(Ok(frame))) => Ok(Some(frame)),
            Ok(Some(Err(error))) => Err(Error::Broken { place: place(), reason: root(&error) }),
        }
    }

    /// Returns the wait that ends first.
    fn patience(&self) -> (Wait, Duration, Duration) {
        let idle = self.bounds.idle;
        match self.bounds.whole {
            Some((end, limit)) => {
                let left = end.saturating_duration_since(Instant::now());
                if left < idle { (Wait::Whole, limit, left) } else { (Wait::Body, idle, idle) }
            }
            None => (Wait::Body, idle, idle),
        }
    }

    fn too_large(&self) -> Error {
        let limit_bytes = self.bounds.bytes_max;
        Error::TooLarge { place: place(&self.url), part: Part::Body, limit_bytes }
    }
}
