//! The names of tools: `mcp__<server>__<tool>`, in the characters that every provider takes.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

/// Most characters of a tool's whole name: what providers take.
pub(crate) const NAME_CHARS_MAX: usize = 64;

/// Most characters of the server's part, so that room is left for the tool's.
const SERVER_CHARS_MAX: usize = 28;

/// Characters of the mark that tells names apart that were cut.
const MARK_CHARS: usize = 7;

/// Returns the server's part of its tools' names. It holds no two underscores in a row, so that
/// a rule for the server and a rule for one of its tools can be told apart; `taken` are the parts
/// of other servers.
pub(crate) fn server_part(name: &str, taken: &HashSet<String>) -> String {
    let mut part = String::new();
    for c in plain(name).chars() {
        if c != '_' || !part.ends_with('_') {
            part.push(c);
        }
    }
    let part = part.trim_matches('_');
    let part = if part.is_empty() { "server" } else { part };
    free(&shortened(part, name, SERVER_CHARS_MAX), SERVER_CHARS_MAX, taken)
}

/// Returns the whole name of a tool; `taken` are the names of the server's other tools.
pub(crate) fn tool_name(server_part: &str, tool: &str, taken: &HashSet<String>) -> String {
    let tool_part = plain(tool);
    let tool_part = if tool_part.is_empty() { "tool" } else { &tool_part };
    let whole = format!("mcp__{server_part}__{tool_part}");
    free(&shortened(&whole, tool, NAME_CHARS_MAX), NAME_CHARS_MAX, taken)
}

/// Puts an underscore in the place of each character that providers refuse.
fn plain(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Cuts a plain text and marks it with the hash of what it stands for, so that the name stays the
/// same whatever else there is.
fn shortened(text: &str, whole: &str, chars_max: usize) -> String {
    if text.len() <= chars_max {
        return text.to_owned();
    }
    let digest = Sha256::digest(whole.as_bytes());
    let mark: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = mark.get(..MARK_CHARS).unwrap_or_default();
    let kept = text.get(..chars_max - MARK_CHARS - 1).unwrap_or_default();
    format!("{kept}-{mark}")
}

/// Numbers a name that is taken.
fn free(name: &str, chars_max: usize, taken: &HashSet<String>) -> String {
    if !taken.contains(name) {
        return name.to_owned();
    }
    let mut number = 2u32;
    loop {
        let suffix = format!("_{number}");
        let kept = name.get(..name.len().min(chars_max - suffix.len())).unwrap_or(name);
        let numbered = format!("{kept}{suffix}");
        if !taken.contains(&numbered) {
            return numbered;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> HashSet<String> {
        HashSet::new()
    }

    #[test]
    fn odd_characters_become_underscores() {
        for (server, tool, expected) in [
            ("echo", "echo_01", "mcp__echo__echo_01"),
            ("git-hub", "Create.Issue/x", "mcp__git-hub__Create_Issue_x"),
            ("my  server__x_", "a__b", "mcp__my_server_x__a__b"),
            ("_ü_", "ü", "mcp__server___"),
            ("a", "", "mcp__a__tool"),
        ] {
            let part = server_part(server, &none());
            assert_eq!(tool_name(&part, tool, &none()), expected);
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let part = server_part(&"server".repeat(10), &none());
        assert_eq!(part.len(), SERVER_CHARS_MAX);
        let one = tool_name(&part, &format!("{}1", "x".repeat(100)), &none());
        let two = tool_name(&part, &format!("{}2", "x".repeat(100)), &none());
        assert_eq!((one.len(), two.len()), (NAME_CHARS_MAX, NAME_CHARS_MAX));
        assert_ne!(one, two);
    }

    #[test]
    fn names_that_are_taken_are_numbered() {
        let mut taken = none();
        let mut names = Vec::new();
        for tool in ["a.b", "a_b", "a b"] {
            let name = tool_name("s", tool, &taken);
            taken.insert(name.clone());
            names.push(name);
        }
        assert_eq!(names, ["mcp__s__a_b", "mcp__s__a_b_2", "mcp__s__a_b_3"]);
        let long = "y".repeat(58);
        let first = tool_name("s", &long, &none());
        let second = tool_name("s", &long, &HashSet::from([first.clone()]));
        assert_eq!((second.len(), second.ends_with("_2")), (NAME_CHARS_MAX, true), "{second}");
    }
}
