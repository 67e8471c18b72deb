//! The repository as the checks read it: every file that git tracks or would track.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::house::{House, Package};
use crate::process;

/// The files with the facts of cargo beside them. Tests build one with planted faults.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Every path, with forward slashes, from the top of the repository.
    pub(crate) paths: BTreeSet<String>,
    /// The files that are text.
    pub(crate) files: Vec<Source>,
    /// Files that are larger than [`BYTES_MAX`], with their size.
    pub(crate) large: Vec<(String, u64)>,
    /// The crates of the workspace; their paths are relative to the top of the repository.
    pub(crate) packages: Vec<Package>,
    /// Folders of this machine that no file may name.
    pub(crate) folders: Vec<String>,
}

/// One text file.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The largest file that belongs into the repository, in bytes: a clone stays quick.
pub(crate) const BYTES_MAX: u64 = 1024 * 1024;

impl Tree {
    /// Reads the repository.
    ///
    /// # Errors
    /// When git cannot list it or a file cannot be read.
    pub(crate) fn read(house: &House) -> Result<Self> {
        let mut git = process::program("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let list = process::output(git.current_dir(&house.root))?;
        let mut tree = Tree { folders: machine_folders(house), ..Tree::default() };
        for path in list.split('\0').filter(|path| !path.is_empty()) {
            tree.add_from(&house.root, path)?;
        }
        for package in &house.packages {
            tree.packages.push(relative(house, package));
        }
        Ok(tree)
    }

    fn add_from(&mut self, root: &Path, path: &str) -> Result<()> {
        let file = root.join(path);
        // A file that git still lists may be gone from the work tree; a link is not ours to read.
        let Ok(facts) = std::fs::symlink_metadata(&file) else { return Ok(()) };
        if !facts.is_file() {
            return Ok(());
        }
        self.paths.insert(path.to_owned());
        if facts.len() > BYTES_MAX {
            self.large.push((path.to_owned(), facts.len()));
            return Ok(());
        }
        let bytes = std::fs::read(&file).with_context(|| format!("read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            self.files.push(Source { path: path.to_owned(), text });
        }
        Ok(())
    }

    /// Returns a file by its path.
    pub(crate) fn file(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Tells whether a path is a file or a folder of the repository.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path) || self.paths.iter().any(|file| file.starts_with(&folder))
    }
}

impl Source {
    /// Tells whether the file holds tests alone.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name == "tests.rs" || self.path.split('/').any(|part| part == "tests")
    }

    /// Returns the lines outside inline test modules, with their numbers from 1.
    pub(crate) fn production(&self) -> Vec<(usize, &str)> {
        let mut production = Vec::new();
        let mut lines = (1..).zip(self.text.lines()).peekable();
        while let Some((number, line)) = lines.next() {
            let opens_tests = line == "#[cfg(test)]"
                && lines
                    .peek()
                    .is_some_and(|(_, next)| next.starts_with("mod ") && next.ends_with('{'));
            if opens_tests {
                lines.by_ref().find(|(_, line)| *line == "}");
            } else {
                production.push((number, line));
            }
        }
        production
    }

    /// Counts the lines outside inline test modules.
    pub(crate) fn production_lines(&self) -> usize {
        self.production().len()
    }
}

/// Returns the folders that only this machine has: the clone itself and cargo's own.
fn machine_folders(house: &House) -> Vec<String> {
    let homes = ["CARGO_HOME", "RUSTUP_HOME"].into_iter().filter_map(std::env::var_os);
    let mut folders: Vec<String> = homes.map(|home| home.to_string_lossy().into_owned()).collect();
    folders.push(house.root.to_string_lossy().into_owned());
    // A short path such as `/src` would match what is no path of this machine.
    folders.retain(|folder| folder.matches('/').count() > 1);
    folders
}

fn relative(house: &House, package: &Package) -> Package {
    let mut package = package.clone();
    package.manifest_path = house.relative(&package.manifest_path).into();
    for target in &mut package.targets {
        target.src_path = house.relative(&target.src_path).into();
    }
    package
}
