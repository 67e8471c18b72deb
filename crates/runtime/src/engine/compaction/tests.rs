//! Tests of what is chosen, and of the texts.

use protocol::event::{
    AssistantMessage, Display, Done, PromptOptions, PromptStarted, ToolResult, TurnResult,
};
use protocol::{
    Block, EventBody, MessageId, PromptId, Seq, StopReason, Timestamp, ToolCallId, TurnEnd, Usage,
};
use serde_json::json;

use super::*;
use crate::engine::stored::Shown;

fn frame(last: u64, size: u64) -> Frame {
    Frame { last: Seq(last), size, fixed: 400, window: 10_000, is_automatic: true }
}

fn prompt(text: &str) -> EventBody {
    let (prompt_id, message_id) = (PromptId::new("p"), MessageId::new("m"));
    let content = vec![Block::text(text)];
    let options = PromptOptions::default();
    PromptStarted { prompt_id, message_id, content, max_turns: None, command: None, options }.into()
}

fn answer(blocks: Vec<Block>) -> EventBody {
    let message_id = MessageId::new("m");
    AssistantMessage { message_id, content: blocks, stop_reason: StopReason::EndTurn }.into()
}

fn call(id: &str, command: &str) -> EventBody {
    answer(vec![Block::ToolUse {
        id: ToolCallId::new(id),
        name: "run_shell".into(),
        input: json!({"command": command}).as_object().cloned().unwrap(),
        malformed: None,
        signed: None,
    }])
}

fn result(id: &str, text: &str, code: i32) -> EventBody {
    ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: "run_shell".into(),
        is_error: code != 0,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 1,
        display: Some(Display::Exit { code: Some(code), signal: None }),
        files: Vec::new(),
    }
    .into()
}

fn withdrawn() -> EventBody {
    let result = TurnResult {
        reason: TurnEnd::Error,
        code: Some("context_overflow".into()),
        message: None,
        usage: Usage::default(),
        cost_usd: None,
        turns: 1,
        duration_ms: 0,
        text: String::new(),
        unanswered: 0,
        structured: None,
    };
    Done { result }.into()
}

fn shown(bodies: Vec<EventBody>) -> Vec<Shown> {
    let at = |(index, body)| Shown::Event(Seq(index as u64 + 1), Timestamp(0), Box::new(body));
    bodies.into_iter().enumerate().map(at).collect()
}

