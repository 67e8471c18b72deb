//! `cargo xtask ci`: all that is checked before a change lands. Nothing is checked elsewhere only.

use std::process::Command;

use anyhow::Result;

use crate::house::House;
use crate::task::{codegen, suite};
use crate::{menu, process, say, tidy};

/// Runs every check in the order of what is cheapest to know.
///
/// # Errors
/// At the first check that fails.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    menu::no_arguments(arguments)?;
    let house = House::open()?;
    let cargo = |words: &[&str]| -> Command {
        let mut command = process::cargo();
        command.args(words).current_dir(&house.root);
        command
    };
    say::step("fmt", || process::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    say::step("tidy", || tidy::run(&[]))?;
    say::step("clippy", || {
        let words = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        process::run(&mut cargo(&words))
    })?;
    say::step("features of the library", || {
        // The workspace builds it with all of them at once.
        for features in ["", "client", "server"] {
            let words = ["check", "-p", "narthex", "--no-default-features", "--features", features];
            process::run(&mut cargo(&words))?;
        }
        Ok(())
    })?;
    say::step("test", || suite::run(&[]))?;
    say::step("codegen", || codegen::run(&["--check".to_owned()]))?;
    if process::find("cargo-deny").is_some() {
        say::step("deny", || {
            process::run(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]))
        })?;
    } else {
        say::line("deny: left out, cargo-deny is not installed (`cargo install cargo-deny`)");
    }
    Ok(())
}
