//! A table of calls and what hooks read of them.

use protocol::ToolCallId;

use super::*;
use crate::back::native;

fn call(tool: &str, input: Value, paths: &[&str]) -> HookedCall {
    let Value::Object(input) = input else { panic!("expected an object") };
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    HookedCall { id: ToolCallId::new("call_1"), tool: tool.to_owned(), input, paths }
}

fn told(matcher: &str, call: &HookedCall) -> Vec<(String, Value)> {
    let views = views(&Matcher::compile(matcher).unwrap(), call).unwrap();
    views.into_iter().map(|view| (view.tool, Value::Object(view.input))).collect()
}

#[test]
fn a_matcher_chooses_the_words() {
    let shell = call("run_shell", json!({"command": "ls", "timeout_ms": 9}), &[]);
    let theirs = ("Bash".to_owned(), json!({"command": "ls", "timeout": 9}));
    let ours = ("run_shell".to_owned(), json!({"command": "ls", "timeout_ms": 9}));
    for (matcher, expected) in [
        ("Bash", Some(&theirs)),
        ("Bash|run_shell", Some(&theirs)),
        ("", Some(&theirs)),
        ("*", Some(&theirs)),
        ("run_shell", Some(&ours)),
        ("bash", Some(&ours)),
        ("run_.*", Some(&ours)),
        ("Edit", None),
        ("Bas", None),
    ] {
        let expected: Vec<_> = expected.into_iter().cloned().collect();
        assert_eq!(told(matcher, &shell), expected, "{matcher}");
        let compiled = Matcher::compile(matcher).unwrap();
        assert_eq!(fits(&compiled, "run_shell"), !expected.is_empty(), "{matcher}");
    }
    let foreign = call("mcp__files__write", json!({"x": 1}), &[]);
    assert_eq!(told("", &foreign), [("mcp__files__write".to_owned(), json!({"x": 1}))]);
    assert_eq!(told("mcp__.*", &foreign).len(), 1);
}

#[test]
fn arguments_are_told_in_the_words_that_hooks_know_and_come_back_in_ours() {
    for (matcher, call, name, expected) in [
        (
            "Read",
            call("read_file", json!({"path": "a", "limit": 3}), &["/w/a"]),
            "Read",
            json!({"file_path": "/w/a", "limit": 3}),
        ),
        (
            "Write|Edit",
            call("write_file", json!({"path": "a", "content": "c"}), &["/w/a"]),
            "Write",
            json!({"file_path": "/w/a", "content": "c"}),
        ),
        (
            "Grep",
            call("grep", json!({"pattern": "p", "output": "lines", "context": 2}), &["/w"]),
            "Grep",
            json!({"pattern": "p", "output_mode": "content", "-C": 2}),
        ),
        ("LS", call("list_dir", json!({"path": "."}), &["/w"]), "LS", json!({"path": "."})),
        (
            "Task",
            call("delegate", json!({"task": "look", "max_steps": 3}), &[]),
            "Task",
            json!({"prompt": "look", "max_steps": 3}),
        ),
        (
            "AskUserQuestion",
            call("ask_question", json!({"question": "q", "multi_select": true}), &[]),
            "AskUserQuestion",
            json!({"questions": [{"question": "q", "multiSelect": true}]}),
        ),
    ] {
        same_both_ways(matcher, &call, name, &expected);
    }
}

#[test]
fn edits_are_told_in_the_words_that_hooks_know_and_come_back_in_ours() {
    let one = json!({"path": "a", "edits": [{"old": "x", "new": "y"}]});
    let two = json!({"path": "a", "edits": [
        {"old": "x", "new": "y"}, {"old": "p", "new": "q", "all": true},
    ]});
    let two_told = json!([
        {"old_string": "x", "new_string": "y", "replace_all": false},
        {"old_string": "p", "new_string": "q", "replace_all": true},
    ]);
    for (matcher, call, name, expected) in [
        (
            "Edit|MultiEdit",
            call("edit_file", one.clone(), &["/w/a"]),
            "Edit",
            json!({
                "file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": false,
            }),
        ),
        (
            "MultiEdit",
            call("edit_file", one, &["/w/a"]),
            "MultiEdit",
            json!({"file_path": "/w/a", "edits": [
                {"old_string": "x", "new_string": "y", "replace_all": false},
            ]}),
        ),
        (
            "Edit|MultiEdit",
            call("edit_file", two.clone(), &["/w/a"]),
            "MultiEdit",
            json!({"file_path": "/w/a", "edits": two_told}),
        ),
        (
            "Edit",
            call("edit_file", two, &["/w/a"]),
            "Edit",
            json!({
                "file_path": "/w/a", "old_string": "x\np", "new_string": "y\nq",
                "replace_all": true, "edits": two_told,
            }),
        ),
    ] {
        same_both_ways(matcher, &call, name, &expected);
    }
}

