//! `cargo xtask conformance`: other people's clients, servers and models against ours.

use anyhow::{Result, bail};

use crate::house::House;
use crate::{needs, process, say};

/// The suites: the flag, the folder below `conformance/`.
const SUITES: &[(&str, &str)] = &[
    ("--acp", "acp"),
    ("--clients", "clients"),
    ("--http", "http"),
    ("--mcp", "mcp"),
    ("--mock", "third-party-mock"),
    ("--small-model", "small-model"),
];

/// Runs one of the suites.
///
/// # Errors
/// When none or an unknown one is named, or it fails.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let names = SUITES.iter().map(|(flag, _)| *flag).collect::<Vec<_>>().join(", ");
    let Some((flag, rest)) = arguments.split_first() else {
        bail!("needs one of {names}");
    };
    let Some((_, folder)) = SUITES.iter().find(|(name, _)| name == flag) else {
        bail!("does not know '{flag}': there are {names}");
    };
    let house = House::open()?;
    house.build()?;
    if matches!(*folder, "acp" | "mcp") {
        needs::ensure(&[needs::NPM])?;
    }
    script(&house, folder, rest)
}

/// Lets the official client libraries talk to the scripted model server of the testkit.
///
/// # Errors
/// When a library complains.
pub(crate) fn clients(house: &House) -> Result<()> {
    say::step("client libraries", || script(house, "clients", &[]))
}

/// Holds the server against its own description with a tool that makes requests from it.
///
/// # Errors
/// When an answer is not as described.
pub(crate) fn http(house: &House) -> Result<()> {
    say::step("the server against its description", || script(house, "http", &[]))
}

/// Lets the official client library of the Agent Client Protocol hold sessions with the program.
///
/// # Errors
/// When an answer or a line is not as it should be.
pub(crate) fn acp(house: &House) -> Result<()> {
    needs::ensure(&[needs::NPM])?;
    say::step("the ACP agent against the official client", || script(house, "acp", &[]))
}

/// Holds the MCP client against the official suite and against servers of others.
///
/// # Errors
/// When a scenario fails that did not, or a server cannot be used as it should.
pub(crate) fn mcp(house: &House) -> Result<()> {
    needs::ensure(&[needs::NPM])?;
    say::step("the MCP client against suite and servers", || script(house, "mcp", &[]))
}

/// Runs `conformance/FOLDER/run.py` or `run.sh`, which make the environment that they need.
fn script(house: &House, folder: &str, arguments: &[String]) -> Result<()> {
    needs::ensure(&[needs::PYTHON])?;
    let folder = house.root.join("conformance").join(folder);
    let mut command = if folder.join("run.py").is_file() {
        let mut python = process::program("python3");
        python.arg("-B").arg(folder.join("run.py"));
        python
    } else {
        process::program(folder.join("run.sh"))
    };
    command.args(arguments).env("NARTHEX_BIN", house.binary("narthex"));
    process::run(command.current_dir(&house.root))
}
