//! What is new in a terminal's output, of which the client shows the newest part again and again.

/// Bytes of what was shown before that are looked for in a text whose begin was dropped: long
/// enough not to be met by chance, short enough to be still there.
const MARK_BYTES: usize = 1024;

/// Stands where output was dropped before it was seen.
const HOLE: &str = "\n[output was dropped here by the application]\n";

/// Follows a terminal's output.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The text as it was last shown.
    seen: String,
}

impl Tail {
    /// Takes the output as it is now; returns what was added since.
    pub(crate) fn advance(&mut self, text: String) -> Option<String> {
        let added = if let Some(added) = text.strip_prefix(&*self.seen) {
            added.to_owned()
        } else {
            let mark = end_of(&self.seen);
            match text.rfind(mark) {
                Some(at) => text.get(at + mark.len()..).unwrap_or_default().to_owned(),
                None => format!("{HOLE}{text}"),
            }
        };
        self.seen = text;
        Some(added).filter(|added| !added.is_empty())
    }
}

/// Returns the last [`MARK_BYTES`] bytes, from a character's begin on.
fn end_of(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(MARK_BYTES));
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_told_once() {
        let mut tail = Tail::default();
        let mut add = |text: &str| tail.advance(text.to_owned());
        assert_eq!(add(""), None);
        assert_eq!(add("one\n").as_deref(), Some("one\n"));
        assert_eq!(add("one\n"), None);
        assert_eq!(add("one\ntwo\n").as_deref(), Some("two\n"));
    }

    #[test]
    fn a_text_whose_begin_was_dropped_goes_on_where_it_was() {
        let mut tail = Tail::default();
        tail.advance("abcdefgh".repeat(400));
        let (kept, more) = ("abcdefgh".repeat(200), "the end");
        let added = tail.advance(format!("{kept}{more}"));
        assert_eq!(added.as_deref(), Some(more));
    }

    #[test]
    fn a_hole_is_said() {
        let mut tail = Tail::default();
        tail.advance("first".to_owned());
        let added = tail.advance("later".to_owned()).unwrap();
        assert!(added.ends_with("later") && added.contains("dropped"), "{added}");
    }
}
