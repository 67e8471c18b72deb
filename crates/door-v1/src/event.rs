//! Events as frames: one encoding per event, however many watch.

use std::sync::Arc;

use bytes::Bytes;
use http_kit::sse;
use native_wire::trimmed;
use protocol::event::EventClass;
use protocol::{Event, EventBody};
use runtime_api::{Language, Shown};
use serde::Serialize;

/// Tells whether events of this kind may be shown at all.
pub(crate) fn is_public(event: &Event) -> bool {
    event.body.kind().class() != EventClass::Internal
}

/// Returns an event as it stands in its session's stream.
pub(crate) fn frame(event: &Arc<Shown>) -> Bytes {
    event.encoded(Language::V1, encode)
}

/// Returns an event as it stands in a multiplexed stream: the same bytes without the id, which is
/// no place to resume such a stream from.
pub(crate) fn frame_without_id(event: &Arc<Shown>) -> Bytes {
    let whole = frame(event);
    let line = whole.iter().position(|byte| *byte == b'\n');
    line.map_or(whole.clone(), |end| whole.slice(end + 1..))
}

fn encode(event: &Event) -> Bytes {
    let id = event.frame.0.to_string();
    let name = event.body.kind().as_str();
    let trimmed = match &event.body {
        EventBody::ToolResult(result) => trimmed(result).map(|body| {
            let body = EventBody::ToolResult(body);
            data(&Event { body, session_id: event.session_id.clone(), ..*event })
        }),
        _ => None,
    };
    sse::frame(Some(&id), name, &trimmed.unwrap_or_else(|| data(event)))
}

/// Returns a frame that is no point to resume from.
pub(crate) fn passing(name: &str, body: &impl Serialize) -> Bytes {
    sse::frame(None, name, &data(body))
}

/// Encodes what a frame carries. All of it is made of texts and numbers and has a JSON form.
fn data(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_else(|error| {
        tracing::error!(%error, "an event has no JSON form");
        String::from("{}")
    })
}

#[cfg(test)]
mod tests {
    use native_wire::OUTPUT_BYTES_MAX;
    use protocol::event::{TextDelta, ToolResult};
    use protocol::{Block, FrameId, Image, Seq, SessionId, Timestamp, ToolCallId};
    use serde_json::{Value, json};

    use super::*;

    fn shown(body: impl Into<EventBody>) -> Arc<Shown> {
        let session_id = SessionId::new("06f0000000000000000000000s");
        let (seq, frame, ts) = (Some(Seq(7)), FrameId(9), Timestamp(1_796_000_000_040));
        Arc::new(Event { body: body.into(), session_id, seq, frame, ts }.into())
    }

    fn result(output: Vec<Block>) -> ToolResult {
        ToolResult {
            tool_call_id: ToolCallId::new("toolu_1"),
            tool_name: "read_file".to_owned(),
            is_error: false,
            output,
            truncated: false,
            spill: None,
            duration_ms: 1,
            display: None,
            files: Vec::new(),
        }
    }

    fn data_of(event: &Arc<Shown>) -> Value {
        let frame = frame(event);
        let text = std::str::from_utf8(&frame).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_frame_has_id_type_and_json_and_is_made_once() {
        let event = shown(TextDelta { text: "a\nb".to_owned() });
        let first = frame(&event);
        let text = std::str::from_utf8(&first).unwrap();
        assert_eq!(
            text,
            "id: 9\nevent: text_delta\ndata: {\"type\":\"text_delta\",\"text\":\"a\\nb\",\
             \"sessionId\":\"06f0000000000000000000000s\",\"seq\":7,\
             \"ts\":\"2026-11-30T00:53:20.040Z\"}\n\n"
        );
        assert_eq!(first.as_ptr(), frame(&event).as_ptr(), "encoded twice");
        assert_eq!(frame_without_id(&event), text.strip_prefix("id: 9\n").unwrap());
    }

    #[test]
    fn outputs_are_cut_to_what_a_frame_may_hold() {
        let image = |bytes: usize| {
            Block::Image(Image { mime_type: "image/png".to_owned(), data: "A".repeat(bytes) })
        };
        let small = data_of(&shown(result(vec![Block::text("x".repeat(OUTPUT_BYTES_MAX))])));
        assert_eq!(small.get("truncated"), None);
        // The last letter has two bytes and does not fit any more.
        let text = format!("x{}", "ä".repeat(OUTPUT_BYTES_MAX / 2));
        let cut = data_of(&shown(result(vec![Block::text(text), Block::text("more")])));
        assert_eq!(cut["truncated"], true);
        let output = cut["output"].as_array().unwrap();
        assert_eq!(output[0]["text"].as_str().unwrap().len(), OUTPUT_BYTES_MAX - 1);
        assert_eq!(output[1], json!({"type": "text", "text": "m"}));
        let mixed = vec![Block::text("see"), image(OUTPUT_BYTES_MAX), image(8)];
        let mixed = data_of(&shown(result(mixed)));
        let kinds: Vec<_> =
            mixed["output"].as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
        assert_eq!(kinds, ["text", "text", "image"]);
        assert_eq!(mixed["truncated"], true);
    }
}
