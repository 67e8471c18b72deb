//! Generated files are as their sources would have them, as far as that shows without a compiler.

use super::{Finding, Rules};
use crate::limits;
use crate::tree::Tree;

const RIGHT: &str = "run `cargo xtask codegen` and commit what it writes";

/// `docs/limits.md` lists the limits as the code has them, and each says its reason.
pub(super) fn limits(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let found = limits::collect(tree);
    let silent = found.iter().filter(|limit| limit.reason.is_empty()).map(|limit| {
        let what = format!("the limit `{}` gives no reason", limit.name);
        let right = "a doc comment: its unit and why it is this";
        Finding::new("limits", (&limit.path, limit.line), what, right)
    });
    let mut findings: Vec<Finding> = silent.collect();
    if tree.file(limits::PAGE).is_none_or(|file| file.text != limits::page(&found)) {
        findings.push(Finding::new("generated", (limits::PAGE, 0), "is stale", RIGHT));
    }
    findings
}

/// The event schema names every event. Whether all else in `schema/` is current takes the built
/// program to tell: `cargo xtask codegen --check`, a part of `cargo xtask ci`, does.
pub(super) fn schema(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    const EVENTS: &str = "crates/protocol/src/event.rs";
    const SCHEMA: &str = "schema/event.schema.json";
    let Some(events) = tree.file(EVENTS) else { return Vec::new() };
    let Some(schema) = tree.file(SCHEMA) else {
        return vec![Finding::new("generated", (SCHEMA, 0), "is missing", RIGHT)];
    };
    let names = events.text.lines().filter_map(event_name);
    let missing = names.filter(|name| !schema.text.contains(&format!("\"{name}\"")));
    let finding = |name: &str| {
        Finding::new("generated", (SCHEMA, 0), format!("does not know the event `{name}`"), RIGHT)
    };
    missing.map(finding).collect()
}

/// Reads `Name(Body) = "wire_name" Class;`.
fn event_name(line: &str) -> Option<&str> {
    let (left, right) = line.trim().split_once(" = \"")?;
    let (name, class) = right.split_once('"')?;
    (left.ends_with(')') && class.ends_with(';')).then_some(name)
}
