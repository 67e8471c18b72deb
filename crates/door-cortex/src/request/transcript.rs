//! The transcript of a session, as its record tells it.

use std::collections::VecDeque;

use protocol::{Block, Event, EventBody, Seq, SessionId};
use runtime_api::Handle;
use serde_json::Value;

use crate::error::{Refused, refused};
use crate::frame::run_id;
use crate::projection::text_of;
use crate::wire::{Entry, Piece};

/// Events that are read at a time.
const PAGE: usize = 1_000;

/// Bytes of text in one answer; older entries are left out where there are more. A thousand
/// entries of talk fit many times.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Returns the newest entries, the oldest of them first.
///
/// # Errors
/// As reading the record.
pub(super) async fn newest(
    handle: &Handle,
    id: &SessionId,
    count: usize,
) -> Result<Vec<Entry>, Refused> {
    let mut reader = Reader { count, ..Reader::default() };
    let mut at = Seq(0);
    loop {
        let page = handle.recorded(id, at, PAGE).await.map_err(refused)?;
        let Some(last) = page.last().and_then(|event| event.seq) else { break };
        at = last;
        page.iter().for_each(|event| reader.read(event));
    }
    Ok(reader.entries.into_iter().map(|(entry, _)| entry).collect())
}

/// Reads a record from its begin and keeps the end.
#[derive(Debug, Default)]
struct Reader {
    count: usize,
    run: String,
    turn: Option<u32>,
    /// With the bytes that each has.
    entries: VecDeque<(Entry, usize)>,
    bytes: usize,
}

impl Reader {
    fn read(&mut self, event: &Event) {
        match &event.body {
            EventBody::PromptStarted(started) => {
                (self.run, self.turn) = (run_id(&started.prompt_id), None);
                self.say(event, "user", pieces(&started.content));
            }
            EventBody::TurnStart(start) => self.turn = Some(start.turn),
            EventBody::AssistantMessage(message) => {
                self.say(event, "assistant", pieces(&message.content));
            }
            EventBody::ToolResult(result) => {
                let piece = Piece::ToolResult {
                    tool_call_id: result.tool_call_id.to_string(),
                    output: text_of(&result.output, usize::MAX),
                    is_error: result.is_error,
                };
                self.say(event, "tool", vec![piece]);
            }
            EventBody::ToolDenied(denied) => {
                let piece = Piece::ToolResult {
                    tool_call_id: denied.tool_call_id.to_string(),
                    output: denied.reason.clone(),
                    is_error: true,
                };
                self.say(event, "tool", vec![piece]);
            }
            _ => {}
        }
    }

    fn say(&mut self, event: &Event, role: &'static str, content: Vec<Piece>) {
        let bytes = content.iter().map(size).sum();
        let entry = Entry {
            role,
            content,
            created_at: event.ts,
            run_id: self.run.clone(),
            turn_number: self.turn,
        };
        self.entries.push_back((entry, bytes));
        self.bytes += bytes;
        while self.entries.len() > self.count || (self.bytes > BYTES_MAX && self.entries.len() > 1)
        {
            let Some((_, bytes)) = self.entries.pop_front() else { break };
            self.bytes -= bytes;
        }
    }
}

fn pieces(blocks: &[Block]) -> Vec<Piece> {
    blocks.iter().filter_map(Piece::of).collect()
}

/// Returns about how many bytes a piece has.
fn size(piece: &Piece) -> usize {
    match piece {
        Piece::Text { text } | Piece::Thinking { text } => text.len(),
        Piece::ToolCall { tool_input, .. } => size_of(tool_input),
        Piece::ToolResult { output, .. } => output.len(),
        Piece::Image { .. } => 0,
    }
}

fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(fields) => fields.iter().map(|(key, it)| key.len() + size_of(it)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
