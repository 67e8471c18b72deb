//! What is read, and what is said of what cannot be.

use super::*;

fn hook(command: &str, timeout: u64) -> HookCommand {
    HookCommand { kind: HookKind::Command, command: command.to_owned(), timeout }
}

fn expected() -> HookSet {
    HookSet {
        pre_tool_use: vec![HookGroup {
            matcher: "Bash|Edit".to_owned(),
            hooks: vec![hook("guard", 5), hook("second", 60)],
        }],
        stop: vec![HookGroup { matcher: String::new(), hooks: vec![hook("again", 600)] }],
        ..HookSet::default()
    }
}

const JSON: &str = r#"{
    "PreToolUse": [{"matcher": "Bash|Edit", "hooks": [
        {"type": "command", "command": "guard", "timeout": 5},
        {"command": "second"}
    ]}],
    "Stop": [{"hooks": [{"type": "command", "command": "again", "timeout": 600}]}]
}"#;

#[test]
fn the_forms_of_settings_and_files_are_one() {
    assert_eq!(HookSet::from_json(JSON), Ok(expected()));
    assert_eq!(HookSet::from_json(&format!("{{\"hooks\": {JSON}}}")), Ok(expected()));
    #[derive(Deserialize)]
    struct Settings {
        hooks: HookSet,
    }
    let text = r#"
        [[hooks.PreToolUse]]
        matcher = "Bash|Edit"
        hooks = [{type = "command", command = "guard", timeout = 5}, {command = "second"}]

        [[hooks.Stop]]
        hooks = [{type = "command", command = "again", timeout = 600}]
    "#;
    assert_eq!(toml::from_str::<Settings>(text).unwrap().hooks, expected());
    let written = serde_json::to_string(&expected()).unwrap();
    assert_eq!(HookSet::from_json(&written), Ok(expected()));
    assert!(HookSet::from_json("{}").unwrap().is_empty() && !expected().is_empty());
}

