//! The agent as a program of its own.

fn main() -> std::process::ExitCode {
    agent::run()
}
