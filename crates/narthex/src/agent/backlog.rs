//! What a reader has not read yet.

use std::collections::VecDeque;

use protocol::{Event, EventBody};

/// How many events a reader may be behind before the session waits for it. Live text that nobody
/// has read is joined, so that these are whole messages and calls.
const BACKLOG_MAX: usize = 256;

/// Most bytes of joined live text in one event: the size of a large answer.
const JOINED_BYTES_MAX: usize = 64 * 1024;

/// Events that wait for their reader.
#[derive(Debug, Default)]
pub(super) struct Backlog(VecDeque<Event>);

impl Backlog {
    /// Adds an event. Live text is joined with that before it.
    pub(super) fn push(&mut self, event: Event) {
        if let Some(last) = self.0.back_mut()
            && join(&mut last.body, &event.body)
        {
            // The position is that of the newest piece.
            last.frame = event.frame;
            return;
        }
        self.0.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= BACKLOG_MAX
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn join(last: &mut EventBody, next: &EventBody) -> bool {
    let (text, more) = match (last, next) {
        (EventBody::TextDelta(last), EventBody::TextDelta(next)) => (&mut last.text, &next.text),
        (EventBody::ThinkingDelta(last), EventBody::ThinkingDelta(next)) => {
            (&mut last.text, &next.text)
        }
        (EventBody::ToolProgress(last), EventBody::ToolProgress(next))
            if last.tool_call_id == next.tool_call_id && last.stream == next.stream =>
        {
            (&mut last.text, &next.text)
        }
        _ => return false,
    };
    let fits = text.len() + more.len() <= JOINED_BYTES_MAX;
    if fits {
        text.push_str(more);
    }
    fits
}

#[cfg(test)]
mod tests {
    use protocol::event::TextDelta;
    use protocol::{FrameId, SessionId, Timestamp};

    use super::*;

    fn delta(text: &str, frame: u64) -> Event {
        Event {
            body: TextDelta { text: text.to_owned() }.into(),
            session_id: SessionId::new("s"),
            seq: None,
            frame: FrameId(frame),
            ts: Timestamp(0),
        }
    }

    #[test]
    fn unread_text_is_joined_and_none_of_it_lost() {
        let mut backlog = Backlog::default();
        for frame in 1..=1_000 {
            backlog.push(delta(&"x".repeat(1_000), frame));
        }
        assert!(!backlog.is_full());
        let (mut bytes, mut last) = (0, 0);
        while let Some(event) = backlog.pop() {
            let EventBody::TextDelta(delta) = event.body else { panic!("only text was pushed") };
            assert!(delta.text.len() <= JOINED_BYTES_MAX);
            assert!(event.frame.0 > last, "in order");
            (bytes, last) = (bytes + delta.text.len(), event.frame.0);
        }
        assert_eq!((bytes, last), (1_000_000, 1_000));
    }
}
