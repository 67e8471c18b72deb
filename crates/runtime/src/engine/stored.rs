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

pub(crate) async fn list(
    store: &dyn Store,
    filter: SessionFilter,
) -> Result<Vec<SessionInfo>, Error> {
    let SessionFilter { cwd, before, limit } = filter;
    let rows = store.list(ListFilter { cwd, before, limit }).await.map_err(refused)?;
    Ok(rows.into_iter().map(info_of).collect())
}

/// Reads every row of a log, or as far as it is sound.
pub(crate) async fn rows(store: &dyn Store, id: &SessionId) -> Result<Vec<LogRow>, Error> {
    let mut rows: Vec<LogRow> = Vec::new();
    loop {
        let from = rows.last().map_or(Seq(1), |row| row.seq.next());
        let page = store.read(id, from, PAGE).await.map_err(refused)?;
        let is_last = page.len() < PAGE;
        rows.extend(page);
        if is_last {
            return Ok(rows);
        }
    }
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
    let mut from = after.next();
    loop {
        let page = store.read(id, from, PAGE).await.map_err(refused)?;
        for row in &page {
            messages.extend(message_of(row));
            if messages.len() == limit {
                return Ok(messages);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => from = last.seq.next(),
            _ => return Ok(messages),
        }
    }
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
