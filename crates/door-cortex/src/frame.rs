//! Frames: what a stream of this door is made of.

use bytes::Bytes;
use http_kit::sse;
use protocol::{PromptId, SessionId};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The comment that keeps a quiet stream alive.
pub(crate) const KEEPALIVE: &[u8] = b": keepalive\n\n";

/// What a frame ends with. Nothing in it is an empty line: its data is one line of JSON.
const END: &[u8] = b"\n\n";

/// One frame. Those with a number are in the record; the others are live only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Its number within the session, from 1.
    pub(crate) seq: Option<u64>,
    /// As it stands in the stream.
    bytes: Bytes,
}

/// What every frame of a run begins with.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    run_id: String,
    session_id: String,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest<'a> {
    Delta { text: &'a str },
    Fields(Map<String, Value>),
}

impl Frame {
    /// Makes a recorded frame of a run; `rest` is an object.
    pub(crate) fn recorded(
        seq: u64,
        kind: &'static str,
        (session, run): (&SessionId, &PromptId),
        rest: Value,
    ) -> Self {
        let rest = match rest {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let head = Head {
            r#type: kind,
            seq: Some(seq),
            run_id: run_id(run),
            session_id: session_id(session),
            rest: Rest::Fields(rest),
        };
        Self::of(Some(seq), kind, &encode(&head))
    }

    /// Makes a live piece of text.
    pub(crate) fn delta(
        kind: &'static str,
        (session, run): (&SessionId, &PromptId),
        text: &str,
    ) -> Self {
        let head = Head {
            r#type: kind,
            seq: None,
            run_id: run_id(run),
            session_id: session_id(session),
            rest: Rest::Delta { text },
        };
        Self::of(None, kind, &encode(&head))
    }

    /// Makes the last frame of a session that is deleted.
    pub(crate) fn end(session: &SessionId) -> Self {
        let data = json!({"type": "end", "sessionId": session_id(session)});
        Self::of(None, "end", &data.to_string())
    }

    /// Makes the frame that stands where so many frames were left out.
    pub(crate) fn lagged(dropped: u64) -> Self {
        let data = json!({"type": "lagged", "dropped": dropped});
        Self::of(None, "lagged", &data.to_string())
    }

    fn of(seq: Option<u64>, kind: &'static str, data: &str) -> Self {
        let id = seq.map(|seq| seq.to_string());
        Self { seq, bytes: sse::frame(id.as_deref(), kind, data) }
    }

    /// Returns the frame as it stands in the stream.
    pub(crate) fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Joins the frames that one event became.
    pub(crate) fn joined(frames: &[Frame]) -> Bytes {
        match frames {
            [only] => only.to_bytes(),
            several => several.iter().flat_map(|frame| frame.bytes.iter().copied()).collect(),
        }
    }

    /// Takes joined frames apart; the first recorded one has the number after `count`.
    pub(crate) fn split(mut joined: Bytes, count: u64) -> Vec<Frame> {
        let (mut frames, mut count) = (Vec::new(), count);
        while let Some(at) = joined.windows(END.len()).position(|window| window == END) {
            let bytes = joined.split_to(at + END.len());
            let is_recorded = bytes.starts_with(b"id: ");
            count += u64::from(is_recorded);
            frames.push(Frame { seq: is_recorded.then_some(count), bytes });
        }
        frames
    }

    /// Returns the name of the event and its data.
    #[cfg(test)]
    pub(crate) fn read(&self) -> (&str, &str) {
        let text = std::str::from_utf8(&self.bytes).unwrap();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        (field("event: "), field("data: "))
    }
}

/// Encodes what a frame carries. All of it is made of texts and numbers and has a JSON form.
fn encode(head: &Head<'_>) -> String {
    serde_json::to_string(head).unwrap_or_else(|error| {
        tracing::error!(%error, "a frame has no JSON form");
        String::from("{}")
    })
}

/// Returns a session's id as this door shows it.
pub(crate) fn session_id(id: &SessionId) -> String {
    format!("ses-{id}")
}

/// Returns a run's id.
pub(crate) fn run_id(prompt: &PromptId) -> String {
    format!("run-{prompt}")
}

/// Returns an approval's id.
pub(crate) fn approval_id(request: &protocol::RequestId) -> String {
    format!("apr-{request}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stand_in_the_stream_as_the_description_shows_them() {
        let (session, run) = (SessionId::new("123"), PromptId::new("abc"));
        let delta = Frame::delta("text_delta", (&session, &run), "Let me create");
        assert_eq!(
            delta.to_bytes(),
            "event: text_delta\ndata: {\"type\":\"text_delta\",\"runId\":\"run-abc\",\
             \"sessionId\":\"ses-123\",\"text\":\"Let me create\"}\n\n"
        );
        let rest = json!({"turnNumber": 1, "text": "Let me create the file."});
        let text = Frame::recorded(7, "text", (&session, &run), rest);
        assert_eq!(
            text.to_bytes(),
            "id: 7\nevent: text\ndata: {\"type\":\"text\",\"seq\":7,\"runId\":\"run-abc\",\
             \"sessionId\":\"ses-123\",\"turnNumber\":1,\"text\":\"Let me create the file.\"}\n\n"
        );
        assert_eq!(
            Frame::end(&session).to_bytes(),
            "event: end\ndata: {\"type\":\"end\",\"sessionId\":\"ses-123\"}\n\n"
        );
        assert_eq!(
            Frame::lagged(3).to_bytes(),
            "event: lagged\ndata: {\"type\":\"lagged\",\"dropped\":3}\n\n"
        );
    }

    #[test]
    fn joined_frames_come_apart_as_they_were() {
        let ids = (&SessionId::new("s"), &PromptId::new("p"));
        let text = |seq| Frame::recorded(seq, "text", ids, json!({"text": "a\n\nid: 9\n\n"}));
        let lists = [
            vec![],
            vec![Frame::delta("text_delta", ids, "\n\n\r\n\r\n")],
            vec![text(8)],
            vec![text(8), text(9), text(10)],
        ];
        for frames in lists {
            assert_eq!(Frame::split(Frame::joined(&frames), 7), frames);
        }
    }
}
