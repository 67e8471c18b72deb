//! Stored sessions: lists, transcripts for people, copies. None of it needs a live session.

use driver_api::{ListFilter, LogRow, SessionHead, SessionRow, Store, StoreError};
use protocol::{
    EventBody, EventKind, Message, MessageId, Refusal, RefusalCode, Role, Seq, SessionId,
    Timestamp, Usage,
};
use runtime_api::{Error, ExportedSession, SessionFilter, SessionInfo};

use crate::kernel::{State, evolve};

/// How many rows are read at a time.
const PAGE: usize = 1_000;

/// How many messages one answer holds.
const MESSAGES_MAX: usize = 1_000;

/// Makes the outside form of a session's facts.
pub(crate) fn info(
    id: &SessionId,
    cwd: &str,
    head: SessionHead,
    created_at: Timestamp,
) -> SessionInfo {
    SessionInfo {
        id: id.clone(),
        cwd: cwd.to_owned(),
        title: head.title,
        model: head.model,
        mode: head.mode,
        state: head.state,
        prompts: head.prompts,
        usage: Usage::default(),
        cost_usd: head.cost_usd,
        created_at,
        updated_at: created_at,
        last_seq: 0,
        owner_pid: None,
    }
}

/// Makes the outside form of a row.
pub(crate) fn info_of(row: SessionRow) -> SessionInfo {
    SessionInfo {
        updated_at: row.updated_at,
        last_seq: row.last_seq.0,
        owner_pid: row.owner.map(|owner| owner.pid),
        ..info(&row.id, &row.cwd, row.head, row.created_at)
    }
}

/// Turns a store's no into the caller's.
pub(crate) fn refused(error: StoreError) -> Error {
    let (code, message) = match error {
        StoreError::NotFound(id) => (RefusalCode::SessionNotFound, format!("no session {id}")),
        StoreError::Exists(id) => (RefusalCode::Invalid, format!("session {id} exists already")),
        StoreError::OwnedElsewhere(owner) => {
            let message = format!("the session is in use by {owner}: stop it there, or wait");
            (RefusalCode::OwnedElsewhere, message)
        }
        StoreError::Stale(id) => {
            let message = format!("another process has taken session {id} over");
            (RefusalCode::OwnedElsewhere, message)
        }
        StoreError::Fault(fault) => return Error::Fault(fault),
    };
    Refusal::new(code, message).into()
}

/// Tells a caller of a store's failure that ends the session as well.
pub(crate) fn told(error: &StoreError) -> Error {
    match error {
        StoreError::Stale(id) => refused(StoreError::Stale(id.clone())),
        other => driver_api::Fault::new(format!("write the session's log: {other}")).into(),
    }
}

pub(crate) async fn list(
    store: &dyn Store,
    filter: SessionFilter,
) -> Result<Vec<SessionInfo>, Error> {
    let SessionFilter { cwd, before, limit } = filter;
    let rows = store.list(ListFilter { cwd, before, limit }).await.map_err(refused)?;
    Ok(rows.into_iter().map(info_of).collect())
}

/// Reads a log page by page, past rows that are damaged.
#[derive(Debug)]
pub(crate) struct Reading {
    from: Seq,
    last: Seq,
    lost: u64,
}

impl Reading {
    /// Reads from `from` to `last`, both included.
    pub(crate) fn new(from: Seq, last: Seq) -> Self {
        Self { from, last, lost: 0 }
    }

    /// Returns how many rows could not be read so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the next rows; none after the last. A page may be empty where a row was passed
    /// over.
    pub(crate) async fn page(
        &mut self,
        store: &dyn Store,
        id: &SessionId,
    ) -> Result<Option<Vec<LogRow>>, StoreError> {
        if self.from > self.last {
            return Ok(None);
        }
        let page = store.read(id, self.from, PAGE).await?;
        if let Some(row) = page.last() {
            self.from = row.seq.next();
        }
        if page.len() < PAGE && self.from <= self.last {
            // The store ends its answer before a damaged row; what is behind it can be read.
            self.lost += 1;
            self.from = self.from.next();
        }
        Ok(Some(page))
    }
}

