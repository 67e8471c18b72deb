//! The table in the door's document: every item of the checklist is answered, by tests that exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Items of the checklist.
const ITEMS: u32 = 94;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the table: items, and tests.
fn rows() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("docs/doors/cortex.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| S4-"));
    let cells = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
        (cells.next().unwrap(), cells.last().unwrap())
    };
    rows.map(cells).collect()
}

/// Reads `S4-1, 3–5` as 1, 3, 4, 5.
fn items(cell: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{cell}"));
    let ranges =
        cell.trim_start_matches("S4-").split(", ").map(|part| match part.split_once('–') {
            Some((first, last)) => number(first)..=number(last),
            None => number(part)..=number(part),
        });
    ranges.flatten().collect()
}

/// The sources of a crate, by the names of their modules: those of a file and of its folders.
fn sources(folder: &Path, found: &mut Vec<(Vec<String>, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let parts = path.with_extension("");
            let names = parts.iter().rev().take(2).map(|name| name.to_string_lossy().into_owned());
            found.push((names.collect(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_item_is_answered_once() {
    let mut answered: Vec<u32> = rows().iter().flat_map(|(cell, _)| items(cell)).collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=ITEMS).collect::<Vec<_>>());
}

#[test]
fn every_test_of_the_table_exists() {
    let mut crates = BTreeMap::new();
    for (cell, tests) in rows() {
        let names: Vec<_> = tests.split('`').filter(|part| part.contains("::")).collect();
        assert!(!names.is_empty(), "{cell} has no test");
        for name in names {
            let (place, test) = name.split_once("::").unwrap();
            let (own, module) = place.split_once('/').unwrap_or(("door-cortex", place));
            let files = crates.entry(own.to_owned()).or_insert_with(|| {
                let mut found = Vec::new();
                for folder in ["src", "tests"] {
                    let folder = root().join("crates").join(own).join(folder);
                    if folder.is_dir() {
                        sources(&folder, &mut found);
                    }
                }
                found
            });
            let says = format!("fn {test}(");
            let is_there = |(modules, text): &(Vec<String>, String)| {
                modules.iter().any(|name| name == module) && text.contains(&says)
            };
            assert!(files.iter().any(is_there), "{cell}: there is no test {name}");
        }
    }
}
