//! What a program said last on its standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::words::cut;

/// How many of its last lines are kept for whoever asks why it ended: a stack's last calls and the
/// error itself.
const LINES_MAX: usize = 20;

/// Most characters of such a line.
const LINE_CHARS_MAX: usize = 300;

/// The last lines of a program, for whoever writes and whoever reads them. The newest push the
/// oldest out, so that nobody ever waits for a reader and the end of a long complaint is there.
#[derive(Clone, Debug, Default)]
pub struct LastLines {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl LastLines {
    /// Adds a line, without its end; a blank one says nothing and is left out.
    pub fn push(&self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(cut(line, LINE_CHARS_MAX));
    }

    /// Returns them, oldest first.
    #[must_use]
    pub fn to_vec(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_stay_each_within_its_limit() {
        let lines = LastLines::default();
        let writer = lines.clone();
        for number in 0..LINES_MAX + 5 {
            writer.push(&format!("line {number}\r"));
            writer.push("  ");
        }
        writer.push(&"x".repeat(LINE_CHARS_MAX + 1));
        let kept = lines.to_vec();
        assert_eq!((kept.len(), kept[0].as_str()), (LINES_MAX, "line 6"));
        assert_eq!(kept[LINES_MAX - 1].chars().count(), LINE_CHARS_MAX);
    }
}
