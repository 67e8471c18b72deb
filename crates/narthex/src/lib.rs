//! The Rust SDK: the assembly of drivers, policy and runtime.
//!
//! **What**: [`build`] makes a running [`Narthex`] of [`Options`].
//! **Knows** every crate of the lower floors.
//! **Never** reads settings files or the environment: that is `app`'s.

use std::ffi::OsString;
use std::path::PathBuf;

use protocol::Mode;

pub use model::Provider;
pub use policy::Policy;
pub use runtime_api::Handle;

/// What a Narthex is built of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder with everything that is kept (`NARTHEX_HOME`); created with mode 0700.
    pub home: PathBuf,
    /// The SQLite file; `home/narthex.db` where absent.
    pub store: Option<PathBuf>,
    /// The model of sessions that name none.
    pub model: Option<String>,
    /// The mode of sessions that name none.
    pub mode: Mode,
    /// The model servers.
    pub providers: Vec<Provider>,
    /// The scenario of the scripted model `demo`; the built-in one where absent.
    pub scenario: Option<PathBuf>,
    /// Managed, user and project layers. Session rules come with each session.
    pub policy: Policy,
    /// How to start the workspace agent: program and arguments.
    pub agent_command: Vec<OsString>,
}

/// A running Narthex.
#[derive(Debug)]
pub struct Narthex {
    handle: Handle,
}

/// Why a Narthex could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

impl Narthex {
    /// Returns the handle that doors take.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// Builds the house. Opens nothing to the outside.
///
/// # Errors
/// When the home folder or the store cannot be opened; the text says which and why.
pub async fn build(_options: Options) -> Result<Narthex, Error> {
    Err(Error("not assembled".into()))
}
