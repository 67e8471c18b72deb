//! What of a transcript goes to a provider: the choices that all wires share.

use std::borrow::Cow;

use protocol::{Block, Image, Message, Signed, Wire};

/// Stands for a message of which nothing may be sent, so that roles still alternate.
const NOTHING: &str = "(no text)";

/// Stands for the empty result of a tool: several providers refuse an empty one.
const NO_OUTPUT: &str = "(no output)";

/// Longest id and name that every wire takes.
const WORD_CHARS_MAX: usize = 64;

/// Returns the blocks that may go to a wire: no blank text, no thought that this wire has not
/// sealed, because every provider refuses a thought it cannot verify.
pub(crate) fn sendable<'a>(
    message: &'a Message,
    wire: Wire,
) -> impl Iterator<Item = &'a Block> + use<'a> {
    message.content.iter().filter(move |block| match block {
        Block::Text { text, signed } => {
            !text.trim().is_empty() || seal(signed.as_ref(), wire).is_some()
        }
        Block::Thinking { signed, .. } => seal(signed.as_ref(), wire).is_some(),
        Block::RedactedThinking { signed } => seal(Some(signed), wire).is_some(),
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Image(_) => true,
    })
}

/// Returns a seal that this wire made and can verify.
pub(crate) fn seal(signed: Option<&Signed>, wire: Wire) -> Option<&Signed> {
    signed.filter(|signed| signed.wire == wire && !signed.signature.is_empty())
}

/// Returns the text that stands for an empty message.
pub(crate) fn nothing() -> &'static str {
    NOTHING
}

/// Returns the text of a tool's result without its images. Wires without a flag for failure get
/// it said in words.
pub(crate) fn result_text(content: &[Block], say_error: bool) -> String {
    let mut text = String::new();
    for block in content {
        if let Block::Text { text: piece, .. } = block
            && !piece.trim().is_empty()
        {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
        }
    }
    if text.is_empty() {
        text.push_str(if images(content).next().is_some() { "(an image)" } else { NO_OUTPUT });
    }
    let told = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if say_error && !told { format!("error: {text}") } else { text }
}

/// Returns the images among blocks.
pub(crate) fn images(content: &[Block]) -> impl Iterator<Item = &Image> {
    content.iter().filter_map(|block| match block {
        Block::Image(image) => Some(image),
        _ => None,
    })
}

/// Returns an image as a data URL.
pub(crate) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.mime_type, image.data)
}

/// Returns what is said in place of an image to a model that reads none.
pub(crate) fn unseen(image: &Image) -> String {
    format!("(an image of type {} was left out: this model reads no images)", image.mime_type)
}

/// Returns a call's id in letters that every wire takes. The same id always gives the same word,
/// and different ids give different ones.
pub(crate) fn call_id(id: &str) -> Cow<'_, str> {
    word(id, "call")
}

/// Returns a tool's name in letters that every wire takes: models invent names, and the
/// transcript must stay acceptable all the same.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    word(name, "unnamed")
}

fn word<'a>(text: &'a str, blank: &'static str) -> Cow<'a, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if text.is_empty() {
        return Cow::Borrowed(blank);
    }
    if text.len() <= WORD_CHARS_MAX && text.chars().all(fits) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(WORD_CHARS_MAX - 17);
    let mut word: String = kept.map(|letter| if fits(letter) { letter } else { '_' }).collect();
    word.push_str(&format!("_{:016x}", fingerprint(text)));
    Cow::Owned(word)
}

/// FNV-1a: small, and the same on every machine and in every version.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_words_that_stay_apart() {
        assert_eq!(call_id("toolu_01-A"), "toolu_01-A");
        assert_eq!(call_id(""), "call");
        let (one, two) = (call_id("a:b"), call_id("a.b"));
        assert_ne!(one, two);
        assert_eq!(one, call_id("a:b"));
        for id in [one, two, call_id(&"x".repeat(500)), call_id("függvény 1")] {
            assert!(id.len() <= WORD_CHARS_MAX, "{id}");
            assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{id}");
        }
    }

    #[test]
    fn results_are_never_empty_and_say_errors_once() {
        let text = |text: &str| vec![Block::text(text)];
        assert_eq!(result_text(&[], false), "(no output)");
        assert_eq!(result_text(&text("  "), true), "error: (no output)");
        assert_eq!(result_text(&text("no such file"), true), "error: no such file");
        assert_eq!(result_text(&text("Error: no such file"), true), "Error: no such file");
        assert_eq!(result_text(&[Block::text("a"), Block::text("b")], false), "a\nb");
    }
}
