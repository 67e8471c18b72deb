//! Events as a server sends them.

use outbound::sse;
use protocol::event::{Answer, InteractionKind};
use protocol::{EventBody, RequestId, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// An event of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RemoteEvent {
    /// Its position in the session's stream; none where it is no place to go on from.
    pub id: Option<u64>,
    /// When it happened, where the server says so.
    pub ts: Option<Timestamp>,
    /// What happened.
    pub body: ServerEvent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// An event of the one schema.
    Known(Box<EventBody>),
    /// Events were left out here, because the server keeps them no longer for streams; the
    /// messages of the session have what they said.
    ReplayGap {
        /// The first position that was left out, where the server says so.
        from: Option<u64>,
        /// The last one.
        to: Option<u64>,
        /// How many recorded events.
        dropped: Option<u64>,
    },
    /// An event that this version does not know.
    Other {
        /// Its type.
        kind: String,
        /// The whole of it.
        raw: Value,
    },
}

impl ServerEvent {
    /// Returns the event of the one schema, if it is one.
    #[must_use]
    pub fn known(&self) -> Option<&EventBody> {
        match self {
            ServerEvent::Known(body) => Some(body),
            _ => None,
        }
    }

    /// Returns live text, if this is some.
    #[must_use]
    pub fn text_delta(&self) -> Option<&str> {
        match self.known()? {
            EventBody::TextDelta(delta) => Some(&delta.text),
            _ => None,
        }
    }

    /// Of a request that this version cannot read: its id, and the answer that decides against
    /// it.
    pub(super) fn unreadable_request(&self) -> Option<(RequestId, Answer)> {
        let ServerEvent::Other { kind, raw } = self else { return None };
        let kinds = [InteractionKind::Permission, InteractionKind::Question, InteractionKind::Plan];
        let kind = kinds
            .into_iter()
            .find(|known| kind.strip_suffix("_request") == Some(known.as_str()))?;
        let id = RequestId::new(raw.get("requestId")?.as_str()?);
        let feedback = Some("the program that decides cannot read this request".to_owned());
        Some(match kind {
            InteractionKind::Permission => (id, Answer::Deny { feedback }),
            InteractionKind::Question => (id, Answer::Dismissed),
            InteractionKind::Plan => (id, Answer::Rejected { feedback }),
        })
    }
}

#[derive(Deserialize)]
struct Gap {
    from: Option<u64>,
    to: Option<u64>,
    dropped: Option<u64>,
}

/// Returns an event's position in the session's stream.
pub(super) fn id(event: &sse::Event) -> Option<u64> {
    event.id.as_deref().and_then(|id| id.parse().ok())
}

/// Reads an event of a stream; none where it is no JSON. Nothing else that a server sends is an
/// error here.
pub(super) fn read(event: &sse::Event) -> Option<RemoteEvent> {
    let id = id(event);
    let raw: Value = serde_json::from_str(&event.data).ok()?;
    let kind = raw.get("type").and_then(Value::as_str).unwrap_or(&event.name).to_owned();
    let ts = raw.get("ts").and_then(Value::as_str).and_then(|ts| ts.parse().ok());
    let body = if kind == "replay_gap"
        && let Ok(Gap { from, to, dropped }) = Gap::deserialize(&raw)
    {
        ServerEvent::ReplayGap { from, to, dropped }
    } else {
        match EventBody::deserialize(&raw) {
            Ok(body) => ServerEvent::Known(Box::new(body)),
            Err(_) => ServerEvent::Other { kind, raw },
        }
    };
    Some(RemoteEvent { id, ts, body })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(id: Option<&str>, data: &Value) -> RemoteEvent {
        let id = id.map(str::to_owned);
        read(&sse::Event { id, name: "named".to_owned(), data: data.to_string() }).unwrap()
    }

    #[test]
    fn what_is_not_known_passes_through() {
        let known = event(
            Some("7"),
            &json!({"type": "text_delta", "text": "hi", "ts": "2026-12-01T10:00:00.000Z",
                    "sessionId": "s", "field-of-a-newer-server": {"a": 1}}),
        );
        assert_eq!((known.id, known.body.text_delta()), (Some(7), Some("hi")));
        assert!(known.ts.is_some());
        let gap = event(None, &json!({"type": "replay_gap", "from": 1, "to": 5, "dropped": 5}));
        let expected = ServerEvent::ReplayGap { from: Some(1), to: Some(5), dropped: Some(5) };
        assert_eq!((gap.id, gap.body), (None, expected));
        let table = [
            (json!({"type": "from_the_future", "x": 1}), "from_the_future"),
            // A known type with another body.
            (json!({"type": "text_delta", "text": 5}), "text_delta"),
            (json!(["no", "object"]), "named"),
            (json!({"no": "type"}), "named"),
        ];
        for (raw, kind) in table {
            let read = event(Some("x1"), &raw);
            let kind = kind.to_owned();
            assert_eq!(read.body, ServerEvent::Other { kind, raw });
            assert_eq!((read.id, read.ts), (None, None));
        }
        let text = sse::Event { id: None, name: String::new(), data: "{broken".to_owned() };
        assert_eq!(read(&text), None);
    }

    #[test]
    fn a_request_that_cannot_be_read_is_decided_against() {
        let request =
            json!({"type": "permission_request", "requestId": "r", "effect": "telepathy"});
        let read = event(Some("1"), &request).body;
        let (id, answer) = read.unreadable_request().unwrap();
        assert_eq!((id.as_str(), matches!(answer, Answer::Deny { .. })), ("r", true));
        let question = event(None, &json!({"type": "question_request", "requestId": "q"})).body;
        assert_eq!(question.unreadable_request(), Some((RequestId::new("q"), Answer::Dismissed)));
        let other = event(None, &json!({"type": "other_request", "requestId": "q"})).body;
        assert_eq!(other.unreadable_request(), None);
    }
}
