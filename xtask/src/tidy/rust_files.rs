//! Rust files: how they begin, how long they are, what they are called.

use super::{Finding, Rules};
use crate::tree::{Source, Tree};

const COLUMNS_MAX: usize = 100;
/// Production lines: over the first number a warning, over the second an error.
const LINES: (usize, usize) = (500, 800);
const TEST_LINES: (usize, usize) = (1_000, 1_500);
const MAIN_LINES: (usize, usize) = (20, 40);
const LIB_LINES: (usize, usize) = (60, 120);

/// Names that say nothing about what is inside, so that everything ends up in them.
const EMPTY_NAMES: &[&str] =
    &["utils", "util", "common", "types", "helpers", "helper", "manager", "misc"];

/// Every file says at its top what it is for.
pub(super) fn headers(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let silent = tree.rust().filter(|file| {
        let first = file.text.lines().next().unwrap_or_default();
        first.strip_prefix("//!").is_none_or(|words| words.trim().is_empty())
    });
    let right = "`//!` and what the file is for on its first line";
    silent
        .map(|file| Finding::new("header", (&file.path, 1), "no `//!` at the top", right))
        .collect()
}

/// No file grows until nobody reads it.
pub(super) fn sizes(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let (lines, (wince, fail), kind) = measure(file);
        if lines <= wince {
            continue;
        }
        let what = format!("{lines} {kind} lines");
        let right = format!("at most {wince}, never over {fail}: split by noun");
        let finding = Finding::new("file-size", (&file.path, 0), what, right);
        findings.push(if lines > fail { finding } else { finding.warning() });
    }
    findings
}

fn measure(file: &Source) -> (usize, (usize, usize), &'static str) {
    if file.is_test() {
        return (file.text.lines().count(), TEST_LINES, "test");
    }
    match file.path.rsplit('/').next() {
        Some("main.rs") => (file.production_lines(), MAIN_LINES, "`main.rs`"),
        Some("lib.rs") => (file.production_lines(), LIB_LINES, "`lib.rs`"),
        _ => (file.production_lines(), LINES, "production"),
    }
}

/// A line fits beside another one on a screen.
pub(super) fn columns(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            let width = line.chars().count();
            if width > COLUMNS_MAX {
                let right = format!("at most {COLUMNS_MAX}");
                let what = format!("{width} columns");
                findings.push(Finding::new("columns", (&file.path, index + 1), what, right));
            }
        }
    }
    findings
}

/// Names say what is inside.
pub(super) fn names(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.paths.iter().filter(|path| path.ends_with(".rs") || path.ends_with(".py")) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name == "mod.rs" {
            let right = "`noun.rs` beside the folder `noun/`";
            findings.push(Finding::new("names", (path, 0), "a `mod.rs`", right));
        }
        for part in path.split(['/', '.']) {
            let is_empty = EMPTY_NAMES.iter().any(|word| {
                part == *word || part.strip_suffix(word).is_some_and(|rest| rest.ends_with('_'))
            });
            if is_empty {
                let what = format!("`{part}` says nothing about what is inside");
                findings.push(Finding::new("names", (path, 0), what, "the noun that it is about"));
            }
        }
    }
    findings
}

/// `unsafe` has few homes.
pub(super) fn unsafe_homes(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let home = file.path.strip_prefix("crates/").and_then(|path| path.split('/').next());
        if home.is_some_and(|home| rules.tidy.unsafe_crates.iter().any(|name| name == home)) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("#") && line.contains(concat!("unsafe", "_code")) {
                let what = "allows `unsafe`";
                let right = format!("only {} may", rules.tidy.unsafe_crates.join(", "));
                findings.push(Finding::new("unsafe", (&file.path, index + 1), what, right));
            }
        }
    }
    findings
}
