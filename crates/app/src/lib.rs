//! app
/// Runs.
pub fn run(_args: std::env::ArgsOs) -> std::process::ExitCode { std::process::ExitCode::SUCCESS }
