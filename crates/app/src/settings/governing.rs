//! What governs: managed settings, the remote policy, and what a project may not grant.

use door_cli::Failure;
use narthex::governed::{self, Remote};
use narthex::{Layer, LayerName, Policy};

use super::{Origin, Settings};
use crate::policy::failure;

impl Settings {
    /// Leaves out what the project of the working folder allows: for a program that works in more
    /// folders than that one. What it forbids holds.
    pub(crate) fn leave_projects_grants_out(&mut self) {
        let grants = |layer: &Layer| layer.name == LayerName::Project && !layer.allow.is_empty();
        if !self.policy.layers().any(grants) {
            return;
        }
        self.policy = ungranted(&self.policy, grants);
        if let Some(remote) = &mut self.remote {
            remote.rebase(|base| ungranted(base, grants));
        }
        self.notices.push(format!(
            "there are several folders, so that what the project in {} allows is left out",
            self.places.cwd.display()
        ));
    }

    /// Applies managed settings, and the remote policy that is kept where they name one.
    pub(super) fn take_managed(&mut self, path: &std::path::Path) -> Result<(), Failure> {
        let managed = governed::managed(path).map_err(failure)?;
        self.govern(managed.layer.clone(), &Origin::File(LayerName::Managed, path.to_owned()));
        let hooks = governed::managed_hooks(&managed, path).map_err(failure)?;
        self.hook_sets.hooks.extend(hooks);
        if let Some(terms) = &managed.remote {
            let remote =
                Remote::kept(terms, &self.places.home, &self.policy).allow(&self.network_allow);
            self.notices.extend(remote.notice());
            if let Some(accepted) = remote.in_force() {
                let origin = Origin::File(LayerName::Remote, remote.file().to_owned());
                self.govern(accepted.layer.clone(), &origin);
            }
            self.remote = Some(remote);
        }
        self.managed = Some(managed);
        Ok(())
    }

    /// Adds a governing layer. A mode that nobody asked for out loud gives way to a locked one;
    /// one that a flag or variable asked for is refused by the runtime, so that nobody works in
    /// another mode than they think. A layer that came from outside never makes the mode wider:
    /// then the person has to choose.
    pub(crate) fn govern(&mut self, layer: Layer, origin: &Origin) {
        let is_spoken = matches!(self.mode.origin, Origin::Flag(_) | Origin::Variable(_));
        if !is_spoken {
            self.mode.take(governed::mode_under(&layer, self.mode.value), origin);
        }
        self.policy = self.policy.tighten(layer);
    }
}

/// Returns a policy without what some of its layers allow.
fn ungranted(policy: &Policy, grants: impl Fn(&Layer) -> bool) -> Policy {
    policy.layers().fold(Policy::default(), |policy, layer| {
        policy.tighten(match grants(layer) {
            true => Layer { allow: Vec::new(), ..layer.clone() },
            false => layer.clone(),
        })
    })
}
