//! Conversations line by line.

use protocol::event::{PromptStarted, TurnResult};
use protocol::{Block, MessageId, Mode, PromptId, TurnEnd};
use runtime_api::{PromptPart, SessionInfo, SlashCommand};
use testkit::fake_handle::{Call, FakeRuntime, Play, session_info};

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
    let expected = (Some("openai/gpt-5".to_owned()), Some(Mode::Plan));
    assert_eq!(created(&outcome), [expected], "one session, with what was set before it");
    insta::assert_snapshot!(outcome.err);
}

fn created(outcome: &Outcome) -> Vec<(Option<String>, Option<Mode>)> {
    let made = |call| match call {
        Call::Create(session) => Some((session.model, session.mode)),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(made).collect()
}

#[test]
fn commands_change_a_session_that_runs_and_a_new_one_keeps_them() {
    let runtime = FakeRuntime::new().turn(answer("one")).turn(answer("two"));
    let input = "go\n/mode plan\n/model openai/gpt-5\n/new\ngo\n";
    let outcome = Stand::new(runtime).terminal().input(input).run(&[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "one\ntwo\n"), "{outcome:?}");
    let calls = outcome.runtime.calls();
    assert!(calls.iter().any(|call| matches!(call, Call::SetMode(Mode::Plan))));
    let made = created(&outcome);
    assert_eq!(made.len(), 2);
    assert_eq!(made[1], (Some("openai/gpt-5".to_owned()), Some(Mode::Plan)));
}

#[test]
fn looking_in_leaves_no_session_behind() {
    for input in ["", "\n/help\n/session\n/new\n/quit\n"] {
        let outcome = Stand::new(FakeRuntime::new()).terminal().input(input).run(&[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(created(&outcome).is_empty(), "{outcome:?}");
    }
}

fn changed(outcome: &Outcome) -> (Vec<Mode>, Vec<String>) {
    let (mut modes, mut models) = (Vec::new(), Vec::new());
    for call in outcome.runtime.calls() {
        match call {
            Call::SetMode(mode) => modes.push(mode),
            Call::SetModel(model) => models.push(model),
            _ => {}
        }
    }
    (modes, models)
}

#[test]
fn rights_of_another_run_do_not_come_back() {
    let wide = || {
        let info = SessionInfo {
            mode: Mode::FullAuto,
            model: "openai/gpt-5".to_owned(),
            ..session_info("01wide", "/src/app")
        };
        FakeRuntime::new().session(info).turn(answer("fine"))
    };
    for args in [
        &["run", "--continue", "go"][..],
        &["run", "--resume", "01wide", "go"],
        &["resume", "01wide"],
        &["--continue"],
    ] {
        let outcome = Stand::new(wide()).input("hi\n").run(args);
        assert_eq!(changed(&outcome), (vec![Mode::Ask], vec![]), "{args:?}: {outcome:?}");
    }
    let flags = ["run", "--continue", "--mode", "full-auto", "--model", "a/b", "go"];
    let outcome = Stand::new(wide()).terminal().run(&flags);
    assert_eq!(changed(&outcome), (vec![], vec!["a/b".to_owned()]), "{outcome:?}");
    assert!(outcome.err.contains("mode full-auto · /src/app"), "{}", outcome.err);
}

#[test]
fn a_session_without_a_prompt_is_passed_over() {
    let empty = SessionInfo { prompts: 0, ..session_info("01empty", "/src/app") };
    let runtime = || {
        let full = session_info("01full", "/src/app");
        FakeRuntime::new().session(full).session(empty.clone()).turn(answer("here"))
    };
    for args in [&["run", "--continue", "go"][..], &["resume"]] {
        let outcome = Stand::new(runtime()).terminal().input("hi\n").run(args);
        let opened = |call: &Call| matches!(call, Call::Open(id, _) if id.as_str() == "01full");
        assert!(outcome.runtime.calls().iter().any(opened), "{args:?}: {outcome:?}");
    }
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

fn command(name: &str, hint: Option<&str>, description: &str) -> SlashCommand {
    SlashCommand {
        name: name.to_owned(),
        description: description.to_owned(),
        argument_hint: hint.map(str::to_owned),
        source: "builtin",
    }
}

/// A turn that is a slash command: no model is asked, the text is what the command says.
fn obeys(name: &str, text: &str) -> Vec<Play> {
    let started = PromptStarted {
        prompt_id: PromptId::new("prompt1"),
        message_id: MessageId::new("message1"),
        content: vec![Block::text(format!("/{name}"))],
        max_turns: None,
        command: Some(name.to_owned()),
        options: Default::default(),
    };
    let result = TurnResult { turns: 0, ..result(TurnEnd::Completed, text) };
    let mut plays: Vec<Play> = vec![started.into()];
    plays.extend(ends(result));
    plays
}

fn with_commands() -> FakeRuntime {
    FakeRuntime::new().commands(vec![
        command("compact", Some("[WHAT TO KEEP]"), "summarises the \u{1b}[2J conversation"),
        command("mode", Some("[MODE]"), "shows or sets the mode"),
    ])
}

#[test]
fn commands_of_the_runtime_are_prompts_and_what_they_say_is_shown() {
    let runtime = with_commands()
        .turn(answer("one"))
        .turn(obeys("compact", "summarised: 152k → 21k tokens"))
        .turn(obeys("mode", "mode is plan"));
    let input = "go\n/compact the plan\n/mode plan\n/help\n/quit\n";
    let outcome = Stand::new(runtime).terminal().input(input).run(&[]);
    let said = "one\nsummarised: 152k → 21k tokens\nmode is plan\n";
    assert_eq!((outcome.code, outcome.out.as_str()), (0, said), "{outcome:?}");
    assert_eq!(prompts(&outcome), ["go", "/compact the plan", "/mode plan"]);
    assert!(changed(&outcome).0.is_empty(), "the runtime obeys its own: {outcome:?}");
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn a_slip_in_a_command_is_not_sent() {
    let runtime = || with_commands().session(session_info("01old", "/src/app"));
    let input = "/compcat now\n/exit\n/etc/passwd looks odd\n /compcat\n";
    let talked = runtime().turn(answer("one")).turn(answer("two"));
    let outcome = Stand::new(talked).terminal().input(input).run(&[]);
    assert_eq!(prompts(&outcome), ["/etc/passwd looks odd", " /compcat"], "{outcome:?}");
    for words in ["no command /compcat; did you mean /compact? to", "did you mean /quit? to"] {
        assert!(outcome.err.contains(words), "{}", outcome.err);
    }
    // Without a person nobody could say it better.
    let outcome = Stand::new(runtime().turn(answer("one"))).input("/compcat\n").run(&[]);
    assert_eq!(prompts(&outcome), ["/compcat"], "{outcome:?}");
    let outcome = Stand::new(runtime().turn(answer("one"))).terminal().run(&["run", "/sesion"]);
    assert_eq!(prompts(&outcome), ["/sesion"], "{outcome:?}");
}

#[test]
fn a_change_by_command_is_told_once() {
    let mut plays = obeys("mode", "The mode is plan now.");
    plays.insert(1, protocol::event::ModeChanged { mode: Mode::Plan }.into());
    let runtime = with_commands().turn(answer("one")).turn(plays).turn(answer("two"));
    let outcome = Stand::new(runtime).terminal().input("go\n/mode plan\ngo\n").run(&[]);
    assert_eq!(outcome.out, "one\nThe mode is plan now.\ntwo\n", "{outcome:?}");
    assert!(!outcome.err.contains("mode is now"), "{}", outcome.err);
}

#[test]
fn help_tells_the_keys_of_a_card() {
    let outcome = Stand::new(FakeRuntime::new()).terminal().input("/help\n").run(&[]);
    for key in ["y  runs it this once", "a  allows", "e  changes that rule", "n  refuses it"] {
        assert!(outcome.err.contains(key), "{key}: {}", outcome.err);
    }
}

#[test]
fn help_before_the_first_prompt_knows_the_runtimes_commands_from_a_stored_session() {
    let runtime = with_commands().session(session_info("01old", "/src/app"));
    let outcome = Stand::new(runtime).terminal().input("/help\n").run(&[]);
    assert!(outcome.err.contains("/compact [WHAT TO KEEP]"), "{}", outcome.err);
    assert!(created(&outcome).is_empty(), "{outcome:?}");
}

#[test]
fn the_facts_tell_how_full_the_context_is() {
    let info = SessionInfo {
        context_tokens: 62_000,
        context_window: Some(100_000),
        ..session_info("01old", "/src/app")
    };
    let runtime = FakeRuntime::new().session(info);
    let outcome = Stand::new(runtime).terminal().input("/session\n").run(&["resume", "01old"]);
    assert!(outcome.err.contains("context 62 % full"), "{}", outcome.err);
}
