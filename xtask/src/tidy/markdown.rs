//! Documents: one title each, links that lead somewhere, a map that names every crate.

use super::{Finding, Rules};
use crate::tree::{Source, Tree};

const MAP: &str = "ARCHITECTURE.md";
const MAP_LINES_MAX: usize = 300;
/// What every decision record says, in this order.
const PARTS: [&str; 4] = ["## Context", "## Decision", "## Consequences", "## What we gave up"];

/// A document has one title, and it comes first.
pub(super) fn titles(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(tree) {
        let right = "one `# Title`, on the first line";
        let mut found = |line: usize, what: &str| {
            findings.push(Finding::new("title", (&file.path, line), what, right));
        };
        let titles: Vec<usize> = prose(&file.text)
            .filter(|(_, line)| line.starts_with("# "))
            .map(|(at, _)| at)
            .collect();
        match titles.as_slice() {
            [1] => {}
            [] => found(1, "no title"),
            [first] => found(*first, "a title that is not on the first line"),
            [_, second, ..] => found(*second, "a second title"),
        }
    }
    findings
}

/// A link to a file of the repository leads to one.
pub(super) fn links(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(tree) {
        for (line, text) in prose(&file.text) {
            for target in targets(text) {
                let path = resolve(&file.path, target);
                if !path.is_empty() && !tree.holds(&path) {
                    let what = format!("a link to `{target}`, which is not there");
                    let right = "a file of the repository";
                    findings.push(Finding::new("links", (&file.path, line), what, right));
                }
            }
        }
    }
    findings
}

/// The map names every crate, and every path on it exists.
pub(super) fn map(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let Some(file) = tree.file(MAP) else {
        return vec![Finding::new("map", (MAP, 0), "is missing", "a map for newcomers")];
    };
    let mut findings = Vec::new();
    for package in &tree.packages {
        if !file.text.contains(&format!("`{}`", package.name)) {
            let what = format!("does not name the crate `{}`", package.name);
            findings.push(Finding::new("map", (MAP, 0), what, "a row for every crate"));
        }
    }
    for (line, text) in prose(&file.text) {
        for path in text.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
            if !tree.holds(path.trim_end_matches('/')) {
                let what = format!("names `{path}`, which is not there");
                findings.push(Finding::new("map", (MAP, line), what, "a path that exists"));
            }
        }
    }
    let lines = file.text.lines().count();
    if lines > MAP_LINES_MAX {
        let right = format!("at most {MAP_LINES_MAX}: every newcomer reads it");
        findings.push(Finding::new("map", (MAP, 0), format!("{lines} lines"), right));
    }
    findings
}

/// Decision records are numbered and have their parts.
pub(super) fn decisions(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let records = documents(tree).filter(|file| file.path.starts_with("docs/adr/"));
    let mut numbers = Vec::new();
    for file in records {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let number = name.split_once('-').map(|(number, _)| number).unwrap_or_default();
        let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || numbers.contains(&number) {
            let right = "`NNNN-words.md` with the next free number";
            let what = "no number of its own";
            findings.push(Finding::new("decisions", (&file.path, 0), what, right));
        }
        numbers.push(number);
        let headings: Vec<&str> =
            file.text.lines().filter(|line| line.starts_with("## ")).collect();
        for part in PARTS.into_iter().filter(|part| !headings.contains(part)) {
            let what = format!("lacks `{part}`");
            let right = format!("the parts {}", PARTS.join(", "));
            findings.push(Finding::new("decisions", (&file.path, 0), what, right));
        }
    }
    findings
}

fn documents(tree: &Tree) -> impl Iterator<Item = &Source> {
    let is_data = |path: &str| path.contains("/data/") || path.contains("/fixtures/");
    tree.files.iter().filter(move |file| file.path.ends_with(".md") && !is_data(&file.path))
}

/// Returns the lines outside code blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// Returns where the links of a line lead, those to other hosts left out.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Returns the path of a link from the top of the repository; empty for one within its own file.
fn resolve(from: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() {
        return String::new();
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn is_path(word: &str) -> bool {
    let tops = ["crates/", "xtask/", "bench/", "schema/", "docs/", "conformance/", ".ci/"];
    tops.iter().any(|top| word.starts_with(top)) && !word.contains(['*', '{', '<', ' '])
}
