//! Checks: a program that examines a pending change and may find a reason against it.

use std::fmt::Debug;

use async_trait::async_trait;
use protocol::Finding;
use serde_json::{Map, Value};

use crate::{Fault, Workspace};

/// A call that has not run yet, as checks see it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingChange {
    /// The tool's native name.
    pub tool: String,
    /// The arguments.
    pub input: Map<String, Value>,
    /// The real paths that it touches.
    pub paths: Vec<String>,
    /// The change as a unified diff, where the tool can tell it beforehand.
    pub diff: Option<String>,
}

/// The checks that are set up.
#[async_trait]
pub trait Checks: Send + Sync + Debug {
    /// Examines a pending change. Called for every call that may do more than look, before
    /// anybody is asked. Dropping the future ends the program.
    ///
    /// # Errors
    /// When a check failed, took too long or answered in another form: the call is refused then.
    async fn examine(
        &self,
        change: &PendingChange,
        workspace: &dyn Workspace,
    ) -> Result<Vec<Finding>, Fault>;
}
