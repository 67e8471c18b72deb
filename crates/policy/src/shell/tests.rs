//! Tests of the reader: what it finds in a line.

use super::*;

fn parts(command: &str) -> Vec<String> {
    read(command).parts.iter().map(|part| part.resolved()[0].clone()).collect()
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    for (command, expected) in [
        ("", vec![]),
        ("   ", vec![]),
        ("# nothing", vec![]),
        ("a", vec!["a"]),
        ("a b;c|d||e&&f\ng", vec!["a b", "c", "d", "e", "f", "g"]),
        ("a 'b;c' \"d|e\" f\\;g", vec!["a b;c d|e f;g"]),
        ("a \"b\\\"c\\d\"", vec!["a b\"c\\d"]),
        ("a ''", vec!["a"]),
        ("a\\\nb c", vec!["ab c"]),
        ("a #b\nc", vec!["a", "c"]),
        ("a b#c", vec!["a b#c"]),
        ("X=1 Y='2' a b", vec!["a b"]),
        ("'X=1' a", vec!["X=1 a"]),
        ("a >b 2>&1 <c d", vec!["a d"]),
        ("a 2 >b", vec!["a 2"]),
        ("(a; b) && c", vec!["a", "b", "c"]),
        ("if a; then b; else c; fi", vec!["a", "b", "c"]),
        ("a $(b c) d", vec!["b c", "a $ d"]),
        ("a \"$(b \"c d\")\"", vec!["b c d", "a $"]),
        ("a `b` c", vec!["b", "a $ c"]),
        ("timeout 5 nice b c", vec!["timeout 5 nice b c", "nice b c", "b c"]),
        ("bash -c 'a; b'", vec!["bash -c a; b", "a", "b"]),
    ] {
        assert_eq!(parts(command), expected, "{command}");
    }
}

#[test]
fn free_redirections_block_nothing() {
    for command in ["a >/dev/null", "a 2>/dev/null", "a 2>&1", "a >&2", "a </dev/null", "a 2>&-"] {
        let script = read(command);
        assert_eq!(
            (script.blocked, script.opaque, script.writes.len()),
            (None, None, 0),
            "{command}"
        );
    }
}

#[test]
fn written_files_are_named() {
    let script = read("a > 'b c' 2>> d >$X &>e");
    let expected = [Some("b c".to_owned()), Some("d".into()), None, Some("e".into())];
    let names: Vec<_> = script.writes.iter().map(|write| write.name.clone()).collect();
    assert_eq!(names, expected);
    assert!(script.blocked.is_some() && script.opaque.is_none());
}

#[test]
fn blocked_is_not_opaque() {
    for (command, opaque) in [
        ("a &", false),
        ("a $X", false),
        ("a $(b)", false),
        ("X=1 a", false),
        ("(a)", false),
        ("{ a; }", false),
        ("env a", false),
        ("if a; then b; fi", false),
        ("$X", true),
        ("a <<E\nE", true),
        ("f() { a; }", true),
        ("case x in x) a;; esac", true),
        ("a ${X:-b}", true),
        ("env -Z a", true),
        ("a 'b", true),
    ] {
        let script = read(command);
        assert!(script.blocked.is_some(), "{command}");
        assert_eq!(script.opaque.is_some(), opaque, "{command}: {:?}", script.opaque);
    }
}

#[test]
fn hostile_sizes_stay_cheap() {
    let deep = |open: &str| open.repeat(20_000);
    for command in [
        deep("$("),
        deep("("),
        deep("`"),
        deep("\"$("),
        deep("{a,"),
        deep("[a],"),
        deep("env "),
        deep("a;"),
        deep("bash -c "),
        deep("\\"),
        deep("<("),
        "x".repeat(70_000),
    ] {
        let script = read(&command);
        assert!(script.parts.len() <= PARTS_MAX);
        let is_hard = script.opaque.is_some() || command.starts_with(['[', '\\']);
        assert!(is_hard, "{}", &command[..8]);
    }
}
