//! Conversations line by line.

use protocol::{Mode, TurnEnd};
use runtime_api::PromptPart;
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::stand::*;

fn prompts(outcome: &Outcome) -> Vec<String> {
    let text = |call| match call {
        Call::Prompt(_, prompt) => match prompt.parts.into_iter().next() {
            Some(PromptPart::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(text).collect()
}

#[test]
fn piped_lines_are_prompts_of_one_session() {
    let runtime = FakeRuntime::new().turn(answer("one")).turn(answer("two"));
    let outcome = Stand::new(runtime).input("first\n\n/no command\n").run(&[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "one\ntwo\n"));
    assert_eq!(prompts(&outcome), ["first", "/no command"]);
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn a_failure_in_a_series_is_not_hidden_by_a_success() {
    let mut failing = vec![step(1)];
    failing.extend(ends(result(TurnEnd::Error, "")));
    let runtime = FakeRuntime::new().turn(failing).turn(answer("fine"));
    let outcome = Stand::new(runtime).input("first\nsecond\n").run(&[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, "fine\n"));
}

#[test]
fn commands_do_what_they_say() {
    let runtime = FakeRuntime::new().turn(answer("planned"));
    let input = "/help\n/mode\n/mode plan\n/mode reckless\n/model openai/gpt-5\n/session\n/new\n\
                 go\n/quit\nnever\n";
    let outcome = Stand::new(runtime).terminal().input(input).run(&[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "planned\n"));
    assert_eq!(prompts(&outcome), ["go"]);
    let calls = outcome.runtime.calls();
    assert!(calls.iter().any(|call| matches!(call, Call::SetMode(Mode::Plan))));
    let second = calls.iter().filter_map(|call| match call {
        Call::Create(session) => Some((session.model.clone(), session.mode)),
        _ => None,
    });
    let expected = (Some("openai/gpt-5".to_owned()), Some(Mode::Plan));
    assert_eq!(second.collect::<Vec<_>>().pop(), Some(expected), "/new keeps model and mode");
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn resume_takes_the_given_session_by_id_or_its_beginning() {
    for given in ["01kc3v9yq8f2m0x4c7b1n5tzwe", "01kc3"] {
        let runtime = FakeRuntime::new()
            .session(session_info("01kc3v9yq8f2m0x4c7b1n5tzwe", "/src/app"))
            .session(session_info("01zzz", "/src/app"))
            .turn(answer("still here"));
        let outcome = Stand::new(runtime).input("are you?\n").run(&["resume", given]);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "still here\n"));
        let opened = |call: &Call| match call {
            Call::Open(id, _) => id.as_str() == "01kc3v9yq8f2m0x4c7b1n5tzwe",
            _ => false,
        };
        assert!(outcome.runtime.calls().iter().any(opened));
    }
}

#[test]
fn a_session_of_another_folder_is_not_run_under_this_ones_settings() {
    for args in [&["resume", "01kc3"][..], &["run", "--resume", "01kc3", "go"]] {
        let runtime =
            FakeRuntime::new().session(session_info("01kc3v", "/else where")).turn(answer("no"));
        let outcome = Stand::new(runtime).input("hi\n").run(args);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
        assert!(outcome.err.contains("--cwd '/else where'"), "{}", outcome.err);
        assert!(!outcome.runtime.calls().iter().any(|call| matches!(call, Call::Open(..))));
    }
}

#[test]
fn an_unclear_or_unknown_id_is_wrong_usage() {
    let runtime = || {
        FakeRuntime::new()
            .session(session_info("01kc3v", "/src/app"))
            .session(session_info("01kc3w", "/src/app"))
    };
    for (given, part) in [("01kc3", "more than one"), ("77", "no session 77"), ("", "no session")] {
        let outcome = Stand::new(runtime()).input("hi\n").run(&["resume", given]);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{given}: {outcome:?}");
        assert!(outcome.err.contains(part), "{given}: {}", outcome.err);
    }
}

#[test]
fn at_a_terminal_one_chooses_from_a_list() {
    let runtime = FakeRuntime::new()
        .session(session_info("01old", "/src/app"))
        .session(session_info("01new", "/src/app"))
        .session(session_info("01other", "/elsewhere"))
        .turn(answer("the old one"));
    let outcome = Stand::new(runtime).terminal().input("9\n2\nhello\n").run(&["resume"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "the old one\n"));
    let opened = |call: &Call| matches!(call, Call::Open(id, _) if id.as_str() == "01old");
    assert!(outcome.runtime.calls().iter().any(opened));
    insta::assert_snapshot!(outcome.err);
}
