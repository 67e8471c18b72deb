//! One live connection to a server.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Clock, ToolContext};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, InputRequest,
    InputRequiredResult, InputResponses, PaginatedRequestParams, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalogue::TOOLS_MAX;
use crate::elicitation::elicit;
use crate::in_flight::{InFlight, Running};
use crate::trouble::{self, HttpError};
use crate::words::cut;

/// How often a server may ask back within one call.
const ROUNDS_MAX: usize = 20;

/// Most pages of a list: a server that never comes to an end is left at what it has said.
const PAGES_MAX: usize = 200;

/// Largest list of tools, in bytes as JSON, with all that is not kept of it: a server that writes
/// without an end is none to use.
const LIST_BYTES_MAX: usize = 32 << 20;

/// How long a server may take to hear that an answer is not wanted any more.
const CANCEL_WAIT: Duration = Duration::from_secs(30);

/// The first wait when a server asks to be called again without asking anything, doubled each time.
const AGAIN_FIRST: Duration = Duration::from_millis(50);

/// Most characters of a server's error that a model reads.
const ERROR_CHARS_MAX: usize = 2_000;

/// Why a call brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The turn was stopped; the server was told.
    Stopped,
    /// Its time is over; the server was told.
    TimedOut,
    /// The server says no.
    Refused { code: i32, message: String },
    /// The server cannot be reached with what this client may send.
    Unauthorized,
    /// The connection failed; whether the call took effect is unknown.
    Lost(String),
    /// This call failed and others need not; whether it took effect is unknown.
    Failed(String),
    /// What came is no result.
    Odd(String),
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// The server's name, for people.
    pub(crate) server: String,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) in_flight: Arc<InFlight>,
    /// Cancelled once a call found that the connection is of no use.
    pub(crate) broken: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) call_timeout: Duration,
}

/// A request that is under way. Dropping it tells the server that nobody waits any more.
struct Sent {
    handle: Option<RequestHandle<RoleClient>>,
    tasks: TaskTracker,
}

impl Sent {
    /// Waits for the answer. Cancel-safe.
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        answer.map_err(|_| ServiceError::TransportClosed)?
    }

    /// Tells the server that the answer is not wanted any more. Beside: a server that does not read
    /// is no reason to wait longer.
    fn cancel(&mut self, reason: &str) {
        if let Some(handle) = self.handle.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let telling = handle.cancel(Some(reason.to_owned()));
            // A connection that is gone has cancelled it already.
            self.tasks.spawn(async move { drop(timeout(CANCEL_WAIT, telling).await) });
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.cancel("nobody waits for the result any more");
    }
}

