//! What is found in command lines, from outside.
#![allow(clippy::unwrap_used, reason = "a shared function that fails fails its test")]

mod hostile;
mod lines;
mod words;

use shell::{Script, UNKNOWN};

/// The commands of a line as their words are resolved, with `?` for what is unknown.
fn parts(line: &str) -> Vec<String> {
    let script = shell::read(line);
    let texts = script.parts.iter().map(|part| {
        part.words.iter().map(|word| word.text.replace(UNKNOWN, "?")).collect::<Vec<_>>().join(" ")
    });
    texts.collect()
}

/// What stands in the way of deciding a line.
fn doubts(script: &Script) -> (Option<&'static str>, Option<&'static str>) {
    (script.blocked, script.opaque)
}
