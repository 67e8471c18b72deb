//! `cargo xtask test`: installs what tests need and runs all of them.

use anyhow::{Result, bail};

use crate::house::House;
use crate::task::churn::Churn;
use crate::task::{conformance, sdk};
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
    say::line("(with apt-get, on Debian as root; elsewhere it says what to install); builds and");
    say::line("runs every test of the workspace; then lets the official client libraries of three");
    say::line("providers talk to the scripted model server, holds the HTTP server against its own");
    say::line("description and the MCP client against its official suite and other people's");
    say::line("servers, and tests the libraries for TypeScript and Python (npm, and Python under");
    say::line(".venv/; all this is left out with --quick).\n");
    let mut needed = vec![needs::GIT, needs::BASH, needs::COMPILER];
    if !is_quick {
        needed.push(needs::PYTHON);
    }
    needs::ensure(&needed)?;
    say::step("tests of the workspace", || workspace(&house))?;
    if !is_quick {
        let churn = Churn::start(&house)?;
        conformance::clients(&house)?;
        say::step("build the programs", || house.build())?;
        conformance::http(&house)?;
        conformance::mcp(&house)?;
        conformance::acp(&house)?;
        sdk::run(&[])?;
        say::step("what is left of the churn", || churn.finish())?;
    }
    Ok(())
}

fn workspace(house: &House) -> Result<()> {
    let mut command = process::cargo();
    if process::find("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
        if std::env::var_os("CI").is_some() {
            // Hundreds of tests start processes, sandboxes and sockets on two cores at once. One
            // that fails is run once more and told as flaky, as acceptance tests are.
            command.args(["--retries", "1"]);
        }
    } else {
        command.args(["test", "--workspace", "--no-fail-fast"]);
    }
    process::run(command.current_dir(&house.root))
}
