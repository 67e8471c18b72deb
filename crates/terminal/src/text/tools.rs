//! Tool calls as people read them: one line each.

use std::time::Duration;

use protocol::Block;
use protocol::event::{Display, ToolDenied, ToolResult};

use super::settled::Settled;
use crate::Console;
use crate::{diff, escape};

/// How long a line is where it does not go to a terminal.
const PLAIN_WIDTH: usize = 200;
/// How many characters of an error's first line are shown.
const ERROR_CHARS: usize = 120;
/// How many of the last lines of a failed command are shown: the error stands there.
const TAIL_LINES: usize = 8;
/// How many characters of such a line are shown.
const TAIL_CHARS: usize = 160;

/// How lines for people look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Signs in place of words, as on a terminal.
    pub(super) signs: bool,
    /// Diffs below the lines.
    pub(super) diffs: bool,
}

/// Says what a call brought.
///
/// `settled` is what a person decided, where the call asked one by itself.
pub(super) fn result(
    result: &ToolResult,
    (summary, settled): (&str, Option<&Settled>),
    look: Look,
    console: &mut Console,
) {
    let paint = console.paint();
    let took = stdx::duration(Duration::from_millis(result.duration_ms));
    let outcome = settled.map_or_else(|| outcome(result), |settled| settled.words.clone());
    let name = escape::line(&result.tool_name, 80);
    if look.signs {
        let sign = match settled {
            Some(settled) if !settled.is_yes => paint.care("⊘"),
            None if result.is_error => paint.bad("✗"),
            _ => paint.good("✓"),
        };
        let rest = name.chars().count() + outcome.chars().count() + took.len() + 9;
        let summary = escape::line(summary, console.width().saturating_sub(rest).max(20));
        let facts = paint.dim(&format!("· {outcome} · {took}"));
        console.say(&format!("{sign} {} {summary} {facts}", paint.bold(&name)));
    } else {
        let summary = escape::line(summary, PLAIN_WIDTH);
        let failed = if result.is_error && settled.is_none() { "failed: " } else { "" };
        console.say(&format!("- {name} {summary}: {failed}{outcome} ({took})"));
    }
    if look.diffs
        && let Some(Display::Diff { diff, .. }) = &result.display
    {
        console.say(&diff::shown(diff.trim_end(), diff::LINES_SHOWN, paint));
    }
    for line in tail(result) {
        console.say(&paint.dim(&format!("    {line}")));
    }
}

/// Returns the last lines of what a command wrote that failed.
fn tail(result: &ToolResult) -> Vec<String> {
    let Some(Display::Exit { code, .. }) = &result.display else { return Vec::new() };
    if !result.is_error {
        return Vec::new();
    }
    let texts = result.output.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    // The line above says the exit code already.
    let said = code.map(|code| format!("exit code {code}"));
    lines.pop_if(|last| said.as_deref() == Some(*last));
    while lines.pop_if(|last| last.is_empty()).is_some() {}
    if lines == ["(no output)"] {
        return Vec::new();
    }
    let kept = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
    let shown = |line: &&str| escape::cut(&escape::text(line).replace('\t', "    "), TAIL_CHARS);
    kept.iter().map(shown).collect()
}

/// Says that a call was not run.
pub(super) fn denied(denied: &ToolDenied, summary: &str, look: Look, console: &mut Console) {
    let paint = console.paint();
    let name = escape::line(&denied.tool_name, 80);
    // The model reads the reason with the word before it; here the line has it already.
    let reason = denied.reason.strip_prefix("denied: ").unwrap_or(&denied.reason);
    let reason = escape::line(reason, PLAIN_WIDTH);
    if look.signs {
        let summary = escape::line(summary, console.width().saturating_sub(20).max(20));
        let sign = paint.care("⊘");
        console.say(&format!("{sign} {} {summary} {}", paint.bold(&name), paint.care("· denied")));
        console.say(&paint.dim(&format!("    {reason}")));
    } else {
        let summary = escape::line(summary, PLAIN_WIDTH);
        console.say(&format!("- {name} {summary}: denied: {reason}"));
    }
}

fn outcome(result: &ToolResult) -> String {
    match &result.display {
        Some(Display::Diff { added, removed, .. }) => format!("+{added} -{removed}"),
        Some(Display::Exit { code: Some(code), .. }) => format!("exit {code}"),
        Some(Display::Exit { signal: Some(signal), .. }) => format!("signal {signal}"),
        Some(Display::Note { text }) => escape::line(text, ERROR_CHARS),
        Some(Display::Exit { .. }) | None if result.is_error => {
            let text = result.output.iter().find_map(|block| match block {
                Block::Text { text, .. } => text.lines().find(|line| !line.trim().is_empty()),
                _ => None,
            });
            escape::line(text.unwrap_or("failed"), ERROR_CHARS)
        }
        Some(Display::Exit { .. }) | None => "ok".to_owned(),
    }
}
