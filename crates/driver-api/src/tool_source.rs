//! Tools that come from elsewhere.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::NeuronId;

use crate::{Tool, Workspace};

/// Where a session acts, for whoever brings tools to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In a folder of the machine, real and absolute.
    Folder(&'a str),
    /// In a neuron: what belongs to a folder of the machine is not for it.
    Neuron(&'a NeuronId),
}

/// Brings tools that may come and go while the program runs, for example those of MCP servers.
#[async_trait]
pub trait ToolSource: Send + Sync + Debug {
    /// Returns the tools that a session which begins now is offered, in a fixed order. Waits for
    /// nothing: what is not connected yet is left out, and so is a tool whose name a native tool
    /// has or that is not 1 to 64 letters, digits, `_` and `-`.
    fn offers(&self, place: Place<'_>) -> Vec<Arc<dyn Tool>>;

    /// Finds a tool by its name, offered or not: one that a session was offered before, or that
    /// it activated. None while it is gone; the model is then told so. Asked before each step and
    /// each call: it waits for nothing, and hands out the same tool as long as it is the same.
    fn find(&self, name: &str, place: Place<'_>) -> Option<Arc<dyn Tool>>;

    /// Is told that a session begins in a neuron, or is prompted there: what brings tools inside
    /// of it is started through its workspace, once for all of its sessions. Returns when that
    /// stands or failed, after a few seconds at most; at once where nothing is to be started.
    async fn enter(&self, neuron: &NeuronId, workspace: &Arc<dyn Workspace>) {
        let _ = (neuron, workspace);
    }
}
