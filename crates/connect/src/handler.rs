//! What a server may ask of its client, and what it tells.
#![expect(deprecated, reason = "what old servers may still ask for is refused by name")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, InitializeRequestParams, ListRootsResult, ProgressNotificationParam,
    UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;

use crate::elicitation::{Elicited, elicit};
use crate::in_flight::InFlight;
use crate::words::cut;

/// Most characters of a sign of progress that is shown.
const PROGRESS_CHARS_MAX: usize = 500;

/// The client's side of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    /// The server's name, for people.
    pub(crate) server: String,
    pub(crate) in_flight: Arc<InFlight>,
    /// Told when the server's tools have changed.
    pub(crate) changed: Arc<Notify>,
}

impl rmcp::ClientHandler for Handler {
    fn get_info(&self) -> InitializeRequestParams {
        let mut capabilities = ClientCapabilities::default();
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        let own = Implementation::new("narthex", env!("CARGO_PKG_VERSION"));
        InitializeRequestParams::new(capabilities, own)
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(not_offered("sampling"))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(not_offered("roots"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let call = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.in_flight.by_request(id),
            _ => None,
        };
        let Some(call) = call.or_else(|| self.in_flight.only()) else {
            // Nobody may be asked what nobody's call needs to know.
            return answer(Elicited::Cancelled.into_value());
        };
        let params = serde_json::to_value(&request).map_err(|error| unreadable(&error))?;
        tokio::select! {
            elicited = elicit(&self.server, &params, &call) => answer(elicited.into_value()),
            () = call.over.cancelled() => answer(Elicited::Cancelled.into_value()),
            () = context.ct.cancelled() => answer(Elicited::Cancelled.into_value()),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let Some(call) = self.in_flight.by_token(&params.progress_token) else { return };
        let part = match params.total {
            Some(total) => format!("{} of {total}", params.progress),
            None => params.progress.to_string(),
        };
        let text = match &params.message {
            Some(message) => format!("{part}: {}", cut(message, PROGRESS_CHARS_MAX)),
            None => part,
        };
        call.show(format!("{text}\n"));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Makes a result of what it is on the wire.
fn answer(value: Value) -> Result<ElicitResult, ErrorData> {
    serde_json::from_value(value).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("read an elicitation: {error}"), None)
}

/// Refuses what belongs to revisions that are gone.
fn not_offered(what: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("this client offers no {what}"), None)
}
