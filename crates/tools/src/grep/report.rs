//! What a search found, as text.

use driver_api::ToolOutcome;
use protocol::event::Display;

use super::OutputKind;
use crate::limit::{OUTPUT_CHARS_MAX, grouped, head};
use crate::walk::Unseen;

/// Characters of one line; longer ones are mostly generated and are cut.
const LINE_CHARS_MAX: usize = 500;

/// Room for the notes at the end of a result.
const NOTES_CHARS_MAX: usize = 400;

/// The findings so far. A file's lines are kept apart until its end, for only then it is known
/// whether the file is a text.
#[derive(Debug)]
pub(super) struct Report {
    kind: OutputKind,
    limit: usize,
    text: String,
    chars: usize,
    /// Lines or files shown.
    results: usize,
    /// Files with a match.
    files: usize,
    /// Whether something was left out for a limit.
    is_cut: bool,
    file: File,
    pub(super) unseen: Unseen,
}

#[derive(Debug, Default)]
struct File {
    name: String,
    text: String,
    matches: usize,
}

impl Report {
    pub(super) fn new(kind: OutputKind, limit: usize) -> Self {
        Self {
            kind,
            limit,
            text: String::new(),
            chars: 0,
            results: 0,
            files: 0,
            is_cut: false,
            file: File::default(),
            unseen: Unseen::default(),
        }
    }

    /// Tells whether the search may end.
    pub(super) fn is_full(&self) -> bool {
        self.is_cut
    }

    /// Tells whether more of the current file is of interest.
    pub(super) fn wants_more(&self) -> bool {
        match self.kind {
            OutputKind::Files => false,
            OutputKind::Counts => true,
            // One more than is shown tells that something is left out.
            OutputKind::Lines => self.results + self.file.matches <= self.limit,
        }
    }

    pub(super) fn begin_file(&mut self, name: String) {
        self.file = File { name, ..File::default() };
    }

    pub(super) fn push_match(&mut self, number: u64, line: &[u8]) {
        self.file.matches += 1;
        if self.kind == OutputKind::Lines && self.results + self.file.matches <= self.limit {
            self.push_line(number, ':', line);
        }
    }

    pub(super) fn push_context(&mut self, number: u64, line: &[u8]) {
        if self.kind == OutputKind::Lines && self.results + self.file.matches <= self.limit {
            self.push_line(number, '-', line);
        }
    }

    pub(super) fn push_break(&mut self) {
        if self.kind == OutputKind::Lines && self.results + self.file.matches < self.limit {
            self.file.text.push_str("--\n");
        }
    }

    fn push_line(&mut self, number: u64, mark: char, line: &[u8]) {
        // A file's lines are held until its end; what would not be shown need not be held.
        if self.chars + self.file.text.len() / 4 > OUTPUT_CHARS_MAX {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let kept = head(line, LINE_CHARS_MAX);
        let end = if kept.len() < line.len() { " … [line cut]" } else { "" };
        self.file.text.push_str(&format!("{number}{mark} {kept}{end}\n"));
    }

    pub(super) fn end_file(&mut self, is_binary: bool) {
        let file = std::mem::take(&mut self.file);
        if is_binary || file.matches == 0 {
            return;
        }
        let (block, results) = match self.kind {
            OutputKind::Files => (format!("{}\n", file.name), 1),
            OutputKind::Counts => (format!("{}: {}\n", file.name, file.matches), 1),
            OutputKind::Lines => (format!("{}\n{}", file.name, file.text), file.matches),
        };
        if self.results >= self.limit {
            self.is_cut = true;
            return;
        }
        self.files += 1;
        self.push_block(&block);
        self.results += results;
        if self.results > self.limit {
            self.results = self.limit;
            self.is_cut = true;
        }
    }

    /// Adds a file's lines as far as the limit of characters allows.
    fn push_block(&mut self, block: &str) {
        for line in block.split_inclusive('\n') {
            let chars = line.chars().count();
            if self.chars + chars > OUTPUT_CHARS_MAX - NOTES_CHARS_MAX {
                self.is_cut = true;
                return;
            }
            self.chars += chars;
            self.text.push_str(line);
        }
    }

    pub(super) fn outcome(self) -> ToolOutcome {
        let mut text = self.text;
        if self.files == 0 {
            text.push_str("nothing matches");
        }
        if self.is_cut {
            let limit = grouped(self.limit as u64);
            text.push_str(&format!(
                "(more matches left out: at most {limit} results or 30,000 characters; narrow the \
                 pattern, the path or the glob)"
            ));
        }
        let found = match self.kind {
            OutputKind::Lines if self.results == 1 => "1 match".to_owned(),
            OutputKind::Lines => format!("{} matches", self.results),
            OutputKind::Files | OutputKind::Counts => stdx::plural(self.files as u64, "file"),
        };
        let more = if self.is_cut { "+" } else { "" };
        let text = format!("{}{}", text.trim_end(), self.unseen.notes());
        ToolOutcome {
            truncated: self.is_cut,
            display: Some(Display::Note { text: format!("{found}{more}") }),
            ..ToolOutcome::text(text)
        }
    }
}
