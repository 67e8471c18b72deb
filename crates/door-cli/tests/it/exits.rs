//! Exit codes, stops, broken pipes: a failure never ends with 0.

use door_cli::{Stop, StreamFacts};
use protocol::event::{DeniedBy, TurnResult};
use protocol::{RefusalCode, StopReason, TurnEnd};
use runtime_api::{Interrupt, PromptPart};
use testkit::fake_handle::{Call, FakeRuntime, Play, session_info};

use crate::stand::*;

fn turn_of(result: TurnResult) -> FakeRuntime {
    let mut plays = vec![step(1)];
    plays.extend(ends(result));
    FakeRuntime::new().turn(plays)
}

#[test]
fn every_end_has_its_code_in_every_format() {
    let table = [
        (TurnEnd::Completed, 0, 0),
        (TurnEnd::Completed, 1, 3),
        (TurnEnd::Interrupted, 0, 130),
        (TurnEnd::MaxTurns, 0, 4),
        (TurnEnd::Time, 0, 4),
        (TurnEnd::Error, 0, 1),
        (TurnEnd::Denied, 0, 1),
    ];
    for (reason, unanswered, code) in table {
        for format in ["text", "json", "stream-json"] {
            let result = TurnResult { unanswered, ..result(reason, "so far") };
            let outcome =
                Stand::new(turn_of(result)).run(&["run", "--output-format", format, "go"]);
            assert_eq!(outcome.code, code, "{reason:?} in {format}: {outcome:?}");
            if code == 1 || code == 4 {
                assert!(outcome.err.contains("narthex: "), "{format}: {outcome:?}");
            }
        }
    }
}

#[test]
fn a_failed_turn_says_why_on_standard_error_alone() {
    let failed = TurnResult {
        code: Some("unauthorized".to_owned()),
        message: Some("401: bad key\u{1b}[2J".to_owned()),
        ..result(TurnEnd::Error, "half")
    };
    let outcome = Stand::new(turn_of(failed)).run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(outcome.err.contains("narthex: error: 401: bad key␛[2J"), "{}", outcome.err);
}

#[test]
fn a_key_that_was_not_taken_is_told_with_its_origin() {
    let failed = TurnResult {
        code: Some("unauthorized".to_owned()),
        message: Some("status 401".to_owned()),
        ..result(TurnEnd::Error, "")
    };
    for format in ["text", "json"] {
        let stand = Stand::new(turn_of(failed.clone()));
        let outcome = stand.run(&["run", "--output-format", format, "go"]);
        assert!(outcome.err.contains("environment, ANTHROPIC_API_KEY"), "{}", outcome.err);
    }
    let other = Stand::new(turn_of(failed)).run(&["run", "--model", "openai/gpt-5", "go"]);
    assert!(!other.err.contains("ANTHROPIC_API_KEY"), "{}", other.err);
}

#[test]
fn a_denial_is_said_once() {
    let mut plays = vec![
        step(1),
        calls("c1", "run_shell", "touch x"),
        denies("c1", "run_shell", DeniedBy::Rule, "denied: a rule"),
    ];
    plays.extend(ends(result(TurnEnd::Completed, "well")));
    let outcome = Stand::new(FakeRuntime::new().turn(plays)).run(&["run", "go"]);
    assert!(outcome.err.contains("touch x: denied: a rule"), "{}", outcome.err);
}

#[test]
fn what_is_said_before_a_call_is_for_people_even_in_a_pipe() {
    let mut plays = vec![step(1), says("First I look.", StopReason::ToolUse)];
    plays.extend(ends(result(TurnEnd::Completed, "well")));
    let outcome = Stand::new(FakeRuntime::new().turn(plays)).run(&["run", "go"]);
    assert_eq!(outcome.out, "well\n");
    assert!(outcome.err.contains("First I look.\n"), "{}", outcome.err);
}

#[test]
fn a_dumb_terminal_gets_no_colours() {
    for is_dumb in [false, true] {
        let facts = StreamFacts {
            input_is_terminal: true,
            err_is_terminal: true,
            is_dumb,
            ..StreamFacts::default()
        };
        let runtime = FakeRuntime::new().turn(answer("fine"));
        let outcome = Stand::new(runtime).facts(facts).run(&["run", "go"]);
        assert_eq!(outcome.err.contains('\u{1b}'), !is_dumb, "{:?}", outcome.err);
    }
}

