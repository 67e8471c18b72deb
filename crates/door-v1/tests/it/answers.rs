//! Requests that wait, and their answers.

use protocol::event::{
    Answer, PermissionRequest, Persist, PlanRequest, QuestionOption, QuestionRequest,
};
use protocol::{
    Effect, EventBody, Mode, RefusalCode, RequestId, Risk, SessionId, Target, Timestamp, ToolCallId,
};
use runtime_api::{Pending, SessionInfo};
use serde_json::{Map, json};
use testkit::fake_handle::{Call, FakeRuntime};

use crate::house::{House, ID, at, open_session, stored_session};

pub(crate) fn permission(id: &str) -> PermissionRequest {
    PermissionRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("toolu_1"),
        tool_name: "write_file".to_owned(),
        effect: Effect::Write,
        target: Target { summary: "a.txt".to_owned(), effect: Effect::Write, paths: Vec::new() },
        input: Map::new(),
        suggested_rules: vec!["write_file(a.txt)".to_owned()],
        risk: Risk::Low,
        reason: None,
        review: false,
        diff: None,
        checks: Vec::new(),
        expires_at: None,
    }
}

pub(crate) fn pending(request: impl Into<EventBody>) -> Pending {
    Pending {
        session: SessionId::new(ID),
        cwd: "/nowhere".to_owned(),
        title: None,
        since: Timestamp(1_796_000_000_000),
        owner_pid: None,
        request: request.into(),
    }
}

fn house() -> House {
    let question = QuestionRequest {
        request_id: RequestId::new("req-2"),
        tool_call_id: None,
        about: None,
        question: "Which?".to_owned(),
        options: vec![QuestionOption {
            id: "pg".to_owned(),
            label: "Postgres".to_owned(),
            description: None,
        }],
        multi_select: false,
        allow_other: true,
        expires_at: Some(Timestamp(1_796_000_300_000)),
    };
    let plan = PlanRequest {
        request_id: RequestId::new("req-3"),
        tool_call_id: ToolCallId::new("toolu_2"),
        plan: "# Plan".to_owned(),
        expires_at: None,
    };
    let waiting = vec![pending(permission("req-1")), pending(question), pending(plan)];
    House::new(FakeRuntime::new().session(open_session()).pending(waiting))
}

#[tokio::test]
async fn requests_are_listed_as_the_stream_shows_them() {
    let listed = house().get(&at("/permissions")).await.json();
    let requests = listed["requests"].as_array().unwrap();
    let kinds: Vec<_> = requests.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["permission_request", "question_request", "plan_request"]);
    assert_eq!(
        requests[0],
        json!({
            "type": "permission_request", "requestId": "req-1", "toolCallId": "toolu_1",
            "toolName": "write_file", "effect": "write",
            "target": {"summary": "a.txt", "effect": "write"}, "input": {},
            "suggestedRules": ["write_file(a.txt)"], "risk": "low", "expiresAt": null,
            "sessionId": ID, "ts": "2026-11-30T00:53:20.000Z"
        })
    );
}

#[tokio::test]
async fn every_form_of_answer_is_understood() {
    let words = |text: &str| Some(text.to_owned());
    for (body, expected) in [
        (json!({"answer": "allow_once"}), Answer::AllowOnce),
        (
            json!({
                "answer": "allow_always", "rule": "run_shell(npm test *)", "persist": "session"
            }),
            Answer::AllowAlways { rule: words("run_shell(npm test *)"), persist: Persist::Session },
        ),
        (
            json!({"answer": "allow_always", "persist": "project"}),
            Answer::AllowAlways { rule: None, persist: Persist::Project },
        ),
        (
            json!({"answer": "deny", "feedback": "use the staging database instead"}),
            Answer::Deny { feedback: words("use the staging database instead") },
        ),
        (
            json!({"answer": {"answers": ["Postgres"], "other": "with pgvector"}}),
            Answer::Chosen { answers: vec!["Postgres".to_owned()], other: words("with pgvector") },
        ),
        (json!({"answer": {"dismissed": true}}), Answer::Dismissed),
        (
            json!({"answer": {"approved": true, "mode": "auto-edit"}}),
            Answer::Approved { mode: Some(Mode::AutoEdit) },
        ),
        (
            json!({"answer": {"approved": false, "feedback": "split it in two PRs"}}),
            Answer::Rejected { feedback: words("split it in two PRs") },
        ),
    ] {
        let house = house();
        let reply = house.post(&at("/permissions/req-1"), &body).await;
        assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"ok": true})), "{body}");
        assert!(
            matches!(&house.runtime.calls()[..], [Call::Answer(_, answer)]
            if *answer == expected),
            "{body}"
        );
    }
}

#[tokio::test]
async fn answers_that_cannot_count_say_why() {
    for (code, expected) in [
        (RefusalCode::RequestNotFound, (404, "request_not_found")),
        (RefusalCode::RequestResolved, (409, "request_resolved")),
        (RefusalCode::Invalid, (400, "validation_error")),
        (RefusalCode::LockedByPolicy, (403, "locked_by_policy")),
        (RefusalCode::OwnedElsewhere, (409, "owned_elsewhere")),
    ] {
        let runtime = FakeRuntime::new().session(open_session()).refuse("answer", code, "no");
        let house = House::new(runtime);
        let reply = house.post(&at("/permissions/req-1"), &json!({"answer": "allow_once"})).await;
        let (status, code) = reply.code();
        assert_eq!((status, code.as_str()), expected);
    }
    let house = house();
    for id in ["no-such-request", "a.b", "%00", "%ff", &"x".repeat(65)] {
        let path = at(&format!("/permissions/{id}"));
        let reply = house.post(&path, &json!({"answer": "allow_once"})).await;
        let code = reply.code();
        // What is no UTF-8 cannot be told apart any more: nothing is found, one way or another.
        assert!(code.0 == 404 && code.1.ends_with("_not_found"), "{id}: {code:?}");
    }
}

#[tokio::test]
async fn answers_are_handed_to_the_process_that_owns_the_session() {
    let owned = |cwd: &str| SessionInfo { owner_pid: Some(7), ..stored_session(ID, cwd) };
    let body = json!({"answer": "allow_once"});
    let house = House::with(|root| {
        FakeRuntime::new().session(owned(root)).pending(vec![pending(permission("req-1"))])
    });
    assert_eq!(house.post(&at("/permissions/req-1"), &body).await.status, 200);
    // One outside the roots is none of this server's.
    let house = House::new(FakeRuntime::new().session(owned("/elsewhere")));
    assert_eq!(house.post(&at("/permissions/req-1"), &body).await.status, 404);
}