/// Reads every row of a log.
///
/// A damaged log is refused: a copy with a hole would be a lie.
pub(crate) async fn rows(store: &dyn Store, id: &SessionId) -> Result<Vec<LogRow>, Error> {
    let last = store.get(id).await.map_err(refused)?.last_seq;
    let mut rows: Vec<LogRow> = Vec::new();
    let mut reading = Reading::new(Seq(1), last);
    while let Some(page) = reading.page(store, id).await.map_err(refused)? {
        rows.extend(page);
        if reading.lost() > 0 {
            let message = format!(
                "session: its log is damaged at event {}; a copy cannot be made",
                rows.len() + 1
            );
            return Err(Refusal::new(RefusalCode::Invalid, message).into());
        }
    }
    Ok(rows)
}

/// Returns the transcript for people: prompts, answers, and one message per result.
pub(crate) async fn messages(
    store: &dyn Store,
    id: &SessionId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Message>, Error> {
    let limit = limit.clamp(1, MESSAGES_MAX);
    let mut messages = Vec::new();
    let last = store.get(id).await.map_err(refused)?.last_seq;
    let mut reading = Reading::new(after.next(), last);
    while let Some(page) = reading.page(store, id).await.map_err(refused)? {
        for row in &page {
            messages.extend(message_of(row));
            if messages.len() == limit {
                return Ok(messages);
            }
        }
    }
    Ok(messages)
}

fn message_of(row: &LogRow) -> Option<Message> {
    let is_message = matches!(
        row.kind,
        EventKind::PromptStarted
            | EventKind::AssistantMessage
            | EventKind::ToolResult
            | EventKind::ToolDenied
    );
    if !is_message {
        return None;
    }
    let (id, role, content) = match EventBody::decode(row.kind, &row.body).ok()? {
        EventBody::PromptStarted(started) => (started.message_id, Role::User, started.content),
        EventBody::AssistantMessage(said) => (said.message_id, Role::Assistant, said.content),
        EventBody::ToolResult(result) => {
            let (id, name) = (result.tool_call_id, result.tool_name);
            let (content, is_error) = (result.output, result.is_error);
            let block = protocol::Block::ToolResult { id, name, content, is_error };
            (result_id(row), Role::Tool, vec![block])
        }
        EventBody::ToolDenied(denied) => {
            let content = vec![protocol::Block::text(denied.reason)];
            let (id, name, is_error) = (denied.tool_call_id, denied.tool_name, true);
            let block = protocol::Block::ToolResult { id, name, content, is_error };
            (result_id(row), Role::Tool, vec![block])
        }
        _ => return None,
    };
    Some(Message { id, role, content, created_at: row.at })
}

fn result_id(row: &LogRow) -> MessageId {
    MessageId::new(format!("r{}", row.seq.0))
}

/// Folds a log; says where it does not fold.
pub(crate) fn fold(rows: &[LogRow]) -> Result<State, Refusal> {
    let mut state = State::default();
    for row in rows {
        if row.seq != state.seq.next() {
            let message = format!("log: position {} follows {}", row.seq.0, state.seq.0);
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let body = EventBody::decode(row.kind, &row.body).map_err(|error| {
            let message = format!("log: event {} is no {}: {error}", row.seq.0, row.kind.as_str());
            Refusal::new(RefusalCode::Invalid, message)
        })?;
        if row.seq == Seq(1) && !matches!(body, EventBody::SessionStart(_)) {
            let message = "log: the first event must be session_start";
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        evolve(&mut state, row.seq, row.at, &body);
    }
    Ok(state)
}

pub(crate) async fn export(store: &dyn Store, id: &SessionId) -> Result<ExportedSession, Error> {
    let info = info_of(store.get(id).await.map_err(refused)?);
    Ok(ExportedSession { info, rows: rows(store, id).await? })
}
