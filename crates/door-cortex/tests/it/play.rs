//! Turns that a runtime plays.

use protocol::event::{
    AssistantMessage, Done, PermissionRequest, PromptFinished, PromptOptions, PromptStarted,
    TextDelta, ToolCall, ToolResult, TurnResult, TurnStart, UsageEvent,
};
use protocol::{
    Block, Effect, MessageId, PromptId, RequestId, Risk, StopReason, Target, Timestamp, ToolCallId,
    TurnEnd, Usage,
};
use serde_json::{Map, Value, json};
use testkit::fake_handle::Play;

/// The prompt of so manieth turn.
fn prompt(number: usize) -> PromptId {
    PromptId::new(format!("prompt{number}"))
}

pub(crate) fn begin(number: usize, said: &str) -> Vec<Play> {
    let options =
        PromptOptions { request_id: Some("req-abc".to_owned()), ..PromptOptions::default() };
    vec![
        PromptStarted {
            prompt_id: prompt(number),
            message_id: MessageId::new(format!("m{number}")),
            content: vec![Block::text(said)],
            max_turns: Some(50),
            command: None,
            options,
        }
        .into(),
        TurnStart { turn: 1, prompt_id: prompt(number), model: "a/b".to_owned() }.into(),
    ]
}

pub(crate) fn delta(text: &str) -> Play {
    TextDelta { text: text.to_owned() }.into()
}

pub(crate) fn says(text: &str) -> Vec<Play> {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    vec![
        AssistantMessage {
            message_id: MessageId::new("answer"),
            content: vec![Block::text(text)],
            stop_reason: StopReason::EndTurn,
        }
        .into(),
        UsageEvent { usage, cost_usd: None, model: None, purpose: None }.into(),
    ]
}

pub(crate) fn input() -> Map<String, Value> {
    json!({"command": "rm -rf x"}).as_object().unwrap().clone()
}

fn target() -> Target {
    let effect = Effect::Destructive;
    Target { summary: "rm -rf x".to_owned(), effect, paths: Vec::new() }
}

pub(crate) fn permission(id: &str) -> PermissionRequest {
    PermissionRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("tc-1"),
        tool_name: "run_shell".to_owned(),
        effect: Effect::Destructive,
        target: target(),
        input: input(),
        suggested_rules: Vec::new(),
        risk: Risk::High,
        reason: None,
        review: false,
        diff: None,
        checks: Vec::new(),
        expires_at: Some(Timestamp(1_796_000_300_000)),
    }
}

pub(crate) fn calls() -> Play {
    ToolCall {
        tool_call_id: ToolCallId::new("tc-1"),
        tool_name: "run_shell".to_owned(),
        input: input(),
        target: target(),
    }
    .into()
}

pub(crate) fn brings(output: &str) -> Play {
    ToolResult {
        tool_call_id: ToolCallId::new("tc-1"),
        tool_name: "run_shell".to_owned(),
        is_error: false,
        output: vec![Block::text(output)],
        truncated: false,
        spill: None,
        duration_ms: 7,
        display: None,
        files: Vec::new(),
    }
    .into()
}

pub(crate) fn result(reason: TurnEnd, text: &str) -> TurnResult {
    TurnResult {
        reason,
        code: None,
        message: Some("the provider said: x-api-key sk-LEAKED".to_owned()),
        usage: Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() },
        cost_usd: None,
        turns: 1,
        duration_ms: 1,
        text: text.to_owned(),
        unanswered: 0,
        structured: None,
    }
}

pub(crate) fn ends(number: usize, result: &TurnResult) -> Vec<Play> {
    let prompt_id = prompt(number);
    vec![
        Done { result: result.clone() }.into(),
        PromptFinished { prompt_id, result: result.clone() }.into(),
    ]
}

/// A turn that answers with one text.
pub(crate) fn plain(number: usize, text: &str) -> Vec<Play> {
    let mut all = begin(number, "hi");
    all.extend(text.split_inclusive(' ').map(delta));
    all.extend(says(text));
    all.extend(ends(number, &result(TurnEnd::Completed, text)));
    all
}

/// A turn that waits until it is stopped, and then is.
pub(crate) fn stalled(number: usize) -> Vec<Play> {
    let mut all = begin(number, "hi");
    all.push(delta("one "));
    all.push(Play::UntilInterrupt);
    all.extend(ends(number, &result(TurnEnd::Interrupted, "")));
    all
}
