//! The tool calls of a turn, as an editor shows them.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    SessionUpdate, Terminal, TerminalId, ToolCall as Shown, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields,
};
use protocol::event::{Outcome, RequestResolved, ToolCall, ToolDenied, ToolProgress, ToolResult};
use protocol::{Effect, RequestId, ToolCallId};
use serde_json::Value;
use tokio::time::Instant;

use crate::call;

/// How much live output of a call is shown: what a panel of an editor holds. The result has all.
const LIVE_BYTES_MAX: usize = 16 * 1024;

/// How often live output is shown anew: each time the whole of it goes out.
const LIVE_EVERY: Duration = Duration::from_millis(250);

/// Terminals whose call was not seen yet: it comes within moments.
const UNPLACED_MAX: usize = 16;

/// The calls that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Call>,
    /// Terminals that were opened before their call was seen here, with their commands.
    unplaced: VecDeque<(Vec<String>, TerminalId)>,
    /// Which call a request is about.
    asked: Vec<(RequestId, ToolCallId)>,
}

#[derive(Debug)]
struct Call {
    id: ToolCallId,
    /// The command of a shell call.
    command: Option<String>,
    live: String,
    last_shown: Option<Instant>,
    terminal: Option<TerminalId>,
}

impl Calls {
    fn find(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        self.open.iter_mut().find(|call| call.id == *id)
    }

    /// A call waits for a person.
    pub(super) fn waits(&mut self, request: &RequestId, id: &ToolCallId) -> SessionUpdate {
        self.asked.push((request.clone(), id.clone()));
        update(id, ToolCallUpdateFields::new().status(ToolCallStatus::Pending))
    }

    /// A request was decided; a call that was allowed goes on.
    pub(super) fn decided(&mut self, resolved: &RequestResolved) -> Option<SessionUpdate> {
        let place = self.asked.iter().position(|(id, _)| *id == resolved.request_id)?;
        let (_, call) = self.asked.remove(place);
        matches!(resolved.outcome, Outcome::AllowOnce | Outcome::AllowAlways)
            .then(|| update(&call, ToolCallUpdateFields::new().status(ToolCallStatus::InProgress)))
    }

    /// A call begins.
    pub(super) fn begin(&mut self, called: &ToolCall, cwd: &Path) -> SessionUpdate {
        let ToolCall { tool_call_id, tool_name, input, target } = called;
        let command = input.get("command").and_then(Value::as_str).map(str::to_owned);
        let runs =
            |(argv, _): &(Vec<String>, _)| command.as_ref().is_some_and(|it| argv.contains(it));
        let placed = self.unplaced.iter().position(runs);
        let terminal = placed.and_then(|at| self.unplaced.remove(at)).map(|(_, id)| id);
        let content =
            terminal.iter().map(|id| ToolCallContent::Terminal(Terminal::new(id.clone())));
        let content: Vec<ToolCallContent> = content.collect();
        self.open.push(Call {
            id: tool_call_id.clone(),
            command,
            live: String::new(),
            last_shown: None,
            terminal,
        });
        let shown = Shown::new(tool_call_id.as_str().to_owned(), call::title(tool_name, target))
            .name(tool_name.clone())
            .kind(call::kind_of(tool_name, target.effect))
            .status(ToolCallStatus::InProgress)
            .content(content)
            .locations(call::locations(tool_name, target, input, cwd))
            .raw_input(Value::Object(input.clone()));
        SessionUpdate::ToolCall(shown)
    }

    /// Live output came.
    pub(super) fn progress(&mut self, progress: &ToolProgress) -> Option<SessionUpdate> {
        let call = self.find(&progress.tool_call_id)?;
        // The client shows its own terminal itself.
        if call.terminal.is_some() {
            return None;
        }
        call.live.push_str(&progress.text);
        if call.live.len() > LIVE_BYTES_MAX {
            let mut cut = call.live.len() - LIVE_BYTES_MAX;
            while !call.live.is_char_boundary(cut) {
                cut += 1;
            }
            call.live.drain(..cut);
        }
        let now = Instant::now();
        if call.last_shown.is_some_and(|last| now.duration_since(last) < LIVE_EVERY) {
            return None;
        }
        call.last_shown = Some(now);
        let fields =
            ToolCallUpdateFields::new().content(vec![call::words(call::fenced(&call.live))]);
        Some(update(&progress.tool_call_id, fields))
    }

    /// A call brought something.
    pub(super) fn end(&mut self, result: &ToolResult, cwd: &Path) -> Vec<SessionUpdate> {
        let status = match result.is_error {
            true => ToolCallStatus::Failed,
            false => ToolCallStatus::Completed,
        };
        let (places, content) =
            call::output(&result.tool_name, &result.output, result.display.as_ref(), cwd);
        let (mut updates, terminal) = self.take(&result.tool_call_id, &result.tool_name);
        let mut fields = ToolCallUpdateFields::new().status(status);
        if !places.is_empty() {
            fields = fields.locations(places);
        }
        fields = match terminal {
            Some(id) => fields.content(vec![ToolCallContent::Terminal(Terminal::new(id))]),
            None => fields.content(content),
        };
        updates.push(update(&result.tool_call_id, fields));
        updates
    }

    /// A call was not run.
    pub(super) fn denied(&mut self, denied: &ToolDenied) -> Vec<SessionUpdate> {
        let (mut updates, _) = self.take(&denied.tool_call_id, &denied.tool_name);
        let fields = ToolCallUpdateFields::new()
            .status(ToolCallStatus::Failed)
            .content(vec![call::words(denied.reason.clone())]);
        updates.push(update(&denied.tool_call_id, fields));
        updates
    }

    /// The turn is over: what has no end by now gets none.
    pub(super) fn close_all(&mut self) -> Vec<SessionUpdate> {
        let failed = || ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
        self.asked.clear();
        self.unplaced.clear();
        self.open.drain(..).map(|call| update(&call.id, failed())).collect()
    }

    /// Takes a call away; of one that never began (its arguments were wrong) says that it is there.
    fn take(&mut self, id: &ToolCallId, tool: &str) -> (Vec<SessionUpdate>, Option<TerminalId>) {
        match self.open.iter().position(|call| call.id == *id) {
            Some(place) => (Vec::new(), self.open.remove(place).terminal),
            None => {
                let shown = Shown::new(id.as_str().to_owned(), tool.to_owned())
                    .name(tool.to_owned())
                    .kind(call::kind_of(tool, Effect::Interact));
                (vec![SessionUpdate::ToolCall(shown)], None)
            }
        }
    }

    /// Shows a terminal of the client in the call whose command runs there, now or when that call
    /// is seen.
    pub(crate) fn runs_in(
        &mut self,
        argv: &[String],
        terminal: &TerminalId,
    ) -> Option<SessionUpdate> {
        let is_it = |call: &&mut Call| {
            let command = call.command.as_ref();
            call.terminal.is_none() && command.is_some_and(|command| argv.contains(command))
        };
        let Some(call) = self.open.iter_mut().find(is_it) else {
            if self.unplaced.len() < UNPLACED_MAX {
                self.unplaced.push_back((argv.to_vec(), terminal.clone()));
            }
            return None;
        };
        call.terminal = Some(terminal.clone());
        let content = vec![ToolCallContent::Terminal(Terminal::new(terminal.clone()))];
        Some(update(&call.id, ToolCallUpdateFields::new().content(content)))
    }
}

fn update(id: &ToolCallId, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.as_str().to_owned(), fields))
}
