//! Recorded events of a session as doors show them, from a position on.

use std::sync::Arc;

use driver_api::Store;
use protocol::{Event, EventBody, Seq, SessionId};
use runtime_api::{Error, Shown};

use super::{Reading, refused};
use crate::kernel::is_shown;

/// Events of one answer: some screens full, whoever wants more asks again.
const EVENTS_MAX: usize = 1_000;

/// Bytes of bodies after which an answer ends: results and prompts with images may be large.
const BYTES_MAX: usize = 8 << 20;

/// Rows that are read at a time: what is read and not wanted any more is little.
const ROWS: usize = 64;

/// Reads the recorded events that doors show after a position, at most `limit`. One that cannot be
/// read is passed over.
pub(crate) async fn recorded(
    store: &dyn Store,
    id: &SessionId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Arc<Shown>>, Error> {
    let last = store.get(id).await.map_err(refused)?.last_seq;
    let limit = limit.min(EVENTS_MAX);
    let (mut events, mut bytes) = (Vec::new(), 0);
    let mut reading = Reading::new(after.next(), last).by(ROWS.min(limit));
    while events.len() < limit && bytes < BYTES_MAX {
        let Some(page) = reading.page(store, id).await.map_err(refused)? else { break };
        for row in page.into_iter().filter(|row| is_shown(row.kind)) {
            if events.len() >= limit || bytes >= BYTES_MAX {
                break;
            }
            let Ok(body) = EventBody::decode(row.kind, &row.body) else { continue };
            bytes += row.body.len();
            let (session_id, seq) = (id.clone(), Some(row.seq));
            let event = Event { body, session_id, seq, frame: row.frame, ts: row.at };
            events.push(Arc::new(Shown::sized(event, row.body.len())));
        }
    }
    Ok(events)
}
