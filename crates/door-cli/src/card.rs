//! The card of a permission request: what, where, why, and what one can say.

use std::fmt::Write;

use protocol::Risk;
use protocol::event::{Answer, PermissionRequest};
use serde_json::{Map, Value};

use crate::paint::Paint;
use crate::{diff, escape};

/// How many characters of one argument are shown.
const VALUE_CHARS: usize = 2000;

/// Draws the card.
pub(crate) fn draw(request: &PermissionRequest, paint: Paint, width: usize) -> String {
    let mut card = String::new();
    let name = escape::line(&request.tool_name, 80);
    let risk = match request.risk {
        Risk::Low => paint.good("low risk"),
        Risk::Medium => paint.care("medium risk"),
        Risk::High => paint.bad("high risk"),
    };
    let effect = request.effect.as_str();
    put(&mut card, &format!("{} {} · {effect} · {risk}", paint.care("?"), paint.bold(&name)));
    put(&mut card, &format!("    {}", escape::line(&request.target.summary, width)));
    for path in &request.target.paths {
        if *path != request.target.summary {
            put(&mut card, &paint.dim(&format!("    at {}", escape::line(path, width))));
        }
    }
    let body = body(&request.input, &request.target.summary, paint);
    if !body.is_empty() {
        put(&mut card, &body);
    }
    if let Some(reason) = &request.reason {
        put(&mut card, &paint.dim(&format!("    why: {}", escape::line(reason, 400))));
    }
    let always = match request.suggested_rules.first() {
        Some(rule) => format!(" · a always {}", paint.mark(&escape::line(rule, 200))),
        None => String::new(),
    };
    put(&mut card, &format!("    y once{always} · n no · or say what to do instead"));
    card.pop();
    card
}

fn put(card: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(card, "{line}");
}

/// Shows the arguments: changes as a diff, commands and texts as they are.
fn body(input: &Map<String, Value>, summary: &str, paint: Paint) -> String {
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

/// Reads what a person said; none when they said nothing.
///
/// # Errors
/// A sentence for them, when they want a rule and there is none.
pub(crate) fn read(
    line: &str,
    request: &PermissionRequest,
) -> Result<Option<Answer>, &'static str> {
    let said = line.trim();
    Ok(Some(match said.to_ascii_lowercase().as_str() {
        "" => return Ok(None),
        "y" | "yes" => Answer::AllowOnce,
        "a" | "always" => match request.suggested_rules.first() {
            Some(rule) => Answer::AllowAlways { rule: Some(rule.clone()) },
            None => return Err("there is no rule to suggest here; y, n or words"),
        },
        "n" | "no" => Answer::Deny { feedback: None },
        _ => Answer::Deny { feedback: Some(words_after_no(said).to_owned()) },
    }))
}

/// Leaves out the no before words that say what to do instead. The word `no` alone may begin a
/// sentence, so that it needs a comma to be one.
fn words_after_no(said: &str) -> &str {
    let (first, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let is_no = matches!(first.to_ascii_lowercase().as_str(), "n" | "n," | "no,");
    if is_no && !rest.trim().is_empty() { rest.trim() } else { said }
}

#[cfg(test)]
mod tests {
    use protocol::{Effect, RequestId, Target, ToolCallId};
    use serde_json::json;

    use super::*;

    fn request(tool: &str, summary: &str, input: &Value) -> PermissionRequest {
        PermissionRequest {
            request_id: RequestId::new("req1"),
            tool_call_id: ToolCallId::new("call1"),
            tool_name: tool.to_owned(),
            effect: Effect::Execute,
            target: Target { summary: summary.to_owned(), effect: Effect::Execute, paths: vec![] },
            input: input.as_object().cloned().unwrap_or_default(),
            suggested_rules: vec!["run_shell(cargo test *)".to_owned()],
            risk: Risk::Medium,
            reason: Some("mode ask".to_owned()),
            expires_at: None,
        }
    }

    #[test]
    fn a_card_shows_command_reason_and_rule() {
        let command = "cargo test\u{1b}[8m --all";
        let asked = request("run_shell", command, &json!({"command": command, "timeout_ms": 5000}));
        insta::assert_snapshot!(draw(&asked, Paint::off(), 80), @r"
        ? run_shell · execute · medium risk
            cargo test␛[8m --all
            timeout_ms: 5000
            why: mode ask
            y once · a always run_shell(cargo test *) · n no · or say what to do instead
        ");
    }

    #[test]
    fn a_card_shows_edits_as_a_diff() {
        let input = json!({"path": "a.txt", "edits": [{"old": "one", "new": "two"}]});
        let asked = request("edit_file", "a.txt", &input);
        insta::assert_snapshot!(draw(&asked, Paint::off(), 80), @r"
        ? edit_file · execute · medium risk
            a.txt
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1 @@
            -one
            +two
            why: mode ask
            y once · a always run_shell(cargo test *) · n no · or say what to do instead
        ");
    }

    #[test]
    fn words_are_a_denial_with_feedback() {
        let asked = request("run_shell", "ls", &json!({"command": "ls"}));
        let rule = Some("run_shell(cargo test *)".to_owned());
        let table = [
            ("y", Some(Answer::AllowOnce)),
            (" YES ", Some(Answer::AllowOnce)),
            ("a", Some(Answer::AllowAlways { rule })),
            ("n", Some(Answer::Deny { feedback: None })),
            ("", None),
            ("n please do X", Some(Answer::Deny { feedback: Some("please do X".to_owned()) })),
            ("No, use make", Some(Answer::Deny { feedback: Some("use make".to_owned()) })),
            ("no tests yet", Some(Answer::Deny { feedback: Some("no tests yet".to_owned()) })),
            (
                "use make instead",
                Some(Answer::Deny { feedback: Some("use make instead".to_owned()) }),
            ),
        ];
        for (line, answer) in table {
            assert_eq!(read(line, &asked), Ok(answer), "{line:?}");
        }
    }

    #[test]
    fn always_needs_a_rule_to_suggest() {
        let mut asked = request("run_shell", "ls", &json!({"command": "ls"}));
        asked.suggested_rules.clear();
        assert!(read("a", &asked).unwrap_err().contains("no rule to suggest"));
        assert_eq!(read("y", &asked), Ok(Some(Answer::AllowOnce)));
    }
}
