//! Where the process becomes an agent.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use crate::keeper::Keeper;
use crate::sys;

/// Runs the agent on its standard input, which must be a socket. Returns when the other end has
/// closed and every tree is gone.
///
/// Call it before anything else is set up: the agent forks, so its process must have one thread.
pub fn run() -> ExitCode {
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
    match Keeper::start(stream) {
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

#[allow(clippy::print_stderr, reason = "the one place where the agent has no stream to report on")]
fn complain(text: &str) {
    eprintln!("narthex-agent: {text}");
}
