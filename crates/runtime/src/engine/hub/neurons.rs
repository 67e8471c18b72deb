//! Sessions in neurons: which they are, and whether they can be entered.

use std::sync::Arc;

use driver_api::Workspace;
use protocol::{EventBody, Seq, SessionId};
use runtime_api::{Error, SessionInfo};

use super::slots::{Core, Neuron, Slot};
use crate::engine::place::{self, Site};
use crate::engine::stored::refused;

/// How many sessions it is remembered of where they act: those that lists show again and again.
const KNOWN_MAX: usize = 10_000;

impl Core {
    /// Enters the neuron of a session anew, for a prompt: it may have been made again since, or be
    /// gone. None for a session in a folder of the machine.
    ///
    /// # Errors
    /// `neuron_not_found`, `neuron_not_running`, `owned_elsewhere`, and `invalid` where its folder
    /// in there has gone.
    pub(super) async fn enter_neuron(
        &self,
        slot: &Slot,
    ) -> Result<Option<Arc<dyn Workspace>>, Error> {
        let Some(SessionInfo { neuron: Some(neuron), sandbox, cwd, .. }) = slot.info() else {
            return Ok(None);
        };
        let options = &self.services.options;
        let site = Site { neuron: Some(&neuron), sandbox, cwd: &cwd };
        let workspace = place::reopen(options, site, &[]).await?;
        place::bring_tools(options, Some(&neuron), &workspace).await;
        Ok(Some(workspace))
    }

    /// Returns the neuron that a stored session acts in. Its first event says so, which never
    /// changes; one that cannot be read is taken for a session in a folder.
    pub(super) async fn neuron_of(&self, id: &SessionId) -> Result<Option<Neuron>, Error> {
        if self.services.options.neurons.is_none() {
            return Ok(None);
        }
        if let Some(known) = self.known_neurons().get(id) {
            return Ok(known.clone());
        }
        let first = self.services.options.store.read(id, Seq(1), 1).await.map_err(refused)?.pop();
        let neuron = match first.and_then(|row| EventBody::decode(row.kind, &row.body).ok()) {
            Some(EventBody::SessionStart(start)) => {
                start.neuron.map(|neuron| (neuron, start.sandbox))
            }
            _ => None,
        };
        let mut known = self.known_neurons();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id.clone(), neuron.clone());
        Ok(neuron)
    }
}
