//! The file form of a session: a header and its rows, with every body byte for byte.
//!
//! Lines: `{"type":"narthex_session","version":1,"session":{…}}`, then one line per row,
//! `{"seq":1,"frame":1,"ts":"…","kind":"session_start","body":{…}}`. The one-object form has the
//! header's fields and `events`, an array of the same rows.

use protocol::{EventKind, FrameId, Mode, Seq, SessionId, SessionSandbox, Timestamp, Usage};
use runtime_api::{ExportedSession, LogRow, SessionInfo};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use terminal::Failure;

const TYPE: &str = "narthex_session";
const VERSION: u32 = 1;

/// The facts of a session in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    id: SessionId,
    cwd: String,
    #[serde(default)]
    title: Option<String>,
    model: String,
    mode: Mode,
    #[serde(default)]
    state: String,
    #[serde(default)]
    prompts: u64,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    cost_usd: f64,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default)]
    last_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner_pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox: Option<SessionSandbox>,
    #[serde(default, skip_serializing_if = "is_none")]
    changes_waiting: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    session: Facts,
}

#[derive(Serialize, Deserialize)]
struct Row {
    seq: Seq,
    frame: FrameId,
    ts: Timestamp,
    kind: String,
    body: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct Whole {
    #[serde(flatten)]
    header: Header,
    events: Box<RawValue>,
}

/// Returns a session's facts as JSON.
pub(super) fn info_to_json(info: &SessionInfo) -> Value {
    // A struct of strings and numbers always has a JSON form.
    serde_json::to_value(facts(info)).unwrap_or_default()
}

fn facts(info: &SessionInfo) -> Facts {
    Facts {
        id: info.id.clone(),
        cwd: info.cwd.clone(),
        title: info.title.clone(),
        model: info.model.clone(),
        mode: info.mode,
        state: info.state.as_str().to_owned(),
        prompts: info.prompts,
        usage: info.usage,
        cost_usd: info.cost_usd,
        created_at: info.created_at,
        updated_at: info.updated_at,
        last_seq: info.last_seq,
        owner_pid: info.owner_pid,
        sandbox: info.sandbox,
        changes_waiting: info.changes_waiting,
    }
}

fn header(info: &SessionInfo) -> Header {
    Header { kind: TYPE.to_owned(), version: VERSION, session: facts(info) }
}

fn row(row: &LogRow) -> serde_json::Result<Row> {
    Ok(Row {
        seq: row.seq,
        frame: row.frame,
        ts: row.at,
        kind: row.kind.as_str().to_owned(),
        body: RawValue::from_string(row.body.clone())?,
    })
}

/// Writes a session as lines.
///
/// # Errors
/// When a row's body is no JSON, as in a damaged log.
pub(super) fn to_lines(session: &ExportedSession) -> Result<String, Failure> {
    let write = || {
        let mut text = serde_json::to_string(&header(&session.info))?;
        text.push('\n');
        for one in &session.rows {
            text.push_str(&serde_json::to_string(&row(one)?)?);
            text.push('\n');
        }
        Ok(text)
    };
    write().map_err(damaged)
}

/// Writes a session as one object.
///
/// # Errors
/// As [`to_lines`].
pub(super) fn to_object(session: &ExportedSession) -> Result<String, Failure> {
    let write = || {
        let rows = session.rows.iter().map(row).collect::<serde_json::Result<Vec<Row>>>()?;
        let events = RawValue::from_string(serde_json::to_string(&rows)?)?;
        let whole = Whole { header: header(&session.info), events };
        Ok(serde_json::to_string(&whole)? + "\n")
    };
    write().map_err(damaged)
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn damaged(error: serde_json::Error) -> Failure {
    Failure::failed(format!("export: the log is damaged: {error}"))
}

/// Reads either form.
///
/// # Errors
/// A sentence that names the line and what is wrong with it.
pub(super) fn from_text(text: &str) -> Result<ExportedSession, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, first)) = lines.next() else { return Err("the file is empty".to_owned()) };
    if let Ok(whole) = serde_json::from_str::<Whole>(text) {
        let info = read_header(whole.header)?;
        let rows: Vec<Row> =
            serde_json::from_str(whole.events.get()).map_err(|error| format!("events: {error}"))?;
        let rows = rows.into_iter().map(read_row).collect::<Result<_, _>>()?;
        return Ok(ExportedSession { info, rows });
    }
    let header = serde_json::from_str(first)
        .map_err(|error| format!("line 1 is no header of an exported session: {error}"))?;
    let info = read_header(header)?;
    let rows = lines
        .map(|(place, line)| {
            serde_json::from_str(line)
                .map_err(|error| error.to_string())
                .and_then(read_row)
                .map_err(|problem| format!("line {}: {problem}", place + 1))
        })
        .collect::<Result<_, _>>()?;
    Ok(ExportedSession { info, rows })
}

fn read_header(header: Header) -> Result<SessionInfo, String> {
    if header.kind != TYPE {
        return Err(format!("type is '{}', not '{TYPE}'", header.kind));
    }
    if header.version != VERSION {
        let version = header.version;
        return Err(format!("version {version} is unknown here; this program writes {VERSION}"));
    }
    let facts = header.session;
    Ok(SessionInfo {
        id: facts.id,
        cwd: facts.cwd,
        title: facts.title,
        model: facts.model,
        mode: facts.mode,
        state: runtime_api::SessionState::Idle,
        prompts: facts.prompts,
        usage: facts.usage,
        cost_usd: facts.cost_usd,
        created_at: facts.created_at,
        updated_at: facts.updated_at,
        last_seq: facts.last_seq,
        owner_pid: None,
        context_tokens: 0,
        context_window: None,
        is_open: false,
        queued: 0,
        pending: 0,
        last_frame: FrameId(0),
        // Its first event says where it acted.
        neuron: None,
        sandbox: None,
        changes_waiting: 0,
        steps: 0,
    })
}

#[allow(clippy::needless_pass_by_value, reason = "used with map and and_then")]
fn read_row(row: Row) -> Result<LogRow, String> {
    let kind = EventKind::from_wire(&row.kind)
        .ok_or_else(|| format!("unknown kind of event '{}'", row.kind))?;
    let body = row.body.get().to_owned();
    Ok(LogRow { seq: row.seq, frame: row.frame, at: row.ts, kind, body })
}

#[cfg(test)]
mod tests;
