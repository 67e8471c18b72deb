//! Requests of a client: bodies are JSON, a no is an error.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Ids, SystemIds};
use outbound::{HeaderMap, HeaderName, HeaderValue, Method, Response, Servers, Url, Waits, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stdx::Secret;

use super::backoff::{Backoff, Patience};
use super::error::Repeat;
use super::{ClientError, ClientOptions, error};

/// How long an idle connection is kept for the next request.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Largest answer that is read, in bytes: a page of a thousand messages with whole results.
const ANSWER_BYTES_MAX: usize = 256 << 20;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The way to a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base: Url,
    token: Secret<HeaderValue>,
    options: ClientOptions,
    asks: Servers,
    streams: Servers,
}

/// A request.
#[derive(Clone, Default)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(&'a str, String)],
    pub(super) body: Option<bytes::Bytes>,
    /// The key by which the server knows it again.
    pub(super) key: Option<&'a Key>,
    pub(super) repeat: Repeat,
    /// For how long it is tried; as often as the options say where absent.
    pub(super) patience: Option<Patience>,
    /// How long each attempt may take, where that is less than the options say.
    pub(super) limit: Option<Duration>,
}

/// A key by which the server knows a request again, so that it may be sent again where the answer
/// was lost.
#[derive(Clone, Debug)]
pub(super) struct Key(HeaderValue);

impl Key {
    pub(super) fn fresh() -> Result<Self, ClientError> {
        let key = protocol::encode_id(SystemIds.id() ^ u128::from(SystemIds.random()));
        HeaderValue::try_from(key).map(Self).map_err(|_| unreadable("a key"))
    }
}

impl Line {
    pub(super) fn new(base: Url, token: Secret<HeaderValue>, options: ClientOptions) -> Self {
        let waits =
            |silence| Waits { connect: options.connect_timeout, silence, keep_alive: KEEP_ALIVE };
        let asks = Servers::new(waits(options.answer_timeout));
        let streams = Servers::new(waits(options.silence_timeout));
        Self(Arc::new(Inner { base, token, options, asks, streams }))
    }

    pub(super) fn options(&self) -> ClientOptions {
        self.0.options
    }

    /// Reads something.
    pub(super) async fn read<A: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<A, ClientError> {
        decode(&self.send(Ask { path, query, ..Ask::default() }).await?)
    }

    /// Asks for something that does no harm twice.
    pub(super) async fn set<A: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<A, ClientError> {
        decode(&self.post(path, body, Repeat::Harmless).await?)
    }

    /// Asks for something that may do harm twice.
    pub(super) async fn act<A: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<A, ClientError> {
        decode(&self.post(path, body, Repeat::Unsent).await?)
    }

    /// Asks for something that must happen once: the request has a key.
    pub(super) async fn ask_once<A: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<A, ClientError> {
        let (method, body, key) = (Method::POST, Some(encode(body)?), Key::fresh()?);
        let (key, repeat) = (Some(&key), Repeat::Harmless);
        decode(&self.send(Ask { method, path, body, key, repeat, ..Ask::default() }).await?)
    }

    async fn post(
        &self,
        path: &[&str],
        body: &impl Serialize,
        repeat: Repeat,
    ) -> Result<Vec<u8>, ClientError> {
        let (method, body) = (Method::POST, Some(encode(body)?));
        self.send(Ask { method, path, body, repeat, ..Ask::default() }).await
    }

    /// Sends a request, again where that may help, and returns its answer.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Vec<u8>, ClientError> {
        let options = self.0.options;
        let patience = ask.patience.unwrap_or(Patience::Attempts(options.attempts_max));
        let mut backoff = Backoff::new(options, patience);
        loop {
            match self.attempt(ask.clone()).await {
                Err(error) if error.allows(ask.repeat) => backoff.after(error).await?,
                answered => return answered,
            }
        }
    }

    /// Opens an event stream.
    pub(super) async fn stream(
        &self,
        path: &[&str],
        last_event_id: Option<u64>,
    ) -> Result<Response, ClientError> {
        let mut headers = self.headers();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_event_id {
            headers.insert(HeaderName::from_static("last-event-id"), HeaderValue::from(id));
        }
        let url = self.url(path, &[])?;
        let response = self.0.streams.get(&url, headers).await?;
        let response = success(response).await?;
        let kind = response.content_type().unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let kind: String = kind.chars().take(80).collect();
            return Err(ClientError::Protocol(format!("expected an event stream, got '{kind}'")));
        }
        Ok(response)
    }

    /// Sends a request once. The limit holds for the answer as a whole.
    async fn attempt(&self, ask: Ask<'_>) -> Result<Vec<u8>, ClientError> {
        let limit = self.0.options.answer_timeout;
        let limit = ask.limit.map_or(limit, |own| own.min(limit));
        let asked = tokio::time::timeout(limit, self.ask(ask));
        asked.await.unwrap_or_else(|_| {
            let (place, wait) = ("the server".to_owned(), outbound::Wait::Whole);
            Err(outbound::Error::Timeout { place, wait, limit }.into())
        })
    }

    async fn ask(&self, ask: Ask<'_>) -> Result<Vec<u8>, ClientError> {
        let Ask { method, path, query, body, key, .. } = ask;
        let mut headers = self.headers();
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, key.0.clone());
        }
        let url = self.url(path, query)?;
        let sent = self.0.asks.send(method, &url, headers, body.unwrap_or_default()).await?;
        read(success(sent).await?, ANSWER_BYTES_MAX).await
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, self.0.token.expose().clone());
        headers
    }

    /// Joins a path. A part that holds a slash stays one part.
    fn url(&self, path: &[&str], query: &[(&str, String)]) -> Result<Url, ClientError> {
        let mut url = self.0.base.clone();
        if path.iter().any(|part| part.is_empty() || matches!(*part, "." | "..")) {
            return Err(ClientError::Setup("an id is empty or no id".to_owned()));
        }
        url.path_segments_mut()
            .map_err(|()| unreadable("the address"))?
            .pop_if_empty()
            .push("v1")
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

async fn success(response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    // The status alone says enough where the body is broken or too large.
    let body = read(response, error::ERROR_BYTES_MAX).await.unwrap_or_default();
    Err(error::read(status.as_u16(), &headers, &body).into())
}

async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        if body.len() + bytes.len() > bytes_max {
            let limit = stdx::bytes(u64::try_from(bytes_max).unwrap_or(u64::MAX));
            return Err(ClientError::Protocol(format!("the answer has more than {limit}")));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

pub(super) fn encode(body: &impl Serialize) -> Result<bytes::Bytes, ClientError> {
    serde_json::to_vec(body).map(Into::into).map_err(|_| unreadable("the body of the request"))
}

pub(super) fn decode<A: DeserializeOwned>(answer: &[u8]) -> Result<A, ClientError> {
    serde_json::from_slice(answer)
        .map_err(|error| ClientError::Protocol(format!("read the answer: {error}")))
}

fn unreadable(what: &str) -> ClientError {
    ClientError::Setup(format!("{what} cannot be sent"))
}
