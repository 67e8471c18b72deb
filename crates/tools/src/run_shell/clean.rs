//! A stream of a process as plain text: no escape sequences, no painted-over lines.

/// The longest line that is held back because a carriage return may still take it back.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest control string (a title, a link); a longer one is taken for text again, so that an
/// unfinished one cannot swallow the output.
const STRING_CHARS_MAX: usize = 4_096;

/// Where in an escape sequence the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and one of `()#%*+-./ `: one more character belongs to it.
    EscapeOne,
    /// In a control sequence (CSI).
    Control,
    /// In a control string (OSC, DCS, APC, PM, SOS), this many characters long.
    String(usize),
    /// After ESC in a control string.
    StringEscape,
}

/// Cleans one stream piece by piece. Gives whole lines, so that those of two streams do not mix;
/// memory is bounded by the longest held line.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    /// The start of a character that is not complete yet; at most 3 bytes.
    undecoded: Vec<u8>,
    state: State,
    /// The current line.
    line: String,
    /// Whether a carriage return came last: the next character begins the line anew.
    is_returned: bool,
}

impl Cleaner {
    /// Takes bytes and returns the lines that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut ready = String::new();
        let joined;
        let mut rest = bytes;
        if !self.undecoded.is_empty() {
            self.undecoded.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.undecoded);
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.push_text(text, &mut ready);
                    return ready;
                }
                Err(error) => {
                    let (valid, invalid) = rest.split_at(error.valid_up_to());
                    self.push_text(std::str::from_utf8(valid).unwrap_or_default(), &mut ready);
                    let Some(length) = error.error_len() else {
                        self.undecoded = invalid.to_vec();
                        return ready;
                    };
                    self.push_text("\u{fffd}", &mut ready);
                    rest = invalid.get(length..).unwrap_or_default();
                }
            }
        }
    }

    /// Returns what is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> String {
        if !std::mem::take(&mut self.undecoded).is_empty() {
            let mut ready = String::new();
            self.push_text("\u{fffd}", &mut ready);
            return ready + &std::mem::take(&mut self.line);
        }
        std::mem::take(&mut self.line)
    }

    fn push_text(&mut self, text: &str, ready: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                // Plain characters go in whole runs.
                let plain = rest.bytes().position(|byte| byte < b' ' || byte == 0x7f);
                let (run, after) = rest.split_at(plain.unwrap_or(rest.len()));
                self.push_run(run, ready);
                rest = after;
            }
            let mut chars = rest.chars();
            if let Some(c) = chars.next() {
                self.push_char(c, ready);
            }
            rest = chars.as_str();
        }
    }

    fn push_run(&mut self, run: &str, ready: &mut String) {
        if run.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
        }
        self.line.push_str(run);
        if self.line.len() > LINE_BYTES_MAX {
            ready.push_str(&self.line);
            // The room is given back: one long line must not cost memory for ever.
            self.line = String::new();
        }
    }

    fn push_char(&mut self, c: char, ready: &mut String) {
        self.state = match (self.state, c) {
            (State::Text, _) => return self.push_control(c, ready),
            // A newline ends every unfinished sequence.
            (_, '\n') => {
                self.state = State::Text;
                return self.push_control(c, ready);
            }
            (State::Escape, '[') => State::Control,
            (State::Escape, ']' | 'P' | '_' | '^' | 'X') => State::String(0),
            (State::Escape, '(' | ')' | '#' | '%' | '*' | '+' | '-' | '.' | '/' | ' ') => {
                State::EscapeOne
            }
            (State::Escape, '\u{1b}') => State::Escape,
            (State::Escape | State::EscapeOne, _) => State::Text,
            (State::Control, '\u{1b}') => State::Escape,
            (State::Control, '\u{40}'..='\u{7e}') => State::Text,
            (State::Control, _) => State::Control,
            (State::String(_), '\u{07}') => State::Text,
            (State::String(_), '\u{1b}') => State::StringEscape,
            (State::String(STRING_CHARS_MAX..), _) => State::Text,
            (State::String(length), _) => State::String(length + 1),
            (State::StringEscape, '\\') => State::Text,
            (State::StringEscape, _) => State::String(0),
        };
    }

    fn push_control(&mut self, c: char, ready: &mut String) {
        match c {
            '\n' => {
                self.is_returned = false;
                ready.push_str(&self.line);
                ready.push('\n');
                self.line.clear();
            }
            '\t' => self.push_run("\t", ready),
            '\r' => self.is_returned = true,
            '\u{08}' => {
                self.line.pop();
            }
            '\u{1b}' => self.state = State::Escape,
            // Bells and the like say nothing to a reader.
            '\0'..='\u{1f}' | '\u{7f}' => {}
            other => self.push_run(other.encode_utf8(&mut [0; 4]), ready),
        }
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.line.capacity() + self.undecoded.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clean(pieces: &[&[u8]]) -> String {
        let mut cleaner = Cleaner::default();
        let mut text: String = pieces.iter().map(|piece| cleaner.push(piece)).collect();
        text.push_str(&cleaner.finish());
        text
    }

    #[test]
    fn escape_sequences_go() {
        assert_eq!(clean(&[b"\x1b[1;31mred\x1b[0m\n"]), "red\n");
        assert_eq!(clean(&[b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\n"]), "ab\n");
        assert_eq!(clean(&[b"\x1b(Ba\x1b[?25l\x1bMb\x07\0\n"]), "ab\n");
        assert_eq!(clean(&[b"a\x1b[3", b"1mb\n"]), "ab\n", "cut in the middle");
        assert_eq!(clean(&[b"a\x1b]unfinished\nb\n"]), "a\nb\n");
    }

    #[test]
    fn painted_over_lines_go() {
        assert_eq!(clean(&[b" 10%\r 50%\r100%\ndone\r\n"]), "100%\ndone\n");
        assert_eq!(clean(&[b" 10%\r", b"100%"]), "100%");
        assert_eq!(clean(&[b"half\r"]), "half");
        assert_eq!(clean(&[b"abx\x08c\n"]), "abc\n");
    }

    #[test]
    fn characters_survive_cuts() {
        assert_eq!(clean(&[b"gr\xc3", b"\xbcn \xf0\x9f", b"\x98\x80\n"]), "grün 😀\n");
        assert_eq!(clean(&[b"a\xffb\xc3"]), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn an_endless_line_costs_little() {
        let mut cleaner = Cleaner::default();
        let piece = vec![b'x'; 10_000];
        let length: usize = (0..1_000).map(|_| cleaner.push(&piece).len()).sum();
        assert_eq!(length + cleaner.finish().len(), 10_000_000);
        assert!(cleaner.memory() <= 2 * LINE_BYTES_MAX, "{}", cleaner.memory());
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(bytes: Vec<u8>, at in 0_usize..100) {
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(clean(&[a, b]), clean(&[&bytes]));
        }
    }
}
