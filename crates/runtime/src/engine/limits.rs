//! The last limit of what a model reads of a result, whatever the tool did.

use protocol::Block;

/// Characters of text in one result.
const RESULT_CHARS_MAX: usize = 30_000;

/// Room for the words with which a tool says what it left out.
const SLACK: usize = 2_000;

/// Cuts the text of a result when the tool did not; head and tail are kept. Returns whether
/// anything was cut.
pub(crate) fn cap(content: &mut Vec<Block>) -> bool {
    let mut left = RESULT_CHARS_MAX + SLACK;
    let mut is_cut = false;
    for block in content.iter_mut() {
        if let Block::Text { text, .. } = block {
            let count = text.chars().count();
            if count > left {
                *text = head_and_tail(text, count, left);
                is_cut = true;
                left = 0;
            } else {
                left -= count;
            }
        }
    }
    content.retain(|block| !block.is_blank());
    is_cut
}

fn head_and_tail(text: &str, count: usize, keep: usize) -> String {
    let half = keep / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n… {} characters left out …\n{tail}", count - 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_head_and_tail() {
        let mut content = vec![Block::text(format!("begin{}end", "x".repeat(90_000)))];
        assert!(cap(&mut content));
        let Block::Text { text, .. } = &content[0] else { panic!("expected text") };
        assert!(text.starts_with("begin") && text.ends_with("end"));
        assert!(text.chars().count() < 33_000, "{}", text.len());
    }

    #[test]
    fn short_text_is_left_alone() {
        let mut content = vec![Block::text("ok")];
        assert!(!cap(&mut content));
        assert_eq!(content, vec![Block::text("ok")]);
    }
}
