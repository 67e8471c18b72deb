//! Python environments of tests, under `.venv/`, made once for each list of packages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{process, say};

/// The runner of the black-box tests; 8 and 9 both know every option that is used here.
pub(crate) const PYTEST: &str = "pytest>=8,<10";

/// Makes the environment `.venv/NAME` with these packages and returns its interpreter.
///
/// # Errors
/// When Python or pip fail.
pub(crate) fn ensure(root: &Path, name: &str, packages: &[String]) -> Result<PathBuf> {
    let folder = root.join(".venv").join(name);
    let python = folder.join("bin").join("python");
    let stamp = folder.join("packages.txt");
    let wanted = packages.join("\n");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(python);
    }
    say::step(&format!("make .venv/{name} with {}", packages.join(", ")), || {
        process::run(process::program("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut pip = process::program(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        process::run(pip.args(packages))?;
        std::fs::write(&stamp, &wanted).with_context(|| format!("write {}", stamp.display()))
    })?;
    Ok(python)
}
