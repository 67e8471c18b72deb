//! What hooks are told, at each moment.

use driver_api::{Happening, Hooks, Moment};
use hooks::{CommandHooks, Origin};
use serde_json::{Value, json};

use crate::place::{Place, at, call, group, set, shell};

const KEEP: &str = "cat > told.json";

async fn told(place: &Place, hooks: &CommandHooks, happening: &Happening) -> Value {
    let answer = place.tell(hooks, happening).await;
    assert_eq!(answer, driver_api::HookAnswer::default(), "{happening:?}");
    serde_json::from_str(&place.read("told.json")).unwrap()
}

fn moments() -> Vec<(Happening, Value)> {
    let input = json!({"path": "a.txt", "content": "c"});
    let write = || call("write_file", input.clone(), &["/w/a.txt"]);
    let with_call = |more: Value| {
        let mut told = json!({
            "tool_name": "Write", "tool_input": {"file_path": "/w/a.txt", "content": "c"},
            "tool_use_id": "call_1", "native_tool_name": "write_file",
            "native_tool_input": input, "paths": ["/w/a.txt"],
        });
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        told
    };
    let stop = |is_child| Happening::Stop { is_repeated: true, text: "bye".into(), is_child };
    let stopped = json!({"stop_hook_active": true, "last_assistant_message": "bye"});
    vec![
        (Happening::SessionStart { source: "resume" }, json!({"source": "resume"})),
        (Happening::UserPromptSubmit { prompt: "do it".into() }, json!({"prompt": "do it"})),
        (Happening::PreToolUse(write()), with_call(json!({}))),
        (
            Happening::PermissionRequest {
                call: write(),
                suggestions: vec!["write_file(a.txt)".into()],
            },
            with_call(json!({"permission_suggestions": ["write_file(a.txt)"]})),
        ),
        (
            Happening::PostToolUse { call: write(), response: "done".into(), is_error: false },
            with_call(json!({
                "tool_response": {"content": "done", "is_error": false, "success": true},
            })),
        ),
        (
            Happening::Notification { message: "come".into(), kind: "idle_prompt" },
            json!({"message": "come", "notification_type": "idle_prompt"}),
        ),
        (stop(false), stopped.clone()),
        (stop(true), stopped),
        (
            Happening::PreCompact { automatic: true, focus: Some("tests".into()) },
            json!({"trigger": "auto", "custom_instructions": "tests"}),
        ),
    ]
}

#[tokio::test]
async fn each_moment_is_told_with_what_belongs_to_it() {
    let place = Place::new();
    let mut seen = Vec::new();
    for (happening, own) in moments() {
        let moment = happening.moment();
        seen.push(moment);
        let mut expected = json!({
            "session_id": "ses_1", "cwd": place.cwd(), "permission_mode": "acceptEdits",
            "mode": "auto-edit", "hook_event_name": moment.as_str(),
        });
        expected.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let hooks = at(moment.as_str(), &[KEEP]);
        for other in Moment::ALL {
            assert_eq!(hooks.wants(other, "write_file"), other == moment, "{other:?}");
        }
        assert_eq!(told(&place, &hooks, &happening).await, expected, "{moment:?}");
    }
    assert_eq!(seen, Moment::ALL.map(|moment| moment), "every moment is tried");
}

#[tokio::test]
async fn a_hook_that_gives_back_what_it_is_told_wants_nothing() {
    let place = Place::new();
    for (happening, _) in moments() {
        let moment = happening.moment().as_str();
        for command in ["cat", "echo told:; cat"] {
            let answer = place.tell(&at(moment, &[command]), &happening).await;
            assert_eq!((answer.vote, answer.failures), (None, Vec::new()), "{moment} {command}");
        }
    }
}

