//! What was said in a session, from the rows of its log: all of it, however long it is.

use protocol::{Block, EventBody, EventKind, Message, MessageId, Role, Seq, Usage};
use runtime_api::LogRow;
use serde::Serialize;

use terminal::Failure;

/// A message with the number of its event.
#[derive(Serialize)]
pub(super) struct Said {
    pub(super) seq: Seq,
    /// Somebody went back to before it: the model reads it no more.
    #[serde(rename = "isRewound", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_rewound: bool,
    #[serde(flatten)]
    pub(super) message: Message,
}

/// Adds up what the model calls used. A row that cannot be read adds nothing: whoever shows or
/// writes the rows tells of it.
pub(super) fn usage(rows: &[LogRow]) -> Usage {
    let mut sum = Usage::default();
    for row in rows.iter().filter(|row| row.kind == EventKind::Usage) {
        if let Ok(EventBody::Usage(used)) = EventBody::decode(row.kind, &row.body) {
            sum += used.usage;
        }
    }
    sum
}

/// Returns prompts, answers, and one message per result of a tool, in order.
///
/// # Errors
/// When a row that holds one cannot be read, as in a damaged log.
pub(super) fn messages(rows: &[LogRow]) -> Result<Vec<Said>, Failure> {
    let cuts = cuts(rows)?;
    let is_rewound = |seq: Seq| cuts.iter().any(|(from, to)| (*from..=*to).contains(&seq));
    let found = rows.iter().filter(|row| is_message(row.kind));
    found.map(|row| message(row, is_rewound(row.seq))).collect()
}

/// Returns the parts of the log that somebody went back over, from and to, both included.
fn cuts(rows: &[LogRow]) -> Result<Vec<(Seq, Seq)>, Failure> {
    let mut cuts = Vec::new();
    for row in rows.iter().filter(|row| row.kind == EventKind::Rewound) {
        if let EventBody::Rewound(rewound) = decoded(row)?
            && let Some(from) = rewound.from
        {
            cuts.push((from, row.seq));
        }
    }
    Ok(cuts)
}

fn is_message(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::PromptStarted
            | EventKind::AssistantMessage
            | EventKind::ToolResult
            | EventKind::ToolDenied
    )
}

fn damaged(row: &LogRow, problem: &str) -> Failure {
    Failure::failed(format!("the log is damaged at event {}: {problem}", row.seq.0))
}

fn decoded(row: &LogRow) -> Result<EventBody, Failure> {
    EventBody::decode(row.kind, &row.body).map_err(|error| damaged(row, &error.to_string()))
}

fn message(row: &LogRow, is_rewound: bool) -> Result<Said, Failure> {
    let (id, role, content) = match decoded(row)? {
        EventBody::PromptStarted(started) => (started.message_id, Role::User, started.content),
        EventBody::AssistantMessage(said) => (said.message_id, Role::Assistant, said.content),
        EventBody::ToolResult(result) => {
            let block = Block::ToolResult {
                id: result.tool_call_id,
                name: result.tool_name,
                content: result.output,
                is_error: result.is_error,
            };
            (result_id(row), Role::Tool, vec![block])
        }
        EventBody::ToolDenied(denied) => {
            let block = Block::ToolResult {
                id: denied.tool_call_id,
                name: denied.tool_name,
                content: vec![Block::text(denied.reason)],
                is_error: true,
            };
            (result_id(row), Role::Tool, vec![block])
        }
        other => return Err(damaged(row, &format!("unexpected {}", other.kind().as_str()))),
    };
    let message = Message { id, role, content, created_at: row.at };
    Ok(Said { seq: row.seq, is_rewound, message })
}

/// A result has no id of its own: its place in the log is one, as in the transcripts of the
/// runtime.
fn result_id(row: &LogRow) -> MessageId {
    MessageId::new(format!("r{}", row.seq.0))
}
