//! Edits: what fits, what does not, and what the model is told.

use proptest::prelude::*;

use super::{Edit, apply};

fn edit<'a>(old: &'a str, new: &'a str) -> Edit<'a> {
    Edit { old, new, all: None }
}

fn check(text: &str, edits: &[Edit<'_>], expected: &str) {
    assert_eq!(apply(text, edits).map_err(|(_, miss)| miss.text), Ok(expected.to_owned()));
}

fn check_miss(text: &str, edits: &[Edit<'_>], number: usize, expected: &str) {
    let (which, miss) = apply(text, edits).unwrap_err();
    assert_eq!((which, miss.text.as_str()), (number, expected));
}

#[test]
fn edits_are_applied_in_order() {
    check("one\ntwo\n", &[edit("one", "1"), edit("two", "2")], "1\n2\n");
    check("one\n", &[edit("one", "two"), edit("two", "three")], "three\n");
    check("a b a\n", &[Edit { old: "a", new: "c", all: Some(true) }], "c b c\n");
    check("", &[edit("", "new\n")], "new\n");
    check("aaa\n", &[Edit { old: "aa", new: "b", all: Some(true) }], "ba\n");
}

#[test]
fn line_ends_are_those_of_the_file() {
    check("a\r\nb\r\nc\r\n", &[edit("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc\r\n");
    check("a\r\nb\r\n", &[edit("b", "c\nd")], "a\r\nc\r\nd\r\n");
    check("a\nb\n", &[edit("a\r\nb", "c\r\nd")], "c\nd\n");
    check("a\nb\r\nc\n", &[edit("b\nc", "x\ny")], "a\nx\r\ny\n");
    check("a\nb\r\nc\n", &[edit("a\n", "x\n")], "x\nb\r\nc\n");
    check("a\r\n\r\nb", &[edit("\n\n", "\n")], "a\r\nb");
}

#[test]
fn an_ambiguous_edit_names_the_lines() {
    let text = "x\nsame\ny\nsame\n";
    let expected = "`old` occurs 2 times, at lines 2, 4; add lines around it so that it occurs \
                    once, or set `all`";
    check_miss(text, &[edit("y", "z"), edit("same", "other")], 2, expected);
    check_miss(
        "aaa",
        &[edit("aa", "b")],
        1,
        "`old` occurs 2 times, at lines 1, 1; add lines \
                around it so that it occurs once, or set `all`",
    );
}

#[test]
fn a_miss_shows_the_nearest_place() {
    let text = "fn main() {\n    let count = 1;\n    println!(\"{count}\");\n}\n";
    check_miss(
        text,
        &[edit("    let count = 2;\n    println!(\"{count}\");", "x")],
        1,
        "`old` was not found; the nearest place is lines 2-3 (- is `old`, + is the file):\n\
         -    let count = 2;\n+    let count = 1;\n     println!(\"{count}\");",
    );
    check_miss(
        text,
        &[edit("\tlet count = 1;", "x")],
        1,
        "`old` was not found; but for whitespace it is line 2 (- is `old`, + is the file):\n\
         -\tlet count = 1;\n+    let count = 1;",
    );
    check_miss(
        text,
        &[edit("let counter = 1;", "x")],
        1,
        "`old` was not found; the nearest place is line 2 (- is `old`, + is the file):\n\
         -let counter = 1;\n+    let count = 1;",
    );
    let nothing = "`old` was not found, nor anything like it; read the file again";
    check_miss(text, &[edit("quite another thing", "x")], 1, nothing);
    check_miss("", &[edit("a", "x")], 1, nothing);
}

#[test]
fn senseless_edits_are_refused() {
    check_miss("a\n", &[edit("a", "a")], 1, "`old` and `new` are the same");
    let ends = "`old` and `new` are the same but for line ends, which are kept";
    check_miss("a\r\nb", &[edit("a\r\n", "a\n")], 1, ends);
    let (_, miss) = apply("a\n", &[edit("", "b")]).unwrap_err();
    assert!(miss.text.starts_with("`old` is empty and the file is not"), "{}", miss.text);
}

/// What edits mean, in the simplest words.
fn naive(text: &str, edits: &[(String, String, bool)]) -> Option<String> {
    let mut text = text.to_owned();
    for (old, new, all) in edits {
        if old == new || (old.is_empty() && !text.is_empty()) {
            return None;
        }
        let places =
            (0..text.len()).filter(|at| text.as_bytes()[*at..].starts_with(old.as_bytes()));
        text = match (places.count(), old.is_empty()) {
            (_, true) => new.clone(),
            (0, _) => return None,
            (1, _) => text.replacen(old, new, 1),
            (_, _) if *all => text.replace(old, new),
            (_, _) => return None,
        };
    }
    Some(text)
}

proptest! {
    #[test]
    fn edits_do_what_naive_replacement_does(
        text in "[ab\n]{0,12}",
        edits in prop::collection::vec(("[ab\n]{0,3}", "[abü\n]{0,3}", any::<bool>()), 1..4),
    ) {
        let given: Vec<_> =
            edits.iter().map(|(old, new, all)| Edit { old, new, all: Some(*all) }).collect();
        prop_assert_eq!(apply(&text, &given).ok(), naive(&text, &edits));
        // The same file with the other line ends gives the same, with those line ends.
        let crlf = apply(&text.replace('\n', "\r\n"), &given).ok();
        if text.contains('\n') && crlf.is_some() {
            let plain = crlf.map(|text| text.replace("\r\n", "\n"));
            prop_assert_eq!(plain, naive(&text, &edits));
        }
    }

    #[test]
    fn no_text_makes_an_edit_panic(text: String, old: String, new: String, all: bool) {
        let _result = apply(&text, &[Edit { old: &old, new: &new, all: Some(all) }]);
    }
}
