//! Who starts a server's program: not this crate.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{Fault, Process, Workspace};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{LastLines, StdioServer};

/// Starts programs that live on: the assembly has one over its sandbox.
#[async_trait]
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts a server's program in a tree of its own, with pipes that stay open: on this machine,
    /// or through the workspace of the neuron that it is to run in.
    ///
    /// # Errors
    /// A fault that says what to do where the program is missing; nothing runs then. One for a
    /// neuron means that nothing can be started in it, as it is.
    async fn launch(
        &self,
        server: &StdioServer,
        inside: Option<&Arc<dyn Workspace>>,
    ) -> Result<Child, Fault>;
}

/// A program that runs.
pub struct Child {
    /// What it reads. Dropping it closes it, which asks the program to end by itself.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it says.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it said last on standard error; all of it is there once [`Process::wait`] returns.
    pub stderr: LastLines,
    /// The program and all that descends from it. Dropping it ends the tree.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("process", &self.process).finish_non_exhaustive()
    }
}
