//! Permission requests at a terminal.

use protocol::RequestId;
use protocol::event::Answer;
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::stand::*;

fn asked_with(input: &str) -> Outcome {
    let request = RequestId::new("r1");
    let mut plays = vec![step(1), asks("r1", "touch x"), Play::UntilAnswer(request)];
    plays.extend(answer("finished"));
    Stand::new(FakeRuntime::new().turn(plays)).terminal().input(input).run(&["run", "go"])
}

fn answer_of(outcome: &Outcome) -> Option<Answer> {
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
        ("\na\n", Answer::AllowAlways { rule }),
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
