//! A model behind a socket: the one place that sends a request and reads its answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{
    Delta, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse,
};
use outbound::{Error, HeaderMap, Response, Url, Wait};
use stdx::Secret;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{CONNECT_TIMEOUT, Http, SILENCE_TIMEOUT};
use crate::failure::{self, short};
use crate::stream::{Answer, Phase, malformed};
use crate::wire::{self, Target};

/// Largest request body: the limit that the providers themselves set.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Most of an error's body that is read: its words stand at the start.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Shortest key that is taken out of messages: a shorter one guards nothing, and its letters
/// would be found in every word.
const KEY_BYTES_MIN: usize = 8;

/// How long an error's body is waited for once its status is known.
const ERROR_WAIT: Duration = Duration::from_secs(10);

/// How long a server is waited for after it said the end but may still say what it used.
const LINGER: Duration = Duration::from_secs(5);

/// How long the end of the body is waited for after nothing more can come. Reading it lets the
/// connection be used again; a server that keeps it open shall not delay the step.
const DRAIN: Duration = Duration::from_millis(20);

/// A model.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) info: ModelInfo,
    pub(crate) target: Target,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Kept to take it out of whatever a server says.
    pub(crate) key: Option<Secret<String>>,
    /// The variable to name where a hosted server has no key.
    pub(crate) missing_key: Option<&'static str>,
    pub(crate) http: Arc<Http>,
}

#[async_trait]
impl Model for Remote {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError> {
        let asked = async {
            let response = self.send(self.encode(request)?).await?;
            self.read(response, deltas).await
        };
        asked.await.map_err(|error| self.named(error))
    }
}

impl Remote {
    fn encode(&self, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
        if let Some(variable) = self.missing_key {
            let message = format!("no key is set; set {variable}");
            return Err(ModelError::new(ModelErrorKind::Unauthorized, message));
        }
        let body = wire::encode(self.info.wire, &self.target, request).map_err(|error| {
            ModelError::new(ModelErrorKind::Rejected, format!("encode the request: {error}"))
        })?;
        if body.len() > REQUEST_BYTES_MAX {
            let size = |count: usize| stdx::bytes(u64::try_from(count).unwrap_or(u64::MAX));
            let message = format!(
                "the request has {}, more than the limit of {}",
                size(body.len()),
                size(REQUEST_BYTES_MAX)
            );
            return Err(ModelError::new(ModelErrorKind::ContextOverflow, message));
        }
        Ok(body)
    }

    async fn send(&self, body: Vec<u8>) -> Result<Response, ModelError> {
        let sent = self.http.servers().post(&self.url, self.headers.clone(), body).await;
        let mut response = sent.map_err(|error| match error {
            // Asking again does not bring what this machine lacks.
            Error::Setup(_) | Error::Url { .. } => {
                ModelError::new(ModelErrorKind::Rejected, short(&error.to_string()))
            }
            error => network(&self.describe(&error)),
        })?;
        let status = response.status();
        if !status.is_success() {
            let body = start_of_body(&mut response).await;
            return Err(failure::of_status(status.as_u16(), response.headers(), &body));
        }
        let kind = response.content_type().filter(|kind| kind.starts_with("application/json"));
        if let Some(kind) = kind.map(str::to_owned) {
            return Err(no_stream(&kind, &start_of_body(&mut response).await));
        }
        Ok(response)
    }

    async fn read(
        &self,
        mut response: Response,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError> {
        let mut answer = Answer::new(self.info.wire);
        let cut = loop {
            let patience = match answer.phase() {
                Phase::Open => None,
                Phase::Ended => Some(LINGER),
                Phase::Closed => Some(DRAIN),
            };
            let next = match patience {
                None => response.chunk().await,
                Some(wait) => timeout(wait, response.chunk()).await.unwrap_or(Ok(None)),
            };
            match next {
                Ok(Some(bytes)) => {
                    let pushed = answer.push(&bytes);
                    send_on(&mut answer, &deltas).await;
                    pushed?;
                }
                Ok(None) => break None,
                Err(error) => break Some(self.describe(&error)),
            }
        };
        let ended = answer.end();
        send_on(&mut answer, &deltas).await;
        ended?;
        answer.finish(cut)
    }

    /// Says what broke and where, without the address's path: it may hold what a user hides.
    fn describe(&self, error: &Error) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let place = match self.url.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        match error {
            Error::Timeout { wait: Wait::Connect, .. } => {
                format!("connect to {place}: no answer for {}", stdx::duration(CONNECT_TIMEOUT))
            }
            Error::Connect { reason, .. } | Error::Lookup { reason, .. } => {
                // On this machine the cure is in the reader's hands.
                let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
                let hint = if is_here { "; is the model server running?" } else { "" };
                format!("connect to {place}: {reason}{hint}")
            }
            Error::Timeout { .. } => {
                format!("{place} said nothing for {}", stdx::duration(SILENCE_TIMEOUT))
            }
            Error::Broken { reason, .. } => format!("the connection to {place} broke: {reason}"),
            error => error.to_string(),
        }
    }

    /// Says which provider it was, and takes out the key should a server repeat it.
    fn named(&self, mut error: ModelError) -> ModelError {
        let mut message = format!("{}: {}", self.info.provider, error.message);
        if let Some(key) = self.key.as_ref().map(Secret::expose)
            && key.len() >= KEY_BYTES_MIN
        {
            message = message.replace(key.as_str(), "***");
        }
        error.message = short(&message);
        error
    }
}

/// Sends on what has come. A queue that nobody reads any more is no error.
async fn send_on(answer: &mut Answer, deltas: &mpsc::Sender<Delta>) {
    for delta in answer.fresh() {
        if deltas.send(delta).await.is_err() {
            return;
        }
    }
}

/// Reads the start of a body; what cannot be read is left out, for the status says enough.
async fn start_of_body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < ERROR_BYTES_MAX {
            let Ok(Some(bytes)) = response.chunk().await else { return };
            let room = ERROR_BYTES_MAX - body.len();
            body.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
        }
    };
    let _late = timeout(ERROR_WAIT, reading).await;
    body
}

/// Some servers answer an error with status 200, or do not stream at all.
fn no_stream(kind: &str, body: &[u8]) -> ModelError {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => {
            failure::of_event(&value)
        }
        _ => malformed(&format!("the server answered {kind} in place of a stream")),
    }
}

fn network(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Network, short(message))
}
