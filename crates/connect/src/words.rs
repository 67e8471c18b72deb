//! Cutting texts.

/// Returns the first `count` characters.
pub(crate) fn head(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// Returns the last `count` characters.
pub(crate) fn tail(text: &str, count: usize) -> &str {
    if count == 0 {
        return "";
    }
    match text.char_indices().rev().nth(count - 1) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// Returns a text of at most `count` characters that shows where it was cut.
pub(crate) fn cut(text: &str, count: usize) -> String {
    let kept = head(text, count.saturating_sub(1));
    if kept.len() == text.len() || head(text, count).len() == text.len() {
        text.to_owned()
    } else {
        format!("{kept}…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_keep_their_limit_in_characters() {
        for (text, count, expected) in
            [("äöü", 3, "äöü"), ("äöüß", 3, "äö…"), ("", 3, ""), ("ab", 1, "…"), ("a", 1, "a")]
        {
            assert_eq!(cut(text, count), expected, "{text} {count}");
        }
        assert_eq!((head("äöü", 2), tail("äöü", 2), tail("äöü", 0)), ("äö", "öü", ""));
    }
}
