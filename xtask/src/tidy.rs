//! `cargo xtask tidy`: the rules of the house, held against the files. Compiles nothing.
//!
//! Each check is a function from the tree to findings, and each has a test that plants the fault.

mod floors;
mod generated;
mod manifests;
mod markdown;
mod modules;
mod rust_files;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::house::House;
use crate::tree::Tree;
use crate::{menu, say};

/// A place where a file is not as the rules want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The rule's short name, as exceptions spell it.
    check: &'static str,
    path: String,
    /// The line, from 1; 0 where the whole file is meant.
    line: usize,
    what: String,
    right: String,
    is_warning: bool,
}

impl Finding {
    fn new(
        check: &'static str,
        (path, line): (&str, usize),
        what: impl Into<String>,
        right: impl Into<String>,
    ) -> Self {
        let (what, right) = (what.into(), right.into());
        Self { check, path: path.to_owned(), line, what, right, is_warning: false }
    }

    fn warning(self) -> Self {
        Self { is_warning: true, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_warning { "warning" } else { "error" };
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {word} [{}]: {}; right: {}", self.check, self.what, self.right)
    }
}

/// What `tidy.toml` and `floors.toml` say.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    tidy: TidyFile,
    floors: floors::Table,
}

/// `xtask/tidy.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TidyFile {
    /// Dependencies that one manifest alone may name.
    heavy: Vec<String>,
    /// Crates that may allow `unsafe`.
    unsafe_crates: Vec<String>,
    #[serde(default)]
    exception: Vec<Exception>,
}

/// One file that one check passes over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    check: String,
    path: String,
    reason: String,
}

type Check = fn(&Tree, &Rules) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    floors::arrows,
    floors::sizes,
    manifests::one_home,
    manifests::workspace,
    rust_files::headers,
    rust_files::sizes,
    rust_files::columns,
    rust_files::names,
    rust_files::unsafe_homes,
    modules::reachable,
    modules::crate_docs,
    words::notes,
    words::stubs,
    words::machines,
    words::weight,
    markdown::titles,
    markdown::links,
    markdown::map,
    markdown::decisions,
    generated::limits,
    generated::schema,
];

/// Checks the repository and prints every finding.
///
/// # Errors
/// When there is one that is no warning.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    menu::no_arguments(arguments)?;
    let house = House::open()?;
    let tree = Tree::read(&house)?;
    let findings = check(&tree, &rules(&tree)?);
    for finding in &findings {
        say::line(&finding.to_string());
    }
    let warnings = findings.iter().filter(|finding| finding.is_warning).count();
    let errors = findings.len() - warnings;
    say::line(&format!(
        "tidy: {} files, {} rules, {errors} errors, {warnings} warnings",
        tree.paths.len(),
        CHECKS.len()
    ));
    if errors > 0 {
        bail!("{errors} places break the rules of the house (docs/style.md says why they are so)");
    }
    Ok(())
}

fn rules(tree: &Tree) -> Result<Rules> {
    let read = |path: &str| {
        let file = tree.file(path).with_context(|| format!("{path} is missing"))?;
        Ok::<_, anyhow::Error>(&file.text)
    };
    Ok(Rules {
        tidy: toml::from_str(read("xtask/tidy.toml")?).context("read xtask/tidy.toml")?,
        floors: toml::from_str(read("xtask/floors.toml")?).context("read xtask/floors.toml")?,
    })
}

/// Runs every check and takes the exceptions off; an exception without use is a finding itself.
fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let all: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree, rules)).collect();
    let excepts = |exception: &Exception, finding: &Finding| {
        exception.check == finding.check && exception.path == finding.path
    };
    let exceptions = &rules.tidy.exception;
    let idle = exceptions.iter().filter_map(|exception| {
        let right = "take it out of xtask/tidy.toml, or give the reason";
        let what = if exception.reason.trim().is_empty() {
            "exception without a reason"
        } else if all.iter().any(|finding| excepts(exception, finding)) {
            return None;
        } else {
            "exception that nothing needs"
        };
        Some(Finding::new("exceptions", (&exception.path, 0), what, right))
    });
    let kept = all
        .iter()
        .filter(|finding| !exceptions.iter().any(|exception| excepts(exception, finding)));
    let mut findings: Vec<Finding> = kept.cloned().chain(idle).collect();
    findings.sort_by(|a, b| (a.is_warning, &a.path, a.line).cmp(&(b.is_warning, &b.path, b.line)));
    findings
}
