//! Where the process becomes an agent.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::keeper::Keeper;
use crate::{neuron, sys};

/// The variable with the number of files that the agent and its commands may have open. Whoever
/// raised the limit for itself passes the one from before.
pub const OPEN_FILES_VARIABLE: &str = "NARTHEX_AGENT_OPEN_FILES";

/// Runs what the argument after the program's name asks for: the agent where there is none, a
/// launcher of neurons, or the probe of what they can be. See [`run`] and [`neuron`].
pub fn run_as(argument: Option<&OsStr>) -> ExitCode {
    match argument {
        None => run(),
        Some(argument) if argument == neuron::LAUNCH_ARGUMENT => {
            limit_open_files(std::env::var(OPEN_FILES_VARIABLE).ok().as_deref());
            neuron::launch()
        }
        Some(argument) if argument == neuron::PROBE_ARGUMENT => neuron::probe_to_input(),
        Some(argument) => {
            complain(&format!(
                "unknown part {}: expected none, {} or {}",
                argument.display(),
                neuron::LAUNCH_ARGUMENT,
                neuron::PROBE_ARGUMENT
            ));
            ExitCode::from(2)
        }
    }
}

/// Runs the agent on its standard input, which must be a socket. Returns when the other end has
/// closed and every tree is gone.
///
/// Call it before anything else is set up: the agent forks, so its process must have one thread.
pub fn run() -> ExitCode {
    limit_open_files(std::env::var(OPEN_FILES_VARIABLE).ok().as_deref());
    match sys::take_stream() {
        Ok(stream) => main_with(stream),
        Err(error) => {
            complain(&format!("narthex starts the agent with a socket on its input: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Runs the agent on a stream socket. See [`run`].
pub fn main_with(stream: OwnedFd) -> ExitCode {
    main_of(stream, true)
}

/// The same, where it is known whether there can be a cgroup of its own.
pub(crate) fn main_of(stream: OwnedFd, has_cgroup: bool) -> ExitCode {
    match Keeper::start(stream, has_cgroup) {
        Ok(mut keeper) => {
            keeper.keep();
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("start agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Lowers the soft limit of open files to what is said. It is never raised here.
fn limit_open_files(text: Option<&str>) {
    let limit = getrlimit(Resource::Nofile);
    let Some(wanted) = text.and_then(|text| text.parse().ok()) else { return };
    if limit.current.is_none_or(|current| current > wanted) {
        // Commands run all the same: with more than they expect.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

#[allow(clippy::print_stderr, reason = "the one place where the agent has no stream to report on")]
fn complain(text: &str) {
    eprintln!("narthex-agent: {text}");
}
