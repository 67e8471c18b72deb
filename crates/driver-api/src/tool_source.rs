//! Tools that come from elsewhere.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Tool;

/// Brings tools that may come and go while the program runs, for example those of MCP servers.
///
/// `cwd` is the session's folder of the machine, real and absolute; empty for a session that acts
/// elsewhere, in a neuron: what belongs to a folder of the machine is not for it.
pub trait ToolSource: Send + Sync + Debug {
    /// Returns the tools that a session which begins now is offered, in a fixed order. Waits for
    /// nothing: what is not connected yet is left out, and so is a tool whose name a native tool
    /// has or that is not 1 to 64 letters, digits, `_` and `-`.
    fn offers(&self, cwd: &str) -> Vec<Arc<dyn Tool>>;

    /// Finds a tool by its name, offered or not: one that a session was offered before, or that
    /// it activated. None while it is gone; the model is then told so. Asked before each step and
    /// each call: it waits for nothing, and hands out the same tool as long as it is the same.
    fn find(&self, name: &str, cwd: &str) -> Option<Arc<dyn Tool>>;
}
