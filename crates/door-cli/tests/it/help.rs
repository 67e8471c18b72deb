//! The grammar: sound, documented with an example everywhere, helpful to who mistypes.

use clap::CommandFactory;
use door_cli::{Cli, Exit, parse};

fn parsed(args: &[&str]) -> Result<Cli, Exit> {
    parse(std::iter::once("narthex").chain(args.iter().copied()).map(Into::into))
}

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_help_text_has_an_example() {
    let mut command = Cli::command();
    command.build();
    let mut missing = Vec::new();
    look(&command, &mut missing);
    assert!(missing.is_empty(), "without an example: {missing:?}");
}

fn look(command: &clap::Command, missing: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if !help.contains("Example") && command.get_name() != "help" {
        missing.push(command.get_name().to_owned());
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        look(inner, missing);
    }
}

#[test]
fn help_texts() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut text = String::new();
    gather(&mut command, "narthex", &mut text);
    insta::assert_snapshot!(text);
}

fn gather(command: &mut clap::Command, name: &str, text: &mut String) {
    text.push_str(&format!("$ {name} --help\n{}\n", command.render_long_help()));
    for inner in command.get_subcommands_mut() {
        if inner.get_name() == "help" || inner.is_hide_set() {
            continue;
        }
        let name = format!("{name} {}", inner.get_name());
        gather(inner, &name, text);
    }
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let wrong: [&[&str]; 12] = [
        &["run", "--no-such-flag", "hi"],
        &["run", "--mode", "reckless", "hi"],
        &["run", "--output-format", "xml", "hi"],
        &["run", "--max-turns", "many", "hi"],
        &["run", "--max-turns", "0", "hi"],
        &["run", "--resume", "a", "--continue", "hi"],
        &["run", "--input-format", "stream-json", "hi"],
        &["no-such-command"],
        &["--output-format", "json"],
        &["-p", "hi", "run", "hi"],
        &["--continue", "sessions", "list"],
        &["sessions", "rm"],
    ];
    for args in wrong {
        assert_eq!(parsed(args).unwrap_err(), Exit::Usage, "{args:?}");
    }
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        assert_eq!(parsed(args).unwrap_err(), Exit::Done, "{args:?}");
    }
}

#[test]
fn habits_are_understood() {
    let right: [&[&str]; 9] = [
        &[],
        &["-p", "hi"],
        &["--print", "hi", "--output-format", "json"],
        &["-p", "--output-format", "json"],
        &["--continue"],
        &["--resume", "01kc"],
        &["--model", "demo", "run", "hi"],
        &["run", "hi", "--allow", "a", "--allow", "b(c)", "--add-root", "/tmp"],
        &["run", "-c", "hi"],
    ];
    for args in right {
        assert!(parsed(args).is_ok(), "{args:?}");
    }
}

#[test]
fn a_mistyped_command_gets_a_suggestion() {
    let error = clap::Parser::try_parse_from(["narthex", "sesions"]).map(|_: Cli| ()).unwrap_err();
    assert!(error.to_string().contains("'sessions'"), "{error}");
}
