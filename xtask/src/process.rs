//! Programs that a task starts.
#![allow(clippy::disallowed_methods, reason = "tasks start programs; the product does not")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Prepares a program.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    Command::new(name)
}

/// Prepares the cargo that started this task.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program with the streams of this task.
///
/// # Errors
/// When it cannot be started or does not end with 0; the text holds the whole command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a program and returns what it wrote to standard output.
///
/// # Errors
/// As [`run`].
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of `{shown}`"))
}

/// Tells whether a program runs at all with these arguments. Shows nothing.
pub(crate) fn succeeds(name: &str, arguments: &[&str]) -> bool {
    program(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Finds a program on the path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
