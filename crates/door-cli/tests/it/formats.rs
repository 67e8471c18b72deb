//! Golden outputs of the three forms for one fixed list of events.

use door_cli::StreamFacts;
use protocol::event::{
    Compacted, DeniedBy, Display, Notice, NoticeLevel, Retry, ThinkingDelta, ToolProgress,
};
use protocol::{StopReason, ToolCallId, TurnEnd};
use testkit::fake_handle::{FakeRuntime, Play, session_info};

use crate::stand::*;

const DIFF: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\u{1b}[2J\n+two\n";

/// A turn with one of everything.
fn everything() -> Vec<Play> {
    let mut plays = vec![
        step(1),
        ThinkingDelta { text: "hm".to_owned() }.into(),
        delta("I look\u{7} first."),
        says("I look\u{7} first.", StopReason::ToolUse),
        used(1000, 20),
        calls("c1", "read_file", "a.txt"),
        brings("c1", "read_file", false, Some(Display::Note { text: "2 lines".to_owned() })),
        calls("c2", "edit_file", "a.txt"),
        brings(
            "c2",
            "edit_file",
            false,
            Some(Display::Diff { diff: DIFF.to_owned(), added: 1, removed: 1 }),
        ),
        calls("c3", "run_shell", "make\n  test"),
        ToolProgress {
            tool_call_id: ToolCallId::new("c3"),
            text: "compiling\n".to_owned(),
            stream: None,
        }
        .into(),
        brings("c3", "run_shell", true, Some(Display::Exit { code: Some(2), signal: None })),
        calls("c4", "grep", "x"),
        brings("c4", "grep", true, None),
        calls("c5", "run_shell", "rm -rf /"),
        denies("c5", "run_shell", DeniedBy::Rule, "denied by the rule run_shell(rm *)"),
        Notice { level: NoticeLevel::Warn, code: None, message: "mind the gap".to_owned() }.into(),
        Compacted {
            before: 152_000,
            after: 21_000,
            automatic: true,
            through: protocol::Seq(4),
            kept: None,
            summary: "what was said".to_owned(),
            mechanical: false,
        }
        .into(),
        step(2),
        delta("Half an ans"),
        Retry {
            attempt: 1,
            max_attempts: 0,
            delay_ms: 1500,
            reason: "529 overloaded".to_owned(),
            partial_text: "Half an ans".to_owned(),
        }
        .into(),
        delta("The whole "),
        delta("answer."),
        says("The whole answer.", StopReason::EndTurn),
        used(1200, 34),
    ];
    plays.extend(ends(result(TurnEnd::Completed, "The whole answer.")));
    plays
}

fn shown(stand: Stand, args: &[&str]) -> String {
    let outcome = stand.run(args);
    format!("exit {}\n--- stdout\n{}\n--- stderr\n{}", outcome.code, outcome.out, outcome.err)
}

fn stand() -> Stand {
    Stand::new(FakeRuntime::new().turn(everything()))
}

#[test]
fn text_into_pipes() {
    insta::assert_snapshot!(shown(stand(), &["run", "go"]));
}

#[test]
fn text_on_a_terminal() {
    insta::assert_snapshot!(shown(stand().terminal(), &["run", "go"]));
}

#[test]
fn text_on_a_terminal_in_colour() {
    let facts = StreamFacts { err_is_terminal: true, ..StreamFacts::default() };
    let text = shown(stand().facts(facts), &["run", "--color", "always", "go"]);
    insta::assert_snapshot!(text.escape_debug().to_string().replace("\\n", "\n"));
}

#[test]
fn json_is_one_object() {
    let outcome = stand().run(&["run", "--output-format", "json", "go"]);
    assert_eq!(outcome.code, 0);
    assert_eq!(outcome.err, "");
    let value: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    insta::assert_json_snapshot!(value);
}

#[test]
fn stream_json_is_every_public_event() {
    insta::assert_snapshot!(shown(stand(), &["run", "--output-format", "stream-json", "go"]));
}

#[test]
fn a_stream_of_an_old_session_begins_with_its_facts() {
    let runtime = FakeRuntime::new()
        .session(session_info("01kc3v9yq8f2m0x4c7b1n5tzwe", "/src/app"))
        .turn(answer("again"));
    let args = ["run", "--output-format", "stream-json", "--continue", "--mode", "plan", "go"];
    let outcome = Stand::new(runtime).run(&args);
    let kinds: Vec<String> = outcome
        .out
        .lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let mode = event["mode"].as_str().unwrap_or_default();
            format!("{} {mode}", event["type"].as_str().unwrap()).trim_end().to_owned()
        })
        .collect();
    let expected = ["session_start plan", "turn_start", "text_delta", "assistant_message", "done"];
    assert_eq!(kinds, expected);
}

#[test]
fn no_control_sequence_of_others_reaches_a_terminal() {
    for format in ["text", "json", "stream-json"] {
        let outcome = stand().terminal().run(&["run", "--output-format", format, "go"]);
        for text in [&outcome.out, &outcome.err] {
            let foreign = text.chars().find(|letter| letter.is_control() && *letter != '\n');
            assert_eq!(foreign, None, "{format}: {text:?}");
        }
    }
}
