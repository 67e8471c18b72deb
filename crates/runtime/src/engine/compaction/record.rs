//! A conversation as plain text for whoever summarises it, within a limit.

use protocol::{Block, EventBody, Seq};

/// How far long outputs are shortened, in bytes, one after the other until the record fits.
const OUTPUT_BYTES: [usize; 3] = [8_000, 2_000, 500];

/// How far everything else is shortened after that.
const WORDS_BYTES: [usize; 2] = [8_000, 1_000];

/// How many entries at the beginning are not dropped: what everything began with.
const FIRST: usize = 1;

/// One thing that was said or done.
#[derive(Clone, Debug)]
struct Entry {
    head: String,
    text: String,
    /// Whether it is what a tool brought or was given, of which the middle matters least.
    is_output: bool,
}

impl Entry {
    fn new(head: impl Into<String>, text: impl Into<String>, is_output: bool) -> Self {
        Self { head: head.into(), text: text.into(), is_output }
    }

    fn len(&self) -> usize {
        // Brackets, a line end and the empty line after it.
        self.head.len() + self.text.len() + 5
    }
}

/// A conversation as entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    entries: Vec<Entry>,
}

impl Record {
    /// Makes a record of an earlier summary and what was said since.
    pub(crate) fn new(earlier: Option<&str>, said: &[(Seq, EventBody)]) -> Self {
        let mut record = Self::default();
        if let Some(text) = earlier {
            record.add("summary of what came before", text, false);
        }
        for (_, body) in said {
            record.take(body);
        }
        record
    }

    fn add(&mut self, head: impl Into<String>, text: impl Into<String>, is_output: bool) {
        self.entries.push(Entry::new(head, text, is_output));
    }

    fn take(&mut self, body: &EventBody) {
        match body {
            EventBody::PromptStarted(started) => {
                self.add("user", plain(&started.content), false);
            }
            EventBody::AssistantMessage(message) => {
                for block in &message.content {
                    self.take_answer(block);
                }
            }
            EventBody::ToolResult(result) => {
                let what = if result.is_error { "failed result" } else { "result" };
                let head = format!("{what} of {}", result.tool_name);
                self.add(head, plain(&result.output), true);
            }
            EventBody::ToolDenied(denied) => {
                self.add(format!("refused: {}", denied.tool_name), denied.reason.clone(), true);
            }
            EventBody::ContextAdded(added) => {
                self.add(added.source.clone(), added.text.clone(), true);
            }
            _ => {}
        }
    }

    fn take_answer(&mut self, block: &Block) {
        match block {
            Block::Text { text, .. } if !block.is_blank() => self.add("assistant", text, false),
            Block::ToolUse { name, input, malformed, .. } => {
                let written = malformed
                    .clone()
                    .unwrap_or_else(|| serde_json::to_string(input).unwrap_or_default());
                self.add(format!("call of {name}"), written, true);
            }
            // What was thought on the way is no part of what came of it.
            _ => {}
        }
    }

    fn len(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }

    /// Writes the record, at most about so many bytes long: first the middle of long outputs
    /// goes, then the middle of long words, then what is oldest after the beginning.
    pub(crate) fn within(mut self, bytes_max: u64) -> String {
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        for limit in OUTPUT_BYTES {
            self.shorten_above(most, limit, true);
        }
        for limit in WORDS_BYTES {
            self.shorten_above(most, limit, false);
        }
        self.drop_above(most);
        let mut text = String::with_capacity(self.len());
        for Entry { head, text: said, .. } in &self.entries {
            text.push_str(&format!("[{head}]\n{said}\n\n"));
        }
        shorten(&text, most)
    }

    /// Shortens the entries of a kind, should all together be too long.
    fn shorten_above(&mut self, most: usize, limit: usize, outputs: bool) {
        if self.len() <= most {
            return;
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.is_output == outputs) {
            if entry.text.len() > limit {
                entry.text = shorten(&entry.text, limit);
            }
        }
    }

    /// Drops the oldest entries after the beginning, as many as is needed.
    fn drop_above(&mut self, most: usize) {
        let mut length = self.len();
        if length <= most || self.entries.len() <= FIRST {
            return;
        }
        let dropped = self.entries.iter().skip(FIRST).take_while(|entry| {
            let is_too_long = length > most;
            length -= if is_too_long { entry.len() } else { 0 };
            is_too_long
        });
        let count = dropped.count();
        let left_out = stdx::plural(count as u64, "entry").replace("entrys", "entries");
        let marker = Entry::new("left out", format!("{left_out} for want of room"), false);
        self.entries.splice(FIRST..FIRST + count, [marker]);
    }
}

/// Writes blocks as text; an image is only named.
pub(super) fn plain(content: &[Block]) -> String {
    let mut text = String::new();
    for block in content {
        match block {
            Block::Text { text: said, .. } => text.push_str(said),
            Block::Image(_) => text.push_str("(an image)"),
            _ => {}
        }
    }
    text
}

/// Shortens a text to about so many bytes; its head and its tail stay.
pub(crate) fn shorten(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let from = text.ceil_char_boundary(text.len().saturating_sub(half));
    let tail = text.get(from..).unwrap_or_default();
    let left_out = stdx::bytes((text.len() - head.len() - tail.len()) as u64);
    format!("{head}\n[… {left_out} left out …]\n{tail}")
}
