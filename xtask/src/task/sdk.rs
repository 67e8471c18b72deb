//! `cargo xtask sdk`: the libraries in other languages, against the built program.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::house::House;
use crate::{needs, node, process, say, venv};

/// Builds, checks and tests both libraries and their packages. The tests run the examples, those
/// of the folder `examples` and those of the READMEs.
///
/// # Errors
/// When something cannot be installed or built, or a test fails.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (typescript, python) = match arguments {
        [] => (true, true),
        [flag] if flag == "--typescript" => (true, false),
        [flag] if flag == "--python" => (false, true),
        _ => bail!("does not know '{}': it takes --typescript or --python", arguments.join(" ")),
    };
    let house = House::open()?;
    needs::ensure(&[needs::GIT, needs::BASH, needs::COMPILER])?;
    let stand = Stand::build(&house)?;
    if typescript {
        say::step("TypeScript", || self::typescript(&stand))?;
    }
    if python {
        say::step("Python", || self::python(&stand))?;
    }
    Ok(())
}

/// What both libraries are tried against.
struct Stand<'a> {
    house: &'a House,
    model_server: PathBuf,
}

impl<'a> Stand<'a> {
    fn build(house: &'a House) -> Result<Self> {
        say::step("build the programs and the scripted model server", || {
            house.build()?;
            let mut cargo = process::cargo();
            cargo.args(["build", "--workspace", "--example", "model_server"]);
            process::run(cargo.current_dir(&house.root))
        })?;
        let model_server = house.target_directory.join("debug/examples/model_server");
        Ok(Self { house, model_server })
    }

    /// Prepares a command that works in a folder of the repository and finds what it is tried
    /// against.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, folder: &str) -> Command {
        let mut command = process::program(program);
        command
            .current_dir(self.house.root.join(folder))
            .env("NARTHEX_BIN", self.house.binary("narthex"))
            .env("NARTHEX_MODEL_SERVER", &self.model_server)
            // A program that is missing is a failure here, and a loud skip elsewhere.
            .env("NARTHEX_REAL", "require")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

fn typescript(stand: &Stand<'_>) -> Result<()> {
    const FOLDER: &str = "sdk/typescript";
    let node = node::ensure(&stand.house.root)?;
    let npm = |words: &[&str]| {
        let mut command = stand.command("npm", FOLDER);
        process::run(node.on_path(command.args(words)))
    };
    npm(&["ci", "--no-audit", "--no-fund"])?;
    for script in ["build", "check:generated", "test", "test:pack"] {
        npm(&["run", "--silent", script])?;
    }
    Ok(())
}

fn python(stand: &Stand<'_>) -> Result<()> {
    const FOLDER: &str = "sdk/python";
    needs::ensure(&[needs::PYTHON])?;
    let list = stand.house.root.join(FOLDER).join("requirements-dev.txt");
    let text = std::fs::read_to_string(&list)?;
    let lines = text.lines().map(str::trim);
    let packages: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let python = venv::ensure(&stand.house.root, "sdk", &packages)?;
    for words in [
        &["-m", "scripts.generate", "--check"][..],
        &["-m", "ruff", "check", "--no-cache", ".", "../../examples/python"],
        &["-m", "mypy"],
        &["-m", "pytest", "-q", "-p", "no:cacheprovider"],
        &["-m", "scripts.check_wheel"],
    ] {
        process::run(stand.command(&python, FOLDER).args(words))?;
    }
    Ok(())
}
