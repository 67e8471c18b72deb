//! A server's tool, as sessions call it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{
    CallFacts, Clock, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace,
};
use protocol::Effect;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::catalogue::Entry;
use crate::link::{CallError, Link};
use crate::outcome::outcome;
use crate::words::cut;

/// How long a call waits for a server that is coming back: it has not been sent by then.
const RETURN_WAIT: Duration = Duration::from_secs(10);

/// Most characters of the line for people.
const SUMMARY_CHARS_MAX: usize = 200;

/// The way to a server, whatever becomes of its connections.
#[derive(Debug)]
pub(crate) struct Access {
    /// The server's name, for people.
    pub(crate) server: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) link: watch::Sender<Option<Arc<Link>>>,
    /// Cancelled once the server is stopped for good.
    gone: CancellationToken,
    /// Why there is no connection.
    trouble: Mutex<String>,
}

impl Access {
    pub(crate) fn new(server: &str, clock: Arc<dyn Clock>, gone: CancellationToken) -> Self {
        let link = watch::Sender::new(None);
        let trouble = Mutex::new("it has not been reached yet".to_owned());
        Self { server: server.to_owned(), clock, link, gone, trouble }
    }

    /// Takes note of why there is no connection.
    pub(crate) fn set_trouble(&self, trouble: &str) {
        trouble.clone_into(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the connection, or waits a while for one that comes back.
    async fn link(&self) -> Option<Arc<Link>> {
        let mut links = self.link.subscribe();
        let is_there = |link: &Option<Arc<Link>>| {
            link.as_ref().is_some_and(|link| !link.broken.is_cancelled())
        };
        tokio::select! {
            link = links.wait_for(is_there) => link.ok().and_then(|link| link.clone()),
            () = self.gone.cancelled() => None,
            () = self.clock.sleep(RETURN_WAIT) => None,
        }
    }
}

/// The tool.
#[derive(Debug)]
pub(crate) struct RemoteTool {
    remote: String,
    spec: ToolSpec,
    effect: Effect,
    access: Arc<Access>,
}

impl RemoteTool {
    pub(crate) fn new(entry: Entry, access: Arc<Access>) -> Self {
        let Entry { remote, spec, effect } = entry;
        Self { remote, spec, effect, access }
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        _workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments = Value::Object(input.clone()).to_string();
        let summary = format!("{} of {}: {arguments}", self.remote, self.access.server);
        let summary = cut(&summary, SUMMARY_CHARS_MAX);
        Ok(CallFacts { effect: self.effect, summary, paths: Vec::new(), command: None })
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        _facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let access = &self.access;
        let server = &access.server;
        let link = tokio::select! {
            link = access.link() => link,
            () = context.cancel.cancelled() => {
                return Ok(ToolOutcome::error("stopped by the user before it began"));
            }
        };
        let Some(link) = link else {
            let trouble = access.trouble();
            return Ok(ToolOutcome::error(format!(
                "the MCP server {server} is not connected ({trouble}): the call was not made; do \
                 without it or try again later"
            )));
        };
        Ok(match link.call(&self.remote, input, context).await {
            Ok(result) => outcome(&result, context).await,
            Err(error) => ToolOutcome::error(told(server, link.call_timeout, &error)),
        })
    }
}

/// Says to a model what went wrong and what it can do.
fn told(server: &str, limit: Duration, error: &CallError) -> String {
    match error {
        CallError::Stopped => "stopped by the user; the server was told".to_owned(),
        CallError::TimedOut => format!(
            "the MCP server {server} did not answer within {}: the call was cancelled, and whether \
             it took effect is unknown",
            stdx::duration(limit)
        ),
        CallError::Refused { code, message } => {
            format!("the MCP server {server} refused the call: {message} ({code})")
        }
        CallError::Unauthorized => format!(
            "the MCP server {server} wants to be authorized by a person first: the call was not \
             made; say so to the user"
        ),
        CallError::Lost(reason) => format!(
            "the connection to the MCP server {server} was lost during the call ({reason}): \
             whether it took effect is unknown; look before you call again"
        ),
        CallError::Failed(reason) => format!(
            "the call to the MCP server {server} failed on the way ({reason}): whether it took \
             effect is unknown; look before you call again"
        ),
        CallError::Odd(reason) => format!("the MCP server {server} gave no result: {reason}"),
    }
}
