//! Where things are in this repository, as cargo tells it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// The workspace as `cargo metadata` describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct House {
    /// The crates of the workspace.
    pub(crate) packages: Vec<Package>,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
    /// The top folder of the repository.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
}

/// One crate.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// One line under a `dependencies` table.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for ordinary dependencies, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// The folder of a crate of this workspace; absent for those of the registry.
    pub(crate) path: Option<PathBuf>,
}

/// One library, program or test binary.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

impl House {
    /// Asks cargo. Needs no network and resolves nothing.
    ///
    /// # Errors
    /// When cargo cannot read the manifests.
    pub(crate) fn open() -> Result<Self> {
        let manifest = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        };
        let mut command = process::cargo();
        command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]);
        let text = process::output(command.arg(manifest.join("Cargo.toml")))?;
        serde_json::from_str(&text).context("read what cargo metadata says")
    }

    /// Returns a program of the dev profile.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.target_directory.join("debug").join(name)
    }

    /// Builds `narthex` and `narthex-agent` in the dev profile. The whole workspace is named, so
    /// that dependencies have the features they have in tests and are compiled once for both.
    ///
    /// # Errors
    /// When they do not build.
    pub(crate) fn build(&self) -> Result<()> {
        let words = ["build", "--workspace", "--bins"];
        process::run(process::cargo().args(words).current_dir(&self.root))
    }

    /// Returns a path as it stands in the repository, with forward slashes.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}
