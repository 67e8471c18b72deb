//! Modules: no file that nothing names, one test binary per crate, a crate doc in three parts.

use super::{Finding, Rules};
use crate::house::Package;
use crate::tree::Tree;

/// Every Rust file is named by its parent: a test file that `main.rs` forgot never runs, and a
/// source file that nothing names is dead.
pub(super) fn reachable(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let roots = roots(package);
        let manifest = package.manifest_path.to_string_lossy();
        let folder = manifest.trim_end_matches("Cargo.toml");
        for root in &roots {
            let inside = root.strip_prefix(folder).unwrap_or(root);
            if inside.starts_with("tests/") && inside != "tests/it/main.rs" {
                let right = "a module of `tests/it/main.rs`: one test binary per crate links once";
                findings.push(Finding::new(
                    "modules",
                    (root, 0),
                    "a test binary of its own",
                    right,
                ));
            }
        }
        let sources = ["src/", "tests/it/"].map(|part| format!("{folder}{part}"));
        for file in
            tree.rust().filter(|file| sources.iter().any(|part| file.path.starts_with(part)))
        {
            if roots.contains(&file.path) {
                continue;
            }
            let parents = parents(&file.path, &roots);
            let stem = stem(&file.path);
            let is_named = parents
                .iter()
                .any(|parent| tree.file(parent).is_some_and(|parent| declares(&parent.text, stem)));
            if !is_named {
                let what = "no file names this module";
                let right = format!("`mod {stem};` in {}", parents.join(" or "));
                findings.push(Finding::new("modules", (&file.path, 0), what, right));
            }
        }
    }
    findings
}

/// Every crate says what it is, whom it knows and what it never does.
pub(super) fn crate_docs(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let of_kind = |kind: &str| {
            package.targets.iter().find(|target| target.kind.iter().any(|word| word == kind))
        };
        let Some(target) = of_kind("lib").or_else(|| of_kind("bin")) else { continue };
        let path = target.src_path.to_string_lossy();
        let Some(file) = tree.file(&path) else { continue };
        let docs: String = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        for part in ["**What**", "**Knows**", "**Never**"] {
            if !docs.contains(part) {
                let what = format!("the crate doc lacks {part}");
                let right = "What it is, whom it Knows, what it Never does";
                findings.push(Finding::new("crate-doc", (&path, 1), what, right));
            }
        }
    }
    findings
}

fn roots(package: &Package) -> Vec<String> {
    package.targets.iter().map(|target| target.src_path.to_string_lossy().into_owned()).collect()
}

/// Returns the files that may declare a module: the roots of its folder, or the file that is
/// called as its folder is.
fn parents(path: &str, roots: &[String]) -> Vec<String> {
    let folder = folder(path);
    let beside: Vec<String> =
        roots.iter().filter(|root| self::folder(root) == folder).cloned().collect();
    if beside.is_empty() { vec![format!("{folder}.rs")] } else { beside }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".rs").unwrap_or(name)
}

fn declares(text: &str, module: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let bare = match line.strip_prefix("pub") {
            Some(rest) => rest.trim_start_matches(|c: char| c != ' ').trim_start(),
            None => line,
        };
        bare.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) == Some(module)
    })
}
