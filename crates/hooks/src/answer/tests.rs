//! A table of what hooks answer and what is understood.

use serde_json::json;

use super::*;

fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
    Ran {
        status: ExitStatus::Code(code),
        stdout: stdout.as_bytes().to_vec(),
        stderr: stderr.as_bytes().to_vec(),
    }
}

fn vote(vote: HookVote, reason: Option<&str>) -> Said {
    Said { vote: Some(vote), reason: reason.map(str::to_owned), ..Said::default() }
}

fn context(text: &str) -> Said {
    Said { context: vec![text.to_owned()], ..Said::default() }
}

fn notice(text: &str) -> Said {
    Said { notices: vec![text.to_owned()], ..Said::default() }
}

fn answered(moment: Moment, value: &Value) -> Result<Said, String> {
    read(moment, &ran(0, &value.to_string(), "not read"))
}

const NO_REASON: &str = "a hook blocked it and gave no reason";

#[test]
fn exit_code_2_blocks_with_the_errors_as_reason() {
    for moment in Moment::ALL {
        let expected = match moment {
            Moment::PostToolUse => context("no way"),
            Moment::SessionStart | Moment::Notification => notice("no way"),
            _ => vote(HookVote::Deny, Some("no way")),
        };
        // What stands on standard output counts for nothing then.
        let said = read(moment, &ran(2, "{\"decision\": \"approve\"}", " no way\n"));
        assert_eq!(said, Ok(expected), "{moment:?}");
    }
    let silent = read(Moment::PreToolUse, &ran(2, "", " \n"));
    assert_eq!(silent, Ok(vote(HookVote::Deny, Some(NO_REASON))));
}

#[test]
fn words_are_context_where_the_model_listens() {
    for moment in Moment::ALL {
        let expected = match moment {
            Moment::UserPromptSubmit | Moment::SessionStart => context("it rains"),
            _ => Said::default(),
        };
        assert_eq!(read(moment, &ran(0, "it rains\n", "")), Ok(expected), "{moment:?}");
        assert_eq!(read(moment, &ran(0, " \n", "noise")), Ok(Said::default()), "{moment:?}");
    }
    let long = "ä".repeat(CONTEXT_CHARS_MAX + 1);
    let said = read(Moment::SessionStart, &ran(0, &long, "")).unwrap();
    let kept = "ä".repeat(CONTEXT_CHARS_MAX);
    assert_eq!(said, context(&format!("{kept}\n[cut at 10000 characters]")));
}

#[test]
fn votes_before_a_call_are_read_wherever_they_stand() {
    use HookVote::{Allow, Ask, Deny};
    let table = [
        (json!({}), Said::default()),
        (json!({"decision": "block", "reason": "r"}), vote(Deny, Some("r"))),
        (json!({"decision": "approve"}), vote(Allow, None)),
        (
            json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny",
                "permissionDecisionReason": "r",
            }}),
            vote(Deny, Some("r")),
        ),
        (json!({"hookSpecificOutput": {"permissionDecision": "ask"}}), vote(Ask, None)),
        (json!({"hookSpecificOutput": {"permissionDecision": "allow"}}), vote(Allow, None)),
        (
            json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}),
            vote(Deny, Some(NO_REASON)),
        ),
        (
            json!({"decision": "block", "reason": "first", "hookSpecificOutput": {
                "permissionDecision": "allow", "permissionDecisionReason": "second",
            }}),
            vote(Deny, Some("first")),
        ),
        (json!({"hookSpecificOutput": {"decision": {"behavior": "allow"}}}), vote(Allow, None)),
        (
            json!({"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "m"}}}),
            vote(Deny, Some("m")),
        ),
        (
            json!({"continue": false, "stopReason": "enough"}),
            Said { stop: Some("enough".to_owned()), ..vote(Deny, Some("enough")) },
        ),
        (
            json!({"hookSpecificOutput": {"decision": {
                "behavior": "deny", "message": "m", "interrupt": true,
            }}}),
            Said { stop: Some("m".to_owned()), ..vote(Deny, Some("m")) },
        ),
        (json!({"continue": true, "suppressOutput": true}), Said::default()),
        (json!({"systemMessage": "careful", "other": {"x": 1}}), notice("careful")),
        (
            json!({"hookSpecificOutput": {
                "permissionDecision": "allow", "updatedInput": {"a": 1}, "additionalContext": "c",
            }}),
            Said {
                input: json!({"a": 1}).as_object().cloned(),
                context: vec!["c".to_owned()],
                ..vote(Allow, None)
            },
        ),
    ];
    for (value, expected) in table {
        assert_eq!(answered(Moment::PreToolUse, &value), Ok(expected), "{value}");
    }
}