#[test]
fn the_cut_is_before_an_answer_and_keeps_calls_with_their_results() {
    let big = "x".repeat(8_000);
    let bodies = vec![
        prompt("do it"),
        call("a", "one"),
        result("a", &big, 0),
        call("b", "two"),
        result("b", &big, 0),
        call("c", "three"),
        result("c", &big, 0),
    ];
    let plan = plan(shown(bodies), &frame(7, 7_000)).unwrap();
    assert_eq!((plan.through, plan.kept), (Seq(5), Some(Seq(1))));
    assert_eq!(plan.older.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
    let after = plan.after("short");
    assert!(after > 1_000 && after < 4_000, "{after}");
}

#[test]
fn a_step_that_is_too_large_to_stay_is_summarised_whole() {
    let bodies = vec![prompt("do it"), call("a", "one"), result("a", &"x".repeat(30_000), 0)];
    let plan = plan(shown(bodies), &frame(9, 8_000)).unwrap();
    assert_eq!((plan.through, plan.kept), (Seq(9), Some(Seq(1))));
}

#[test]
fn two_answers_in_a_row_are_not_parted() {
    let text = |text: &str| answer(vec![Block::text(text)]);
    let bodies =
        vec![prompt("do it"), text(&"x".repeat(30_000)), text("and"), prompt("on"), text("so")];
    let plan = plan(shown(bodies), &frame(5, 8_000)).unwrap();
    assert_eq!((plan.through, plan.kept), (Seq(4), Some(Seq(4))));
}

#[test]
fn nothing_is_chosen_where_nothing_would_be_freed() {
    assert!(plan(shown(vec![prompt("alone")]), &frame(1, 8_000)).is_none());
    assert!(plan(Vec::new(), &frame(1, 8_000)).is_none());
    // The prompt stays, so what could go is next to nothing.
    let bodies = vec![prompt(&"x".repeat(30_000)), call("a", "one"), result("a", "ok", 0)];
    assert!(plan(shown(bodies), &frame(3, 8_000)).is_none());
}

#[test]
fn a_withdrawn_prompt_is_neither_kept_nor_told() {
    let bodies = vec![
        prompt("do it"),
        answer(vec![Block::text("x".repeat(20_000))]),
        prompt("SECRET"),
        withdrawn(),
    ];
    let plan = plan(shown(bodies), &frame(4, 8_000)).unwrap();
    assert_eq!(plan.kept, Some(Seq(1)));
    let record = Record::new(None, &plan.older).within(100_000);
    assert!(!record.contains("SECRET"), "{record}");
}

#[test]
fn a_record_shortens_outputs_first_and_drops_the_oldest_middle_last() {
    let mut bodies = vec![prompt("the goal")];
    for index in 0..60 {
        let id = format!("c{index}");
        bodies.push(call(&id, &format!("step {index}")));
        bodies.push(result(&id, &format!("begin{index} {} end{index}", "x".repeat(9_000)), 0));
    }
    let items: Vec<_> =
        bodies.into_iter().enumerate().map(|(at, body)| (Seq(at as u64), body)).collect();
    let whole = Record::new(None, &items).within(u64::MAX);
    assert!(whole.len() > 540_000);
    let shortened = Record::new(None, &items).within(200_000);
    assert!(shortened.len() <= 200_000);
    assert!(shortened.contains("begin0 ") && shortened.contains("end59"), "all are there");
    let dropped = Record::new(None, &items).within(10_000);
    assert!(dropped.len() <= 10_000, "{}", dropped.len());
    assert!(dropped.contains("the goal") && dropped.contains("end59"));
    assert!(dropped.contains("left out") && !dropped.contains("begin0 "));
    for most in [0, 10, 100, 1_000] {
        let tiny = Record::new(Some("earlier"), &items).within(most);
        assert!(tiny.len() as u64 <= most + 60, "{} for {most}", tiny.len());
    }
}

#[test]
fn shortening_respects_letters() {
    let text = "ä€😀".repeat(1_000);
    for most in 0..40 {
        let short = shorten(&text, most);
        assert!(short.contains("left out") && short.len() <= most + 40, "{short}");
    }
    assert_eq!(shorten("short", 5), "short");
}

#[test]
fn a_summary_without_a_model_tells_calls_and_the_newest_answer() {
    let mut bodies = vec![prompt("do it")];
    for index in 0..30 {
        let id = format!("c{index}");
        bodies.push(call(&id, &format!("cargo   test\n-p p{index}")));
        bodies.push(result(&id, "FAILED", i32::from(index == 29)));
    }
    bodies.push(answer(vec![Block::text("One test fails."), Block::text("x".repeat(40_000))]));
    let mut plan = plan(shown(bodies), &frame(62, 9_000)).unwrap();
    plan.earlier = Some("what was before".into());
    let text = put_together(&plan, 100_000);
    assert!(text.contains("what was before") && text.contains("One test fails."), "{text}");
    assert!(text.contains("- run_shell cargo test -p p29: exit code 1"), "{text}");
    assert!(!text.contains("p9:"), "only the newest twenty");
    assert!(put_together(&plan, 2_000).len() < 2_100);
}

#[test]
fn what_stands_in_place_names_prompts_and_files() {
    let parts = Parts {
        summary: " The notes. ".into(),
        is_mechanical: false,
        prompts: vec!["first words".into(), "second words".into()],
        prompts_left_out: 3,
        files: vec![("/w/a.rs".into(), false), ("/w/b.rs".into(), true)],
        files_left_out: 7,
    };
    let text = compose(&parts);
    for part in ["The notes.", "first words", "3 messages", "/w/b.rs (removed)", "and 7 more"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.find("first words") < text.find("second words"));
}

#[test]
fn the_instruction_passes_on_a_bounded_focus() {
    let focus = format!("the port {}", "x".repeat(100_000));
    let text = instruction(Some(&focus), &["ticket 42".into()]);
    assert!(text.contains("the port") && text.contains("ticket 42") && text.len() < 8_000);
    assert_eq!(instruction(Some("  "), &[]), instruction(None, &[]));
}
