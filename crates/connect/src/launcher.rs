//! Who starts a server's program: not this crate.

use std::fmt;

use async_trait::async_trait;
use driver_api::{Fault, Process};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::StdioServer;

/// Starts programs that live on: the assembly has one over its sandbox.
#[async_trait]
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts a server's program in a tree of its own, with pipes that stay open.
    ///
    /// # Errors
    /// A fault that says what to do where the program is missing; nothing runs then.
    async fn launch(&self, server: &StdioServer) -> Result<Child, Fault>;
}

/// A program that runs.
pub struct Child {
    /// What it reads. Dropping it closes it, which asks the program to end by itself.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it says.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The lines of its standard error, bounded: a launcher cuts long lines and drops lines
    /// rather than make the program wait. Those that it said last are there once
    /// [`Process::wait`] returns.
    pub stderr: mpsc::Receiver<String>,
    /// The program and all that descends from it. Dropping it ends the tree.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("process", &self.process).finish_non_exhaustive()
    }
}
