//! Words that do not belong into a repository: notes to oneself, stubs, names of machines.

use super::{Finding, Rules};
use crate::tree::{BYTES_MAX, Source, Tree};

// The words are put together from pieces, so that this file passes its own check.
const TODO: &str = concat!("TO", "DO");
const NEVER: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const STUBS: [&str; 3] =
    [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("#[ign", "ore")];
/// Tops of folders that machines of builds have and readers have not.
const FOLDERS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ro", "ot/")];
const HOSTS: [&str; 7] = [
    concat!("registry.np", "mjs"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("static.cra", "tes.io"),
    concat!("index.cra", "tes.io"),
    concat!("deb.deb", "ian.org"),
    concat!("security.deb", "ian.org"),
];

/// A note to do something later names the issue that will see to it.
pub(super) fn notes(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(mark) = comment_mark(&file.path) else { continue };
        for (index, line) in file.text.lines().enumerate() {
            let Some(comment) = line.find(mark).and_then(|at| line.get(at..)) else { continue };
            let mut found = |what: String, right: &str| {
                findings.push(Finding::new("notes", (&file.path, index + 1), what, right));
            };
            if let Some(word) = NEVER.into_iter().find(|word| holds_word(comment, word)) {
                found(format!("a {word}"), "mended, or an issue and its number");
            }
            if holds_word(comment, TODO) && !comment.contains(&format!("{TODO}(#")) {
                found(format!("a {TODO} without an issue"), "the number, as in (#12), or no note");
            }
        }
    }
    findings
}

/// Nothing pretends to be there.
pub(super) fn stubs(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(stub) = STUBS.into_iter().find(|stub| line.contains(stub)) {
                let what = format!("`{stub}`");
                let right = "the thing itself, or nothing until it exists";
                findings.push(Finding::new("stubs", (&file.path, index + 1), what, right));
            }
        }
    }
    findings
}

/// Files name no folder of the machine they were written on and no registry's host.
pub(super) fn machines(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "LICENSE") {
        for (index, line) in file.text.lines().enumerate() {
            let mut found = |what: String, right: &str| {
                findings.push(Finding::new("machines", (&file.path, index + 1), what, right));
            };
            if let Some(folder) = machine_folder(line, &tree.folders) {
                found(format!("a path of a machine, `{folder}`"), "a path that any machine has");
            }
            if let Some(host) = HOSTS.into_iter().find(|host| line.contains(host)) {
                found(format!("a registry's host, `{host}`"), "the package's name alone");
            }
            if line.contains(concat!(".lib", "rary/")) {
                found("a folder of a workplace".to_owned(), "nothing of where this was written");
            }
        }
    }
    findings
}

/// Large files do not belong into a repository.
pub(super) fn weight(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let heavy = tree.large.iter().map(|(path, bytes)| {
        let what = format!("{} KiB", bytes / 1024);
        let right = format!("at most {} KiB", BYTES_MAX / 1024);
        Finding::new("weight", (path, 0), what, right)
    });
    let untidy = tree.files.iter().filter(|file| is_ours(file)).filter_map(|file| {
        let line = file.text.lines().position(|line| line.ends_with([' ', '\t']))?;
        let right = "no space at the end of a line";
        Some(Finding::new("weight", (&file.path, line + 1), "space that nobody sees", right))
    });
    heavy.chain(untidy).collect()
}

/// Returns how a comment begins in a kind of file; nothing for kinds without notes.
fn comment_mark(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("rs") => Some("//"),
        Some("py" | "sh" | "toml" | "yml" | "yaml") => Some("#"),
        None if path.starts_with(".ci/") || path.starts_with(".githooks/") => Some("#"),
        _ => None,
    }
}

/// Files that people write by hand, other than data of tests.
fn is_ours(file: &Source) -> bool {
    let ends = [".rs", ".md", ".toml", ".py", ".sh"];
    ends.iter().any(|end| file.path.ends_with(end)) && !file.path.contains("/data/")
}

fn machine_folder<'a>(line: &'a str, own: &'a [String]) -> Option<&'a str> {
    if let Some(folder) = own.iter().find(|folder| line.contains(folder.as_str())) {
        return Some(folder);
    }
    FOLDERS.into_iter().find(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let is_top = line.get(..at).and_then(|before| before.chars().next_back());
            let is_top = is_top.is_none_or(|c| !c.is_alphanumeric() && !"._-/}".contains(c));
            let after = line.get(at + folder.len()..).and_then(|after| after.chars().next());
            is_top && after.is_some_and(|c| c.is_ascii_lowercase() || c == '.')
        })
    })
}

fn holds_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        is_edge(before) && is_edge(after)
    })
}
