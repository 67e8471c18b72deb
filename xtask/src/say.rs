//! What xtask prints; the one module that may.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to who started it")]

use std::time::Instant;

/// Prints one line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Prints what went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("xtask: {text}");
}

/// Runs one step under its name and says how long it took, whichever way it ended.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    line(&format!("==> {name}"));
    let start = Instant::now();
    let result = work();
    let word = if result.is_ok() { "done" } else { "FAILED" };
    line(&format!("<== {name}: {word} in {:.1} s", start.elapsed().as_secs_f64()));
    result
}
