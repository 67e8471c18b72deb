//! What can go wrong inside, before it is told in the words of the waist.

use std::io;
use std::path::Path;

use driver_api::{CheckpointError, Fault};
use protocol::TreeId;

use crate::hash::Hash;

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the checkpoint {0} is not kept any more")]
    Gone(TreeId),
    /// The workspace is over a limit. Half a checkpoint would promise what it cannot hold.
    #[error("{0}")]
    TooMuch(String),
    /// A tree of nothing would promise that nothing changed.
    #[error("the workspace {0} is the folder of this program's own data, which is never captured")]
    OnlyOwn(String),
    #[error("the kept object {0} is missing")]
    Missing(Hash),
    #[error("the kept object {0} is damaged")]
    Damaged(Hash),
    #[error("the checkpoints are busy: {0} was locked for {1} seconds")]
    Busy(String, u64),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl Error {
    /// An error of the system while something was tried with a path.
    pub(crate) fn io(verb: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what: format!("{verb} {}", path.display()), source: source.into() }
    }
}

impl From<Error> for CheckpointError {
    fn from(error: Error) -> Self {
        match error {
            Error::Gone(tree) => Self::Gone(tree),
            Error::Io { what, source } => Self::Fault(Fault::with(what, source)),
            Error::TooMuch(_)
            | Error::OnlyOwn(_)
            | Error::Missing(_)
            | Error::Damaged(_)
            | Error::Busy(..) => Self::Fault(Fault::new(error.to_string())),
        }
    }
}
