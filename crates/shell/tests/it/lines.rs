//! Which commands and files are found, wherever they stand.

use shell::{Role, only_looks, read};

use crate::{doubts, parts};

#[test]
fn commands_are_found_wherever_they_stand() {
    for (line, expected) in [
        ("", vec![]),
        ("   ", vec![]),
        ("# nothing", vec![]),
        ("a", vec!["a"]),
        ("a b;c|d||e&&f\ng & h", vec!["a b", "c", "d", "e", "f", "g", "h"]),
        ("a #b\nc", vec!["a", "c"]),
        ("a b#c", vec!["a b#c"]),
        ("X=1 Y='2' a b", vec!["a b"]),
        ("a >b 2>&1 <c d", vec!["a d"]),
        ("a 2 >b", vec!["a 2"]),
        (">b a c", vec!["a c"]),
        ("(a; b) && { c; }", vec!["a", "b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", vec!["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", vec!["a", "b", "c", "d"]),
        ("for i in x y; do a $i; done", vec!["a ?"]),
        ("for ((i=0; i<3; i++)); do a; done", vec!["a"]),
        ("case x in x) a;; *) b;; esac", vec!["a", "b"]),
        ("f() { a; }; function g { b; }; f", vec!["a", "b", "f"]),
        ("! a | b |& c", vec!["a", "b", "c"]),
        ("time -p a b", vec!["a b"]),
        ("a <<E\nx $(b) `c` ${X:-$(d)}\nE\ne", vec!["a", "e", "b", "c", "d"]),
        ("a <<'E'\nx $(b) `c`\nE\ne", vec!["a", "e"]),
        ("a <<E | b\nx\nE", vec!["a", "b"]),
        ("a - <<'E'\nit's\nE", vec!["a -"]),
        ("a <<< \"$(b)\"", vec!["a", "b"]),
        ("[[ $(a) == b ]] && c", vec!["c", "a"]),
        ("export X=$(a); declare -a y=(1 $(b))", vec!["a", "export X=?", "b", "declare -a y=?"]),
        ("X=$(a)", vec!["a"]),
        ("a > >(b) < <(c)", vec!["b", "c", "a"]),
        ("[ -f a -a b ] && test c", vec!["[ -f a -a b ]", "test c"]),
    ] {
        assert_eq!(parts(line), expected, "{line}");
    }
}

#[test]
fn substitutions_are_lines_of_their_own() {
    for (line, expected) in [
        ("a $(b c) d", vec!["b c", "a ? d"]),
        ("a \"$(b \"c d\")\"", vec!["b c d", "a ?"]),
        ("a `b \\`c\\`` d", vec!["c", "b ?", "a ? d"]),
        ("a $(b $(c $(d)))", vec!["d", "c ?", "b ?", "a ?"]),
        ("a ${X:-$(b)} ${Y/c/$(d)} ${#Z}", vec!["b", "d", "a ? ? ?"]),
        ("a <(b; c) >(d)", vec!["b", "c", "d", "a ? ?"]),
        ("a \"$(cat <<'E'\nit's \"x\" `y`\nE\n)\"", vec!["cat", "a ?"]),
        ("a $((1 + $(b)))", vec!["b", "a ?"]),
    ] {
        assert_eq!(parts(line), expected, "{line}");
    }
}

#[test]
fn wrappers_are_looked_through() {
    for (line, expected) in [
        ("timeout 5 nice b c", vec!["timeout 5 nice b c", "nice b c", "b c"]),
        ("env -u X A=1 b", vec!["env -u X A=1 b", "b"]),
        ("bash -c 'a; b'", vec!["bash -c a; b", "a", "b"]),
        ("bash -euo pipefail -c 'a'", vec!["bash -euo pipefail -c a", "a"]),
        ("eval a 'b; c'", vec!["eval a b; c", "a b", "c"]),
        ("trap 'a' EXIT", vec!["trap a EXIT", "a"]),
        ("xargs -0 -n 1 a b", vec!["xargs -0 -n 1 a b", "a b ?"]),
        ("xargs -I{} a x{} b", vec!["xargs -I{} a x{} b", "a x? b"]),
        ("find . -exec a {} \\; -exec b +", vec!["find . -exec a {} ; -exec b +", "a ?", "b +"]),
        ("watch -n 1 'a; b'", vec!["watch -n 1 a; b", "a", "b"]),
        ("sudo -u x a b", vec!["sudo -u x a b", "a b"]),
        ("parallel a ::: 1 2", vec!["parallel a ::: 1 2", "a ?"]),
        ("command -v a", vec!["command -v a"]),
        ("bash a.sh", vec!["bash a.sh"]),
    ] {
        assert_eq!(parts(line), expected, "{line}");
    }
}

#[test]
fn each_part_knows_how_it_takes_part() {
    let script = read("cd x && timeout 5 sudo a b");
    let roles: Vec<_> =
        script.parts.iter().map(|part| (part.role, part.behind, part.named)).collect();
    assert_eq!(
        roles,
        [
            (Role::Neutral, None, 0),
            (Role::Wrapper, None, 4),
            (Role::Plain, Some(1), 2),
            (Role::Plain, Some(2), 0),
        ]
    );
    assert_eq!(script.folders, [Some("x".to_owned())]);
    // Alone a wrapper is a command like any other, and so is one of the same name elsewhere.
    assert_eq!(read("env").parts[0].role, Role::Plain);
    assert_eq!(read("./env a").parts[0].role, Role::Plain);
    assert_eq!(read("/usr/bin/env a").parts[0].role, Role::Wrapper);
}

#[test]
fn what_is_only_known_when_it_runs_is_said() {
    for (line, is_blocked, is_opaque) in [
        ("a &", false, false),
        ("a $X", false, false),
        ("a $(b)", false, false),
        ("X=1 a", false, false),
        ("env a", false, false),
        ("if a; then b; fi", false, false),
        ("a ${X:-b} ${Y%.c}", false, false),
        ("i=1; a $((i + 1))", false, false),
        ("$X", true, true),
        ("$(a)", true, true),
        ("a?", true, true),
        ("PATH=x a", true, true),
        ("export PATH=x; a", true, true),
        ("env -Z a", true, true),
        ("a 'b", true, true),
        ("a ${!X}", true, true),
        ("a ${X@P}", true, true),
        ("X='y[$(b)]'; a $((X))", true, true),
        ("bash -c \"$X\"", true, true),
        ("a | bash", true, true),
        ("alias a=b", true, true),
        ("select x in a; do b; done", true, true),
        ("coproc a", true, true),
        ("a \"${X:-'$(b)'}\"", true, true),
        ("a &\\\n& b", true, true),
        ("a \"$\\\n(b)\"", true, true),
    ] {
        let script = read(line);
        let (blocked, opaque) = doubts(&script);
        assert_eq!(
            (blocked.is_some(), opaque.is_some()),
            (is_blocked, is_opaque),
            "{line}: {opaque:?}"
        );
    }
}

#[test]
fn programs_that_may_run_others_are_marked() {
    for line in [
        "python3 -c x",
        "python3 -",
        "node",
        "perl -ne x",
        "awk 'BEGIN{system(1)}'",
        "awk '{print > \"f\"}'",
        "sed 1e",
        "sed 'w f'",
        "sed -i 's/a/b/' \"$X\"",
        "git -c core.pager=x log",
        "git log $X",
        "tar cf a *",
        "tar xf a --to-com=x",
        "rg --pre x y",
        "find . -delete",
        "ssh h a",
        "make SHELL=x",
        "vim -c x",
        "test $1-v \"$X\"",
    ] {
        assert!(read(line).parts.iter().any(|part| part.hidden.is_some()), "{line}");
    }
    for line in [
        "python3 a.py -c",
        "node --test",
        "awk '$1 > 5 {print $2}' f",
        "sed -n '1,5p' f",
        "for f in a b*; do sed -i 's/a/b/' \"$f\"; done",
        "find . -name '*.rs' -exec sed -i 's/a/b/' {} +",
        "git -c color.ui=never log -n 5",
        "tar cf a b/*",
        "rg --pretty y",
        "find . -name '*'",
        "make -j4 V=1",
        "printf '%s' \"$X\"",
        "test -n \"$X\"",
    ] {
        let script = read(line);
        let hidden: Vec<_> = script.parts.iter().filter_map(|part| part.hidden).collect();
        assert_eq!((hidden, script.opaque), (vec![], None), "{line}");
    }
}

#[test]
fn redirections_open_files() {
    let files = |line: &str| -> Vec<(Option<String>, bool)> {
        read(line).writes.into_iter().map(|file| (file.name, file.is_write)).collect()
    };
    let known = |name: &str, is_write| (Some(name.to_owned()), is_write);
    for line in ["a >/dev/null", "a 2>&1", "a >&2", "a </dev/null", "a 2>&-", "a <<< b", "a <<E\nE"]
    {
        assert_eq!(files(line), [], "{line}");
    }
    assert_eq!(files("a > 'b c' 2>> d"), [known("b c", true), known("d", true)]);
    assert_eq!(files("a <b &>c >|d"), [known("b", false), known("c", true), known("d", true)]);
    assert_eq!(files("{ a; } > b"), [known("b", true)]);
    assert_eq!(files("a > $X"), [(None, true)]);
    assert_eq!(files("a > b*"), [(None, true)]);
    assert_eq!(files("a > ~/b"), [(None, true)]);
    assert_eq!(files("a >& b"), [known("b", true)]);
    assert_eq!(files("cd x; a > b > /c"), [(None, true), known("/c", true)]);
    assert_eq!(files("(cd x; a) > b"), [known("b", true)]);
    assert_eq!(files("bash -c 'cd x; a > b'"), [(None, true)]);
}

#[test]
fn lines_that_only_look_are_told_apart() {
    for line in [
        "ls -la | wc -l",
        "git status",
        "git --no-pager diff HEAD~1",
        "cat a < b",
        "grep -rn x . | sort | head -n 5 2>/dev/null",
        "find . -name '*.rs'",
        "rg x --files",
        "echo $(date +%s)",
        "cargo --version",
        "for f in *; do wc -l \"$f\"; done",
    ] {
        assert!(only_looks(&read(line)), "{line}");
    }
    for line in [
        "",
        "ls > a",
        "rm a",
        "cargo test",
        "git push",
        "git diff --output=a",
        "git diff --ext-diff",
        "sort -o a b",
        "find . -delete",
        "find . -exec ls {} +",
        "date -s 1",
        "date 01010000",
        "uniq a b",
        "./ls",
        "timeout 5 ls",
        "ls; $X",
        "cat a | tee b",
        "PATH=x ls",
        "rg --pre x y",
        "git log $X",
    ] {
        assert!(!only_looks(&read(line)), "{line}");
    }
}
