//! Permissions, plans and questions, asked of the client.

use protocol::event::{
    Answer, DecidedBy, InteractionKind, Outcome, PermissionRequest, Persist, PlanRequest,
    QuestionOption, QuestionRequest, RequestResolved,
};
use protocol::{Effect, Mode, RefusalCode, RequestId, Risk, ToolCallId, TurnEnd};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::Client;
use crate::prompts::{brought, call, ended, finished};

fn permission(id: &str) -> PermissionRequest {
    PermissionRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("c"),
        tool_name: "run_shell".to_owned(),
        effect: Effect::Execute,
        target: call("c", "run_shell", &json!({})).target,
        input: serde_json::Map::new(),
        suggested_rules: vec!["run_shell(npm test)".to_owned()],
        risk: Risk::Medium,
        reason: None,
        diff: None,
        checks: Vec::new(),
        review: false,
        expires_at: None,
    }
}

fn resolved(id: &str, outcome: Outcome, by: DecidedBy) -> RequestResolved {
    RequestResolved {
        request_id: RequestId::new(id),
        kind: InteractionKind::Permission,
        outcome,
        by,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    }
}

fn question() -> QuestionRequest {
    let option = |id: &str| QuestionOption {
        id: id.to_owned(),
        label: format!("the {id} one"),
        description: None,
    };
    QuestionRequest {
        request_id: RequestId::new("q"),
        tool_call_id: Some(ToolCallId::new("c")),
        about: None,
        question: "Which?".to_owned(),
        options: vec![option("red"), option("blue")],
        multi_select: false,
        allow_other: true,
        expires_at: None,
    }
}

/// A turn that waits for one answer.
fn waits(request: impl Into<Play>, id: &str) -> Vec<Play> {
    vec![request.into(), Play::UntilAnswer(RequestId::new(id)), finished("prompt1").into()]
}

fn answers(client: &Client) -> Vec<Answer> {
    let calls = client.runtime.calls();
    let answer = |call: &Call| match call {
        Call::Answer(_, answer) => Some(answer.clone()),
        _ => None,
    };
    calls.iter().filter_map(answer).collect()
}

fn press(id: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": id}})
}

#[tokio::test]
async fn a_permission_is_asked_for_and_its_answer_handed_on() {
    let turn = vec![
        call("c", "run_shell", &json!({"command": "npm test"})).into(),
        permission("r").into(),
        Play::UntilAnswer(RequestId::new("r")),
        resolved("r", Outcome::AllowAlways, DecidedBy::Client).into(),
        brought("c", "run_shell", "ok").into(),
        finished("prompt1").into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    let asked = client.asked("session/request_permission").await;
    assert_eq!(asked["params"]["sessionId"], session);
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], "c");
    client.respond(&asked, press("allow_always")).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    let rule = Some("run_shell(npm test)".to_owned());
    assert_eq!(answers(&client), [Answer::AllowAlways { rule, persist: Persist::Session }]);
    let statuses: Vec<_> = client.updates().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, ["in_progress", "pending", "in_progress", "completed"]);
}

#[tokio::test]
async fn what_was_refused_for_good_is_not_asked_again() {
    let mut turn = vec![permission("r1").into(), Play::UntilAnswer(RequestId::new("r1"))];
    turn.extend(waits(permission("r2"), "r2"));
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    let asked = client.asked("session/request_permission").await;
    client.respond(&asked, press("reject_always")).await;
    client.answer(prompt).await.unwrap();
    let no = Answer::Deny { feedback: None };
    assert_eq!(answers(&client), [no.clone(), no]);
}

#[tokio::test]
async fn a_client_that_cannot_answer_means_no() {
    let mut client = Client::meet(FakeRuntime::new().turn(waits(permission("r"), "r"))).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    let asked = client.asked("session/request_permission").await;
    client.refuse(&asked, -32601, "not implemented").await;
    client.answer(prompt).await.unwrap();
    assert_eq!(answers(&client), [Answer::Deny { feedback: None }]);
}

