//! `--input-format stream-json`: prompts, answers, stops, and lines that are none of these.

use protocol::event::Answer;
use protocol::{RefusalCode, RequestId};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::stand::*;

const ARGS: [&str; 5] = ["run", "--input-format", "stream-json", "--output-format", "stream-json"];

fn kinds(out: &str) -> Vec<String> {
    let kind = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["type"].as_str().unwrap().to_owned()
    };
    out.lines().map(kind).collect()
}

#[test]
fn prompts_run_one_after_another_and_the_program_ends_after_the_last() {
    let runtime = FakeRuntime::new().turn(answer("one")).turn(answer("two"));
    let input = "{\"type\":\"prompt\",\"text\":\"a\"}\n\n{\"type\":\"prompt\",\"text\":\"b\"}\n";
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let kinds = kinds(&outcome.out);
    assert_eq!(kinds.first().map(String::as_str), Some("session_start"));
    assert_eq!(kinds.iter().filter(|kind| *kind == "done").count(), 2);
    assert_eq!(kinds.last().map(String::as_str), Some("done"));
}

#[test]
fn a_session_with_a_program_at_its_input_is_attended() {
    let runtime = FakeRuntime::new().turn(answer("one"));
    let outcome = Stand::new(runtime).input("{\"type\":\"prompt\",\"text\":\"a\"}").run(&ARGS);
    let calls = outcome.runtime.calls();
    let created = calls.iter().find_map(|call| match call {
        Call::Create(session) => Some(session.agent.is_attended),
        _ => None,
    });
    assert_eq!(created, Some(true));
}

#[test]
fn an_answer_goes_to_its_request() {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(request.clone())];
    plays.extend(answer("done"));
    let runtime = FakeRuntime::new().turn(plays);
    let input = concat!(
        "{\"type\":\"prompt\",\"text\":\"a\"}\n",
        "{\"type\":\"answer\",\"requestId\":\"r0\",\"answer\":\"allow_once\"}\n",
        "{\"type\":\"answer\",\"requestId\":\"r1\",\"answer\":{\"answer\":\"allow_once\"}}\n",
    );
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.out.contains("answer_refused"), "{}", outcome.out);
    let answered =
        |call: &Call| matches!(call, Call::Answer(id, Answer::AllowOnce) if *id == request);
    assert!(outcome.runtime.calls().iter().any(answered));
}

#[test]
fn a_bad_line_is_an_error_notice_and_the_stream_goes_on() {
    let runtime = FakeRuntime::new().turn(answer("fine"));
    let input = "not json\n{\"type\":\"rocket\"}\n{\"type\":\"prompt\",\"text\":\"a\"}\n";
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let notices: Vec<serde_json::Value> = outcome
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &serde_json::Value| event["type"] == "notice")
        .collect();
    assert_eq!(notices.len(), 2);
    insta::assert_json_snapshot!(notices);
}

fn denied(outcome: &Outcome) -> Vec<String> {
    let denied = |call| match call {
        Call::Answer(id, Answer::Deny { feedback: None }) => Some(id.to_string()),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(denied).collect()
}

#[test]
fn what_nobody_is_left_to_answer_is_denied_and_the_exit_code_tells() {
    let mut plays = vec![step(1)];
    for id in ["r1", "r2"] {
        plays.extend([asks(id, "touch x"), Play::UntilAnswer(RequestId::new(id))]);
    }
    plays.extend(answer("without it"));
    let runtime = FakeRuntime::new().turn(plays).turn(answer("later"));
    let input = "{\"type\":\"prompt\",\"text\":\"a\"}\n{\"type\":\"prompt\",\"text\":\"b\"}\n";
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(denied(&outcome), ["r1", "r2"], "{outcome:?}");
    assert_eq!(outcome.code, 3, "a later success hides it not: {outcome:?}");
    assert_eq!(outcome.out.matches("request_unanswered").count(), 2, "{}", outcome.out);
}

#[test]
fn a_refused_answer_at_the_end_of_input_is_followed_by_a_denial() {
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(RequestId::new("r1"))];
    plays.extend(answer("without it"));
    let runtime = FakeRuntime::new().turn(plays);
    let runtime = runtime.refuse("answer", RefusalCode::Invalid, "that rule is none");
    let input = concat!(
        "{\"type\":\"prompt\",\"text\":\"a\"}\n",
        "{\"type\":\"answer\",\"requestId\":\"r1\",\"answer\":\"allow_always\"}\n",
    );
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(denied(&outcome), ["r1"], "{outcome:?}");
    assert_eq!(outcome.code, 3, "{outcome:?}");
}

#[test]
fn a_request_that_was_decided_elsewhere_is_not_counted_here() {
    let mut plays = vec![step(1), asks("r1", "touch x")];
    plays.extend(answer("with it"));
    let runtime = FakeRuntime::new().turn(plays);
    let runtime = runtime.refuse("answer", RefusalCode::RequestResolved, "decided already");
    let input = "{\"type\":\"prompt\",\"text\":\"a\"}\n";
    let outcome = Stand::new(runtime).input(input).run(&ARGS);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn input_without_a_prompt_is_wrong_usage() {
    let outcome = Stand::new(FakeRuntime::new()).input("").run(&ARGS);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("no prompt"), "{}", outcome.err);
    let made = |call: &Call| matches!(call, Call::Create(_));
    assert!(!outcome.runtime.calls().iter().any(made), "{outcome:?}");
}
