//! The card of a permission request: what, where, why, what checks found.

use protocol::event::PermissionRequest;
use protocol::{Finding, Risk};
use serde_json::{Map, Value};

use super::{Look, begin, end, put};
use crate::{Paint, diff, escape};

/// How many characters of one argument are shown.
const VALUE_CHARS: usize = 2000;
/// How many findings of checks are shown: one reads a few, not a list.
const FINDINGS_SHOWN: usize = 20;

/// Draws what is asked.
pub(super) fn body(card: &mut String, request: &PermissionRequest, look: Look) {
    let Look { paint, width, .. } = look;
    let risk = match request.risk {
        Risk::Low => paint.good("low risk"),
        Risk::Medium => paint.care("medium risk"),
        Risk::High => paint.bad("high risk"),
    };
    let name = escape::line(&request.tool_name, 80);
    begin(card, &name, &[request.effect.as_str().to_owned(), risk], look);
    put(card, &format!("    {}", escape::line(&request.target.summary, width)));
    for path in &request.target.paths {
        if *path != request.target.summary {
            put(card, &paint.dim(&format!("    at {}", escape::line(path, width))));
        }
    }
    let change = match &request.diff {
        Some(text) => diff::shown(text.trim_end(), diff::LINES_SHOWN, paint),
        None => arguments(&request.input, &request.target.summary, paint),
    };
    if !change.is_empty() {
        put(card, &change);
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

/// Shows the arguments: changes as a diff, commands and texts as they are.
fn arguments(input: &Map<String, Value>, summary: &str, paint: Paint) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    if let Some(patch) = text("patch") {
        return diff::shown(patch, diff::LINES_SHOWN, paint);
    }
    if let (Some(path), Some(content)) = (text("path"), text("content")) {
        return diff::shown(&diff::between(path, "", content), diff::LINES_SHOWN, paint);
    }
    if let (Some(path), Some(edits)) = (text("path"), input.get("edits").and_then(Value::as_array))
    {
        let part = |edit: &Value, key: &str| {
            let mut text = edit.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            text.push('\n');
            text
        };
        let changes: String = edits
            .iter()
            .map(|edit| diff::between(path, &part(edit, "old"), &part(edit, "new")))
            .collect();
        return diff::shown(&changes, diff::LINES_SHOWN, paint);
    }
    let rest = input.iter().filter(|(_, value)| value.as_str() != Some(summary));
    let lines: Vec<String> = rest.map(|(key, value)| argument(key, value, paint)).collect();
    lines.join("\n")
}

fn argument(key: &str, value: &Value, paint: Paint) -> String {
    let shown = match value {
        Value::String(text) => escape::text(&escape::cut(text, VALUE_CHARS)),
        other => escape::text(&escape::cut(&other.to_string(), VALUE_CHARS)),
    };
    let shown = shown.trim_end().replace('\n', "\n      ");
    format!("    {} {shown}", paint.dim(&format!("{}:", escape::line(key, 80))))
}

/// Leaves out the no before words that say what to do instead. The word `no` alone may begin a
/// sentence, so that it needs a comma to be one.
pub(super) fn words_after_no(said: &str) -> &str {
    let (first, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let is_no = matches!(first.to_ascii_lowercase().as_str(), "n" | "n," | "no,");
    if is_no && !rest.trim().is_empty() { rest.trim() } else { said }
}
