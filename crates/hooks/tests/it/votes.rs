//! What hooks answer and what comes of it.

use driver_api::{Happening, HookVote};
use hooks::{CommandHooks, Origin};
use serde_json::{Value, json};

use crate::place::{Place, at, call, from, group, set, shell};

/// A guard as people have it already: it knows the tool as `Bash`.
const GUARD: &str = r#"#!/bin/sh
told=$(cat)
case "$told" in
*'"tool_name":"Bash"'*'"command":"git push'*)
    echo "pushing is for people" >&2
    exit 2 ;;
esac
exit 0
"#;

/// The same for one who knows the native words.
const NATIVE_GUARD: &str = r#"#!/bin/sh
case "$(cat)" in
*'"tool_name":"run_shell"'*'"command":"git push'*) echo "no push" >&2; exit 2 ;;
esac
"#;

fn answer_of(value: &Value) -> String {
    format!("echo '{value}'")
}

fn decision(decision: &str, more: &Value) -> String {
    let mut specific = json!({
        "hookEventName": "PreToolUse", "permissionDecision": decision,
        "permissionDecisionReason": format!("{decision} it"),
    });
    specific.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer_of(&json!({"hookSpecificOutput": specific}))
}

#[tokio::test]
async fn guards_in_either_words_deny() {
    let place = Place::new();
    place.script("guard", GUARD);
    place.script("native", NATIVE_GUARD);
    for (matcher, script, reason) in [
        ("Bash", "./guard", "pushing is for people"),
        ("", "$CLAUDE_PROJECT_DIR/guard", "pushing is for people"),
        ("run_shell", "./native", "no push"),
    ] {
        let value = json!({"PreToolUse": [group(matcher, &[script])]});
        let hooks = CommandHooks::new(vec![(Origin::Project, set(&value))]).unwrap();
        let answer = place.tell(&hooks, &shell("git push --force")).await;
        assert_eq!(answer.vote, Some(HookVote::Deny), "{matcher}: {answer:?}");
        assert_eq!(answer.reason.as_deref(), Some(reason));
        assert_eq!(place.tell(&hooks, &shell("git status")).await.vote, None);
    }
}

#[tokio::test]
async fn e44_a_deny_binds_whatever_others_say() {
    let place = Place::new();
    let allow = decision("allow", &json!({}));
    let (ask, slow_deny) = (decision("ask", &json!({})), "sleep 0.2; echo never >&2; exit 2");
    let all = [allow.as_str(), "exit 0", slow_deny, ask.as_str(), "echo '{}'"];
    let answer = place.tell(&at("PreToolUse", &all), &shell("x")).await;
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Deny), Some("never")));
    let answer = place.tell(&at("PreToolUse", &[&allow, &ask]), &shell("x")).await;
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Ask), Some("ask it")));
    let answer = place.tell(&at("PreToolUse", &[&allow]), &shell("x")).await;
    assert_eq!(answer.vote, Some(HookVote::Allow));
    let failing = place.tell(&at("PreToolUse", &[&allow, "exit 1"]), &shell("x")).await;
    assert_eq!(failing.vote, Some(HookVote::Ask));
}

/// Allows what lies in `docs` and says nothing of anything else.
const DOCS: &str = r#"#!/bin/sh
case "$(cat)" in
*'"file_path":"/w/docs/'*) echo "$1" ;;
esac
"#;

