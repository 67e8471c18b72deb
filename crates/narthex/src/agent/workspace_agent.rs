//! How the process is started that runs an agent's commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// The argument that makes a program its own workspace agent.
const ARGUMENT: &str = "--be-the-narthex-agent";

/// The workspace agent as a program of its own.
const PROGRAM: &str = "narthex-agent";

/// Whether this program said that it can be executed again as an agent.
static CAN_BE_AGENT: AtomicBool = AtomicBool::new(false);

/// Lets this program be its own workspace agent: the small process that runs commands and sees to
/// it that nothing of them stays behind.
///
/// Call it first in `main`, before any thread is started and before tokio, and return what it
/// returns, if anything:
///
/// ```ignore
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = narthex::agent_main() {
///         return code;
///     }
///     // … build a tokio runtime, build an agent …
/// }
/// ```
///
/// A program that does not call it needs the program `narthex-agent` beside itself or on `PATH`,
/// or names a command by [`AgentBuilder::agent_command`](crate::AgentBuilder::agent_command).
#[must_use = "return the code where there is one: this process is an agent then"]
pub fn agent_main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        let part = arguments.next();
        if arguments.next().is_none() {
            return Some(agent::run_as(part.as_deref()));
        }
    }
    CAN_BE_AGENT.store(true, Ordering::Release);
    None
}

/// Returns the command that starts the workspace agent.
pub(super) fn command() -> Result<Vec<OsString>, Error> {
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let can_be_agent = CAN_BE_AGENT.load(Ordering::Acquire);
    find(own.as_deref(), &path, can_be_agent)
}

fn find(own: Option<&Path>, path: &OsString, can_be_agent: bool) -> Result<Vec<OsString>, Error> {
    if let Some(own) = own.filter(|_| can_be_agent) {
        return Ok(vec![own.into(), ARGUMENT.into()]);
    }
    let beside = own.map(|own| own.with_file_name(PROGRAM));
    let on_path = |name: &str| -> Option<PathBuf> {
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    };
    if let Some(found) = beside.filter(|file| file.is_file()).or_else(|| on_path(PROGRAM)) {
        return Ok(vec![found.into()]);
    }
    if let Some(found) = on_path("narthex") {
        return Ok(vec![found.into(), "agent".into()]);
    }
    Err(Error::option(
        "agent_command",
        "commands need a workspace agent and none was found; call narthex::agent_main() first in \
         main, or put narthex-agent beside this program or on PATH, or set agent_command",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path, name: &str) -> PathBuf {
        let file = folder.join(name);
        std::fs::write(&file, "").unwrap();
        file
    }

    #[test]
    fn the_agent_is_this_program_or_one_beside_it_or_one_on_the_path() {
        let (bin, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = place(bin.path(), "program");
        let path = other.path().as_os_str().to_owned();
        let error = find(Some(&own), &path, false).unwrap_err().to_string();
        assert!(error.contains("narthex::agent_main()"), "{error}");
        let program = place(other.path(), "narthex");
        let found = find(Some(&own), &path, false).unwrap();
        assert_eq!(found, [program.into_os_string(), "agent".into()]);
        let elsewhere = place(other.path(), PROGRAM);
        assert_eq!(find(Some(&own), &path, false).unwrap(), [elsewhere]);
        let beside = place(bin.path(), PROGRAM);
        assert_eq!(find(Some(&own), &path, false).unwrap(), [beside]);
        let itself = find(Some(&own), &path, true).unwrap();
        assert_eq!(itself, [own.into_os_string(), ARGUMENT.into()]);
    }
}
