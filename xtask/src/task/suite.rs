//! `cargo xtask test`: installs what tests need and runs all of them.

use anyhow::{Result, bail};

use crate::house::House;
use crate::task::conformance;
use crate::{needs, process, say};

/// Runs every test of the workspace, then the client libraries against the scripted server.
///
/// # Errors
/// When something cannot be installed or built, or a test fails.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let is_quick = match arguments {
        [] => false,
        [flag] if flag == "--quick" => true,
        _ => bail!("does not know '{}': it takes only --quick", arguments.join(" ")),
    };
    let house = House::open()?;
    say::line("This checks for git, bash, a C compiler and python3, and installs what is missing");
    say::line("(with apt-get, on Debian as root; elsewhere it says what to install); builds the");
    say::line("programs; runs every test of the workspace; then lets the official client");
    say::line("libraries of three providers talk to the scripted model server, in an environment");
    say::line("of its own under .venv/ (left out with --quick).\n");
    let mut needed = vec![needs::GIT, needs::BASH, needs::COMPILER];
    if !is_quick {
        needed.push(needs::PYTHON);
    }
    needs::ensure(&needed)?;
    // Tests that start the program find it, and the agent beside it, where cargo built them.
    say::step("build the programs", || house.build())?;
    say::step("tests of the workspace", || workspace(&house))?;
    if !is_quick {
        conformance::clients(&house)?;
    }
    Ok(())
}

fn workspace(house: &House) -> Result<()> {
    let mut command = process::cargo();
    if process::find("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        command.args(["test", "--workspace", "--no-fail-fast"]);
    }
    process::run(command.current_dir(&house.root))
}
