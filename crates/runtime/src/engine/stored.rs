//! Stored sessions: lists, transcripts for people, copies. None of it needs a live session.

mod messages;
mod recorded;

use driver_api::{ListFilter, LogRow, SessionHead, SessionRow, Store, StoreError};
use protocol::{
    EventBody, EventKind, FrameId, MessageId, Refusal, RefusalCode, Seq, SessionId, Timestamp,
    Usage,
};
use runtime_api::{
    Error, ExportedSession, Pending, PointInfo, SessionFilter, SessionInfo, SessionUsage, Spent,
};

pub(crate) use messages::{Cursors, LogView, end_of_message, is_message, messages, view};
pub(crate) use recorded::recorded;

use crate::kernel::{State, Transcript, evolve};

/// How many rows are read at a time.
const PAGE: usize = 1_000;

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
        context_tokens: 0,
        context_window: None,
        is_open: false,
        queued: 0,
        pending: 0,
        last_frame: FrameId(0),
        neuron: None,
        sandbox: None,
        changes_waiting: 0,
        steps: 0,
    }
}

/// Returns the other living process that owns a session. What this one owns is being opened or
/// closed here, or was lost: nobody need go elsewhere for it.
fn other_pid(store: &dyn Store, row: &SessionRow) -> Option<u32> {
    row.owner.as_ref().filter(|owner| !store.is_mine(owner)).map(|owner| owner.pid)
}

/// Makes the outside form of a row.
pub(crate) fn info_of(store: &dyn Store, row: SessionRow) -> SessionInfo {
    SessionInfo {
        updated_at: row.updated_at,
        last_seq: row.last_seq.0,
        owner_pid: other_pid(store, &row),
        ..info(&row.id, &row.cwd, row.head, row.created_at)
    }
}

/// Returns the facts of a session that is not open here: those of lists, and what its log folds to.
pub(crate) async fn whole_info(store: &dyn Store, id: &SessionId) -> Result<SessionInfo, Error> {
    let row = store.get(id).await.map_err(refused)?;
    let last = row.last_seq;
    let newest = store.read(id, last, 1).await.map_err(refused)?.pop();
    let mut info = info_of(store, row);
    info.last_frame = newest.map(|row| row.frame).unwrap_or_default();
    let state = super::opening::fold_now(store, id, last).await.map_err(refused)?;
    info.queued = count(state.queue.len());
    info.pending = count(state.waits().count());
    info.steps = state.steps;
    info.usage = state.usage;
    info.context_tokens = state.tokens();
    info.neuron = state.neuron;
    info.sandbox = state.sandbox;
    Ok(info)
}

/// Counts in the form that people are shown.
pub(crate) fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
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
    let rows =
        store.list(ListFilter { cwd, before, limit, is_busy: false }).await.map_err(refused)?;
    Ok(rows.into_iter().map(|row| info_of(store, row)).collect())
}

/// Reads a log page by page, past rows that are damaged.
#[derive(Debug)]
pub(crate) struct Reading {
    from: Seq,
    last: Seq,
    lost: u64,
    /// How many rows a page has.
    rows: usize,
}

impl Reading {
    /// Reads from `from` to `last`, both included.
    pub(crate) fn new(from: Seq, last: Seq) -> Self {
        Self { from, last, lost: 0, rows: PAGE }
    }

