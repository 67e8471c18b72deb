//! What governs a machine: its managed settings, the organisation's remote policy, and the rules
//! that people allowed for good.
//!
//! An [`AgentBuilder`](crate::AgentBuilder) applies all of it by itself. The parts are for programs
//! that are doors themselves and give [`build`](crate::build) a policy of their own making.

mod agents;
mod files;
mod kept_rules;
mod machine;
mod remote;

pub(crate) use agents::{Governing, Wanted};
pub use files::{read_text, write_private};
pub use kept_rules::KeptRules;
pub use machine::{MANAGED_FILE, SYSTEM_FOLDER, managed, managed_file, managed_hooks, mode_under};
pub use remote::{Held, Remote, Standing};

/// Why what governs could not be applied. Nothing runs then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GovernError {
    /// A file or what it asks for is wrong: somebody has to mend it. Names the file and the key.
    #[error("{0}")]
    Wrong(String),
    /// The machine failed, for example a full disk. Names the file.
    #[error("{0}")]
    Failed(String),
}

impl GovernError {
    /// Returns what is wrong, in words.
    #[must_use]
    pub fn message(&self) -> &str {
        let (GovernError::Wrong(message) | GovernError::Failed(message)) = self;
        message
    }

    fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        GovernError::Wrong(format!("read {}: {error}", path.display()))
    }
}
