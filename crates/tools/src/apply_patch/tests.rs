//! Patches in both forms: what they mean, and what is refused.

use proptest::prelude::*;

use super::apply::apply;
use super::patch::{Change, Patch, parse};

/// Applies the hunks of a patch that updates one file.
fn patched(text: &str, patch: &str) -> Result<String, String> {
    let patch = parse(patch)?;
    let [Change::Update { hunks, .. }] = patch.changes.as_slice() else {
        panic!("one update was expected: {patch:?}")
    };
    apply(text, hunks)
}

fn check(text: &str, patch: &str, expected: &str) {
    assert_eq!(patched(text, patch), Ok(expected.to_owned()), "{patch}");
}

fn check_error(text: &str, patch: &str, expected: &str) {
    let error = patched(text, patch).unwrap_err();
    assert!(error.contains(expected), "expected {expected:?} in {error:?}");
}

fn update(hunks: &str) -> String {
    format!("*** Begin Patch\n*** Update File: a.txt\n{hunks}*** End Patch\n")
}

fn diff(hunks: &str) -> String {
    format!("--- a/a.txt\n+++ b/a.txt\n{hunks}")
}

#[test]
fn every_kind_of_change_is_read() {
    let text = "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n+two\n\n*** Delete File: old.txt\n\
                *** Update File: src/a.rs\n*** Move to: src/b.rs\n@@ fn main() {\n keep\n-old\n\
                +new\n\n*** End Patch\n";
    let Patch { changes, .. } = parse(text).unwrap();
    assert_eq!(changes.len(), 3);
    assert_eq!(
        changes[0],
        Change::Add { path: "new.txt".to_owned(), content: "one\n\ntwo\n".to_owned() }
    );
    assert_eq!(changes[1], Change::Delete { path: "old.txt".to_owned(), hunks: Vec::new() });
    let Change::Update { path, move_to, hunks } = &changes[2] else { panic!("{changes:?}") };
    assert_eq!((path.as_str(), move_to.as_deref()), ("src/a.rs", Some("src/b.rs")));
    assert_eq!((hunks.len(), hunks[0].anchors.as_slice()), (1, &["fn main() {".to_owned()][..]));
    assert_eq!(hunks[0].old(), ["keep", "old"]);
}

#[test]
fn git_diffs_are_read() {
    let text = "diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 0000000..5626abf\n\
                --- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\
                diff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex 5626abf..0000000\n\
                --- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n\
                diff --git a/a.txt b/dir/b.txt\nsimilarity index 100%\nrename from a.txt\n\
                rename to dir/b.txt\n\
                diff --git a/c.sh b/c.sh\nold mode 100644\nnew mode 100755\nindex 1..2\n\
                --- a/c.sh\n+++ b/c.sh\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = parse(text).unwrap();
    let paths: Vec<_> = patch.paths().collect();
    assert_eq!(paths, ["new.txt", "old.txt", "a.txt", "dir/b.txt", "c.sh"]);
    assert!(matches!(&patch.changes[0], Change::Add { content, .. } if content == "one\ntwo\n"));
    assert!(matches!(&patch.changes[1], Change::Delete { hunks, .. } if hunks.len() == 1));
    assert!(matches!(&patch.changes[2], Change::Update { hunks, .. } if hunks.is_empty()));
    assert_eq!(patch.notes.len(), 1, "permission bits are named: {:?}", patch.notes);
}

#[test]
fn mails_with_patches_are_read() {
    let text = "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] one\n\n---\n a.txt | 2 +-\n\n\
                diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n\
                @@ -1 +1 @@\n-a\n+b\n-- \n2.47.3\n\n";
    check("a\n", text, "b\n");
    // Elsewhere such a line is a removed one.
    check("a\n- \n", &diff("@@ -1,2 +1 @@\n-a\n+b\n-- \n"), "b\n");
}

