//! Answers from a process that does not own the session: left as letters in the store.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Clock, Letter, Store};
use protocol::event::Answer;
use protocol::{EventBody, EventKind, Refusal, RefusalCode, RequestId, Seq, SessionId, Timestamp};
use runtime_api::Error;
use serde::{Deserialize, Serialize};

use super::stored::refused;

/// How long the owner has to take an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// How often the writer looks whether it was taken.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many rows are looked at in one go.
const ROWS: usize = 200;

/// What a letter says.
#[derive(Debug, Serialize, Deserialize)]
struct Words {
    request: RequestId,
    answer: Answer,
    /// Later it is not obeyed any more: its writer has been told that it was not taken.
    until: Timestamp,
}

/// Reads a letter; none when it is too late or makes no sense.
pub(super) fn read(body: &str, now: Timestamp) -> Option<(RequestId, Answer)> {
    let words: Words = serde_json::from_str(body).ok()?;
    (words.until.0 >= now.0).then_some((words.request, words.answer))
}

/// Leaves an answer for the owner of a session and waits until it was taken.
pub(super) async fn send(
    store: &dyn Store,
    clock: &Arc<dyn Clock>,
    session: &SessionId,
    (id, request, answer): (String, &RequestId, Answer),
) -> Result<(), Error> {
    let row = store.get(session).await.map_err(refused)?;
    let until = clock.now().plus_ms(i64::try_from(TAKEN_WITHIN.as_millis()).unwrap_or(0));
    let words = Words { request: request.clone(), answer, until };
    let body = serde_json::to_string(&words)
        .map_err(|error| driver_api::Fault::with("encode an answer", error))?;
    store.post(session, Letter { id, body }).await.map_err(refused)?;
    let mut from = row.last_seq.next();
    while clock.now().0 < until.0 {
        if is_resolved(store, session, request, &mut from).await? {
            return Ok(());
        }
        clock.sleep(LOOK_EVERY).await;
    }
    // It may have been taken in the last moment.
    if is_resolved(store, session, request, &mut from).await? {
        return Ok(());
    }
    let message = format!(
        "the process that runs the session ({}) did not take the answer within {}",
        row.owner.map_or_else(|| "none".to_owned(), |owner| owner.to_string()),
        stdx::duration(TAKEN_WITHIN)
    );
    Err(Refusal::new(RefusalCode::OwnedElsewhere, message).into())
}

async fn is_resolved(
    store: &dyn Store,
    session: &SessionId,
    request: &RequestId,
    from: &mut Seq,
) -> Result<bool, Error> {
    let rows = store.read(session, *from, ROWS).await.map_err(refused)?;
    if let Some(last) = rows.last() {
        *from = last.seq.next();
    }
    let resolved = rows.iter().filter(|row| row.kind == EventKind::RequestResolved);
    Ok(resolved
        .filter_map(|row| EventBody::decode(row.kind, &row.body).ok())
        .any(|body| matches!(body, EventBody::RequestResolved(it) if it.request_id == *request)))
}
