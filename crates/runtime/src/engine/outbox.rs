//! Events on their way to the log: folded at once, durable together, shown afterwards.

use std::sync::Arc;

use driver_api::{LogRow, SessionHead, SessionState};
use protocol::{Event, EventBody, FrameId, Seq, SessionId, Timestamp};
use runtime_api::Shown;

use crate::kernel::State;

/// What was taken out: rows for the store, events for viewers, and the facts for lists where they
/// changed.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) rows: Vec<LogRow>,
    pub(crate) events: Vec<Arc<Shown>>,
    pub(crate) head: Option<SessionHead>,
}

/// Events that are folded but not yet durable.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Vec<(Seq, FrameId, Timestamp, EventBody)>,
    /// The facts for lists as the store has them.
    head: Option<SessionHead>,
}

impl Outbox {
    pub(crate) fn push(&mut self, seq: Seq, frame: FrameId, at: Timestamp, body: EventBody) {
        self.waiting.push((seq, frame, at, body));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes everything that waits.
    pub(crate) fn take(&mut self, session: &SessionId, state: &State) -> serde_json::Result<Taken> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rows = Vec::with_capacity(waiting.len());
        let mut events = Vec::with_capacity(waiting.len());
        for (seq, frame, at, body) in waiting {
            let json = body.encode()?;
            let (kind, bytes) = (body.kind(), json.len());
            rows.push(LogRow { seq, frame, at, kind, body: json });
            let session_id = session.clone();
            let event = Event { body, session_id, seq: Some(seq), frame, ts: at };
            events.push(Arc::new(Shown::sized(event, bytes)));
        }
        let head = head_of(state);
        let changed = (self.head.as_ref() != Some(&head)).then(|| head.clone());
        self.head = Some(head);
        Ok(Taken { rows, events, head: changed })
    }

    /// Says what the store has.
    pub(crate) fn knows(&mut self, head: SessionHead) {
        self.head = Some(head);
    }
}

/// Makes the facts for lists.
pub(crate) fn head_of(state: &State) -> SessionHead {
    let live = match &state.turn {
        // Prompts that wait were promised to run: whoever takes it up sees that from the list.
        None if !state.queue.is_empty() => SessionState::Running,
        None => SessionState::Idle,
        Some(_) if state.is_waiting() => SessionState::Waiting,
        Some(_) => SessionState::Running,
    };
    SessionHead {
        title: state.title.clone(),
        model: state.model.clone(),
        mode: state.mode,
        state: live,
        prompts: state.prompts,
        cost_usd: state.cost_usd,
    }
}
