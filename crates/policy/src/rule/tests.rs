//! Tests of the rule grammar.

use super::*;

fn shown(text: &str) -> String {
    match text.parse::<Rule>() {
        Ok(rule) => rule.to_string(),
        Err(error) => error.what,
    }
}

#[test]
fn rules_are_read_and_shown() {
    for (text, expected) in [
        ("run_shell", "run_shell"),
        ("  run_shell( npm   test  * ) ", "run_shell(npm test *)"),
        ("bash(ls)", "run_shell(ls)"),
        ("execute", "run_shell"),
        ("task", "delegate"),
        ("todo_write", "todos"),
        ("*", "*"),
        ("*(*)", "*(*)"),
        ("run_shell(echo (a))", "run_shell(echo (a))"),
        ("write_file(src/**)", "write_file(src/**)"),
        ("read_file(~/notes/*.md)", "read_file(~/notes/*.md)"),
        ("web_fetch(domain:Example.com)", "web_fetch(domain:example.com)"),
        ("mcp__git-hub__Create_Issue", "mcp__git-hub__Create_Issue"),
        ("mcp__files", "mcp__files"),
        ("workflow", "workflow"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    for (text, expected) in [
        ("", "is empty"),
        ("   ", "is empty"),
        ("write_file(", "not closed"),
        ("run_shell(ls", "not closed"),
        ("run_shell(ls) x", "not closed"),
        ("(ls)", "name before the bracket is missing"),
        ("run_shell()", "brackets are empty"),
        ("Bash(ls)", "did you mean 'run_shell'"),
        ("run-shell", "must not contain '-'"),
        ("run shell", "must not contain ' '"),
        ("todos(x)", "takes no pattern"),
        ("*(x)", "takes no pattern"),
        ("mcp__a__b(x)", "takes no pattern"),
        ("raed_file(x)", "no tool is named 'raed_file'; did you mean 'read_file'?"),
        ("mcp__", "is no mcp__server"),
        ("mcp__a__", "is no mcp__server"),
        ("web_fetch(example.com)", "domain:HOST"),
        ("web_fetch(domain:*.example.com)", "no host name"),
        ("write_file(src/**.rs)", "must stand alone"),
        ("run_shell(a\u{1b}[2J)", "control character"),
    ] {
        assert!(shown(text).contains(expected), "{text}: {}", shown(text));
    }
    assert!(shown(&format!("run_shell({})", "x".repeat(1000))).contains("more than the 1000"));
}

#[test]
fn a_trailing_star_matches_the_bare_prefix_and_whole_words_alone() {
    let pattern = ShellPattern::new("npm test *");
    assert!(pattern.matches("npm test"));
    assert!(pattern.matches("npm test -- -w"));
    assert!(!pattern.matches("npm testing"));
    assert!(!pattern.matches("npm"));
    let pattern = ShellPattern::new("npm test*");
    assert!(pattern.matches("npm testing"));
}
