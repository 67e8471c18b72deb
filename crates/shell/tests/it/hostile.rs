//! Lines that are made to be expensive.

use std::time::{Duration, Instant};

use shell::read;

/// Far more than any of these take, on a busy machine and without optimisation.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a line is filled with.
const OPENINGS: [&str; 43] = [
    "$(",
    "(",
    "`",
    "\"$(",
    "{a,",
    "[a],",
    "env ",
    "a;",
    "bash -c ",
    "\\",
    "<(",
    "((",
    "${a:-",
    "a <<E\n",
    "if a; then ",
    "! ",
    "a|",
    "a&&",
    "'",
    "\"",
    "$'",
    "case x in x) ",
    "f() ",
    "{ ",
    "[[ ",
    "$((",
    "a=(",
    "1>",
    "a[",
    "${",
    "#",
    "\n",
    "é",
    "*",
    "{1..9}",
    "time ",
    "eval ",
    "\\\n",
    "a <<'E'\n",
    "~",
    "=",
    "for i in a; do ",
    "[[ a && ( ",
];

#[test]
fn hostile_sizes_stay_cheap() {
    let many = |text: &str| text.repeat(60_000 / text.len());
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}a{}", open.repeat(depth), close.repeat(depth))
    };
    let mut lines = vec!["x".repeat(70_000)];
    for open in OPENINGS {
        lines.push(many(open));
    }
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("\"$(", ")\""),
        ("{ ", ";}"),
        ("if a; then ", "; fi"),
        ("${a:-", "}"),
        ("$((", "))"),
        ("<(", ")"),
        ("{a,", "}"),
        ("[[ ( ", " ) ]]"),
        ("case x in x) ", ";; esac"),
        ("while ", "; do a; done"),
        ("f() { ", "; }"),
        ("bash -c \"", "\""),
    ] {
        lines.extend([8, 10, 11, 30, 41, 400].map(|depth| nested(open, close, depth)));
    }
    for line in lines {
        let start = Instant::now();
        let script = read(&line);
        let took = start.elapsed();
        let head: String = line.chars().take(20).collect();
        assert!(took < PATIENCE, "{head} took {took:?}");
        assert!(script.parts.len() <= 1000, "{head}");
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_said() {
    let deep = |depth: usize| format!("{}a{}", "a $(".repeat(depth), ")".repeat(depth));
    assert!(read(&deep(8)).opaque.is_none());
    for line in [deep(11), deep(400), "a ".repeat(40_000), format!("a{}", "; a".repeat(2_000))] {
        let script = read(&line);
        assert!(script.opaque.is_some());
    }
    // A long text between quotes is no trouble.
    let long = format!("cat <<'E'\n{}\nE", "it's (a) line\n".repeat(2_000));
    assert_eq!(read(&long).opaque, None);
}

#[test]
fn numbers_that_overflow_are_no_trouble() {
    for line in ["a 99999999999999999999>b", "a 2147483648>b", "a {1..99999999999999999999}"] {
        let _script = read(line);
    }
    assert_eq!(read("a {1..999999}").parts.len(), 1);
}

#[test]
fn characters_beyond_ascii_are_letters_to_the_grammar() {
    for c in ['é', '\u{ff}', '\u{100}', '\u{3000}', '中', '\u{1f600}', '\u{10fffd}'] {
        for line in
            ["{C", "a {C..C}", "{1..C}", "a C", "a 'C' \"C\"", "a <<C\nx\nC", "a[C]=1", "$C"]
        {
            let _script = read(&line.replace('C', &c.to_string()));
        }
        let quoted = format!("a '{c}' \"{c}\"");
        let script = read(&quoted);
        assert_eq!(script.opaque, None, "{quoted}");
        assert_eq!(script.parts[0].words[1].text, c.to_string());
    }
}
