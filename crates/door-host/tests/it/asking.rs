//! What waits for a person goes to the host, and its word becomes the answer.

use protocol::event::{
    Answer, DecidedBy, InteractionKind, Outcome, PermissionRequest, PlanRequest, QuestionOption,
    QuestionRequest, RequestResolved,
};
use protocol::{Effect, EventBody, RequestId, Risk, Target, ToolCallId};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::*;

fn permission(review: bool) -> EventBody {
    PermissionRequest {
        request_id: RequestId::new("r1"),
        tool_call_id: ToolCallId::new("c1"),
        tool_name: "run_shell".to_owned(),
        effect: Effect::Execute,
        target: Target { summary: "ls".to_owned(), effect: Effect::Execute, paths: Vec::new() },
        input: json!({"command": "ls"}).as_object().unwrap().clone(),
        suggested_rules: vec!["run_shell(ls *)".to_owned()],
        risk: Risk::Medium,
        reason: None,
        review,
        diff: None,
        checks: Vec::new(),
        expires_at: None,
    }
    .into()
}

fn question() -> EventBody {
    QuestionRequest {
        request_id: RequestId::new("r1"),
        tool_call_id: None,
        about: None,
        question: "which?".to_owned(),
        options: vec![QuestionOption {
            id: "a".to_owned(),
            label: "A".to_owned(),
            description: None,
        }],
        multi_select: false,
        allow_other: true,
        expires_at: None,
    }
    .into()
}

fn plan() -> EventBody {
    PlanRequest {
        request_id: RequestId::new("r1"),
        tool_call_id: ToolCallId::new("c1"),
        plan: "# Plan".to_owned(),
        expires_at: None,
    }
    .into()
}

/// A house whose next prompt asks this.
fn house(request: EventBody) -> House {
    let plays = vec![Play::Event(request), Play::UntilAnswer(RequestId::new("r1"))];
    House::new(FakeRuntime::new().turn(plays))
}