impl Link {
    /// Asks for all tools, page by page.
    ///
    /// # Errors
    /// What the server or the connection said.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, ServiceError> {
        let info = self.peer.peer_info();
        if info.is_none_or(|info| info.capabilities.tools.is_none()) {
            return Ok(Vec::new());
        }
        let (mut tools, mut len) = (Vec::new(), 0);
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let page = self.peer.list_tools(Some(params)).await?;
            for tool in page.tools {
                let tool = serde_json::to_value(tool).map_err(|error| unreadable(&error))?;
                len += tool.to_string().len();
                tools.push(tool);
            }
            if len > LIST_BYTES_MAX {
                let limit = stdx::bytes(LIST_BYTES_MAX as u64);
                let reason = format!("the list of tools has more than {limit}");
                return Err(ServiceError::McpError(ErrorData::internal_error(reason, None)));
            }
            // One more than the limit, so that the catalogue says that there are more.
            if tools.len() > TOOLS_MAX || page.next_cursor.is_none() || page.next_cursor == cursor {
                break;
            }
            cursor = page.next_cursor;
        }
        Ok(tools)
    }

    /// Calls a tool and answers what the server asks back meanwhile. The call is sent once; it
    /// is sent again only where the server asks for that.
    pub(crate) async fn call(
        &self,
        tool: &str,
        input: &Map<String, Value>,
        context: &ToolContext,
    ) -> Result<Value, CallError> {
        let running = Running::new(context);
        let _entered = self.in_flight.enter(Arc::clone(&running));
        let time_is_up = running.time_is_up(self.call_timeout, &*self.clock);
        tokio::pin!(time_is_up);
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(input.clone());
        let mut again_after = AGAIN_FIRST;
        for _ in 0..ROUNDS_MAX {
            let mut sent = tokio::select! {
                biased;
                sent = self.send(params.clone(), &running) => sent?,
                () = context.cancel.cancelled() => return Err(CallError::Stopped),
                () = &mut time_is_up => return Err(CallError::TimedOut),
            };
            let answer = tokio::select! {
                biased;
                answer = sent.answer() => answer.map_err(|error| self.failure(error))?,
                () = context.cancel.cancelled() => {
                    sent.cancel("stopped by the user");
                    return Err(CallError::Stopped);
                }
                () = &mut time_is_up => {
                    sent.cancel("the call took too long");
                    return Err(CallError::TimedOut);
                }
            };
            let asked = match answer {
                ServerResult::CallToolResult(result) => {
                    return serde_json::to_value(result).map_err(|e| CallError::Odd(e.to_string()));
                }
                ServerResult::InputRequiredResult(asked) => asked,
                other => {
                    let other = format!("{other:?}");
                    return Err(CallError::Odd(format!("it answered with {}", cut(&other, 200))));
                }
            };
            let has_questions = asked.input_requests.as_ref().is_some_and(|asks| !asks.is_empty());
            if !has_questions && asked.request_state.is_none() {
                return Err(CallError::Odd("it asks for nothing and gives no result".to_owned()));
            }
            let answers = async {
                if !has_questions {
                    self.clock.sleep(again_after).await;
                }
                self.answers(asked, &running).await
            };
            let (responses, state) = tokio::select! {
                answers = answers => answers?,
                () = context.cancel.cancelled() => return Err(CallError::Stopped),
                () = &mut time_is_up => return Err(CallError::TimedOut),
            };
            again_after = (again_after * 2).min(Duration::from_secs(1));
            params.input_responses = responses;
            params.request_state = state;
        }
        Err(CallError::Odd(format!("it asked back {ROUNDS_MAX} times without a result")))
    }

    async fn send(
        &self,
        params: CallToolRequestParams,
        running: &Running,
    ) -> Result<Sent, CallError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_cancellable_request(request, options).await;
        let handle = sent.map_err(|error| self.failure(error))?;
        running.sent(handle.id.clone(), handle.progress_token.clone());
        Ok(Sent { handle: Some(handle), tasks: self.tasks.clone() })
    }

    /// Answers what a server asks in place of a result, one question after the other.
    async fn answers(
        &self,
        asked: InputRequiredResult,
        running: &Running,
    ) -> Result<(Option<InputResponses>, Option<String>), CallError> {
        let mut responses = InputResponses::new();
        for (key, request) in asked.input_requests.unwrap_or_default() {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let params = serde_json::to_value(&request.params)
                        .map_err(|error| CallError::Odd(error.to_string()))?;
                    elicit(&self.server, &params, running).await.into_value()
                }
                // This client said that it offers neither.
                _ => return Err(CallError::Odd("it asks for sampling or roots".to_owned())),
            };
            responses.insert(key, response);
        }
        Ok(((!responses.is_empty()).then_some(responses), asked.request_state))
    }

    fn failure(&self, error: ServiceError) -> CallError {
        match error {
            ServiceError::McpError(error) => refused(&error),
            error if error.is_authorization_required() => {
                // Nothing else goes through either: the connection is tried anew, and shows it.
                self.broken.cancel();
                CallError::Unauthorized
            }
            // The rights reach for other calls.
            error if error.auth_challenge().is_some() => CallError::Unauthorized,
            error => {
                let reason = trouble::of_request(&error);
                if !is_lost(&error) {
                    return CallError::Failed(reason);
                }
                self.broken.cancel();
                CallError::Lost(reason)
            }
        }
    }
}

/// Tells whether a failure is one of the connection: a server that answers, even badly, is there.
fn is_lost(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else {
        return matches!(error, ServiceError::TransportClosed);
    };
    match error.error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(_) | HttpError::TransportChannelClosed) => true,
        Some(_) => false,
        // The streams of a program fail as a whole.
        None => true,
    }
}

fn refused(error: &ErrorData) -> CallError {
    CallError::Refused { code: error.code.0, message: cut(&error.message, ERROR_CHARS_MAX) }
}

fn unreadable(error: &serde_json::Error) -> ServiceError {
    ServiceError::McpError(ErrorData::internal_error(format!("read a tool: {error}"), None))
}
