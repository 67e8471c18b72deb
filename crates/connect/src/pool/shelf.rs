//! What stands ready for sessions.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use driver_api::{Clock, Place, Tool};
use protocol::NeuronId;

use super::kept::Kept;
use crate::{Origin, Server, names};

/// The servers, in the order of their parts of names.
#[derive(Debug)]
pub(crate) struct Shelf {
    servers: RwLock<Vec<Arc<Kept>>>,
    /// Those that are to run in neurons, with their parts of names, which are the same in each.
    for_neurons: RwLock<Vec<(Server, String)>>,
    clock: Arc<dyn Clock>,
    pub(super) defer_threshold: usize,
}

impl Shelf {
    pub(super) fn new(clock: Arc<dyn Clock>, defer_threshold: usize) -> Self {
        Self { servers: RwLock::default(), for_neurons: RwLock::default(), clock, defer_threshold }
    }

    /// Returns the names of the servers that a place is offered, as configured.
    pub(crate) fn server_names(&self, place: Place<'_>) -> Vec<String> {
        self.visible(place).iter().map(|kept| kept.server.name.clone()).collect()
    }

    /// Returns the tools that a place is offered, in the order of their names.
    pub(crate) fn offered(&self, place: Place<'_>) -> Vec<Arc<dyn Tool>> {
        let now = self.clock.elapsed();
        let mut tools: Vec<Arc<dyn Tool>> =
            self.visible(place).iter().flat_map(|kept| kept.offered(now)).collect();
        tools.sort_by(|one, other| one.spec().name.cmp(&other.spec().name));
        tools
    }

    /// Finds a tool of a server, connected or not.
    pub(super) fn find(&self, name: &str, place: Place<'_>) -> Option<Arc<dyn Tool>> {
        self.visible(place).iter().find_map(|kept| kept.find(name))
    }

    pub(super) fn all(&self) -> Vec<Arc<Kept>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn get(&self, origin: &Origin, name: &str) -> Option<Arc<Kept>> {
        let is_it = |kept: &Arc<Kept>| kept.server.origin == *origin && kept.server.name == name;
        self.all().into_iter().find(is_it)
    }

    pub(super) fn has(&self, server: &Server) -> bool {
        self.all().iter().any(|kept| kept.server == *server)
            || self.for_neurons().iter().any(|(known, _)| known == server)
    }

    /// Returns the servers that are to run in neurons, with their parts of names.
    pub(super) fn for_neurons(&self) -> Vec<(Server, String)> {
        self.for_neurons.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a server that is to run in neurons.
    pub(super) fn add_for_neurons(&self, server: Server, part: String) {
        self.for_neurons.write().unwrap_or_else(PoisonError::into_inner).push((server, part));
    }

    /// Returns a server as it runs in a neuron.
    pub(super) fn inside(&self, server: &Server, neuron: &NeuronId) -> Option<Arc<Kept>> {
        let is_it = |kept: &Arc<Kept>| is_in(kept, neuron) && kept.server == *server;
        self.all().into_iter().find(is_it)
    }

    /// Takes away a server that has ended for good.
    pub(super) fn forget(&self, gone: &Arc<Kept>) {
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|kept| !Arc::ptr_eq(kept, gone));
    }

    pub(super) fn add(&self, kept: Arc<Kept>) {
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        servers.push(kept);
        servers.sort_by(|one, other| one.part.cmp(&other.part));
    }

    /// Takes servers of an origin away and returns them.
    pub(super) fn remove(
        &self,
        origin: &Origin,
        is_gone: impl Fn(&Server) -> bool,
    ) -> Vec<Arc<Kept>> {
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        let is_gone = |server: &Server| server.origin == *origin && is_gone(server);
        let mut for_neurons = self.for_neurons.write().unwrap_or_else(PoisonError::into_inner);
        for_neurons.retain(|(server, _)| !is_gone(server));
        let is_gone = |kept: &Arc<Kept>| is_gone(&kept.server);
        let (gone, stay) = servers.drain(..).partition(is_gone);
        *servers = stay;
        gone
    }

    /// Returns the server's part of its tools' names: no other server has it that a session sees
    /// beside this one.
    pub(super) fn free_part(&self, server: &Server) -> String {
        let taken: HashSet<String> = self
            .all()
            .iter()
            .filter(|kept| may_meet(&kept.server.origin, &server.origin))
            .map(|kept| kept.part.clone())
            .chain(self.for_neurons().into_iter().map(|(_, part)| part))
            .collect();
        names::server_part(&server.name, &taken)
    }

    fn visible(&self, place: Place<'_>) -> Vec<Arc<Kept>> {
        let is_seen = |kept: &Arc<Kept>| match (&kept.inside, &kept.server.origin, place) {
            (Some(_), _, Place::Neuron(neuron)) => is_in(kept, neuron),
            (None, Origin::Settings, _) => true,
            (None, Origin::Folder(folder), Place::Folder(cwd)) => {
                Path::new(cwd).starts_with(folder)
            }
            (Some(_), _, Place::Folder(_)) | (None, Origin::Folder(_), Place::Neuron(_)) => false,
        };
        self.all().into_iter().filter(is_seen).collect()
    }
}

fn is_in(kept: &Kept, neuron: &NeuronId) -> bool {
    kept.inside.as_ref().is_some_and(|inside| inside.id == *neuron)
}

/// Tells whether a session may see servers of both.
fn may_meet(one: &Origin, other: &Origin) -> bool {
    match (one, other) {
        (Origin::Folder(one), Origin::Folder(other)) => {
            one.starts_with(other) || other.starts_with(one)
        }
        _ => true,
    }
}
