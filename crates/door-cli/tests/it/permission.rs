//! Permission requests at a terminal.

use protocol::event::{
    Answer, DecidedBy, InteractionKind, Outcome, Persist, RequestResolved, ToolProgress,
};
use protocol::{RefusalCode, RequestId, ToolCallId};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::stand::{self, Stand, answer, asks, asks_with, step};

fn asked_with(input: &str) -> stand::Outcome {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(request)];
    plays.extend(answer("finished"));
    Stand::new(FakeRuntime::new().turn(plays)).terminal().input(input).run(&["run", "go"])
}

fn answer_of(outcome: &stand::Outcome) -> Option<Answer> {
    outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Answer(_, answer) => Some(answer),
        _ => None,
    })
}

#[test]
fn each_word_is_its_answer() {
    let rule = Some("run_shell(touch *)".to_owned());
    let table = [
        ("y\n", Answer::AllowOnce),
        ("\na\n", Answer::AllowAlways { rule, persist: Persist::Session }),
        ("n\n", Answer::Deny { feedback: None }),
        ("use make\n", Answer::Deny { feedback: Some("use make".to_owned()) }),
        // The end of input answers nothing, so nothing runs.
        ("", Answer::Deny { feedback: None }),
    ];
    for (input, expected) in table {
        let outcome = asked_with(input);
        assert_eq!(answer_of(&outcome), Some(expected), "{input:?}");
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
}

#[test]
fn always_without_a_rule_is_explained_and_asked_again() {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks_with("r1", "a | b", Vec::new()), Play::UntilAnswer(request)];
    plays.extend(answer("finished"));
    let runtime = FakeRuntime::new().turn(plays);
    let outcome = Stand::new(runtime).terminal().input("a\ny\n").run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(answer_of(&outcome), Some(Answer::AllowOnce));
    assert!(outcome.err.contains("there is no rule to suggest here"), "{}", outcome.err);
    assert_eq!(outcome.err.matches("? run_shell").count(), 2, "{}", outcome.err);
}

#[test]
fn a_refused_answer_brings_the_card_back() {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(request)];
    plays.extend(answer("finished"));
    let runtime = FakeRuntime::new().turn(plays);
    let runtime = runtime.refuse("answer", RefusalCode::Invalid, "that rule is none");
    let outcome = Stand::new(runtime).terminal().input("a\ny\n").run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.err.contains("that rule is none"), "{}", outcome.err);
    assert_eq!(outcome.err.matches("? run_shell").count(), 2, "{}", outcome.err);
}

#[test]
fn a_refused_last_word_ends_the_program_instead_of_waiting() {
    let plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(RequestId::new("r1"))];
    let runtime = FakeRuntime::new().turn(plays);
    let runtime = runtime.refuse("answer", RefusalCode::Invalid, "no such answer");
    let outcome = Stand::new(runtime).terminal().input("").run(&["run", "go"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("no such answer"), "{}", outcome.err);
}

#[test]
fn a_request_that_somebody_else_decided_is_not_asked_again() {
    let mut plays = vec![step(1), asks("r1", "touch x"), asks("r2", "touch y")];
    plays.push(Play::UntilAnswer(RequestId::new("r2")));
    plays.extend(answer("finished"));
    let runtime = FakeRuntime::new().turn(plays);
    let runtime = runtime.refuse("answer", RefusalCode::RequestResolved, "decided already");
    let outcome = Stand::new(runtime).terminal().input("y\ny\n").run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.err.matches("? run_shell").count(), 2, "{}", outcome.err);
}

#[test]
fn live_output_is_not_kept_while_a_card_waits() {
    let progress = |text: String| -> Play {
        ToolProgress { tool_call_id: ToolCallId::new("call2"), stream: None, text }.into()
    };
    // Far more than what is held: were it counted, the session would stand still.
    let mut plays = vec![step(1), asks("r1", "touch x")];
    plays.extend((0..2_000).map(|line| progress(format!("line {line}"))));
    plays.push(
        RequestResolved {
            request_id: RequestId::new("r1"),
            kind: InteractionKind::Permission,
            outcome: Outcome::Deny,
            by: DecidedBy::Timeout,
            rule: None,
            persist: None,
            answers: Vec::new(),
            words: None,
            mode: None,
        }
        .into(),
    );
    plays.extend(answer("finished"));
    let runtime = FakeRuntime::new().turn(plays);
    let outcome = Stand::new(runtime).terminal().silent_input().run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{}", outcome.err);
    assert!(
        outcome.err.contains("denied: nobody answered in time; press Enter"),
        "{}",
        outcome.err
    );
}

#[test]
fn the_card_is_for_people_and_the_answer_for_the_reader() {
    let outcome = asked_with("y\n");
    assert_eq!(outcome.out, "finished\n");
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn where_one_stream_is_no_terminal_nobody_is_asked() {
    let runtime = FakeRuntime::new().turn(answer("fine"));
    let outcome = Stand::new(runtime).run(&["run", "go"]);
    let attended = outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Create(session) => Some(session.agent.is_attended),
        _ => None,
    });
    assert_eq!(attended, Some(false));
}

#[test]
fn what_was_typed_before_a_card_consents_to_nothing() {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(request)];
    plays.extend(answer("finished"));
    let stand = Stand::new(FakeRuntime::new().turn(plays)).terminal();
    let outcome = stand.types("y\ny\n", "n no ·", "n\n").run(&["run", "go"]);
    assert_eq!(answer_of(&outcome), Some(Answer::Deny { feedback: None }), "{outcome:?}");
}
