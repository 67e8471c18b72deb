//! Arrows between crates point down, along the table of `xtask/floors.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Finding, Rules};
use crate::house::Package;
use crate::tree::Tree;

/// `xtask/floors.toml`: a crate that is not in it fails.
pub(super) type Table = BTreeMap<String, Place>;

/// Where a crate stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// 0 knows nobody; 4 may know all.
    floor: u8,
    /// The budget of production lines: over it is a warning, over one and a half times an error.
    lines: usize,
    may_use: Vec<String>,
}

const TABLE: &str = "xtask/floors.toml";

/// Every crate stands on a floor and names only whom its row allows.
pub(super) fn arrows(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let table = &rules.floors;
    let mut findings = rows(tree, table);
    for package in &tree.packages {
        let manifest = package.manifest_path.to_string_lossy();
        let Some(place) = table.get(&package.name) else {
            let what = format!("`{}` is on no floor", package.name);
            let right = format!("a row in {TABLE} that says whom it may use");
            findings.push(Finding::new("floors", (&manifest, 0), what, right));
            continue;
        };
        for used in ours(package).filter(|used| !place.may_use.iter().any(|name| name == used)) {
            let line = line_of(tree, &manifest, used);
            let what = format!("`{}` uses `{used}`", package.name);
            let right = match place.may_use.as_slice() {
                [] => "it knows nobody".to_owned(),
                names => format!("it may use {}", names.join(", ")),
            };
            findings.push(Finding::new("floors", (&manifest, line), what, right));
        }
    }
    findings
}

/// The table itself: no rows of crates that are gone, no arrow that points up.
fn rows(tree: &Tree, table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, place) in table {
        let at = (TABLE, line_of(tree, TABLE, &format!("[{name}]")));
        if !tree.packages.iter().any(|package| &package.name == name) {
            let right = "take the row out";
            findings.push(Finding::new("floors", at, format!("no crate `{name}`"), right));
        }
        for used in &place.may_use {
            let what = match table.get(used) {
                None => format!("`{name}` may use `{used}`, which has no row"),
                Some(other) if other.floor > place.floor => {
                    format!("`{name}` on floor {} may use `{used}` above it", place.floor)
                }
                Some(_) => continue,
            };
            findings.push(Finding::new("floors", at, what, "arrows point down or sideways"));
        }
    }
    findings
}

/// A crate stays within its budget of lines.
pub(super) fn sizes(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let Some(place) = rules.floors.get(&package.name) else { continue };
        let manifest = package.manifest_path.to_string_lossy();
        let folder = format!("{}src/", manifest.trim_end_matches("Cargo.toml"));
        let files = tree.rust().filter(|file| file.path.starts_with(&folder) && !file.is_test());
        let lines: usize = files.map(crate::tree::Source::production_lines).sum();
        if lines <= place.lines {
            continue;
        }
        let what = format!("`{}` has {lines} lines", package.name);
        let right = format!("at most {}: split by noun, or an ADR and a new budget", place.lines);
        let finding = Finding::new("crate-size", (&manifest, 0), what, right);
        let is_error = lines > place.lines + place.lines / 2;
        findings.push(if is_error { finding } else { finding.warning() });
    }
    findings
}

/// Returns the crates of this workspace that a crate uses; tests may use whom they like.
fn ours(package: &Package) -> impl Iterator<Item = &str> {
    let used = package.dependencies.iter().filter(|used| used.path.is_some());
    used.filter(|used| used.kind.as_deref() != Some("dev")).map(|used| used.name.as_str())
}

/// Returns the line of a file that begins with a word, or 0.
fn line_of(tree: &Tree, path: &str, word: &str) -> usize {
    let line = tree.file(path).and_then(|file| {
        file.text
            .lines()
            .position(|line| line.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_name)))
    });
    line.map_or(0, |line| line + 1)
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '-' || letter == '_'
}