#[test]
fn refusals_end_before_anything_is_printed() {
    let table = [
        ("create", RefusalCode::InvalidModel, 2),
        ("create", RefusalCode::LockedByPolicy, 2),
        ("create", RefusalCode::Invalid, 2),
        ("prompt", RefusalCode::TooLarge, 2),
        ("prompt", RefusalCode::QueueFull, 1),
    ];
    for (method, code, exit) in table {
        let runtime = FakeRuntime::new().refuse(method, code, "no, because");
        let outcome = Stand::new(runtime).run(&["run", "go"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (exit, ""), "{method} {code:?}");
        assert!(outcome.err.contains("narthex: no, because"), "{}", outcome.err);
    }
}

#[test]
fn nothing_to_go_on_with_is_wrong_usage_and_an_owner_is_a_failure() {
    let outcome = Stand::new(FakeRuntime::new()).run(&["run", "--continue", "go"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    let runtime = FakeRuntime::new().session(session_info("01kc3v9yq8", "/src/app")).refuse(
        "open",
        RefusalCode::OwnedElsewhere,
        "open in process 7",
    );
    let outcome = Stand::new(runtime).run(&["run", "--continue", "go"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
}

#[test]
fn without_a_model_or_a_prompt_nothing_is_asked() {
    let outcome = Stand::new(FakeRuntime::new()).run(&["run", "--model", "none", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
    for input in ["", "  \n"] {
        let outcome = Stand::new(FakeRuntime::new()).input(input).run(&["run"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
        assert!(outcome.runtime.calls().is_empty());
    }
}

fn first_prompt(outcome: &Outcome) -> Option<String> {
    outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Prompt(_, prompt) => match prompt.parts.into_iter().next() {
            Some(PromptPart::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn an_input_that_says_nothing_holds_nobody_up_who_has_a_prompt() {
    let runtime = FakeRuntime::new().turn(answer("fine"));
    let outcome = Stand::new(runtime).silent_input().run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "fine\n"));
    assert_eq!(first_prompt(&outcome).as_deref(), Some("go"));
    assert!(outcome.err.contains("nothing came from standard input"), "{}", outcome.err);
    let runtime = FakeRuntime::new().turn(answer("fine"));
    let outcome = Stand::new(runtime).input("a context").run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.err.contains("nothing came")), (0, false));
    assert!(first_prompt(&outcome).unwrap().contains("a context"));
}

const STREAM: [&str; 4] = ["run", "--output-format", "stream-json", "go"];

fn until_stopped() -> FakeRuntime {
    let mut plays = vec![step(1), delta("on my w"), Play::UntilInterrupt];
    plays.extend(ends(result(TurnEnd::Interrupted, "on my w")));
    FakeRuntime::new().turn(plays)
}

#[test]
fn one_stop_ends_the_turn_and_shows_its_end() {
    for stop in [Stop::Interrupt, Stop::Terminate] {
        let outcome = Stand::new(until_stopped()).stops_at("on my w", &[stop]).run(&STREAM);
        assert_eq!(outcome.code, 130, "{outcome:?}");
        assert_eq!(outcome.out.matches("\"type\":\"done\"").count(), 1, "{}", outcome.out);
        assert!(outcome.out.contains("\"reason\":\"interrupted\""), "{}", outcome.out);
        let stopped = |call: &Call| matches!(call, Call::Interrupt(_, Interrupt::All));
        assert!(outcome.runtime.calls().iter().any(stopped));
    }
}

#[test]
fn a_second_stop_leaves_at_once() {
    let stops = [Stop::Interrupt, Stop::Interrupt];
    let outcome = Stand::new(until_stopped()).stops_at("on my w", &stops).run(&STREAM);
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(!outcome.out.contains("\"type\":\"done\""), "{}", outcome.out);
}

#[test]
fn a_program_can_stop_a_turn_too() {
    let input = "{\"type\":\"prompt\",\"text\":\"go\"}\n{\"type\":\"interrupt\"}\n";
    let args = ["run", "--input-format", "stream-json", "--output-format", "stream-json"];
    let outcome = Stand::new(until_stopped()).input(input).run(&args);
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(outcome.out.contains("\"reason\":\"interrupted\""), "{}", outcome.out);
}

#[test]
fn a_stop_before_the_turn_leaves_with_130() {
    for stop in [Stop::Interrupt, Stop::Terminate] {
        let outcome = Stand::new(FakeRuntime::new()).stops(&[stop]).run(&["run", "go"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (130, ""), "{outcome:?}");
        assert!(!outcome.runtime.calls().iter().any(|call| matches!(call, Call::Prompt(..))));
    }
}

#[test]
fn a_stream_that_ends_without_an_end_is_a_failure() {
    let runtime = FakeRuntime::new().turn(vec![step(1), Play::EndStreams]);
    let outcome = Stand::new(runtime).run(&["run", "go"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.err.contains("closed before its turn ended"), "{}", outcome.err);
}

#[test]
fn a_reader_that_leaves_stops_the_turn() {
    let mut plays = vec![step(1), delta("a"), Play::UntilInterrupt];
    plays.extend(ends(result(TurnEnd::Interrupted, "a")));
    let runtime = FakeRuntime::new().turn(plays);
    let outcome =
        Stand::new(runtime).broken_pipe().run(&["run", "--output-format", "stream-json", "go"]);
    assert_eq!(outcome.code, 130, "{outcome:?}");
    let stopped = |call: &Call| matches!(call, Call::Interrupt(_, Interrupt::All));
    assert!(outcome.runtime.calls().iter().any(stopped));
}

#[test]
fn a_reader_that_leaves_at_the_very_end_changes_nothing() {
    let runtime = FakeRuntime::new().turn(answer("the answer"));
    let outcome = Stand::new(runtime).broken_pipe().run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn unanswered_calls_are_explained() {
    let mut plays = vec![
        step(1),
        calls("c1", "write_file", "new.txt"),
        denies("c1", "write_file", DeniedBy::Nobody, "nobody could be asked"),
    ];
    plays.extend(ends(TurnResult { unanswered: 1, ..result(TurnEnd::Completed, "well") }));
    let outcome = Stand::new(FakeRuntime::new().turn(plays)).run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (3, "well\n"));
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn only_calls_that_nobody_answered_are_counted_and_named() {
    let mut plays = vec![step(1)];
    for (id, tool, by) in [
        ("c1", "grep", DeniedBy::Rule),
        ("c2", "read_file", DeniedBy::User),
        ("c3", "run_shell", DeniedBy::Timeout),
        ("c4", "write_file", DeniedBy::Nobody),
        ("c5", "run_shell", DeniedBy::Timeout),
    ] {
        plays.push(calls(id, tool, "x"));
        plays.push(denies(id, tool, by, "no"));
    }
    plays.extend(ends(TurnResult { unanswered: 4, ..result(TurnEnd::Completed, "well") }));
    let outcome = Stand::new(FakeRuntime::new().turn(plays)).run(&["run", "go"]);
    assert_eq!(outcome.code, 3, "{outcome:?}");
    for line in [
        "1 call needed an answer and nobody could be asked (write_file): ",
        "2 calls needed an answer and nobody answered in time (run_shell): ",
        "1 question more had no answer",
    ] {
        assert!(outcome.err.contains(line), "{line}: {}", outcome.err);
    }
}

#[test]
fn the_end_of_a_failed_commands_output_is_shown() {
    use protocol::event::Display;
    let exit = |code| Some(Display::Exit { code: Some(code), signal: None });
    let long = "x".repeat(200);
    let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    let text = format!("{text}\u{1b}[2Jgone\tand\n{long}\n\nexit code 101");
    let plays = |code: i32, text: &str| {
        let brought = brings_text("c1", "run_shell", (code != 0, text), exit(code));
        let mut plays = vec![step(1), calls("c1", "run_shell", "cargo check"), brought];
        plays.extend(ends(result(TurnEnd::Completed, "well")));
        FakeRuntime::new().turn(plays)
    };
    for is_terminal in [true, false] {
        let stand = Stand::new(plays(101, &text));
        let stand = if is_terminal { stand.terminal() } else { stand };
        let outcome = stand.run(&["run", "go"]);
        let told: Vec<&str> = outcome.err.lines().filter(|line| line.starts_with("    ")).collect();
        assert_eq!(told.len(), 8, "{}", outcome.err);
        assert_eq!(told[0], "    line 7");
        assert_eq!(told[6], "    ␛[2Jgone    and");
        assert_eq!(told[7], format!("    {}…", "x".repeat(159)));
        let outcome = Stand::new(plays(0, &text)).terminal().run(&["run", "go"]);
        assert!(!outcome.err.contains("line 7"), "{}", outcome.err);
        let outcome = Stand::new(plays(1, "(no output)\nexit code 1")).run(&["run", "go"]);
        assert!(!outcome.err.contains("    "), "{}", outcome.err);
    }
}

#[test]
fn a_budget_that_is_reached_is_named() {
    let failed = TurnResult {
        message: Some("the budget is reached: this turn has used 9 of 9 tokens, and".to_owned()),
        ..result(TurnEnd::Budget, "half")
    };
    let outcome = Stand::new(turn_of(failed)).run(&["run", "go"]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(outcome.err.contains("budget.turn_tokens in the settings"), "{}", outcome.err);
    assert!(!outcome.err.contains("--max-budget-usd"), "{}", outcome.err);
}

#[test]
fn the_runtime_is_always_shut_down() {
    for runtime in [
        FakeRuntime::new().turn(answer("fine")),
        FakeRuntime::new().refuse("create", RefusalCode::Invalid, "no"),
    ] {
        let outcome = Stand::new(runtime).run(&["run", "go"]);
        assert!(matches!(outcome.runtime.calls().last(), Some(Call::Shutdown)), "{outcome:?}");
    }
}
