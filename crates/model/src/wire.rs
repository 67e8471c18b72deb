//! The four wires behind one face.

use driver_api::ModelRequest;
use protocol::Wire;
use serde::Serialize;

use crate::stream::Decoder;
use crate::structured::Schemas;
use crate::table::Thinking;
use crate::{anthropic, gemini, openai_chat, openai_responses};

/// What of a model an encoder must know.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The name that the server knows.
    pub(crate) model: String,
    /// How the model is told to think.
    pub(crate) thinking: Thinking,
    /// The most tokens that an answer may have, where it is known.
    pub(crate) max_output: Option<u64>,
    /// Whether it reads images.
    pub(crate) images: bool,
    /// Whether the server is the one that OpenAI runs, which knows fields that others refuse.
    pub(crate) is_openai: bool,
    /// When it takes the schema of an answer by the wire's own means.
    pub(crate) schemas: Schemas,
}

/// Writes the body of a request. Equal requests give equal bytes, and the transcript stands last,
/// so that the bytes of a longer transcript go on where those of a shorter one end.
pub(crate) fn encode(
    wire: Wire,
    target: &Target,
    request: &ModelRequest,
) -> Result<Vec<u8>, serde_json::Error> {
    match wire {
        Wire::Anthropic => anthropic::encode::body(target, request),
        Wire::OpenaiResponses => openai_responses::encode::body(target, request),
        Wire::OpenaiChat | Wire::Scripted => openai_chat::encode::body(target, request),
        Wire::Gemini => gemini::encode::body(target, request),
    }
}

/// Starts to read an answer.
pub(crate) fn decoder(wire: Wire) -> Box<dyn Decoder> {
    match wire {
        Wire::Anthropic => Box::<anthropic::decode::Answer>::default(),
        Wire::OpenaiResponses => Box::<openai_responses::decode::Answer>::default(),
        Wire::OpenaiChat | Wire::Scripted => Box::<openai_chat::decode::Answer>::default(),
        Wire::Gemini => Box::<gemini::decode::Answer>::default(),
    }
}

/// Returns the header that carries a key, and its value.
pub(crate) fn key_header(wire: Wire, key: &str) -> (&'static str, String) {
    match wire {
        Wire::Anthropic => ("x-api-key", key.to_owned()),
        Wire::Gemini => ("x-goog-api-key", key.to_owned()),
        Wire::OpenaiResponses | Wire::OpenaiChat | Wire::Scripted => {
            ("authorization", format!("Bearer {key}"))
        }
    }
}

/// A word that serialises as itself: the fixed tags of the wires.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Tag(pub(crate) &'static str);