#[tokio::test]
async fn an_allowed_file_does_not_allow_its_patch() {
    use HookVote::{Allow, Deny};
    let place = Place::new();
    place.script("docs", DOCS);
    let request = json!({"hookSpecificOutput": {"decision": {"behavior": "allow"}}});
    let before = json!({"hookSpecificOutput": {"permissionDecision": "allow"}});
    let other = "grep -q docs/a && exit 2; exit 0";
    for (moment, answer) in [("PreToolUse", before), ("PermissionRequest", request)] {
        let told = |paths: &[&str]| {
            let call = call("apply_patch", json!({"patch": "@@"}), paths);
            match moment {
                "PreToolUse" => Happening::PreToolUse(call),
                _ => Happening::PermissionRequest { call, suggestions: Vec::new() },
            }
        };
        let docs = format!("./docs '{answer}'");
        let hooks = |commands: &[&str]| {
            let value = json!({moment: [group("Edit|Write", commands)]});
            CommandHooks::new(vec![(Origin::User, set(&value))]).unwrap()
        };
        let (alone, both) = (hooks(&[&docs]), hooks(&[&docs, "cat >/dev/null; echo '{}'"]));
        for (hooks, paths, expected) in [
            (&alone, &["/w/docs/a.md", "/w/src/main.rs"] as &[&str], None),
            (&alone, &["/w/src/main.rs", "/w/docs/a.md"], None),
            (&alone, &["/w/docs/a.md", "/w/docs/b.md"], Some(Allow)),
            (&alone, &["/w/docs/a.md"], Some(Allow)),
            (&both, &["/w/docs/a.md", "/w/docs/b.md"], Some(Allow)),
            (&both, &["/w/docs/a.md", "/w/src/main.rs"], None),
            (&hooks(&[&docs, other]), &["/w/docs/a.md", "/w/docs/b.md"], Some(Deny)),
        ] {
            let said = place.tell(hooks, &told(paths)).await;
            assert_eq!(said.vote, expected, "{moment} {paths:?}: {said:?}");
            assert_eq!(said.failures, [""; 0], "{moment} {paths:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_nearly_one_never_lets_a_call_run() {
    let place = Place::new();
    let allow = decision("allow", &json!({}));
    let deny = json!({"permissionDecision": "deny"});
    for command in [
        answer_of(&deny),
        format!("echo checking; {}", answer_of(&json!({"hookSpecificOutput": deny}))),
    ] {
        let answer = place.tell(&at("PreToolUse", &[&command, &allow]), &shell("x")).await;
        assert_eq!(answer.vote, Some(HookVote::Ask), "{command}: {answer:?}");
        assert_eq!(answer.failures.len(), 1, "{command}: {answer:?}");
    }
    let marked = format!("printf '\\357\\273\\277'; {}", decision("deny", &json!({})));
    let answer = place.tell(&at("PreToolUse", &[&marked]), &shell("x")).await;
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Deny), Some("deny it")));
}

#[tokio::test]
async fn a_project_s_allow_is_no_vote_and_its_changes_are_none() {
    let place = Place::new();
    let allow = decision("allow", &json!({"updatedInput": {"command": "rm -rf /"}}));
    let answer = place.tell(&from(Origin::Project, "PreToolUse", &[&allow]), &shell("x")).await;
    assert_eq!((answer.vote, &answer.input), (None, &None));
    assert!(answer.notices[0].contains("may not"), "{answer:?}");
    let deny = decision("deny", &json!({}));
    let answer = place.tell(&from(Origin::Project, "PreToolUse", &[&deny]), &shell("x")).await;
    assert_eq!(answer.vote, Some(HookVote::Deny));
    for origin in [Origin::Managed, Origin::System, Origin::User] {
        let answer = place.tell(&from(origin, "PreToolUse", &[&allow]), &shell("x")).await;
        assert_eq!(answer.vote, Some(HookVote::Allow), "{origin:?}");
        assert_eq!(answer.input, json!({"command": "rm -rf /"}).as_object().cloned());
    }
}

#[tokio::test]
async fn arguments_come_back_in_native_words() {
    let place = Place::new();
    let updated = json!({"file_path": "/w/b", "old_string": "x", "new_string": "z"});
    let command = decision("ask", &json!({"updatedInput": updated}));
    let edit = json!({"path": "a", "edits": [{"old": "x", "new": "y"}]});
    let happening = Happening::PreToolUse(call("edit_file", edit, &["/w/a"]));
    let answer = place.tell(&at("PreToolUse", &[&command]), &happening).await;
    let expected = json!({"path": "/w/b", "edits": [{"old": "x", "new": "z"}]});
    assert_eq!(answer.input.map(Value::Object), Some(expected));
    let patch = Happening::PreToolUse(call("apply_patch", json!({"patch": "@@"}), &["/w/a"]));
    let answer = place.tell(&at("PreToolUse", &[&command]), &patch).await;
    assert_eq!((answer.vote, answer.input), (Some(HookVote::Ask), None));
    assert!(answer.failures[0].contains("patch"), "{:?}", answer.failures);
}

