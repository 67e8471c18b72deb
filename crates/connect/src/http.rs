//! Streamable HTTP over the guarded client.

mod events;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use outbound::{
    AllowedTarget, Client, Error, HeaderName, HeaderValue, Limits, Method, Options, Response,
    StatusCode, header,
};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use stdx::Secret;

use crate::oauth::{Challenge, Tokens};
use crate::words::cut;
use crate::{HttpServer, Origin};

/// Largest answer that is one document: a protocol line's limit.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// How much of a stream of events may come before it is opened anew: a server that is asked for
/// years is asked again by then.
const STREAM_BYTES_MAX: u64 = 64 << 30;

/// Largest request: arguments of a call.
const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// How long a server may take to begin an answer: a call's own limit ends it sooner.
const ANSWER_WAIT: Duration = Duration::from_secs(60 * 60);

/// How long a stream may be silent. Servers that have nothing to say for longer are asked again.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// How long one stream may live.
const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Most characters of a server's error that are repeated.
const ERROR_CHARS_MAX: usize = 500;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Makes the client for one server. What the settings name is reached wherever it is; what a
/// folder's file names is reached in public and on this machine only, unless `[network] allow`
/// opens more.
///
/// # Errors
/// [`Error::Setup`] for options that cannot be used.
pub(crate) fn client(
    options: &Options,
    server: &HttpServer,
    origin: &Origin,
) -> Result<Client, Error> {
    let mut options = options.clone();
    options.limits = Limits {
        redirects_max: 3,
        response_bytes_max: STREAM_BYTES_MAX,
        request_bytes_max: REQUEST_BYTES_MAX,
        answer_timeout: ANSWER_WAIT,
        idle_timeout: SILENCE,
        total_timeout: LIFE,
        ..Limits::default()
    };
    // Calls follow each other; a connection for each would cost more than the call.
    options.idle_per_host_max = 4;
    let host = server.url.host_str().unwrap_or_default();
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if let Some(port) = server.url.port_or_known_default()
        && (origin.is_trusted() || is_here)
        && let Ok(own) = format!("{host}:{port}").parse::<AllowedTarget>()
    {
        options.allow.push(own);
    }
    Client::new(options)
}

/// One server's way in.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    client: Client,
    headers: Arc<Vec<(HeaderName, Secret<HeaderValue>)>>,
    /// None where the settings give a header of their own.
    tokens: Option<Arc<Tokens>>,
}

/// Where a request goes and what surrounds it.
struct Aim {
    uri: Arc<str>,
    session: Option<Arc<str>>,
    headers: Headers,
    event_bytes_max: usize,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<Error>;

impl Wire {
    pub(crate) fn new(client: Client, server: &HttpServer, tokens: Option<Arc<Tokens>>) -> Self {
        Self { client, headers: Arc::new(server.headers.clone()), tokens }
    }

    /// Sends a request, with another token once where the first is refused: the server has not
    /// looked at the request then, so that nothing is done twice.
    async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: &Headers,
        body: Vec<u8>,
    ) -> Result<Response, Failure> {
        let mut token = match &self.tokens {
            Some(tokens) => tokens.bearer().await.map_err(no_token)?,
            None => None,
        };
        let mut is_first = true;
        loop {
            let request = self.request(method.clone(), uri, headers, token.as_ref());
            let response = request.body(body.clone()).send().await.map_err(Failure::Client)?;
            let status = response.status();
            if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
                self.note_refused(false);
                return Ok(response);
            }
            let shown = response.headers().get(header::WWW_AUTHENTICATE);
            let shown = shown.and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
            if status == StatusCode::FORBIDDEN && shown.is_none() {
                return Ok(response);
            }
            let shown = shown.unwrap_or_default();
            let challenge = Challenge::read(&shown);
            if status == StatusCode::FORBIDDEN && !challenge.is_insufficient_scope() {
                return Ok(response);
            }
            let again = match &self.tokens {
                Some(tokens) if is_first => {
                    tokens.replace(token.as_ref(), challenge).await.map_err(no_token)?
                }
                _ => None,
            };
            match again {
                Some(again) => token = Some(again),
                None if status == StatusCode::FORBIDDEN => {
                    self.note_refused(true);
                    let error = InsufficientScopeError::new(shown, None);
                    return Err(Failure::InsufficientScope(error));
                }
                None => {
                    self.note_refused(true);
                    return Err(Failure::AuthRequired(AuthRequiredError::new(shown)));
                }
            }
            is_first = false;
        }
    }

    fn note_refused(&self, is_refused: bool) {
        if let Some(tokens) = &self.tokens {
            tokens.set_refused(is_refused);
        }
    }

    fn request(
        &self,
        method: Method,
        uri: &str,
        headers: &Headers,
        token: Option<&Secret<String>>,
    ) -> outbound::Request {
        let mut request = self.client.request(method, uri);
        for (name, value) in self.headers.iter() {
            request = request.header(name.clone(), value.expose().clone());
        }
        for (name, value) in headers {
            request = request.header(name.clone(), value.clone());
        }
        if let Some(token) = token
            && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        {
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        request
    }

    async fn stream(
        &self,
        aim: Aim,
        last_event: Option<String>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let Aim { uri, session, mut headers, event_bytes_max } = aim;
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        put(&mut headers, SESSION, session.as_deref());
        put(&mut headers, LAST_EVENT, last_event.as_deref());
        let response = self.send(Method::GET, &uri, &headers, Vec::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Failure::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if session.is_some() => Err(Failure::SessionExpired),
            status if !status.is_success() => Err(unexpected(format!("HTTP {status}"))),
            _ if is_kind(&response, "text/event-stream") => {
                Ok(events::stream(response, event_bytes_max).boxed())
            }
            _ => Err(Failure::UnexpectedContentType(kind(&response))),
        }
    }

    async fn post(
        &self,
        aim: Aim,
        message: ClientJsonRpcMessage,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let Aim { uri, session, mut headers, event_bytes_max } = aim;
        let accepted = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, accepted);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        put(&mut headers, SESSION, session.as_deref());
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = serde_json::to_vec(&message)?;
        let response = self.send(Method::POST, &uri, &headers, body).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Failure::SessionExpired);
        }
        let given = response.headers().get(&SESSION).and_then(|value| value.to_str().ok());
        let given = given.map(ToOwned::to_owned);
        if !status.is_success() {
            return failed(response, &message, session.is_some()).await;
        }
        if is_kind(&response, "text/event-stream") {
            let events = events::stream(response, event_bytes_max).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, given));
        }
        // Some servers answer a notification with a page of their own; nothing hangs on it.
        if !wants_answer {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is_kind(&response, "application/json") {
            return Err(Failure::UnexpectedContentType(kind(&response)));
        }
        let body = whole(response).await?;
        let message: ServerJsonRpcMessage = serde_json::from_slice(&body)
            .map_err(|error| unexpected(format!("an answer that is none: {error}")))?;
        Ok(StreamableHttpPostResponse::Json(message, given))
    }
}

