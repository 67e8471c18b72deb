//! The card of a permission request: what, where, why, what checks found.

use protocol::event::PermissionRequest;
use protocol::{Finding, Risk};
use serde_json::{Map, Value};

use super::{Look, begin, end, put};
use crate::{Paint, diff, escape};

/// How many characters of one argument a card shows: a long command whole, a book not.
const VALUE_CHARS: usize = 4000;
/// How many characters of a line are left for an argument at least, however narrow the terminal.
const WIDTH_MIN: usize = 20;
/// The arguments of a change that its diff shows.
const IN_DIFF: [&str; 4] = ["patch", "path", "content", "edits"];
/// How far arguments are set in.
const INDENT: &str = "      ";
/// How many findings of checks are shown: one reads a few, not a list.
const FINDINGS_SHOWN: usize = 20;

/// How much of a request is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// What fits a card; what is left out is counted, with the way to see it.
    Card,
    /// Everything.
    Whole,
}

impl Extent {
    fn limit(self, on_card: usize) -> usize {
        match self {
            Extent::Card => on_card,
            Extent::Whole => usize::MAX,
        }
    }
}

/// Draws what is asked.
pub(super) fn body(card: &mut String, request: &PermissionRequest, look: Look, extent: Extent) {
    let Look { paint, width, .. } = look;
    let risk = match request.risk {
        Risk::Low => paint.good("low risk"),
        Risk::Medium => paint.care("medium risk"),
        Risk::High => paint.bad("high risk"),
    };
    let name = escape::line(&request.tool_name, 80);
    begin(card, &name, &[request.effect.as_str().to_owned(), risk], look);
    let summary = &request.target.summary;
    let drawn = escape::line(summary, room(width));
    put(card, &format!("    {drawn}"));
    for path in &request.target.paths {
        if path != summary {
            put(card, &paint.dim(&format!("    at {}", escape::line(path, usize::MAX))));
        }
    }
    // Only what the line above shows from its first to its last letter need not come again.
    let shown = Some(summary.as_str()).filter(|summary| escape::text(summary) == drawn);
    let (change, is_cut) = change(request, shown, look, extent);
    if !change.is_empty() {
        put(card, &change);
    }
    if is_cut {
        let id = escape::line(request.request_id.as_str(), 80);
        put(
            card,
            &paint.care(&format!("    not all of it is shown; whole: narthex approvals show {id}")),
        );
    }
    for finding in request.checks.iter().take(FINDINGS_SHOWN) {
        put(card, &self::finding(finding, paint));
    }
    if request.checks.len() > FINDINGS_SHOWN {
        let rest = request.checks.len() - FINDINGS_SHOWN;
        put(card, &paint.dim(&format!("    … {rest} more findings")));
    }
    if let Some(reason) = &request.reason {
        put(card, &paint.dim(&format!("    why: {}", escape::line(reason, 400))));
    }
    end(card, request.expires_at, "means no", look);
}

/// Says what one can answer.
pub(super) fn keys(card: &mut String, request: &PermissionRequest, paint: Paint) {
    match request.suggested_rules.first() {
        Some(rule) => {
            let rule = paint.mark(&escape::line(rule, 200));
            put(card, &format!("    y once · a always, p in this project, u everywhere: {rule}"));
            put(card, "    e edit that rule first · n no · or say what to do instead");
        }
        None => put(card, "    y once · n no · or say what to do instead"),
    }
}

fn finding(finding: &Finding, paint: Paint) -> String {
    let severity = escape::line(&finding.severity, 40);
    let severity = match finding.severity.as_str() {
        "error" | "critical" | "high" => paint.bad(&severity),
        _ => paint.care(&severity),
    };
    let rule = escape::line(&finding.rule_id, 80);
    let place = match (&finding.path, finding.line) {
        (Some(path), Some(line)) => format!(" {}:{line}:", escape::line(path, 200)),
        (Some(path), None) => format!(" {}:", escape::line(path, 200)),
        (None, _) => String::new(),
    };
    format!("    check {rule} · {severity} ·{place} {}", escape::line(&finding.message, 400))
}

/// Returns how many characters a line of the card has room for.
fn room(width: usize) -> usize {
    width.saturating_sub(INDENT.len()).max(WIDTH_MIN)
}

