//! The tools that the session is offered, and what becomes of calls to those that are gone.

use std::sync::Arc;

use driver_api::Tool;

use super::Session;
use crate::engine::place;
use crate::engine::toolbox::Site;
use crate::kernel::Command;

impl Session {
    /// Looks which of the tools that the session was promised are there now.
    pub(super) fn renew_offer(&mut self) {
        let (names, site) = (&self.state.tools, self.site());
        self.live.offer = self.services.toolbox.offer(names, site, Some(&self.live.offer));
    }

    fn site(&self) -> Site<'_> {
        (place::of(&self.state), self.agent.tools.as_ref())
    }

    /// Finds a tool that the session is offered, by any of its names.
    pub(super) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.live.offer.find(name).cloned()
    }

    /// Says why a call to a tool cannot be made.
    pub(super) fn no_tool(&self, name: &str) -> String {
        if self.state.tools.iter().any(|known| known == name) {
            return format!(
                "the tool '{name}' is not there at the moment: whatever brings it is not \
                 connected. Do without it, or try it again later"
            );
        }
        let offered = self.live.offer.specs.iter().map(|spec| spec.name.as_str());
        let names: Vec<&str> = offered.collect();
        format!("there is no tool '{name}'; the tools are {}", names.join(", "))
    }

    /// Offers the session what a call has found for it, from the next step on.
    pub(super) fn activate(&mut self, names: Vec<String>) {
        let names = self.services.toolbox.activatable(names, self.site());
        self.apply_sure(Command::Activate { names });
    }
}