#[test]
fn hunks_find_their_place() {
    check("a\nb\nc\n", &update("@@\n a\n-b\n+x\n c\n"), "a\nx\nc\n");
    check("a\nb\nc\n", &update(" a\n-b\n+x\n"), "a\nx\nc\n");
    check("a\nb\nc\n", &diff("@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"), "a\nx\nc\n");
    // Wrong line numbers and wrong counts.
    check("a\nb\nc\n", &diff("@@ -40,9 +41,7 @@\n a\n-b\n+x\n c\n"), "a\nx\nc\n");
    check("a\nb\nc\n", &diff("@@\n-b\n+x\n"), "a\nx\nc\n");
    // Several hunks.
    check(
        "a\nb\nc\nd\n",
        &diff("@@ -1,2 +1,3 @@\n a\n+n\n b\n@@ -4 +5 @@\n-d\n+e\n"),
        "a\nn\nb\nc\ne\n",
    );
    // The stated line decides between equal places.
    check("x\ny\nx\n", &diff("@@ -3 +3 @@\n-x\n+z\n"), "x\ny\nz\n");
    check("fn a\n  x\nfn b\n  x\n", &update("@@ fn b\n-  x\n+  y\n"), "fn a\n  x\nfn b\n  y\n");
    check(
        "c\n m\n  x\nd\n m\n  x\n",
        &update("@@ d\n@@ m\n-  x\n+  y\n"),
        "c\n m\n  x\nd\n m\n  y\n",
    );
    check("x\ny\nx\n", &update("@@\n-x\n+z\n*** End of File\n"), "x\ny\nz\n");
    // Whitespace at the end of a line does not matter, and stays.
    check("a  \nb\n", &update(" a\n-b\n+x\n"), "a  \nx\n");
    check("a\n\nb\n", &update(" a\n\n-b\n+x\n"), "a\n\nx\n");
    // Only new lines.
    check("a\nb\n", &update("@@ a\n+x\n"), "a\nx\nb\n");
    check("a\nb\n", &update("+x\n"), "a\nb\nx\n");
    check("a\nb\n", &diff("@@ -1,0 +2 @@\n+x\n"), "a\nx\nb\n");
    check("", &diff("@@ -0,0 +1 @@\n+x\n"), "x\n");
    check("a\nb\n", &format!("```diff\n{}```", diff("@@ -1 +1 @@\n-a\n+x\n")), "x\nb\n");
}

#[test]
fn line_ends_are_kept() {
    check("a\r\nb\r\nc\r\n", &update(" a\n-b\n+x\n+y\n"), "a\r\nx\r\ny\r\nc\r\n");
    check("a\nb", &update(" a\n-b\n+x\n"), "a\nx");
    check("a\nb", &update(" a\n b\n+x\n"), "a\nb\nx");
    let open = "\\ No newline at end of file\n";
    check("a\nb\n", &diff(&format!("@@ -2 +2 @@\n-b\n+x\n{open}")), "a\nx");
    check("a\nb", &diff(&format!("@@ -2 +2 @@\n-b\n{open}+x\n")), "a\nx\n");
    check("a\nb", &diff(&format!("@@ -2 +2 @@\n-b\n{open}+x\n{open}")), "a\nx");
}

#[test]
fn what_does_not_fit_is_explained() {
    check_error("x\ny\nx\n", &update("-x\n+z\n"), "its lines stand at 2 places (lines 1, 3)");
    check_error("x\ny\nx\n", &diff("@@ -2 +2 @@\n-x\n+z\n"), "its lines stand at 2 places");
    let error = "at line 1 the first 1 fit, but then the patch has \"c\" and the file \"b\"";
    check_error("a\nb\n", &update(" a\n-c\n+x\n"), error);
    check_error("a\n", &update("@@ fn gone\n-a\n+x\n"), "the line \"fn gone\" of @@ was not found");
    check_error("a\n", &update("-q\n+x\n"), "they are:\n\"q\"");
    check_error(
        "a\nb\n",
        &update("-b\n+x\n@@\n-a\n+y\n"),
        "hunk 2: its lines were not found after line 2",
    );
}

