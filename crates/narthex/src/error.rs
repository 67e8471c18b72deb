//! Why the SDK could not do what it was asked for.

use protocol::{Refusal, RefusalCode};
use runtime_api::Fault;

use crate::assemble;
use crate::governed::GovernError;

/// Why an agent could not be built, or could not do what it was asked for.
///
/// A turn that ends otherwise than completed is no error: its
/// [`reason`](crate::RunResult::reason) tells.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option of the builder is missing or wrong.
    #[error("{option}: {reason}")]
    Option {
        /// The builder's method.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The store, a folder or a model server could not be set up.
    #[error(transparent)]
    Build(#[from] assemble::Error),
    /// What governs the machine cannot be read, or requires a remote policy that is not there.
    #[error(transparent)]
    Governed(#[from] GovernError),
    /// An expected no, for example of a policy.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A failure of the machine or of Narthex.
    #[error(transparent)]
    Failed(#[from] Fault),
    /// The agent was closed.
    #[error("the agent is closed")]
    Closed,
}

impl Error {
    /// Returns the code of an expected no.
    #[must_use]
    pub fn code(&self) -> Option<RefusalCode> {
        match self {
            Error::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    pub(crate) fn option(option: &'static str, reason: impl Into<String>) -> Self {
        Error::Option { option, reason: reason.into() }
    }
}

impl From<runtime_api::Error> for Error {
    fn from(error: runtime_api::Error) -> Self {
        match error {
            runtime_api::Error::Refusal(refusal) => Error::Refused(refusal),
            runtime_api::Error::Fault(fault) => Error::Failed(fault),
        }
    }
}
