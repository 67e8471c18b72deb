//! Where rules are kept that people allow for good.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use protocol::event::Persist;

use crate::Fault;

/// Keeps rules beyond a session's life.
#[async_trait]
pub trait RuleBook: Send + Sync + Debug {
    /// Keeps an allow rule for the project at `root` or for the user; the same rule twice is kept
    /// once. Never called with [`Persist::Session`]. Durable when it returns.
    ///
    /// # Errors
    /// When it cannot be written; nothing is changed then.
    async fn keep(&self, level: Persist, root: &Path, rule: &str) -> Result<(), Fault>;
}
