//! Prompts, their updates, and how they end.

use protocol::event::{
    AssistantMessage, PromptFinished, TextDelta, ThinkingDelta, ToolCall, ToolResult, TurnResult,
    TurnStart,
};
use protocol::{
    Block, Effect, MessageId, PromptId, StopReason, Target, ToolCallId, TurnEnd, Usage,
};
use runtime_api::{Interrupt, PromptPart};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::Client;

pub(crate) fn result(reason: TurnEnd) -> TurnResult {
    TurnResult {
        reason,
        code: None,
        message: None,
        usage: Usage::default(),
        cost_usd: None,
        turns: 1,
        duration_ms: 1,
        text: String::new(),
        unanswered: 0,
        structured: None,
    }
}

pub(crate) fn ended(prompt: &str, reason: TurnEnd) -> PromptFinished {
    PromptFinished { prompt_id: PromptId::new(prompt), result: result(reason) }
}

pub(crate) fn finished(prompt: &str) -> PromptFinished {
    ended(prompt, TurnEnd::Completed)
}

pub(crate) fn answer(text: &str) -> AssistantMessage {
    AssistantMessage {
        message_id: MessageId::new("m"),
        content: vec![Block::text(text)],
        stop_reason: StopReason::EndTurn,
    }
}

fn step() -> TurnStart {
    TurnStart { turn: 1, prompt_id: PromptId::new("prompt1"), model: "m".to_owned() }
}

pub(crate) fn call(id: &str, tool: &str, input: &Value) -> ToolCall {
    ToolCall {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        input: input.as_object().unwrap().clone(),
        target: Target {
            summary: "a.txt".to_owned(),
            effect: Effect::Write,
            paths: vec!["/w/a.txt".to_owned()],
        },
    }
}

pub(crate) fn brought(id: &str, tool: &str, text: &str) -> ToolResult {
    ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        is_error: false,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 1,
        display: None,
        files: Vec::new(),
    }
}

#[tokio::test]
async fn a_turn_is_shown_as_it_goes_and_ends_with_its_reason() {
    let turn = vec![
        step().into(),
        ThinkingDelta { text: "hm".to_owned() }.into(),
        TextDelta { text: "I look.".to_owned() }.into(),
        answer("I look.").into(),
        call("c", "read_file", &json!({"path": "a.txt"})).into(),
        brought("c", "read_file", "the text").into(),
        finished("prompt1").into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "look").await;
    let answer = client.answer(prompt).await.unwrap();
    assert_eq!(answer, json!({"stopReason": "end_turn"}));
    let kinds: Vec<_> = client
        .updates()
        .iter()
        .map(|it| it["sessionUpdate"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        ["agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update"]
    );
    let calls = client.runtime.calls();
    let said = calls.iter().find_map(|call| match call {
        Call::Prompt(_, prompt) => Some(prompt.parts.clone()),
        _ => None,
    });
    assert_eq!(said, Some(vec![PromptPart::Text("look".to_owned())]));
}

#[tokio::test]
async fn a_cancelled_prompt_ends_with_cancelled_and_no_error() {
    let turn = vec![
        step().into(),
        call("c", "run_shell", &json!({"command": "sleep 9"})).into(),
        Play::UntilInterrupt,
        ended("prompt1", TurnEnd::Interrupted).into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "wait").await;
    client.update("tool_call").await;
    client.tell("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
    assert_eq!(client.update("tool_call_update").await["status"], "failed");
    let calls = client.runtime.calls();
    assert!(calls.iter().any(|call| matches!(call, Call::Interrupt(_, Interrupt::All))));
}

#[tokio::test]
async fn a_prompt_is_cancelled_by_its_request_too() {
    let turn =
        vec![step().into(), Play::UntilInterrupt, ended("prompt1", TurnEnd::Interrupted).into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "wait").await;
    client.until_called("prompt", |call| matches!(call, Call::Prompt(..))).await;
    client.tell("$/cancel_request", json!({"requestId": prompt})).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_prompt_that_is_cancelled_at_once_is_cancelled() {
    // Whether the runtime had it by then or not.
    let turn =
        vec![step().into(), Play::UntilInterrupt, ended("prompt1", TurnEnd::Interrupted).into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "wait").await;
    client.tell("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_turn_that_failed_is_an_error_with_its_words() {
    let mut failed = ended("prompt1", TurnEnd::Error);
    failed.result.message = Some("the provider is overloaded".to_owned());
    let mut client = Client::meet(FakeRuntime::new().turn(vec![failed.into()])).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "go").await;
    let error = client.answer(prompt).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32603), &json!("the provider is overloaded"))
    );
}

#[tokio::test]
async fn a_session_that_is_closed_under_a_prompt_ends_it() {
    let turn = vec![step().into(), Play::EndStreams];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "go").await;
    let error = client.answer(prompt).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("closed"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_gone_stops_its_turns() {
    let turn =
        vec![step().into(), Play::UntilInterrupt, ended("prompt1", TurnEnd::Interrupted).into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    client.prompt(&session, "wait").await;
    client.until_called("prompt", |call| matches!(call, Call::Prompt(..))).await;
    let calls = client.leave().await;
    assert!(calls.iter().any(|call| matches!(call, Call::Interrupt(..))), "{calls:?}");
}

#[tokio::test]
async fn a_program_that_is_stopped_leaves_turns_to_the_runtime() {
    let turn =
        vec![step().into(), Play::UntilInterrupt, ended("prompt1", TurnEnd::Interrupted).into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    client.prompt(&session, "wait").await;
    client.until_called("prompt", |call| matches!(call, Call::Prompt(..))).await;
    client.stop.cancel();
    let calls = client.ended().await;
    assert!(!calls.iter().any(|call| matches!(call, Call::Interrupt(..))), "{calls:?}");
}