    /// Reads so many rows at a time, where few are needed.
    pub(crate) fn by(self, rows: usize) -> Self {
        Self { rows: rows.clamp(1, PAGE), ..self }
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
        let page = store.read(id, self.from, self.rows).await?;
        if let Some(row) = page.last() {
            self.from = row.seq.next();
        }
        if page.len() < self.rows && self.from <= self.last {
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

/// Reads what the model reads of a log, and counts the events that are lost.
pub(crate) async fn transcript(
    store: &dyn Store,
    id: &SessionId,
    state: &State,
) -> Result<(Transcript, u64), StoreError> {
    let mut transcript = Transcript::default();
    let mut take = |shown| match shown {
        Shown::Summary(at, id, text) => transcript.summary(at, id, text),
        Shown::Event(_, at, body) => transcript.push(at, &body),
    };
    let lost = each_shown(store, id, state, &mut take).await?;
    Ok((transcript, lost))
}

/// Reads what the model reads of a log, with where it stands.
pub(crate) async fn shown(
    store: &dyn Store,
    id: &SessionId,
    state: &State,
) -> Result<Vec<Shown>, StoreError> {
    let mut all = Vec::new();
    each_shown(store, id, state, &mut |shown| all.push(shown)).await?;
    Ok(all)
}

/// A piece of what the model reads of a log.
#[derive(Debug)]
pub(crate) enum Shown {
    /// The summary that stands in place of older messages.
    Summary(Timestamp, MessageId, String),
    /// A recorded event.
    Event(Seq, Timestamp, Box<EventBody>),
}

/// Hands over what the model reads of a log, in order; returns how many events are lost.
async fn each_shown(
    store: &dyn Store,
    id: &SessionId,
    state: &State,
    take: &mut (dyn FnMut(Shown) + Send),
) -> Result<u64, StoreError> {
    let mut lost = 0;
    let mut reading = Reading::new(Seq(1), state.seq);
    let compaction = state.view.compaction();
    let summary = match compaction {
        Some(compaction) => store.read(id, compaction.at, 1).await?.pop(),
        None => None,
    };
    let mut is_summary_due = compaction.is_some();
    while let Some(page) = reading.page(store, id).await? {
        for row in page.iter().filter(|row| Transcript::needs(row.kind)) {
            let is_context = row.kind == EventKind::ContextSet;
            if !is_context && is_summary_due && state.view.shows(row.seq) {
                is_summary_due = false;
                lost += u64::from(!take_summary(take, summary.as_ref()));
            }
            if !is_context && !state.view.shows(row.seq) {
                continue;
            }
            match EventBody::decode(row.kind, &row.body) {
                Ok(body) => take(Shown::Event(row.seq, row.at, Box::new(body))),
                Err(_) => lost += 1,
            }
        }
    }
    if is_summary_due {
        lost += u64::from(!take_summary(take, summary.as_ref()));
    }
    Ok(lost + reading.lost())
}

/// Hands over the summary of a compaction; false when it cannot be read.
fn take_summary(take: &mut (dyn FnMut(Shown) + Send), row: Option<&LogRow>) -> bool {
    let Some(row) = row else { return false };
    let Ok(EventBody::Compacted(compacted)) = EventBody::decode(row.kind, &row.body) else {
        return false;
    };
    take(Shown::Summary(row.at, result_id(row.seq), compacted.summary));
    true
}

/// Returns what the model calls of a stored session used.
pub(crate) async fn usage(store: &dyn Store, id: &SessionId) -> Result<SessionUsage, Error> {
    let last = store.get(id).await.map_err(refused)?.last_seq;
    Ok(usage_of(&super::opening::fold_now(store, id, last).await.map_err(refused)?))
}

/// Returns what a session's model calls used. A copy of a session has used what its log tells of.
pub(crate) fn usage_of(state: &State) -> SessionUsage {
    // From a zero without a sign: the sum of nothing is -0.0.
    let cost = state.used.iter().try_fold(0.0, |sum, used| Some(sum + used.cost_usd?));
    SessionUsage {
        usage: state.usage,
        cost_usd: cost,
        steps: state.steps,
        prompts: state.prompts,
        by_model: state
            .used
            .iter()
            .map(|used| (used.model.clone(), used.usage, used.cost_usd))
            .collect(),
    }
}

/// Names the message that a result is.
fn result_id(at: Seq) -> MessageId {
    MessageId::new(format!("r{}", at.0))
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
    let info = info_of(store, store.get(id).await.map_err(refused)?);
    Ok(ExportedSession { info, rows: rows(store, id).await? })
}

/// Returns the id of a request.
pub(crate) fn request_id(body: &EventBody) -> Option<&protocol::RequestId> {
    match body {
        EventBody::PermissionRequest(request) => Some(&request.request_id),
        EventBody::QuestionRequest(request) => Some(&request.request_id),
        EventBody::PlanRequest(request) => Some(&request.request_id),
        _ => None,
    }
}

/// Lists the interactions of a session that wait, read from its log.
pub(crate) async fn pending(store: &dyn Store, row: &SessionRow) -> Result<Vec<Pending>, Error> {
    let state = super::opening::fold_now(store, &row.id, row.last_seq).await.map_err(refused)?;
    let mut pending = Vec::new();
    for wait in state.waits() {
        let Some(found) = store.read(&row.id, wait.seq, 1).await.map_err(refused)?.pop() else {
            continue;
        };
        let Ok(request) = EventBody::decode(found.kind, &found.body) else { continue };
        pending.push(Pending {
            session: row.id.clone(),
            cwd: row.cwd.clone(),
            title: row.head.title.clone(),
            since: found.at,
            owner_pid: other_pid(store, row),
            request,
        });
    }
    Ok(pending)
}

/// Lists the interactions of all sessions that wait, oldest first.
pub(crate) async fn all_pending(store: &dyn Store) -> Result<Vec<Pending>, Error> {
    let mut pending = Vec::new();
    let mut before = None;
    loop {
        let filter = ListFilter { before, limit: PAGE, is_busy: true, ..ListFilter::default() };
        let rows = store.list(filter).await.map_err(refused)?;
        let is_last = rows.len() < PAGE;
        before = rows.last().map(|row| (row.updated_at, row.id.clone()));
        for row in rows.iter().filter(|row| row.head.state == driver_api::SessionState::Waiting) {
            pending.extend(self::pending(store, row).await?);
        }
        if is_last {
            pending.sort_by_key(|it| it.since);
            return Ok(pending);
        }
    }
}

/// Lists the points that a session can go back to.
pub(crate) async fn points(store: &dyn Store, id: &SessionId) -> Result<Vec<PointInfo>, Error> {
    let last = store.get(id).await.map_err(refused)?.last_seq;
    let state = super::opening::fold_now(store, id, last).await.map_err(refused)?;
    let mut points = Vec::with_capacity(state.points.len());
    for point in &state.points {
        let row = store.read(id, point.seq, 1).await.map_err(refused)?.pop();
        let body = row.and_then(|row| EventBody::decode(row.kind, &row.body).ok());
        let label = match body {
            Some(EventBody::PromptStarted(started)) => {
                crate::kernel::title_of(&started.content).unwrap_or_default()
            }
            _ => String::new(),
        };
        let changes = point.changes.as_ref();
        points.push(PointInfo {
            id: point.id.clone(),
            seq: point.seq,
            created_at: point.at,
            message_id: point.message_id.clone(),
            label,
            files: changes.map_or(0, |changes| changes.paths),
            has_files: changes.is_some(),
            is_undone: changes.is_some_and(|changes| changes.is_undone),
            is_cut: point.is_cut,
        });
    }
    Ok(points)
}

/// Reads the usage rows of all sessions since an instant, oldest first.
pub(crate) async fn usage_rows(
    store: &dyn Store,
    since: Timestamp,
) -> Result<Vec<(SessionId, LogRow)>, StoreError> {
    let mut all: Vec<(SessionId, LogRow)> = Vec::new();
    let mut from = since;
    let mut read: std::collections::HashSet<(SessionId, Seq)> = std::collections::HashSet::new();
    loop {
        // Rows of the same instant come again: ask for as many more.
        let limit = PAGE + read.len();
        let rows = store.rows_of(EventKind::Usage, from, limit).await?;
        let is_last = rows.len() < limit;
        for (session, row) in rows {
            if row.at > from {
                from = row.at;
                read.clear();
            }
            if read.insert((session.clone(), row.seq)) {
                all.push((session, row));
            }
        }
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns what model calls of all sessions used since an instant.
pub(crate) async fn spent(store: &dyn Store, since: Timestamp) -> Result<Vec<Spent>, Error> {
    let rows = usage_rows(store, since).await.map_err(refused)?;
    let spent = rows.into_iter().filter_map(|(session, row)| {
        let Ok(EventBody::Usage(used)) = EventBody::decode(row.kind, &row.body) else {
            return None;
        };
        let (usage, cost_usd, model) = (used.usage, used.cost_usd, used.model);
        Some(Spent { session, at: row.at, model, usage, cost_usd })
    });
    Ok(spent.collect())
}
