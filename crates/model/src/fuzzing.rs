//! What the fuzz targets reach of this crate: each wire's decoder, fed as the remote feeds it.

use driver_api::{Delta, ModelError, ModelResponse};
use protocol::Wire;

use crate::stream::{Answer, Phase};

/// The text and the thinking that were shown, and the answer that was made of them.
pub type Outcome = ((String, String), Result<ModelResponse, ModelError>);

/// Decodes a stream of Anthropic's messages.
pub fn anthropic(pieces: &[&[u8]]) -> Outcome {
    feed(Wire::Anthropic, pieces)
}

/// Decodes a stream of OpenAI's responses.
pub fn openai_responses(pieces: &[&[u8]]) -> Outcome {
    feed(Wire::OpenaiResponses, pieces)
}

/// Decodes a stream of OpenAI's chat completions.
pub fn openai_chat(pieces: &[&[u8]]) -> Outcome {
    feed(Wire::OpenaiChat, pieces)
}

/// Decodes a stream of Gemini's contents.
pub fn gemini(pieces: &[&[u8]]) -> Outcome {
    feed(Wire::Gemini, pieces)
}

fn feed(wire: Wire, pieces: &[&[u8]]) -> Outcome {
    let mut answer = Answer::new(wire);
    let mut shown = (String::new(), String::new());
    for piece in pieces {
        let pushed = answer.push(piece);
        show(&mut answer, &mut shown);
        if let Err(error) = pushed {
            return (shown, Err(error));
        }
        if answer.phase() == Phase::Closed {
            break;
        }
    }
    let ended = answer.end();
    show(&mut answer, &mut shown);
    (shown, ended.and_then(|()| answer.finish(None)))
}

fn show(answer: &mut Answer, (text, thinking): &mut (String, String)) {
    for delta in answer.fresh() {
        match delta {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::Thinking(piece) => thinking.push_str(&piece),
        }
    }
}