#[test]
fn other_moments_have_their_own_blocks_and_no_allowance() {
    let block = json!({"decision": "block", "reason": "r"});
    for moment in Moment::ALL {
        let expected = match moment {
            Moment::PostToolUse => context("r"),
            Moment::SessionStart | Moment::Notification => notice("r"),
            _ => vote(HookVote::Deny, Some("r")),
        };
        assert_eq!(answered(moment, &block), Ok(expected), "{moment:?}");
        let said = answered(moment, &json!({"decision": "approve"})).unwrap();
        let expected = is_before_call(moment).then_some(HookVote::Allow);
        assert_eq!(said.vote, expected, "{moment:?}");
    }
    let stop = answered(Moment::PostToolUse, &json!({"continue": false})).unwrap();
    let reason = "a hook ended the turn and gave no reason".to_owned();
    assert_eq!(stop, Said { stop: Some(reason), ..Said::default() });
    let more = json!({"decision": "block", "reason": "r",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "c"}});
    let said = answered(Moment::PostToolUse, &more).unwrap();
    assert_eq!(said.context, ["r", "c"]);
}

#[test]
fn what_is_not_understood_is_a_failure() {
    let table = [
        (ran(1, "{}", "boom"), "ended with exit code 1: boom"),
        (ran(127, "", "no-such: command not found"), "ended with exit code 127: no-such"),
        (ran(0, "{\"decision\": ", ""), "answered with JSON that is wrong: EOF"),
        (ran(0, "{} trailing", ""), "answered with JSON that is wrong: trailing"),
        (ran(0, "{\"decision\": \"maybe\"}", ""), "answered with JSON that is wrong: unknown"),
        (ran(0, "{\"continue\": \"no\"}", ""), "answered with JSON that is wrong: invalid type"),
        (ran(0, "{\"descision\": \"block\"}", ""), "answered with the unknown key 'descision'"),
        (
            ran(0, "{\"hookSpecificOutput\": {\"permisionDecision\": \"deny\"}}", ""),
            "answered with the unknown key 'permisionDecision', near 'permissionDecision'",
        ),
        (
            ran(0, "{\"hook_specific_output\": {\"permissionDecision\": \"deny\"}}", ""),
            "answered with the unknown key 'hook_specific_output', near 'hookSpecificOutput'",
        ),
        (
            ran(0, "{\"hookSpecificOutput\": {\"decision\": {\"behaviour\": \"deny\"}}}", ""),
            "answered with the unknown key 'behaviour', near 'behavior'",
        ),
        (
            ran(0, "{\"hookSpecificOutput\": {\"decision\": {}}}", ""),
            "answered with JSON that is wrong: missing field `behavior`",
        ),
        (
            ran(0, "{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\"}}", ""),
            "answered for Stop, but was told of PreToolUse",
        ),
    ];
    for (ran, start) in table {
        let error = read(Moment::PreToolUse, &ran).unwrap_err();
        assert!(error.starts_with(start), "{ran:?}: expected '{start}', got '{error}'");
    }
    let ran = Ran { status: ExitStatus::Signal(11), ..ran(0, "{}", "") };
    assert_eq!(read(Moment::Stop, &ran), Err("was ended by signal 11".to_owned()));
}

