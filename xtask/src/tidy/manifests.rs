//! Manifests: one home per heavy dependency, versions and lints in one place.

use super::{Finding, Rules};
use crate::house::Dependency;
use crate::tree::Tree;

/// A heavy dependency stands in exactly one crate, so that one crate alone pays for it and one
/// alone has to change when it does. What only tests name is not counted.
pub(super) fn one_home(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for heavy in &rules.tidy.heavy {
        let mut homes = Vec::new();
        for package in &tree.packages {
            let names =
                |used: &Dependency| &used.name == heavy && used.kind.as_deref() != Some("dev");
            if package.dependencies.iter().any(names) {
                homes.push(package);
            }
        }
        // The home is one that needs no exception, in whatever order they are listed.
        let is_excepted = |path: &str| {
            rules.tidy.exception.iter().any(|it| it.check == "one-home" && it.path == path)
        };
        homes.sort_by_key(|package| is_excepted(&package.manifest_path.to_string_lossy()));
        let Some((home, others)) = homes.split_first() else { continue };
        for other in others {
            let path = other.manifest_path.to_string_lossy();
            let what = format!("`{heavy}` is named here and in `{}`", home.name);
            let right = "one crate that fences it";
            findings.push(Finding::new("one-home", (&path, 0), what, right));
        }
    }
    findings
}

/// Every crate takes lints, licence and versions from the workspace.
pub(super) fn workspace(tree: &Tree, _rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let path = package.manifest_path.to_string_lossy();
        let Some(file) = tree.file(&path) else { continue };
        let mut found = |line: usize, what: String, right: &str| {
            findings.push(Finding::new("manifest", (&path, line), what, right));
        };
        if package.license.as_deref() != Some("Apache-2.0") {
            found(0, "another licence or none".to_owned(), "license.workspace = true");
        }
        let manifest = match toml::from_str::<toml::Table>(&file.text) {
            Ok(manifest) => manifest,
            Err(error) => {
                found(0, format!("is no TOML: {}", error.message()), "a manifest");
                continue;
            }
        };
        if !comes_from_workspace(manifest.get("lints")) {
            found(0, "no workspace lints".to_owned(), "[lints] with workspace = true");
        }
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let rows = manifest.get(table).and_then(toml::Value::as_table);
            for (name, _) in
                rows.into_iter().flatten().filter(|row| !comes_from_workspace(Some(row.1)))
            {
                let line = file.text.lines().position(|line| line.starts_with(name.as_str()));
                let right = "workspace = true, and the version in the Cargo.toml of the workspace";
                found(
                    line.map_or(0, |line| line + 1),
                    format!("`{name}` has its own version"),
                    right,
                );
            }
        }
    }
    findings
}

fn comes_from_workspace(value: Option<&toml::Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}
