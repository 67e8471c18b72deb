//! What the process was started with: variables and folders, read once and passed down, so that
//! tests need not touch their own process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The variables and folders that settings are made of.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// The working folder, where the system could tell it.
    pub cwd: PathBuf,
    /// The folder of the machine's settings files. No variable moves it.
    pub system: PathBuf,
    /// This program's file.
    pub program: PathBuf,
}

impl Environment {
    /// Reads this process's environment. Variables that are not text are passed over.
    pub fn of_process() -> Self {
        let pairs = std::env::vars_os();
        let variables = pairs
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            variables,
            cwd: std::env::current_dir().unwrap_or_default(),
            system: PathBuf::from(narthex::governed::SYSTEM_FOLDER),
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("narthex")),
        }
    }

    /// Makes an environment for tests.
    pub fn new(cwd: &Path, variables: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            variables: variables.iter().map(own).collect(),
            cwd: cwd.to_owned(),
            system: cwd.join("no-system-settings"),
            program: PathBuf::from("narthex"),
        }
    }

    /// Returns a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a variable that is set, also to nothing.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the user's home folder.
    pub fn user_home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }
}