#[test]
fn an_answer_in_the_wrong_place_is_a_failure() {
    let table = [
        (json!({"permissionDecision": "deny"}), "'permissionDecision' at the top"),
        (json!({"permissionDecision": "allow"}), "'permissionDecision' at the top"),
        (json!({"permission_decision": "deny"}), "'permissionDecision' belongs in hookSpecific"),
        (json!({"behavior": "deny", "message": "no"}), "'behavior' at the top"),
        (json!({"updatedInput": {}}), "'updatedInput' at the top"),
        (json!({"additionalContext": "c"}), "'additionalContext' at the top"),
        (json!({"interrupt": true}), "belongs in hookSpecificOutput.decision"),
        (json!({"hookSpecificOutput": {"continue": false}}), "'continue' in hookSpecificOutput"),
        (json!({"hookSpecificOutput": {"behavior": "deny"}}), "'behavior' in hookSpecificOutput"),
        (
            json!({"hookSpecificOutput": {"hookSpecificOutput": {"permissionDecision": "deny"}}}),
            "'hookSpecificOutput' in hookSpecificOutput",
        ),
        (
            json!({"hookSpecificOutput": {"permissionDecision": "allow", "reason": "r"}}),
            "'reason' in hookSpecificOutput",
        ),
        (json!({"result": {"permissionDecision": "deny"}}), "lies within 'result'"),
        (json!({"all": [{"hookSpecificOutput": {}}]}), "lies within 'all'"),
    ];
    for (value, part) in table {
        for moment in Moment::ALL {
            let error = answered(moment, &value).unwrap_err();
            assert!(error.starts_with("answered") && error.contains(part), "{value}: {error}");
        }
    }
    // What others may say, or give back.
    for value in [
        json!({"message": "3 files are fine", "level": "info"}),
        json!({"tool_input": {"permissionDecision": "deny"}, "hook_event_name": "Stop"}),
        json!({"hookSpecificOutput": {"updatedInput": {"hookSpecificOutput": {}}}}),
    ] {
        assert_eq!(answered(Moment::PreToolUse, &value).unwrap().vote, None, "{value}");
    }
    let twice = ran(0, "{\"decision\": \"block\", \"decision\": \"approve\"}", "");
    let error = read(Moment::PreToolUse, &twice).unwrap_err();
    assert!(error.contains("duplicate field `decision`"), "{error}");
}

#[test]
fn a_refusal_stands_whatever_else_is_wrong() {
    for value in [
        json!({"hookSpecificOutput": {"permissionDecision": "deny", "reason": "r"}}),
        json!({"decision": "block", "permissionDecision": "allow"}),
        json!({"hookSpecificOutput": {"decision": {"behavior": "deny"}, "stopReason": "r"}}),
        json!({"continue": false, "stopReson": "r"}),
    ] {
        let said = answered(Moment::PreToolUse, &value).unwrap();
        assert_eq!(said.vote, Some(HookVote::Deny), "{value}");
        assert!(said.notices[0].starts_with("a hook answered with"), "{said:?}");
    }
}

#[test]
fn an_answer_among_other_words_is_found() {
    let deny = json!({"hookSpecificOutput": {"permissionDecision": "deny"}});
    let lines = serde_json::to_string_pretty(&deny).unwrap();
    let table = [
        (format!("\u{feff}{deny}"), Some(HookVote::Deny)),
        (format!("\r\n\u{feff} {deny}\n"), Some(HookVote::Deny)),
        (format!("loading\n{deny}"), None),
        (format!("loading\r\n  {deny}\r\nbye"), None),
        (format!("50 %\r{deny}"), None),
        (format!("{{not json\nloading\n{lines}"), None),
        (format!("loading\n{lines}\nbye"), None),
        (format!("loading\n\u{feff}{deny}"), None),
        (format!("[{deny}]"), None),
        ("loading\n{\"permissionDecision\": \"deny\"}".to_owned(), None),
        ("loading\n{\"behavior\": \"deny\"}".to_owned(), None),
        ("loading\n{\"decision\": \"approve\"}".to_owned(), None),
    ];
    for (text, vote) in table {
        let said = read(Moment::PreToolUse, &ran(0, &text, "")).map(|said| said.vote);
        match vote {
            Some(_) => assert_eq!(said, Ok(vote), "{text}"),
            None => assert!(said.unwrap_err().starts_with("answered with JSON"), "{text}"),
        }
        // Words are what the model is to hear there.
        if vote.is_none() && !text.starts_with('{') {
            let heard = read(Moment::UserPromptSubmit, &ran(0, &text, "")).unwrap();
            assert_eq!(heard.context, [text.trim()]);
        }
    }
    for text in ["loading\n{\"level\": \"info\"}", "fn main() {\n}", "[1, 2]\n{}", "it: {\n{"] {
        assert_eq!(read(Moment::PreToolUse, &ran(0, text, "")), Ok(Said::default()), "{text}");
    }
}
