//! The list of commands, each with its line.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::house::House;
use crate::task::{acceptance, ci, codegen, conformance, demo, fuzz, sdk, suite};
use crate::{process, say, tidy};

struct Command {
    name: &'static str,
    arguments: &'static str,
    line: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        arguments: "",
        line: "builds the program and shows it repair a project; needs no key",
        run: demo::run,
    },
    Command {
        name: "test",
        arguments: "[--quick]",
        line: "installs what tests need and runs all; --quick leaves the client libraries out",
        run: suite::run,
    },
    Command {
        name: "check",
        arguments: "",
        line: "compiles everything without running it",
        run: check,
    },
    Command {
        name: "tidy",
        arguments: "",
        line: "looks for what the house rules forbid; no compiler needed, one second",
        run: tidy::run,
    },
    Command {
        name: "codegen",
        arguments: "[--check]",
        line: "writes schema/ and docs/limits.md; --check only tells what is stale",
        run: codegen::run,
    },
    Command {
        name: "ci",
        arguments: "",
        line: "all that is checked before a change lands: fmt, tidy, clippy, tests, deny, codegen",
        run: ci::run,
    },
    Command {
        name: "acceptance",
        arguments: "[FILE…]",
        line: "runs the black-box tests that lie beside the repository, where they do",
        run: acceptance::run,
    },
    Command {
        name: "conformance",
        arguments: "--acp | --clients | --http | --mcp | --mock | --small-model",
        line: "holds the program against other people's clients, servers and a real small model",
        run: conformance::run,
    },
    Command {
        name: "sdk",
        arguments: "[--typescript | --python]",
        line: "builds and tests the libraries in other languages, their packages and examples",
        run: sdk::run,
    },
    Command {
        name: "bench",
        arguments: "[ARGUMENT…]",
        line: "builds in release and measures the table of bench/README.md",
        run: bench,
    },
    Command {
        name: "fuzz",
        arguments: "[TARGET…] [--seconds N] [--keep]",
        line: "runs the fuzz targets, 600 s each, with nightly; --keep fills the corpora in git",
        run: fuzz::run,
    },
    Command {
        name: "hooks",
        arguments: "",
        line: "makes git run .githooks before each commit",
        run: hooks,
    },
];

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some((name, rest)) = arguments.split_first() else {
        show();
        return ExitCode::SUCCESS;
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        show();
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        show();
        say::error(&format!("no command '{name}': the list above has them all"));
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("{name}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn show() {
    say::line("cargo xtask COMMAND\n");
    for command in COMMANDS {
        say::line(&format!("  {} {}", command.name, command.arguments));
        say::line(&format!("      {}", command.line));
    }
}

/// Refuses arguments where a command takes none, so that a typing error is not passed over.
///
/// # Errors
/// When there is one.
pub(crate) fn no_arguments(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        Some(argument) => bail!("does not know '{argument}': it takes no arguments"),
        None => Ok(()),
    }
}

fn check(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    let house = House::open()?;
    let mut command = process::cargo();
    command.args(["check", "--workspace", "--all-targets"]).current_dir(&house.root);
    process::run(&mut command)
}

fn bench(arguments: &[String]) -> Result<()> {
    let house = House::open()?;
    say::step("build in release (minutes on a fresh machine)", || {
        let mut command = process::cargo();
        process::run(command.args(["build", "--release", "--bins"]).current_dir(&house.root))
    })?;
    let mut command = process::cargo();
    command.args(["run", "--release", "--package", "bench", "--"]).args(arguments);
    process::run(command.current_dir(&house.root))
}

fn hooks(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    let house = House::open()?;
    let mut command = process::program("git");
    process::run(command.args(["config", "core.hooksPath", ".githooks"]).current_dir(&house.root))?;
    say::line("git now runs .githooks/pre-commit and .githooks/commit-msg in this clone");
    Ok(())
}