#[test]
fn malformed_patches_are_refused() {
    let check = |patch: &str, expected: &str| {
        let error = parse(patch).unwrap_err();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    };
    check("", "neither a unified diff nor");
    let long = format!("*** Begin Patch\n{}\n*** End Patch\n", "x".repeat(100_000));
    assert!(parse(&long).unwrap_err().len() < 500, "a long line is cut where it is named");
    check("hello", "neither a unified diff nor");
    check("*** Begin Patch\n*** End Patch\n", "changes nothing");
    check("*** Begin Patch\n*** Add File: a\n+x\n", "no last line");
    check("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3");
    check("*** Begin Patch\n*** Add File:\n*** End Patch", "has no path");
    check("*** Begin Patch\n*** Update File: a\n*** End Patch", "without any lines");
    check("*** Begin Patch\nx\n*** End Patch", "line 2");
    check("*** Begin Patch\n*** End Patch\nx", "stands after");
    // A hunk after something unexpected must not be lost without a word.
    let lost = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\nnonsense\n@@ -5 +5 @@\n-c\n+d\n";
    check(lost, "line 6 of the patch: expected a line that begins with a space, - or +");
    let unmarked = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n a\nb\n-c\n+d\n";
    check(unmarked, "line 5 of the patch");
    let headless = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n\
                    --- a/c\n+++ b/c\n@@ -1 +1 @@\n-c\n+d\n";
    check(headless, "only 1 of the 2 hunks");
    let copy = "diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n";
    check(copy, "run_shell with cp");
}

/// Lines out of which patches are made, so that random ones get past the first checks.
fn patch_line() -> impl Strategy<Value = String> {
    let marks = [
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: ",
        "*** Delete File: ",
        "*** Update File: ",
        "*** Move to: ",
        "*** End of File",
        "@@",
        "@@ ",
        "@@ -1,2 +1,2 @@",
        "@@ -0,0 +1 @@",
        "@@ -99999999999999999999 +1 @@",
        "@@ -4294967295,9 +4294967295,9 @@",
        "--- a/a",
        "+++ b/a",
        "--- /dev/null",
        "+++ /dev/null",
        "diff --git a/a b/a",
        "rename from a",
        "rename to b",
        "new file mode 100644",
        "deleted file mode 100644",
        "GIT binary patch",
        "literal 3",
        "\\ No newline at end of file",
        " ",
        "+",
        "-",
        "",
        "```",
    ];
    (prop::sample::select(marks.to_vec()), "[a-c\\r ü@+-]{0,4}")
        .prop_map(|(mark, rest)| mark.to_owned() + &rest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_patch_makes_the_parsers_panic(
        lines in prop::collection::vec(patch_line(), 0..20),
        text in "[a-c \n]{0,20}",
        begins in any::<bool>(),
    ) {
        let begin = if begins { "*** Begin Patch\n" } else { "" };
        let patch = format!("{begin}{}", lines.join("\n"));
        if let Ok(patch) = parse(&patch) {
            for change in &patch.changes {
                if let Change::Update { hunks, .. } | Change::Delete { hunks, .. } = change {
                    let _result = apply(&text, hunks);
                }
            }
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text: String) {
        let _result = parse(&text);
        let _result = parse(&format!("*** Begin Patch\n{text}"));
        let _result = parse(&format!("--- a\n+++ a\n@@ -1 +1 @@\n{text}"));
    }

    #[test]
    fn a_diff_of_two_texts_turns_one_into_the_other(
        old in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
        new in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
    ) {
        let made = diffy::create_patch(&old, &new).to_string();
        if old != new {
            prop_assert_eq!(patched(&old, &made), Ok(new));
        }
    }
}
