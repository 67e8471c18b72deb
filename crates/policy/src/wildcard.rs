//! Patterns over text: `*` matches any run, `\*` a literal star, all else itself.

/// One piece of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// This byte.
    Byte(u8),
    /// Any run of bytes, an empty one too.
    Any,
}

/// A pattern over a whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wildcard {
    pieces: Vec<Piece>,
}

impl Wildcard {
    /// Reads a pattern; every text is one.
    pub(crate) fn new(text: &str) -> Self {
        let mut pieces = Vec::with_capacity(text.len());
        let mut bytes = text.bytes().peekable();
        while let Some(byte) = bytes.next() {
            pieces.push(match byte {
                b'\\' if bytes.next_if_eq(&b'*').is_some() => Piece::Byte(b'*'),
                b'*' => Piece::Any,
                other => Piece::Byte(other),
            });
        }
        Self { pieces }
    }

    /// Tells whether everything that `other` matches fits this pattern too. When it cannot be told
    /// by looking at the pieces, it does not.
    pub(crate) fn covers(&self, other: &Wildcard) -> bool {
        // No byte of a text has this value, so only a star takes the place of a star.
        const STAR: u8 = 0xff;
        let pieces = other.pieces.iter().map(|piece| match piece {
            Piece::Byte(byte) => *byte,
            Piece::Any => STAR,
        });
        self.matches(&pieces.collect::<Vec<_>>())
    }

    /// Tells whether the whole text fits.
    ///
    /// Going back to the latest star alone is enough, so that the cost is at most the product of
    /// the two lengths.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let (mut piece, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while let Some(&byte) = text.get(at) {
            match self.pieces.get(piece) {
                Some(Piece::Any) => {
                    star = Some((piece, at));
                    piece += 1;
                    continue;
                }
                Some(Piece::Byte(wanted)) if *wanted == byte => {
                    piece += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let Some((star_piece, star_at)) = star else { return false };
            star = Some((star_piece, star_at + 1));
            piece = star_piece + 1;
            at = star_at + 1;
        }
        self.pieces.iter().skip(piece).all(|piece| *piece == Piece::Any)
    }
}

/// Escapes a text so that the pattern of it matches exactly this text.
pub(crate) fn escape(text: &str) -> String {
    text.replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        Wildcard::new(pattern).matches(text.as_bytes())
    }

    #[test]
    fn stars_match_any_run_and_escaped_ones_themselves() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("*", "any thing", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a*b*c", "a1b2b3c", true),
            ("*a*a*a*", "aa", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\b", r"a\b", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} against {text}");
        }
    }

    #[test]
    fn a_pattern_covers_narrower_ones() {
        for (wide, narrow, expected) in [
            ("*", "a*", true),
            ("a/*", "a/b", true),
            ("a/*", "a/b*", true),
            ("a/*", "*", false),
            ("a/*", "a*", false),
            ("a/b", "a/*", false),
            ("a*c", "ab*c", true),
            ("a*c", "ac*", false),
            ("", "*", false),
        ] {
            let covers = Wildcard::new(wide).covers(&Wildcard::new(narrow));
            assert_eq!(covers, expected, "{wide} over {narrow}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let text = "a".repeat(20_000);
        assert!(!fits(&format!("{}b", "*a".repeat(200)), &text));
    }

    #[test]
    fn an_escaped_text_matches_itself_alone() {
        for text in ["a*b", r"a\*b", r"\", r"\\*", "x"] {
            assert!(fits(&escape(text), text), "{text}");
            assert!(!fits(&escape(text), &format!("{text}x")), "{text}");
        }
    }
}
