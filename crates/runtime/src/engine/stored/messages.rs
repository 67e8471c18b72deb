//! The transcript for people, page by page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use driver_api::{LogRow, Store};
use protocol::{
    Block, EventBody, EventKind, Message, MessageId, Refusal, RefusalCode, Role, Seq, SessionId,
};
use runtime_api::{Error, MessagesAfter};

use super::{Reading, refused, result_id};
use crate::kernel::View;

/// How many messages one answer holds.
const MESSAGES_MAX: usize = 1_000;

/// Bytes after which a page ends: a thousand messages of talk fit, of a few images it is less than
/// what two prompts may have.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many rows a log has for each message, about: what a page is read by.
const ROWS_PER_MESSAGE: usize = 4;

/// Rows that are read before it is known how large they are, and while one is looked for.
const FEW_ROWS: usize = 64;

/// How many ends of pages are remembered: readers of a few dozen long transcripts at a time.
const CURSORS_MAX: usize = 128;

/// Which part of a log people see, and how far the log goes.
#[derive(Debug)]
pub(crate) struct LogView {
    pub(crate) view: View,
    pub(crate) last: Seq,
}

/// Reads which part of a stored log people see.
pub(crate) async fn view(store: &dyn Store, id: &SessionId) -> Result<LogView, Error> {
    let last = store.get(id).await.map_err(refused)?.last_seq;
    let state = crate::engine::opening::fold_now(store, id, last).await.map_err(refused)?;
    Ok(LogView { view: state.view, last })
}

/// Tells whether a row is a message for people.
pub(crate) fn is_message(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::PromptStarted
            | EventKind::AssistantMessage
            | EventKind::ToolResult
            | EventKind::ToolDenied
    )
}

/// Returns the messages for people from a position on, with their positions: prompts, answers, and
/// one message per result. What was rewound is left out. Then tells whether there are more.
pub(crate) async fn messages(
    store: &dyn Store,
    id: &SessionId,
    log: &LogView,
    (from, limit): (Seq, usize),
) -> Result<(Vec<(Seq, Message)>, bool), Error> {
    let limit = limit.clamp(1, MESSAGES_MAX);
    let mut messages = Vec::new();
    let rows_max = limit.saturating_mul(ROWS_PER_MESSAGE);
    let (mut bytes, mut read_bytes, mut read_rows) = (0, 0, 0);
    let mut reading = Reading::new(from, log.last).by(rows_max.min(FEW_ROWS));
    while let Some(page) = reading.page(store, id).await.map_err(refused)? {
        let shown = page.iter().filter(|row| is_message(row.kind) && !log.view.is_cut(row.seq));
        for row in shown {
            let Some(message) = message_of(row) else { continue };
            bytes += row.body.len();
            let is_full = bytes > PAGE_BYTES_MAX && !messages.is_empty();
            if is_full || messages.len() == limit {
                return Ok((messages, true));
            }
            messages.push((row.seq, message));
        }
        read_bytes += page.iter().map(|row| row.body.len()).sum::<usize>();
        read_rows += page.len();
        let each = read_bytes.checked_div(read_rows).unwrap_or_default().max(1);
        let room = PAGE_BYTES_MAX.saturating_sub(read_bytes) / each;
        reading = reading.by(room.min(rows_max).max(1));
    }
    Ok((messages, false))
}

fn message_of(row: &LogRow) -> Option<Message> {
    let (id, role, content) = match EventBody::decode(row.kind, &row.body).ok()? {
        EventBody::PromptStarted(started) => (started.message_id, Role::User, started.content),
        EventBody::AssistantMessage(said) => (said.message_id, Role::Assistant, said.content),
        EventBody::ToolResult(result) => {
            let (id, name) = (result.tool_call_id, result.tool_name);
            let (content, is_error) = (result.output, result.is_error);
            let block = Block::ToolResult { id, name, content, is_error };
            (result_id(row.seq), Role::Tool, vec![block])
        }
        EventBody::ToolDenied(denied) => {
            let content = vec![Block::text(denied.reason)];
            let (id, name, is_error) = (denied.tool_call_id, denied.tool_name, true);
            let block = Block::ToolResult { id, name, content, is_error };
            (result_id(row.seq), Role::Tool, vec![block])
        }
        _ => return None,
    };
    Some(Message { id, role, content, created_at: row.at })
}