/// Waits for the answer that the runtime got.
async fn answered(house: &House) -> Answer {
    house
        .called(|call| match call {
            Call::Answer(request, answer) if request.as_str() == "r1" => Some(answer.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn an_approval_has_the_whole_card_and_every_outcome_is_heard() {
    for (outcome, expected) in [
        (json!({"outcome": "allow_once"}), Answer::AllowOnce),
        (
            json!({"outcome": "deny", "reason": "not now"}),
            Answer::Deny { feedback: Some("not now".to_owned()) },
        ),
    ] {
        let house = house(permission(true));
        let mut host = house.host(json!({"approvals": {"review": "mutations"}})).await;
        let session = host.session().await;
        host.prompt(&session).await;
        let (id, params) = host.asked("approval/request").await;
        let card = json!({
            "toolName": "run_shell", "toolCallId": "c1", "effect": "execute", "summary": "ls",
            "input": {"command": "ls"}, "risk": "medium", "reason": "review",
            "suggestedRules": ["run_shell(ls *)"], "command": "ls"
        });
        assert_eq!(params, json!({"sessionId": session, "requestId": "r1", "approval": card}));
        host.answers(&id, outcome).await;
        assert_eq!(answered(&house).await, expected);
    }
}

#[tokio::test]
async fn what_is_no_answer_is_a_no() {
    for (request, method) in [
        (permission(false), "approval/request"),
        (question(), "interaction/question"),
        (plan(), "interaction/plan"),
    ] {
        for is_error in [true, false] {
            let house = house(request.clone());
            let all = json!({"approvals": {}, "interaction": {"questions": true, "plans": true}});
            let mut host = house.host(all).await;
            let session = host.session().await;
            host.prompt(&session).await;
            let (id, _) = host.asked(method).await;
            match is_error {
                true => host.refuses(&id, -32603, "trouble").await,
                false => host.answers(&id, json!({"outcome": "yes", "approved": 1})).await,
            }
            let answer = answered(&house).await;
            let is_no = match &answer {
                Answer::Deny { .. } | Answer::Dismissed | Answer::Rejected { .. } => true,
                // Nothing was chosen, which the runtime does not take.
                Answer::Chosen { answers, other } => answers.is_empty() && other.is_none(),
                _ => false,
            };
            assert!(is_no, "{method} {is_error}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn without_the_capability_the_safe_answer_is_taken_and_nobody_is_asked() {
    for (request, expected) in
        [(permission(false), "deny"), (question(), "dismissed"), (plan(), "rejected")]
    {
        let house = house(request);
        let mut host = house.host(json!({})).await;
        let session = host.session().await;
        host.prompt(&session).await;
        let word = match answered(&house).await {
            Answer::Deny { .. } => "deny",
            Answer::Dismissed => "dismissed",
            Answer::Rejected { .. } => "rejected",
            other => panic!("{other:?}"),
        };
        assert_eq!(word, expected);
        host.ask("health", json!({})).await.unwrap();
        assert!(host.was_asked_nothing());
    }
}

#[tokio::test]
async fn a_question_and_a_plan_are_answered() {
    let house_of_question = house(question());
    let all = json!({"interaction": {"questions": true, "plans": true}});
    let mut host = house_of_question.host(all.clone()).await;
    let session = host.session().await;
    host.prompt(&session).await;
    let (id, params) = host.asked("interaction/question").await;
    assert_eq!(
        (&params["options"][0]["label"], &params["allowOther"]),
        (&json!("A"), &json!(true))
    );
    host.answers(&id, json!({"answers": ["A"]})).await;
    let chosen = Answer::Chosen { answers: vec!["A".to_owned()], other: None };
    assert_eq!(answered(&house_of_question).await, chosen);
    let house_of_plan = house(plan());
    let mut host = house_of_plan.host(all).await;
    let session = host.session().await;
    host.prompt(&session).await;
    let (id, params) = host.asked("interaction/plan").await;
    assert_eq!(params["plan"], "# Plan");
    host.answers(&id, json!({"approved": false, "feedback": "smaller"})).await;
    let rejected = Answer::Rejected { feedback: Some("smaller".to_owned()) };
    assert_eq!(answered(&house_of_plan).await, rejected);
}

#[tokio::test]
async fn a_request_that_a_host_left_behind_is_put_to_the_next_one() {
    let house = house(permission(false));
    let mut first = house.host(json!({"approvals": {}})).await;
    let session = first.session().await;
    first.prompt(&session).await;
    first.asked("approval/request").await;
    drop(first);
    let mut second = house.host(json!({"approvals": {"review": "all"}})).await;
    // Until the first one is gone it answers for the session.
    while !house.calls().iter().any(|call| matches!(call, Call::Open(..))) {
        second.ask("session/subscribe", json!({"sessionId": session})).await.unwrap();
    }
    let agent = house
        .called(|call| match call {
            Call::Open(id, agent) if *id == id_of(&session) => Some(agent.clone()),
            _ => None,
        })
        .await;
    assert_eq!(agent.asks_for.len(), 5, "what the second host reviews counts now");
    assert!(!house.calls().iter().any(|call| matches!(call, Call::Answer(..))));
}

#[tokio::test]
async fn what_was_decided_otherwise_is_not_decided_again() {
    let resolved = RequestResolved {
        request_id: RequestId::new("r1"),
        kind: InteractionKind::Permission,
        outcome: Outcome::Deny,
        by: DecidedBy::Timeout,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    };
    let plays = vec![Play::Event(permission(false)), Play::Event(resolved.into())];
    let house = House::new(FakeRuntime::new().turn(plays));
    let mut host = house.host(json!({"approvals": {}, "activity": {"events": true}})).await;
    let session = host.session().await;
    host.prompt(&session).await;
    let mut entries: Vec<Value> = Vec::new();
    while entries.iter().filter(|entry| entry["kind"] == "approval").count() < 2 {
        let told = host.told("activity/event").await;
        entries.extend(told["events"].as_array().unwrap().iter().cloned());
    }
    let numbers: Vec<_> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    assert_eq!(entries.last().unwrap()["by"], "timeout");
    host.ask("health", json!({})).await.unwrap();
    assert!(!house.calls().iter().any(|call| matches!(call, Call::Answer(..))));
}
