//! The agent as a program of its own.

fn main() -> std::process::ExitCode {
    agent::run_as(std::env::args_os().nth(1).as_deref())
}