fn same_both_ways(matcher: &str, call: &HookedCall, name: &str, expected: &Value) {
    let views = views(&Matcher::compile(matcher).unwrap(), call).unwrap();
    let [view] = views.as_slice() else { panic!("expected one view, got {views:?}") };
    assert_eq!((view.tool.as_str(), &Value::Object(view.input.clone())), (name, expected));
    // A hook that sends the arguments back as they are changes nothing.
    assert_eq!(native(view.input.clone(), view, call), Ok(call.input.clone()), "{name}");
}

#[test]
fn a_patch_is_told_file_by_file() {
    let patch = call("apply_patch", json!({"patch": "@@"}), &["/w/a", "/w/.env"]);
    let told_as = |matcher: &str| told(matcher, &patch);
    let paths = |told: Vec<(String, Value)>| {
        let path = |(name, input): (String, Value)| (name, input["file_path"].clone());
        told.into_iter().map(path).collect::<Vec<_>>()
    };
    for name in ["Edit", "MultiEdit", "Write"] {
        let both = [(name.to_owned(), json!("/w/a")), (name.to_owned(), json!("/w/.env"))];
        assert_eq!(paths(told_as(name)), both);
    }
    assert_eq!(told_as("Edit|Write")[0].1["new_string"], "@@");
    assert_eq!(told_as("Write")[0].1["content"], "@@");
    assert_eq!(told_as("apply_patch"), [("apply_patch".to_owned(), json!({"patch": "@@"}))]);
    let many: Vec<String> = (0..33).map(|number| format!("/w/{number}")).collect();
    let large = HookedCall { paths: many, ..patch };
    assert!(views(&Matcher::All, &large).unwrap_err().contains("33 files"));
    assert_eq!(views(&Matcher::compile("apply_patch").unwrap(), &large).unwrap().len(), 1);
}

#[test]
fn changed_arguments_come_back_in_our_words() {
    let edit = |edits: Value| call("edit_file", json!({"path": "a", "edits": edits}), &["/w/a"]);
    let one = edit(json!([{"old": "x", "new": "y"}]));
    let two = edit(json!([{"old": "x", "new": "y"}, {"old": "p", "new": "q"}]));
    let patch = call("apply_patch", json!({"patch": "@@"}), &["/w/a"]);
    let shell = call("run_shell", json!({"command": "ls", "timeout_ms": 9}), &[]);
    let table = [
        ("Bash", &shell, json!({"command": "ls -l"}), Ok(json!({"command": "ls -l"}))),
        ("Bash", &shell, json!({"command": "a", "timeout": 5}), {
            Ok(json!({"command": "a", "timeout_ms": 5}))
        }),
        ("run_shell", &shell, json!({"command": "a", "timeout_ms": 5}), {
            Ok(json!({"command": "a", "timeout_ms": 5}))
        }),
        (
            "Edit",
            &one,
            json!({"file_path": "/w/b", "old_string": "x", "new_string": "z"}),
            Ok(json!({"path": "/w/b", "edits": [{"old": "x", "new": "z"}]})),
        ),
        (
            "Edit",
            &two,
            json!({"file_path": "/w/a", "old_string": "x", "new_string": "z"}),
            Err("one piece"),
        ),
        (
            "MultiEdit",
            &two,
            json!({"file_path": "/w/a", "edits": [
                {"old_string": "1", "new_string": "2", "replace_all": true}
            ]}),
            Ok(json!({"path": "a", "edits": [{"old": "1", "new": "2", "all": true}]})),
        ),
        ("MultiEdit", &two, json!({"file_path": "/w/a"}), Err("edits")),
        ("Edit", &patch, json!({"file_path": "/w/b"}), Err("patch")),
    ];
    for (matcher, call, updated, expected) in table {
        let view = &views(&Matcher::compile(matcher).unwrap(), call).unwrap()[0];
        let Value::Object(map) = updated.clone() else { panic!("expected an object") };
        match (native(map, view, call).map(Value::Object), expected) {
            (Ok(input), Ok(expected)) => assert_eq!(input, expected, "{updated}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{updated}: {why}"),
            (other, expected) => panic!("{updated}: expected {expected:?}, got {other:?}"),
        }
    }
}

#[test]
fn a_matcher_that_can_never_fit_is_known() {
    for (matcher, fits) in [
        ("Bash", true),
        ("bash", true),
        ("apply_patch", true),
        ("Edit|Wriet", true),
        ("mcp__x__y", true),
        ("Bsah", false),
        ("Bash(git push.*)", false),
        ("NotebookEdit", false),
    ] {
        assert_eq!(fits_any(&Matcher::compile(matcher).unwrap(), matcher), fits, "{matcher}");
    }
}
