//! A transcript in Markdown.

use std::fmt::Write;

use protocol::{Block, Role};
use runtime_api::SessionInfo;

use super::transcript::Said;
use crate::session;

/// How many characters of a tool's result a transcript for people shows.
const RESULT_CHARS: usize = 2000;

/// Whether the numbers of events are shown, at which a session can be forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    Shown,
    Hidden,
}

/// Writes what was said.
pub(super) fn transcript(info: &SessionInfo, messages: &[Said], numbers: Numbers) -> String {
    let mut text = String::new();
    let title = info.title.as_deref().unwrap_or("(no title)");
    put(&mut text, &format!("# {}", title.replace('\n', " ")));
    put(&mut text, "");
    put(&mut text, &format!("- session: {}", info.id));
    put(&mut text, &format!("- folder: {}", info.cwd));
    put(&mut text, &format!("- model: {}, mode {}", info.model, info.mode));
    if let Some(words) = session::sandbox_words(info) {
        put(&mut text, &format!("- {words}"));
    }
    if let Some(words) = session::waiting_words(info) {
        put(&mut text, &format!("- {words}"));
    }
    put(&mut text, &format!("- from {} to {}", info.created_at, info.updated_at));
    for Said { seq, is_rewound, message } in messages {
        let who = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "Tool",
        };
        let number = match numbers {
            Numbers::Shown => format!(" (event {})", seq.0),
            Numbers::Hidden => String::new(),
        };
        let state = if *is_rewound { " (rewound)" } else { "" };
        put(&mut text, &format!("\n## {who}{number}{state}\n"));
        for block in &message.content {
            put_block(&mut text, block);
        }
    }
    text
}

fn put(text: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn put_block(text: &mut String, block: &Block) {
    match block {
        Block::Text { text: words, .. } => put(text, words.trim_end()),
        Block::Thinking { text: words, .. } if words.trim().is_empty() => {}
        Block::Thinking { text: words, .. } => {
            let quoted = words.trim().replace('\n', "\n> ");
            put(text, &format!("> {quoted}"));
        }
        Block::RedactedThinking { .. } => {}
        Block::ToolUse { name, input, malformed, .. } => {
            let shown = match malformed {
                Some(raw) => raw.clone(),
                None => serde_json::to_string_pretty(input).unwrap_or_default(),
            };
            put_fenced(text, &format!("{name} "), &shown);
        }
        Block::ToolResult { content, is_error, .. } => {
            if *is_error {
                put(text, "(failed)");
            }
            content.iter().for_each(|inner| match inner {
                Block::Text { text: words, .. } => {
                    let cut = terminal::escape::cut(words.trim_end(), RESULT_CHARS);
                    put_fenced(text, "", &cut);
                }
                other => put_block(text, other),
            });
        }
        Block::Image(image) => put(text, &format!("(image, {})", image.mime_type)),
    }
}

/// Puts text into a fence that is longer than any within it.
fn put_fenced(text: &mut String, label: &str, words: &str) {
    let longest = words.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    put(text, &format!("{fence}{}\n{words}\n{fence}", label.trim()));
}

#[cfg(test)]
mod tests {
    use protocol::{Message, MessageId, Seq, Timestamp, ToolCallId};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_transcript_reads_well() {
        let message = |role, content| Said {
            is_rewound: false,
            seq: Seq(7),
            message: Message {
                id: MessageId::new("m"),
                role,
                content,
                created_at: Timestamp(1_796_000_000_000),
            },
        };
        let input = json!({"path": "a.txt"}).as_object().cloned().unwrap();
        let id = ToolCallId::new("t1");
        let messages = [
            message(Role::User, vec![Block::text("read a.txt")]),
            message(
                Role::Assistant,
                vec![
                    Block::Thinking { text: "hm\nwell".to_owned(), signed: None },
                    Block::ToolUse {
                        id: id.clone(),
                        name: "read_file".to_owned(),
                        input,
                        malformed: None,
                        signed: None,
                    },
                ],
            ),
            message(
                Role::Tool,
                vec![Block::ToolResult {
                    id,
                    name: "read_file".to_owned(),
                    content: vec![Block::text("```\ncode\n```")],
                    is_error: false,
                }],
            ),
            message(Role::Assistant, vec![Block::text("It holds code.")]),
        ];
        let info = testkit::fake_handle::session_info("01kc3v9yq8", "/src/app");
        insta::assert_snapshot!(transcript(&info, &messages, Numbers::Hidden));
    }
}
