//! The output of a command in constant memory: head and tail, and a file with the whole.

use super::spill::Spill;
use crate::limit::{OMISSION_CHARS_MAX, OUTPUT_CHARS_MAX, omission, tail};

/// Room for the lines that say how the command ended.
const END_CHARS_MAX: usize = 400;

/// Characters of the beginning that are kept.
const HEAD_CHARS: usize = (OUTPUT_CHARS_MAX - OMISSION_CHARS_MAX - END_CHARS_MAX) / 2;

/// Characters of the end that are kept.
const TAIL_CHARS: usize = HEAD_CHARS;

/// How long the tail may grow, in bytes, before it is cut: larger than what it keeps, so that
/// cutting is rare.
const TAIL_BYTES_MAX: usize = 128 * 1024;

/// What was kept.
#[derive(Debug)]
pub(super) struct Captured {
    /// What the model reads.
    pub(super) text: String,
    /// Whether something is left out of it.
    pub(super) truncated: bool,
    /// The file with the whole.
    pub(super) spill: Option<String>,
}

/// Output as it comes in.
#[derive(Debug)]
pub(super) struct Capture {
    head: String,
    head_chars: usize,
    tail: String,
    /// Characters that went past the head.
    rest_chars: u64,
    spill: Spill,
}

impl Capture {
    pub(super) fn new(spill: Spill) -> Self {
        Self { head: String::new(), head_chars: 0, tail: String::new(), rest_chars: 0, spill }
    }

    /// Takes a piece of text.
    pub(super) async fn push(&mut self, text: &str) {
        let is_spilling = self.is_too_long();
        let rest = self.fill_head(text);
        self.rest_chars += rest.chars().count() as u64;
        self.tail.push_str(rest);
        if is_spilling {
            self.spill.push(text).await;
        } else if self.is_too_long() {
            // Nothing has been dropped so far: head and tail together are the whole.
            self.spill.push(&self.head).await;
            self.spill.push(&self.tail).await;
        }
        if self.tail.len() > TAIL_BYTES_MAX {
            self.tail = tail(&self.tail, TAIL_CHARS).to_owned();
        }
    }

    fn is_too_long(&self) -> bool {
        self.rest_chars > TAIL_CHARS as u64
    }

    /// Fills the head and returns what does not fit.
    fn fill_head<'a>(&mut self, text: &'a str) -> &'a str {
        let room = HEAD_CHARS - self.head_chars;
        if room == 0 {
            return text;
        }
        let kept = crate::limit::head(text, room);
        self.head_chars += kept.chars().count();
        self.head.push_str(kept);
        text.get(kept.len()..).unwrap_or_default()
    }

    /// Ends the capture.
    pub(super) async fn finish(mut self) -> Captured {
        if !self.is_too_long() {
            self.head.push_str(&self.tail);
            return Captured { text: self.head, truncated: false, spill: None };
        }
        let spilled = self.spill.finish().await;
        let left_out = self.rest_chars - TAIL_CHARS as u64;
        let path = spilled.path.map(|path| path.display().to_string());
        let mut text = self.head;
        text.push('\n');
        text.push_str(&omission(left_out, path.as_deref()));
        text.push('\n');
        if let Some(note) = spilled.note {
            text.push_str(&note);
            text.push('\n');
        }
        text.push_str(tail(&self.tail, TAIL_CHARS));
        Captured { text, truncated: true, spill: path }
    }

    #[cfg(test)]
    fn memory(&self) -> usize {
        self.head.capacity() + self.tail.capacity() + self.spill.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_shell::clean::Cleaner;
    use crate::run_shell::spill::SPILL_BYTES_MAX;

    fn capture(folder: &std::path::Path) -> Capture {
        Capture::new(Spill::new(folder, "call_1"))
    }

    #[tokio::test]
    async fn short_output_is_kept_whole_and_not_spilled() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = capture(folder.path());
        let text = "ü".repeat(HEAD_CHARS + TAIL_CHARS);
        capture.push(&text).await;
        let captured = capture.finish().await;
        assert!(captured.text == text && !captured.truncated && captured.spill.is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn long_output_keeps_head_and_tail_and_the_whole_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = capture(folder.path());
        let mut whole = String::new();
        for number in 0..20_000 {
            let line = format!("line {number}\n");
            capture.push(&line).await;
            whole.push_str(&line);
        }
        let captured = capture.finish().await;
        assert!(captured.text.starts_with("line 0\n") && captured.text.ends_with("line 19999\n"));
        assert!(captured.text.chars().count() <= OUTPUT_CHARS_MAX && captured.truncated);
        let path = captured.spill.unwrap();
        assert!(captured.text.contains(&format!("the whole output is in {path} (read_file")));
        assert!(std::fs::read_to_string(path).unwrap() == whole, "the file holds every line");
    }

    // R3: two hundred megabytes pass through less than a mebibyte.
    #[tokio::test]
    async fn memory_stays_constant_over_200_megabytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = capture(folder.path());
        let mut cleaner = Cleaner::default();
        let piece = "a line of output that a build might print, over and over\n".repeat(1_150);
        let mut peak = 0;
        let mut sent = 0;
        while sent < 200_000_000 {
            capture.push(&cleaner.push(piece.as_bytes())).await;
            sent += piece.len();
            peak = peak.max(capture.memory() + cleaner.memory());
        }
        assert!(peak < 1 << 20, "{peak} bytes were held");
        let captured = capture.finish().await;
        let size = std::fs::metadata(captured.spill.unwrap()).unwrap().len();
        assert!(size <= SPILL_BYTES_MAX && size > SPILL_BYTES_MAX - 100_000, "{size}");
        assert!(captured.text.contains("only its first 64.0 MiB"), "the cut is told");
    }

    #[tokio::test]
    async fn an_output_that_cannot_be_spilled_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "no folder").unwrap();
        let mut capture = capture(&file);
        capture.push(&"x".repeat(100_000)).await;
        let captured = capture.finish().await;
        assert!(captured.truncated && captured.spill.is_none());
        assert!(captured.text.contains("could not be kept"), "{}", captured.text);
    }
}
