//! `json`: one object at the end.

use std::io;

use crate::Console;
use protocol::event::{DeniedBy, TurnResult};
use protocol::{Event, EventBody, SessionId, ToolCallId};
use serde::Serialize;

use crate::exit::Exit;

/// Collects what the object tells beside the result.
#[derive(Debug, Default)]
pub struct JsonForm {
    denials: Vec<Denial>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Denial {
    tool_call_id: ToolCallId,
    tool_name: String,
    by: DeniedBy,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    session_id: &'a SessionId,
    #[serde(flatten)]
    result: &'a TurnResult,
    exit_code: u8,
    denials: &'a [Denial],
}

impl JsonForm {
    pub(super) fn begin(&mut self) {
        self.denials.clear();
    }

    pub(super) fn event(&mut self, event: &Event, console: &mut Console) -> io::Result<()> {
        if let EventBody::ToolDenied(denied) = &event.body {
            self.denials.push(Denial {
                tool_call_id: denied.tool_call_id.clone(),
                tool_name: denied.tool_name.clone(),
                by: denied.by,
                reason: denied.reason.clone(),
            });
        }
        let EventBody::Done(done) = &event.body else { return Ok(()) };
        let report = Report {
            session_id: &event.session_id,
            result: &done.result,
            exit_code: Exit::of_turn(&done.result).code(),
            denials: &self.denials,
        };
        let json = serde_json::to_string(&report).map_err(io::Error::other)?;
        console.json(&json)
    }
}