#[tokio::test]
async fn matchers_choose_by_tool_and_by_kind() {
    let place = Place::new();
    let hooks = |moment: &str, matcher: &str| {
        let value = json!({moment: [group(matcher, &["echo ran >> ran"])]});
        CommandHooks::new(vec![(Origin::User, set(&value))]).unwrap()
    };
    let start = || Happening::SessionStart { source: "startup" };
    let notify = || Happening::Notification { message: "m".into(), kind: "question" };
    let compact = || Happening::PreCompact { automatic: false, focus: None };
    let stop = || Happening::Stop { is_repeated: false, text: String::new(), is_child: false };
    let table = [
        ("PreToolUse", "Bash|Edit", shell("x"), true),
        ("PreToolUse", "run_shell", shell("x"), true),
        ("PreToolUse", "Edit", shell("x"), false),
        ("SessionStart", "startup|resume", start(), true),
        ("SessionStart", "compact", start(), false),
        ("Notification", "question", notify(), true),
        ("Notification", "permission_prompt", notify(), false),
        ("PreCompact", "manual", compact(), true),
        ("PreCompact", "auto", compact(), false),
        ("Stop", "anything", stop(), true),
    ];
    for (moment, matcher, happening, expected) in table {
        place.script("ran", "");
        place.tell(&hooks(moment, matcher), &happening).await;
        assert_eq!(place.read("ran") == "ran\n", expected, "{moment} {matcher}");
    }
    let edits = hooks("PreToolUse", "Edit|Write");
    for (tool, wanted) in [("apply_patch", true), ("write_file", true), ("run_shell", false)] {
        assert_eq!(edits.wants(Moment::PreToolUse, tool), wanted, "{tool}");
    }
    assert_eq!(edits.doubts(), [""; 0]);
    let doubts = hooks("PreToolUse", "Bsah");
    assert!(doubts.doubts()[0].contains("hooks.PreToolUse[0].matcher: 'Bsah'"), "{doubts:?}");
    assert!(doubts.doubts()[0].contains("in your hooks"), "{doubts:?}");
    let group = json!({"PreToolUse": [group("Bsah", &["x"])]});
    let twice = vec![(Origin::Project, set(&group)), (Origin::Project, set(&group))];
    assert_eq!(CommandHooks::new(twice).unwrap().doubts().len(), 1);
}

#[tokio::test]
async fn a_hook_knows_its_project_and_runs_in_it() {
    let place = Place::new();
    let command = "printf '%s|%s|%s' \"$PWD\" \"$CLAUDE_PROJECT_DIR\" \"$NARTHEX_PROJECT_DIR\"";
    let prompt = Happening::UserPromptSubmit { prompt: "p".into() };
    let answer = place.tell(&at("UserPromptSubmit", &[command]), &prompt).await;
    let cwd = place.cwd().display();
    assert_eq!(answer.context, [format!("{cwd}|{cwd}|{cwd}")]);
}

#[tokio::test]
async fn the_same_command_runs_once_and_a_patch_is_told_file_by_file() {
    let place = Place::new();
    let note = "grep -o '\"file_path\":\"[^\"]*\"' >> files";
    let value =
        json!({"PostToolUse": [group("Edit|Write", &[note, note]), group("Edit", &[note])]});
    let sets = vec![(Origin::User, set(&value)), (Origin::Project, set(&value))];
    let hooks = CommandHooks::new(sets).unwrap();
    let patch = call("apply_patch", json!({"patch": "@@"}), &["/w/a", "/w/b"]);
    let happening =
        Happening::PostToolUse { call: patch, response: String::new(), is_error: false };
    place.tell(&hooks, &happening).await;
    let files = place.read("files");
    let mut lines: Vec<_> = files.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["\"file_path\":\"/w/a\"", "\"file_path\":\"/w/b\""]);
}

#[tokio::test]
async fn hooks_of_a_moment_run_side_by_side() {
    let place = Place::new();
    // Each waits for all the others: one after the other they would never end.
    let script = |number: usize| {
        format!("touch side.{number}; while [ $(ls side.* | wc -l) -lt 8 ]; do sleep 0.01; done")
    };
    let commands: Vec<String> = (0..8).map(script).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let answer = place.tell(&at("PreToolUse", &commands), &shell("x")).await;
    assert_eq!(answer, driver_api::HookAnswer::default());
}

#[tokio::test]
async fn a_call_that_is_too_large_to_be_told_is_asked_for() {
    let place = Place::new();
    let write = |len| call("write_file", json!({"path": "a", "content": "x".repeat(len)}), &[]);
    let hooks = at("PreToolUse", &["wc -c > size"]);
    // Twice this is too much, once is not.
    let answer = place.tell(&hooks, &Happening::PreToolUse(write(3 << 20))).await;
    assert_eq!((answer.vote, answer.failures), (None, Vec::new()));
    assert!(place.read("size").trim().parse::<usize>().unwrap() > 3 << 20);
    let answer = place.tell(&hooks, &Happening::PreToolUse(write(4 << 20))).await;
    assert_eq!(answer.vote, Some(driver_api::HookVote::Ask));
    assert!(answer.failures[0].contains("more than a hook can be told"), "{answer:?}");
}
