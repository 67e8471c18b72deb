//! The list of limits in `docs/limits.md`, read from the constants and their doc comments.

use crate::tree::{Source, Tree};

/// The page that is written.
pub(crate) const PAGE: &str = "docs/limits.md";

/// Words that make a number a limit; a length of time is one under any name.
const WORDS: &[&str] = &[
    "MAX", "MIN", "LIMIT", "TIMEOUT", "BUDGET", "CAPACITY", "QUEUE", "GRACE", "WINDOW", "DEADLINE",
    "LINGER", "WAIT", "RING", "PACE", "MAILBOX", "LIVE", "PAGE", "EVERY", "AHEAD", "BYTES",
    "SHOWN", "SEARCHED", "TRIED", "WITHIN", "MS",
];

const HEAD: &str = "# Limits

Every queue, body, buffer, loop and wait of the product ends somewhere. This page is written by
`cargo xtask codegen` from the constants themselves and their doc comments; `cargo xtask tidy`
fails when it is stale or when a limit does not say why it is what it is.

| where | limit | value | reason |
|---|---|---|---|
";

/// One constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) path: String,
    /// The line of the constant, from 1.
    pub(crate) line: usize,
    pub(crate) name: String,
    value: String,
    pub(crate) reason: String,
}

/// Finds the limits of the product: the crates but the tools of tests.
pub(crate) fn collect(tree: &Tree) -> Vec<Limit> {
    let product = tree.rust().filter(|file| {
        file.path.starts_with("crates/")
            && file.path.contains("/src/")
            && !file.path.starts_with("crates/testkit/")
            && !file.is_test()
    });
    let mut limits: Vec<Limit> = product.flat_map(of_file).collect();
    limits.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    limits
}

/// Writes the page.
pub(crate) fn page(limits: &[Limit]) -> String {
    let mut page = HEAD.to_owned();
    for limit in limits {
        let place = limit.path.replacen("crates/", "", 1).replacen("/src/", "/", 1);
        let (value, reason) = (cell(&limit.value), cell(&limit.reason));
        page.push_str(&format!("| {place} | `{}` | `{value}` | {reason} |\n", limit.name));
    }
    page
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn of_file(file: &Source) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut reason = Vec::new();
    let mut is_used = false;
    let mut lines = file.production().into_iter();
    while let Some((number, line)) = lines.next() {
        let bare = line.trim();
        if let Some(comment) = bare.strip_prefix("///").or_else(|| bare.strip_prefix("// ")) {
            if std::mem::take(&mut is_used) {
                reason.clear();
            }
            reason.push(comment.trim());
            continue;
        }
        match constant(bare) {
            Some((name, kind)) if is_limit(name, kind) => {
                let mut whole = bare.to_owned();
                while !whole.ends_with(';') {
                    let Some((_, more)) = lines.next() else { break };
                    whole.push(' ');
                    whole.push_str(more.trim());
                }
                let value = whole.split_once(" = ").map_or("", |(_, value)| value);
                limits.push(Limit {
                    path: file.path.clone(),
                    line: number,
                    name: name.to_owned(),
                    value: value.trim_end_matches(';').to_owned(),
                    reason: plain(&reason.join(" ")),
                });
                // A constant right below stands under the same comment, unless it has its own.
                is_used = true;
            }
            _ if bare.starts_with("#[") => {}
            _ => reason.clear(),
        }
    }
    // Numbers in base 16 are codes of a wire or of the system.
    limits.retain(|limit| !limit.value.starts_with("0x"));
    limits
}

/// Takes the square brackets of doc links off: on the page they lead nowhere.
fn plain(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`")
}

/// Reads `[pub…] const NAME: TYPE = …`.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once("const ")?;
    let is_plain = before.is_empty() || (before.starts_with("pub") && before.ends_with(' '));
    let (name, rest) = rest.split_once(": ")?;
    let (kind, _) = rest.split_once(" =")?;
    is_plain.then_some((name, kind))
}

fn is_limit(name: &str, kind: &str) -> bool {
    let numbers = ["usize", "u8", "u16", "u32", "u64", "u128", "i32", "i64", "f64", "NonZeroUsize"];
    let is_named = name.split('_').any(|word| WORDS.contains(&word));
    kind.ends_with("Duration") || (numbers.contains(&kind) && is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Limit> {
        of_file(&Source { path: "crates/tools/src/limit.rs".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_limit_is_read_with_its_value_and_reason() {
        let text = "//! x\n/// Bytes of a\n/// [`Row`]: small.\n#[rustfmt::skip]\npub(crate) const \
                    ROW_BYTES_MAX: usize =\n    64 * 1024;\n";
        let limit = Limit {
            path: "crates/tools/src/limit.rs".to_owned(),
            line: 5,
            name: "ROW_BYTES_MAX".to_owned(),
            value: "64 * 1024".to_owned(),
            reason: "Bytes of a `Row`: small.".to_owned(),
        };
        assert_eq!(of(text), [limit]);
    }

    #[test]
    fn what_is_no_limit_is_passed_over() {
        assert_eq!(of("const NAME_MAX: &str = \"a\";\nconst PORT: u16 = 7420;\n"), []);
        assert_eq!(of("#[cfg(test)]\nmod tests {\nconst TRIES_MAX: u8 = 1;\n}\n"), []);
        assert_eq!(of("/// A code.\nconst BYTES: u8 = 0x81;\n"), []);
    }

    #[test]
    fn a_reason_belongs_to_what_stands_right_below() {
        let reasons =
            |text: &str| of(text).into_iter().map(|limit| limit.reason).collect::<Vec<_>>();
        let two = "/// Both.\nconst A_MAX: u8 = 1;\nconst B_MAX: u8 = 1;\n";
        assert_eq!(reasons(two), ["Both.", "Both."]);
        let own = "/// One.\nconst A_MAX: u8 = 1;\n/// Two.\nconst B_MAX: u8 = 1;\n";
        assert_eq!(reasons(own), ["One.", "Two."]);
        let apart = "/// The one.\nconst A_MAX: u8 = 1;\n\nconst B_MAX: u8 = 1;\n";
        assert_eq!(reasons(apart), ["The one.", ""]);
        assert_eq!(
            reasons("/// Of a name.\nconst NAME: &str = \"\";\nconst A_MAX: u8 = 1;\n"),
            [""]
        );
    }

    #[test]
    fn a_row_of_the_page_keeps_its_cells_apart() {
        let limits = of("/// One | two.\nconst TRIES_MAX: u8 = 1 | 2;\n");
        assert!(
            page(&limits)
                .ends_with("| tools/limit.rs | `TRIES_MAX` | `1 \\| 2` | One \\| two. |\n")
        );
    }
}