/// Reads the answer to a request that failed: an error of the protocol's own where it is one.
async fn failed(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let is_json = is_kind(&response, "application/json");
    let later = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let busy = (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), later.map(|later| cut(later, 100))));
    let body = whole(response).await.unwrap_or_default();
    let error =
        is_json.then(|| serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok()).flatten();
    let error = error.filter(|message| matches!(message, ServerJsonRpcMessage::Error(_)));
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let text = cut(&String::from_utf8_lossy(&body), ERROR_CHARS_MAX);
    // A server of an older revision refuses the question for the revision in its own way, and
    // cannot always name the question it refuses.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !has_session
        && !is_refused
    {
        let error = match error {
            Some(ServerJsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}: {text}"), None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match (error, busy) {
        (Some(error), _) if !is_refused => Ok(StreamableHttpPostResponse::Json(error, None)),
        (_, Some(busy)) => Err(busy.into()),
        _ => Err(unexpected(format!("HTTP {status}: {text}"))),
    }
}

async fn whole(mut response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(Failure::Client)? {
        if (body.len() + bytes.len()) as u64 > DOCUMENT_BYTES_MAX {
            let limit = stdx::bytes(DOCUMENT_BYTES_MAX);
            return Err(unexpected(format!("an answer of more than {limit}")));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

fn put(headers: &mut Headers, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

fn kind(response: &Response) -> Option<String> {
    response.content_type().map(|kind| cut(kind, 100))
}

fn is_kind(response: &Response, wanted: &str) -> bool {
    let kind = response.content_type().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(wanted)
}

fn unexpected(text: String) -> Failure {
    Failure::UnexpectedServerResponse(Cow::Owned(text))
}

fn no_token(error: crate::oauth::AuthError) -> Failure {
    Failure::Io(std::io::Error::other(error))
}

impl StreamableHttpClient for Wire {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (headers, event_bytes_max) = (custom_headers, events::EVENT_BYTES_MAX);
        self.post(Aim { uri, session: session_id, headers, event_bytes_max }, message).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (headers, event_bytes_max) = (custom_headers, max_sse_event_size);
        self.post(Aim { uri, session: session_id, headers, event_bytes_max }, message).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        mut custom_headers: Headers,
    ) -> Result<(), Failure> {
        put(&mut custom_headers, SESSION, Some(&session_id));
        let response = self.send(Method::DELETE, &uri, &custom_headers, Vec::new()).await?;
        match response.status() {
            // The server keeps its sessions or has lost this one: nothing is left to do.
            StatusCode::METHOD_NOT_ALLOWED => Err(Failure::ServerDoesNotSupportDeleteSession),
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            status => Err(unexpected(format!("HTTP {status}"))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let (headers, event_bytes_max) = (custom_headers, events::EVENT_BYTES_MAX);
        let aim = Aim { uri, session: session_id, headers, event_bytes_max };
        self.stream(aim, last_event_id).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let (headers, event_bytes_max) = (custom_headers, max_sse_event_size);
        let aim = Aim { uri, session: session_id, headers, event_bytes_max };
        self.stream(aim, last_event_id).await
    }
}