#[test]
fn keys_of_existing_files_that_change_nothing_are_accepted() {
    let more = r#""command": "second", "statusMessage": "looking", "async": false,
        "asyncRewake": false, "once": false, "shell": "bash""#;
    let text = JSON.replace(r#""command": "second""#, more);
    let text = format!(r#"{{"$schema": "s", "description": "d", "hooks": {text}}}"#);
    assert_eq!(HookSet::from_json(&text), Ok(expected()));
}

#[test]
fn keys_and_kinds_that_would_mean_something_else_are_refused() {
    let table = [
        (r#""command": "x", "once": true"#, ".once: not supported: the hook would run every time"),
        (r#""command": "x", "async": true"#, ".async: not supported: every hook is waited for"),
        (r#""command": "x", "asyncRewake": 1"#, ".asyncRewake: not supported: every hook is"),
        (r#""command": "x", "if": "Bash(git *)""#, ".if: not supported: the hook would run for"),
        (r#""command": "x", "shell": "zsh""#, ".shell: not supported: commands are bash's"),
        (
            r#""type": "prompt", "prompt": "is it fine?""#,
            ".type: \"prompt\" is no kind of hook \
            here; the only one is \"command\", a command line",
        ),
        (r#""type": "http", "url": "https://example.org""#, ".type: \"http\" is no kind of hook"),
        (r#""type": 3, "command": "x""#, ".type: 3 is no kind of hook here"),
    ];
    for (keys, start) in table {
        let text = format!(r#"{{"Stop": [{{"hooks": [{{{keys}}}]}}]}}"#);
        refused(&text, &format!("hooks.Stop[0].hooks[0]{start}"));
    }
}

#[test]
fn every_moment_can_be_named() {
    for moment in Moment::ALL {
        let text = format!(r#"{{"{}": [{{"hooks": [{{"command": "x"}}]}}]}}"#, moment.as_str());
        let set = HookSet::from_json(&text).unwrap();
        for other in Moment::ALL {
            assert_eq!(set.groups(other).len(), usize::from(other == moment), "{moment:?}");
        }
    }
    let schema = schemars::schema_for!(HookSet);
    let keys = schema.as_value()["properties"].as_object().unwrap().keys();
    assert!(keys.eq(Moment::ALL.map(Moment::as_str).iter()), "{schema:?}");
    assert_eq!(schema.as_value()["additionalProperties"], Value::Bool(false));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let table = [
        ("[]", "hooks: an object is expected here"),
        ("{", "hooks: not JSON: EOF while parsing"),
        (
            r#"{"PreToolUs": []}"#,
            "hooks: no moment is called 'PreToolUs'; the nearest is 'PreToolUse' (known: ",
        ),
        (
            r#"{"session_start": []}"#,
            "hooks: no moment is called 'session_start'; the nearest is 'SessionStart'",
        ),
        (
            r#"{"hooks": {"SessionEnd": []}}"#,
            "hooks: no moment is called 'SessionEnd'; the nearest is 'SessionStart'",
        ),
        (r#"{"hooks": {}, "more": 1}"#, "hooks: unknown key 'more' beside 'hooks'"),
        (r#"{"Stop": {}}"#, "hooks.Stop: a list is expected here"),
        (r#"{"Stop": [{}]}"#, "hooks.Stop[0]: 'hooks' is missing"),
        (
            r#"{"Stop": [{"hooks": []}, {"mather": "", "hooks": []}]}"#,
            "hooks.Stop[1]: unknown key 'mather'; did you mean 'matcher'?",
        ),
        (
            r#"{"Stop": [{"hooks": [{"comand": "x"}]}]}"#,
            "hooks.Stop[0].hooks[0]: unknown key 'comand'; did you mean 'command'?",
        ),
        (
            r#"{"Stop": [{"hooks": [{"command": "x", "shape": 1}]}]}"#,
            "hooks.Stop[0].hooks[0]: unknown key 'shape' (known: type, command, timeout)",
        ),
        (
            r#"{"Stop": [{"hooks": [{"type": "prompt", "command": "x"}]}]}"#,
            "hooks.Stop[0].hooks[0].type: \"prompt\" is no kind of hook here",
        ),
        (
            r#"{"Stop": [{"hooks": [{"command": " "}]}]}"#,
            "hooks.Stop[0].hooks[0].command: a command has words",
        ),
        (
            r#"{"Stop": [{"hooks": [{"command": 3}]}]}"#,
            "hooks.Stop[0].hooks[0].command: a text is expected here",
        ),
        (
            r#"{"Stop": [{"hooks": [{"command": "x", "timeout": 601}]}]}"#,
            "hooks.Stop[0].hooks[0].timeout: 601 is no number of seconds from 1 to 600",
        ),
        (
            r#"{"Stop": [{"hooks": [{"command": "x", "timeout": 0}]}]}"#,
            "hooks.Stop[0].hooks[0].timeout: 0 is no number of seconds from 1 to 600",
        ),
        (
            r#"{"PreToolUse": [{"matcher": "Bash(", "hooks": []}]}"#,
            "hooks.PreToolUse[0].matcher: 'Bash(': no regular expression: unclosed group",
        ),
    ];
    for (text, start) in table {
        refused(text, start);
    }
}

#[test]
fn what_is_over_a_limit_is_named_with_its_place() {
    let long = |len: usize| "x".repeat(len);
    let many = |count| vec![r#"{"hooks": []}"#; count].join(",");
    let table = [
        (
            format!(r#"{{"PreToolUse": [{{"matcher": "{}", "hooks": []}}]}}"#, long(1_025)),
            "hooks.PreToolUse[0].matcher: 1025 bytes are more than 1024",
        ),
        (
            format!(r#"{{"Stop": [{{"hooks": [{{"command": "{}"}}]}}]}}"#, long(8_193)),
            "hooks.Stop[0].hooks[0].command: 8193 bytes are more than 8192",
        ),
        (format!(r#"{{"Stop": [{}]}}"#, many(65)), "hooks.Stop: 65 entries are more than 64"),
        (
            format!(r#"{{"Stop": [{{"hooks": [{}]}}]}}"#, many(33)),
            "hooks.Stop[0].hooks: 33 entries are more than 32",
        ),
        (long(FILE_BYTES_MAX + 1), "hooks: 262145 bytes are more than 262144"),
    ];
    for (text, start) in table {
        refused(&text, start);
    }
}

fn refused(text: &str, start: &str) {
    let error = HookSet::from_json(text).unwrap_err().to_string();
    assert!(error.starts_with(start), "{text:.80}: expected '{start}', got '{error}'");
}
