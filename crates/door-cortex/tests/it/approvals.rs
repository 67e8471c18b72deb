//! Approvals: listed, decided, once.

use protocol::event::Answer;
use protocol::{EventBody, RefusalCode, SessionId, Timestamp, TurnEnd};
use runtime_api::{Pending, SessionInfo, SessionState};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::{CORE, House, ID, Reply, names, open_session, refused};
use crate::play;

fn waiting(id: &str) -> Pending {
    Pending {
        session: SessionId::new(CORE),
        cwd: "/workspace".to_owned(),
        title: None,
        since: Timestamp(1_796_000_000_000),
        owner_pid: None,
        request: play::permission(id).into(),
    }
}

async fn decide(house: &House, id: &str, body: &Value) -> Reply {
    house.post(&format!("/sessions/{ID}/approvals/{id}"), body).await
}

#[tokio::test]
async fn what_waits_is_listed_with_its_run() {
    let mut turn = play::begin(1, "hi");
    turn.extend([play::calls(), play::permission("r").into(), Play::UntilInterrupt]);
    let question = Pending {
        request: EventBody::QuestionRequest(protocol::event::QuestionRequest {
            request_id: protocol::RequestId::new("q"),
            tool_call_id: None,
            about: None,
            question: "?".to_owned(),
            options: Vec::new(),
            multi_select: false,
            allow_other: true,
            expires_at: None,
        }),
        ..waiting("q")
    };
    let runtime = FakeRuntime::new().session(open_session()).turn(turn);
    let house = House::new(runtime.pending(vec![question, waiting("r")]));
    let mut stream = house.run("hi").await;
    let asked = stream.until("approval_required").await;
    assert_eq!(names(&asked)[2..], ["tool_call_start", "approval_required"]);
    let approvals = house.get(&format!("/sessions/{ID}/approvals")).await.json();
    assert_eq!(
        approvals,
        json!({"approvals": [{
            "approvalId": "apr-r", "sessionId": ID, "runId": "run-prompt1", "toolCallId": "tc-1",
            "toolName": "bash", "toolInput": {"command": "rm -rf x"},
            "effectClass": "destructive", "createdAt": "2026-11-30T00:53:20.000Z",
            "expiresAt": "2026-11-30T00:58:20.000Z"
        }]})
    );
}

#[tokio::test]
async fn a_decision_becomes_an_answer() {
    for (body, answer, reason) in [
        (json!({"decision": "allow"}), Answer::AllowOnce, "no reason given"),
        (
            json!({"decision": "allow", "reason": "looks fine"}),
            Answer::AllowSaying { feedback: "looks fine".to_owned() },
            "looks fine",
        ),
        (json!({"decision": "deny"}), Answer::Deny { feedback: None }, "no reason given"),
        (
            json!({"decision": "deny", "reason": "not on a Friday"}),
            Answer::Deny { feedback: Some("not on a Friday".to_owned()) },
            "not on a Friday",
        ),
        (
            json!({"decision": "deny", "reason": " "}),
            Answer::Deny { feedback: None },
            "no reason given",
        ),
    ] {
        let runtime = FakeRuntime::new().session(open_session()).pending(vec![waiting("r")]);
        let house = House::new(runtime);
        let reply = decide(&house, "apr-r", &body).await;
        assert_eq!(reply.status, 200, "{body}");
        let mut decision = reply.json();
        assert!(decision["decidedAt"].take().is_string());
        assert_eq!(
            decision,
            json!({"approvalId": "apr-r", "decision": body["decision"], "reason": reason,
                   "decidedBy": "api", "decidedAt": null})
        );
        let calls = house.runtime.calls();
        assert!(
            matches!(&calls[..], [Call::Answer(id, given)]
                if id.as_str() == "r" && *given == answer),
            "{calls:?}"
        );
    }
}

#[tokio::test]
async fn unknown_and_decided_approvals_are_told_apart() {
    let runtime = FakeRuntime::new().session(open_session());
    let house = House::new(runtime.refuse("answer", RefusalCode::RequestResolved, "decided"));
    let body = json!({"decision": "allow"});
    assert_eq!(decide(&house, "apr-r", &body).await.code(), refused(409, "ALREADY_DECIDED"));
    for id in ["apr-nobody", "r", "apr-"] {
        assert_eq!(decide(&house, id, &body).await.code(), refused(404, "NOT_FOUND"), "{id}");
    }
}

#[tokio::test]
async fn the_approvals_of_a_run_that_was_left_are_decided() {
    let left = SessionInfo { state: SessionState::Waiting, is_open: false, ..open_session() };
    let runtime = FakeRuntime::new().session(left);
    let house = House::new(runtime.refuse("answer", RefusalCode::RequestResolved, "by abort"));
    let body = json!({"decision": "allow"});
    assert_eq!(decide(&house, "apr-r", &body).await.code(), refused(409, "ALREADY_DECIDED"));
    assert!(matches!(house.runtime.calls()[0], Call::Open(..)), "the opening ended the run");
}

#[tokio::test]
async fn a_message_waits_for_a_decision() {
    let mut turn = play::begin(1, "hi");
    turn.extend([play::calls(), play::permission("r").into()]);
    turn.push(Play::UntilAnswer(protocol::RequestId::new("r")));
    turn.push(play::brings("ok"));
    turn.extend(play::says("finished"));
    turn.extend(play::ends(1, &play::result(TurnEnd::Completed, "finished")));
    let house = House::new(FakeRuntime::new().session(open_session()).turn(turn));
    let path = format!("/sessions/{ID}/message");
    let body = json!({"message": "hi"});
    let message = house.post(&path, &body);
    let deciding = async {
        house.breathe().await;
        decide(&house, "apr-r", &json!({"decision": "allow"})).await
    };
    let (message, decided) = tokio::join!(message, deciding);
    assert_eq!((message.status.as_u16(), decided.status.as_u16()), (200, 200));
    assert_eq!(message.json()["response"], "finished");
}