#[tokio::test]
async fn a_permission_request_is_answered() {
    let place = Place::new();
    let request = || Happening::PermissionRequest {
        call: call("run_shell", json!({"command": "ls"}), &[]),
        suggestions: Vec::new(),
    };
    let answer = |decision: Value| {
        answer_of(&json!({"hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": decision,
        }}))
    };
    let allow = answer(json!({"behavior": "allow", "updatedInput": {"command": "ls -l"}}));
    let said = place.tell(&at("PermissionRequest", &[&allow]), &request()).await;
    assert_eq!(said.vote, Some(HookVote::Allow));
    assert_eq!(said.input, json!({"command": "ls -l"}).as_object().cloned());
    let deny = answer(json!({"behavior": "deny", "message": "not today", "interrupt": true}));
    let said = place.tell(&at("PermissionRequest", &[&allow, &deny]), &request()).await;
    assert_eq!((said.vote, said.reason.as_deref()), (Some(HookVote::Deny), Some("not today")));
    assert_eq!((said.stop.as_deref(), said.input), (Some("not today"), None));
}

#[tokio::test]
async fn blocks_notices_and_context_at_other_moments() {
    let place = Place::new();
    let prompt = Happening::UserPromptSubmit { prompt: "p".into() };
    let words = ["echo first", "sleep 0.2; echo second; echo ignored >&2", "echo third"];
    let answer = place.tell(&at("UserPromptSubmit", &words), &prompt).await;
    assert_eq!(answer.context, ["first", "second", "third"]);
    let refuse = answer_of(&json!({"decision": "block", "reason": "no secrets"}));
    let answer = place.tell(&at("UserPromptSubmit", &[&refuse]), &prompt).await;
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Deny), Some("no secrets")));

    let start = Happening::SessionStart { source: "startup" };
    let context = answer_of(&json!({
        "hookSpecificOutput": {
            "hookEventName": "SessionStart", "additionalContext": "branch: main",
        },
        "systemMessage": "hello",
    }));
    let answer = place.tell(&at("SessionStart", &[&context, "echo no >&2; exit 2"]), &start).await;
    assert_eq!((answer.vote, answer.context), (None, vec!["branch: main".to_owned()]));
    assert_eq!(answer.notices, ["hello", "no"]);

    let ran = Happening::PostToolUse {
        call: call("run_shell", json!({"command": "x"}), &[]),
        response: "ok".into(),
        is_error: false,
    };
    let answer = place.tell(&at("PostToolUse", &["echo 'lint: a.rs:3' >&2; exit 2"]), &ran).await;
    assert_eq!((answer.vote, answer.context), (None, vec!["lint: a.rs:3".to_owned()]));

    for (moment, is_child) in [("Stop", false), ("SubagentStop", true)] {
        let stop = Happening::Stop { is_repeated: false, text: "done".into(), is_child };
        let answer = place.tell(&at(moment, &["echo 'run the tests' >&2; exit 2"]), &stop).await;
        assert_eq!(answer.vote, Some(HookVote::Deny), "{moment}");
        assert_eq!(answer.reason.as_deref(), Some("run the tests"));
    }

    let compact = Happening::PreCompact { automatic: true, focus: None };
    let answer = place.tell(&at("PreCompact", &["echo later >&2; exit 2"]), &compact).await;
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Deny), Some("later")));

    let enough = answer_of(&json!({"continue": false, "stopReason": "enough"}));
    let answer = place.tell(&at("PostToolUse", &[&enough]), &ran).await;
    assert_eq!((answer.vote, answer.stop.as_deref()), (None, Some("enough")));
}