/// Tells whether a row is the message of this id. Its text is searched before it is decoded: of
/// all rows of a log one has it.
fn is_this(row: &LogRow, id: &MessageId) -> bool {
    match row.kind {
        EventKind::ToolResult | EventKind::ToolDenied => result_id(row.seq) == *id,
        EventKind::PromptStarted | EventKind::AssistantMessage => {
            row.body.contains(id.as_str()) && message_of(row).is_some_and(|it| it.id == *id)
        }
        _ => false,
    }
}

/// Returns how many rows a copy has that ends with a message and all that belongs to it: the
/// results of its calls, and the end of a turn that it was the last word of.
pub(crate) fn end_of_message(rows: &[LogRow], id: &MessageId) -> Result<usize, Refusal> {
    let Some(at) = rows.iter().position(|row| is_this(row, id)) else {
        let message = format!("messageId: the session has no message {id}");
        return Err(Refusal::new(RefusalCode::Invalid, message));
    };
    let mut end = at + 1;
    for row in rows.get(end..).unwrap_or_default() {
        match row.kind {
            // What comes next, or goes back to what was before.
            EventKind::TurnStart
            | EventKind::PromptStarted
            | EventKind::Compacted
            | EventKind::CompactionUndone
            | EventKind::Rewound => break,
            EventKind::PromptFinished => return Ok(end + 1),
            _ => end += 1,
        }
    }
    Ok(end)
}

/// Where pages of transcripts ended, so that the next page need not be searched for.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<VecDeque<(SessionId, MessageId, Seq)>>);

impl Cursors {
    /// Remembers where a page ended.
    pub(crate) fn note(&self, session: &SessionId, page: &[(Seq, Message)]) {
        let Some((seq, message)) = page.last() else { return };
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.iter().any(|(of, id, _)| of == session && *id == message.id) {
            return;
        }
        if ends.len() >= CURSORS_MAX {
            ends.pop_front();
        }
        ends.push_back((session.clone(), message.id.clone(), *seq));
    }

    /// Returns the position from which a part of the transcript begins.
    ///
    /// # Errors
    /// `invalid` when the session has no such message.
    pub(crate) async fn after(
        &self,
        store: &dyn Store,
        (session, last): (&SessionId, Seq),
        after: MessagesAfter,
    ) -> Result<Seq, Error> {
        match after {
            MessagesAfter::Start => Ok(Seq(1)),
            MessagesAfter::Seq(seq) => Ok(seq.next()),
            MessagesAfter::Message(id) => match self.end(session, &id) {
                Some(seq) => Ok(seq.next()),
                None => Ok(find(store, session, last, &id).await?.next()),
            },
        }
    }

    fn end(&self, session: &SessionId, message: &MessageId) -> Option<Seq> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = ends.iter().find(|(of, id, _)| of == session && id == message);
        found.map(|(_, _, seq)| *seq)
    }
}

/// Finds a message in a log.
async fn find(
    store: &dyn Store,
    session: &SessionId,
    last: Seq,
    id: &MessageId,
) -> Result<Seq, Error> {
    let place = id.as_str().strip_prefix('r').and_then(|place| place.parse().ok());
    let mut reading = match place {
        // The id of a result is its place.
        Some(place) => Reading::new(Seq(place), Seq(place).min(last)).by(1),
        None => Reading::new(Seq(1), last).by(FEW_ROWS),
    };
    while let Some(page) = reading.page(store, session).await.map_err(refused)? {
        if let Some(row) = page.iter().find(|row| is_this(row, id)) {
            return Ok(row.seq);
        }
    }
    let message = format!("after: the session has no message {id}");
    Err(Refusal::new(RefusalCode::Invalid, message).into())
}