#[tokio::test]
async fn an_answer_that_policy_forbids_becomes_the_one_that_it_allows() {
    let runtime = FakeRuntime::new().turn(waits(permission("r"), "r")).refuse(
        "answer",
        RefusalCode::LockedByPolicy,
        "rules are locked",
    );
    let mut client = Client::meet(runtime).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    let asked = client.asked("session/request_permission").await;
    client.respond(&asked, press("allow_always_project")).await;
    client.answer(prompt).await.unwrap();
    assert_eq!(answers(&client).last(), Some(&Answer::AllowOnce));
}

#[tokio::test]
async fn what_was_decided_elsewhere_is_taken_back() {
    let turn = vec![
        permission("r").into(),
        resolved("r", Outcome::Deny, DecidedBy::Timeout).into(),
        finished("prompt1").into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    client.answer(prompt).await.unwrap();
    // It was asked and taken back, or never asked; it is never answered here.
    assert_eq!(answers(&client), []);
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_question_back() {
    let turn = vec![
        permission("r").into(),
        Play::UntilInterrupt,
        resolved("r", Outcome::Deny, DecidedBy::Interrupt).into(),
        ended("prompt1", TurnEnd::Interrupted).into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "test").await;
    let asked = client.asked("session/request_permission").await;
    client.tell("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
    let taken_back = client.asked("$/cancel_request").await;
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    // As the protocol asks of clients.
    client.respond(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(answers(&client), []);
}

#[tokio::test]
async fn a_client_that_is_gone_allows_nothing() {
    let turn = vec![
        permission("r").into(),
        Play::UntilInterrupt,
        resolved("r", Outcome::Deny, DecidedBy::Interrupt).into(),
        ended("prompt1", TurnEnd::Interrupted).into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    client.prompt(&session, "test").await;
    client.asked("session/request_permission").await;
    let calls = client.leave().await;
    assert!(!calls.iter().any(|call| matches!(call, Call::Answer(..))), "{calls:?}");
    assert!(calls.iter().any(|call| matches!(call, Call::Interrupt(..))), "{calls:?}");
}

#[tokio::test]
async fn a_plan_is_approved_with_a_mode() {
    let plan = PlanRequest {
        request_id: RequestId::new("p"),
        tool_call_id: ToolCallId::new("c"),
        plan: "1. look\n2. leap".to_owned(),
        expires_at: None,
    };
    let mut client = Client::meet(FakeRuntime::new().turn(waits(plan, "p"))).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "plan").await;
    let asked = client.asked("session/request_permission").await;
    assert_eq!(asked["params"]["toolCall"]["kind"], "switch_mode");
    client.respond(&asked, press("option-auto-edit")).await;
    client.answer(prompt).await.unwrap();
    assert_eq!(answers(&client), [Answer::Approved { mode: Some(Mode::AutoEdit) }]);
}

#[tokio::test]
async fn a_question_is_a_form_for_clients_that_have_forms() {
    let forms = json!({"elicitation": {"form": {}}});
    let runtime = FakeRuntime::new().turn(waits(question(), "q"));
    let mut client = Client::meet_with(runtime, forms).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "ask me").await;
    let asked = client.asked("elicitation/create").await;
    assert_eq!(asked["params"]["message"], "Which?");
    client.respond(&asked, json!({"action": "accept", "content": {"answer": "blue"}})).await;
    client.answer(prompt).await.unwrap();
    assert_eq!(
        answers(&client),
        [Answer::Chosen { answers: vec!["blue".to_owned()], other: None }]
    );
}

#[tokio::test]
async fn a_question_is_buttons_for_others_or_stays_without_an_answer() {
    let mut client = Client::meet(FakeRuntime::new().turn(waits(question(), "q"))).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "ask me").await;
    let asked = client.asked("session/request_permission").await;
    assert_eq!(asked["params"]["options"][0]["name"], "the red one");
    client.respond(&asked, press("option-0")).await;
    client.answer(prompt).await.unwrap();
    assert_eq!(answers(&client), [Answer::Chosen { answers: vec!["red".to_owned()], other: None }]);

    let several = QuestionRequest { multi_select: true, ..question() };
    let mut client = Client::meet(FakeRuntime::new().turn(waits(several, "q"))).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "ask me").await;
    client.answer(prompt).await.unwrap();
    assert_eq!(answers(&client), [Answer::Dismissed]);
}