/// Shows what the call would do: changes as a diff, commands and texts as they are, but for an
/// argument that was `shown` already. Tells too whether anything was left out.
fn change(
    request: &PermissionRequest,
    shown: Option<&str>,
    look: Look,
    extent: Extent,
) -> (String, bool) {
    let input = &request.input;
    let diff = request.diff.clone().or_else(|| as_diff(input));
    let Some(diff) = diff else { return arguments(input, shown, look, extent) };
    let diff = diff.trim_end();
    let limit = diff::LINES_SHOWN;
    let (mut text, mut is_cut) = match extent {
        Extent::Whole => (diff::whole(diff, look.paint), false),
        Extent::Card => (diff::shown(diff, limit, look.paint), diff::is_cut(diff, limit)),
    };
    // What is no part of the change, for example of a tool that a server brings.
    let rest = input.iter().filter(|(key, _)| !IN_DIFF.contains(&key.as_str()));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !rest.is_empty() {
        let (more, is_more_cut) = arguments(&rest, shown, look, extent);
        text.push_str(&format!("\n{more}"));
        is_cut |= is_more_cut;
    }
    (text, is_cut)
}

/// Writes the arguments of a change as a diff, where they are those of one.
fn as_diff(input: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    if let Some(patch) = text("patch") {
        return Some(patch.to_owned());
    }
    let path = text("path")?;
    if let Some(content) = text("content") {
        return Some(diff::between(path, "", content));
    }
    let edits = input.get("edits").and_then(Value::as_array)?;
    let part = |edit: &Value, key: &str| {
        let mut text = edit.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        text.push('\n');
        text
    };
    let changes =
        edits.iter().map(|edit| diff::between(path, &part(edit, "old"), &part(edit, "new")));
    Some(changes.collect())
}

fn arguments(
    input: &Map<String, Value>,
    shown: Option<&str>,
    look: Look,
    extent: Extent,
) -> (String, bool) {
    let rest = input.iter().filter(|(_, value)| shown.is_none() || value.as_str() != shown);
    let drawn: Vec<(String, bool)> =
        rest.map(|(key, value)| argument(key, value, look, extent)).collect();
    let is_cut = drawn.iter().any(|(_, is_cut)| *is_cut);
    let lines: Vec<String> = drawn.into_iter().map(|(text, _)| text).collect();
    (lines.join("\n"), is_cut)
}

/// Draws an argument, and tells whether it was cut.
fn argument(key: &str, value: &Value, look: Look, extent: Extent) -> (String, bool) {
    let whole = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (count, limit) = (whole.chars().count(), extent.limit(VALUE_CHARS));
    let raw: String = whole.chars().take(limit).collect();
    let name = escape::line(key, 80);
    // The name stands before the first line alone, which has that much less room.
    let taken = name.chars().count() + 2;
    let wrapped = wrapped(escape::text(&raw).trim_end(), room(look.width), taken);
    let mut text = format!("    {} {wrapped}", look.paint.dim(&format!("{name}:")));
    if count > limit {
        let rest = crate::grouped((count - limit) as u64);
        let words = format!("\n{INDENT}… {rest} more characters are not shown");
        text.push_str(&look.paint.care(&words));
    }
    (text, count > limit)
}

/// Breaks text into lines of `width` characters at most, the first shorter by what is `taken`.
fn wrapped(text: &str, width: usize, taken: usize) -> String {
    let mut lines = Vec::new();
    let mut left = width.saturating_sub(taken).max(WIDTH_MIN / 2);
    for line in text.split('\n') {
        let mut letters = line.chars().peekable();
        loop {
            lines.push(letters.by_ref().take(left).collect::<String>());
            left = width;
            if letters.peek().is_none() {
                break;
            }
        }
    }
    lines.join(&format!("\n{INDENT}"))
}

/// Leaves out the no before words that say what to do instead. The word `no` alone may begin a
/// sentence, so that it needs a comma to be one.
pub(super) fn words_after_no(said: &str) -> &str {
    let (first, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let is_no = matches!(first.to_ascii_lowercase().as_str(), "n" | "n," | "no,");
    if is_no && !rest.trim().is_empty() { rest.trim() } else { said }
}
