//! Questions to a client, and answers in every form.

use super::*;
use protocol::event::QuestionOption;
use protocol::{Effect, RequestId, Risk, Target, ToolCallId};
use serde_json::{Map, Value, json};

fn asked(rules: &[&str]) -> PermissionRequest {
    PermissionRequest {
        request_id: RequestId::new("r1"),
        tool_call_id: ToolCallId::new("c1"),
        tool_name: "edit_file".to_owned(),
        effect: Effect::Write,
        target: Target {
            summary: "a.txt".to_owned(),
            effect: Effect::Write,
            paths: vec!["/w/a.txt".to_owned()],
        },
        input: Map::new(),
        suggested_rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        risk: Risk::Low,
        reason: None,
        diff: Some("--- a/a.txt\n+++ b/a.txt\n@@ -4 +4 @@\n-x\n+y\n".to_owned()),
        checks: Vec::new(),
        review: false,
        expires_at: None,
    }
}

fn choice_of(multi_select: bool, allow_other: bool) -> QuestionRequest {
    let option = |id: &str| QuestionOption {
        id: id.to_owned(),
        label: format!("the {id} one"),
        description: None,
    };
    QuestionRequest {
        request_id: RequestId::new("r2"),
        tool_call_id: Some(ToolCallId::new("c2")),
        about: None,
        question: "Which?".to_owned(),
        options: vec![option("red"), option("blue")],
        multi_select,
        allow_other,
        expires_at: None,
    }
}

fn session() -> SessionId {
    SessionId::new("s1")
}

fn press(id: &str) -> RequestPermissionResponse {
    serde_json::from_value(json!({"outcome": {"outcome": "selected", "optionId": id}})).unwrap()
}

fn taken_back() -> RequestPermissionResponse {
    serde_json::from_value(json!({"outcome": {"outcome": "cancelled"}})).unwrap()
}

fn shown(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn a_permission_has_four_kinds_of_answers_and_shows_the_change() {
    let request = shown(permission(&session(), &asked(&["edit_file(a.txt)"]), Path::new("/w")));
    let kinds: Vec<&str> = request["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["allow_once", "allow_always", "allow_always", "reject_once", "reject_always"]
    );
    let call = &request["toolCall"];
    assert_eq!(
        call["content"][0],
        json!({"type": "diff", "path": "/w/a.txt", "oldText": "x\n", "newText": "y\n"})
    );
    assert_eq!(call["locations"][0], json!({"path": "/w/a.txt", "line": 4}));
    assert_eq!(call["status"], "pending");
}

#[test]
fn without_a_rule_nothing_can_be_said_for_good() {
    let request = shown(permission(&session(), &asked(&[]), Path::new("/w")));
    assert_eq!(request["options"].as_array().unwrap().len(), 2);
    let (answer, _) = permission_answer(press("allow_always"), &asked(&[]));
    assert_eq!(answer, Answer::Deny { feedback: None });
}

#[test]
fn permissions_are_answered_by_option() {
    let asked = asked(&["edit_file(a.txt)", "edit_file"]);
    let rule = Some("edit_file(a.txt)".to_owned());
    let no = Answer::Deny { feedback: None };
    let table = [
        (press("allow_once"), Answer::AllowOnce, false),
        (
            press("allow_always"),
            Answer::AllowAlways { rule: rule.clone(), persist: Persist::Session },
            false,
        ),
        (
            press("allow_always_project"),
            Answer::AllowAlways { rule, persist: Persist::Project },
            false,
        ),
        (press("reject_once"), no.clone(), false),
        (press("reject_always"), no.clone(), true),
        (press("something else"), no.clone(), false),
        (taken_back(), no, false),
    ];
    for (response, answer, stands) in table {
        assert_eq!(permission_answer(response, &asked), (answer, stands));
    }
}

#[test]
fn a_plan_offers_the_modes_that_policy_allows() {
    let asked = PlanRequest {
        request_id: RequestId::new("r3"),
        tool_call_id: ToolCallId::new("c3"),
        plan: "1. look".to_owned(),
        expires_at: None,
    };
    let request = shown(plan(&session(), &asked, &[Mode::Plan, Mode::Ask, Mode::AutoEdit]));
    let ids: Vec<&str> = request["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["optionId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["option-auto-edit", "option-ask", "reject_once"]);
    assert_eq!(request["toolCall"]["content"][0]["content"]["text"], "1. look");
    assert_eq!(plan_answer(press("option-ask")), Answer::Approved { mode: Some(Mode::Ask) });
    assert_eq!(plan_answer(press("reject_once")), Answer::Rejected { feedback: None });
    assert_eq!(plan_answer(taken_back()), Answer::Rejected { feedback: None });
}

#[test]
fn a_question_is_put_as_buttons_where_one_is_chosen() {
    let asked = choice_of(false, true);
    let request = shown(question(&session(), &asked).unwrap());
    assert_eq!(request["options"][1]["name"], "the blue one");
    let answer = question_answer(press("option-1"), &asked);
    assert_eq!(answer, Answer::Chosen { answers: vec!["blue".to_owned()], other: None });
    assert_eq!(question_answer(press("option-7"), &asked), Answer::Dismissed);
    assert_eq!(question_answer(press("reject_once"), &asked), Answer::Dismissed);
    assert!(question(&session(), &choice_of(true, false)).is_none());
}

#[test]
fn a_question_is_put_as_a_form_where_the_client_has_forms() {
    let one = shown(form(&session(), &choice_of(false, false)));
    assert_eq!(
        (&one["mode"], &one["sessionId"], &one["toolCallId"]),
        (&json!("form"), &json!("s1"), &json!("c2"))
    );
    let field = &one["requestedSchema"]["properties"]["answer"];
    assert_eq!(field["oneOf"][0]["const"], "red");
    assert_eq!(one["requestedSchema"]["required"], json!(["answer"]));
    let several = shown(form(&session(), &choice_of(true, true)));
    let fields = &several["requestedSchema"]["properties"];
    assert_eq!(fields["answer"]["type"], "array");
    assert_eq!(fields["other"]["type"], "string");
}

#[test]
fn forms_are_read() {
    let read = |value: Value| form_answer(serde_json::from_value(value).unwrap());
    let chosen = |answers: &[&str], other: Option<&str>| Answer::Chosen {
        answers: answers.iter().map(|id| (*id).to_owned()).collect(),
        other: other.map(str::to_owned),
    };
    let accept = |content: Value| json!({"action": "accept", "content": content});
    assert_eq!(read(accept(json!({"answer": "red"}))), chosen(&["red"], None));
    assert_eq!(read(accept(json!({"answer": ["a", "b"]}))), chosen(&["a", "b"], None));
    assert_eq!(read(accept(json!({"other": "green"}))), chosen(&[], Some("green")));
    assert_eq!(read(accept(json!({"other": " "}))), Answer::Dismissed);
    assert_eq!(read(json!({"action": "decline"})), Answer::Dismissed);
    assert_eq!(read(json!({"action": "something new"})), Answer::Dismissed);
}
