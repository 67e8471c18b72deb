//! The store in one SQLite file: the suite that every store passes, and what only a file can
//! suffer.
#![allow(clippy::unwrap_used, reason = "the functions that tests share are tests too")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "as above")]

mod damage;
mod files;
mod processes;
mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::Options;
use store::sqlite::SqliteStore;

/// A data folder.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("sessions.db")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            path: self.database(),
            blobs: self.path().join("blobs"),
            run: self.path().join("run"),
        }
    }

    pub(crate) async fn open(&self) -> Arc<SqliteStore> {
        store::sqlite::open(self.options()).await.unwrap()
    }

    /// Returns the names in the folder that begin like this.
    pub(crate) fn names(&self, start: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(start)).collect();
        names.sort();
        names
    }
}

#[test]
fn every_file_of_tests_is_listed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || main.contains(&format!("mod {module};")), "{name}");
    }
}
