//! What stands ready for sessions.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use driver_api::{Clock, Tool};

use super::kept::Kept;
use crate::{Origin, Server, names};

/// The servers, in the order of their parts of names.
#[derive(Debug)]
pub(crate) struct Shelf {
    servers: RwLock<Vec<Arc<Kept>>>,
    clock: Arc<dyn Clock>,
    pub(super) defer_threshold: usize,
}

impl Shelf {
    pub(super) fn new(clock: Arc<dyn Clock>, defer_threshold: usize) -> Self {
        Self { servers: RwLock::new(Vec::new()), clock, defer_threshold }
    }

    /// Returns the names of the servers that a folder is offered, as configured.
    pub(crate) fn server_names(&self, cwd: &str) -> Vec<String> {
        self.visible(Path::new(cwd)).iter().map(|kept| kept.server.name.clone()).collect()
    }

    /// Returns the tools that a search in a folder may find.
    pub(crate) fn tools(&self, cwd: &str) -> Vec<Arc<dyn Tool>> {
        self.offered(Path::new(cwd))
    }

    /// Returns the tools that a folder is offered, in the order of their names.
    pub(super) fn offered(&self, cwd: &Path) -> Vec<Arc<dyn Tool>> {
        let now = self.clock.elapsed();
        let mut tools: Vec<Arc<dyn Tool>> =
            self.visible(cwd).iter().flat_map(|kept| kept.offered(now)).collect();
        tools.sort_by(|one, other| one.spec().name.cmp(&other.spec().name));
        tools
    }

    /// Finds a tool of a server, connected or not.
    pub(super) fn find(&self, name: &str, cwd: &Path) -> Option<Arc<dyn Tool>> {
        self.visible(cwd).iter().find_map(|kept| kept.find(name))
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
        let is_gone = |kept: &Arc<Kept>| kept.server.origin == *origin && is_gone(&kept.server);
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
            .collect();
        names::server_part(&server.name, &taken)
    }

    fn visible(&self, cwd: &Path) -> Vec<Arc<Kept>> {
        let is_seen = |kept: &Arc<Kept>| match &kept.server.origin {
            Origin::Settings => true,
            Origin::Folder(folder) => cwd.starts_with(folder),
        };
        self.all().into_iter().filter(is_seen).collect()
    }
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
