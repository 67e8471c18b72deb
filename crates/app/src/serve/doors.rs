//! The doors of a server, behind one gate.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use door_v1::Options;
use http_kit::{GateOptions, Tokens, gated, problem_details};
use narthex::Handle;
use runtime_api::AgentSettings;
use tokio_util::sync::CancellationToken;

use super::cortex::CortexDoor;
use super::measures::Measures;

/// What the doors are given.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) handle: Handle,
    pub(super) measures: Measures,
    /// The folders in which sessions may work.
    pub(super) roots: Vec<PathBuf>,
    pub(super) agent: AgentSettings,
    pub(super) model: Option<String>,
    /// Whether only this machine reaches the listener.
    pub(super) is_loopback: bool,
    /// Web origins beside those of this machine.
    pub(super) origins: Vec<String>,
    pub(super) tokens: Arc<dyn Tokens>,
    /// The cortex door, where it is opened as well.
    pub(super) cortex: Option<CortexDoor>,
}

impl Doors {
    /// Makes the routes of all doors.
    pub(super) fn routes(self, stopping: CancellationToken) -> Router {
        let own = self.measures.routes(self.handle.clone());
        let v1 = door_v1::router(Options {
            handle: self.handle,
            roots: self.roots,
            agent: self.agent,
            // The runtime has it, and knows of locks that come later.
            mode: None,
            model: self.model,
            version: env!("CARGO_PKG_VERSION"),
            stopping: stopping.clone(),
        });
        let measures = self.measures.clone();
        let gate = GateOptions {
            tokens: self.tokens,
            is_loopback: self.is_loopback,
            origins: self.origins,
            open: door_v1::OPEN,
            render: door_v1::problem,
        };
        // Routes of no door say what is wrong in the words of RFC 9457.
        let own_gate = GateOptions { open: &[], render: problem_details, ..gate.clone() };
        let own = self.measures.counted(gated(own, own_gate));
        let v1 = self.measures.counted(gated(v1, gate));
        // Set after the gate of the first: what falls through passes that of the door alone.
        let routes = own.fallback_service(v1);
        match self.cortex {
            Some(cortex) => cortex.before(routes, &measures, stopping),
            None => routes,
        }
    }
}
