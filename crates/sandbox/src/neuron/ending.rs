//! The end of a neuron.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ::agent::neuron::{find_cgroups, remove_cgroups};
use driver_api::NeuronError;
use protocol::NeuronId;

use super::driver::{Driver, failed};
use super::home::Folder;
use super::lock::{Holder, Lock};
use super::place::Taken;
use super::remove::remove_tree;
use super::seen::{Seen, look, owner_elsewhere};
use super::state::State;

/// How long to wait for whoever is creating, forking or destroying the same neuron: as long as a
/// creation may take, and some more.
const CHANGE_TIME: Duration = Duration::from_secs(60);

impl Driver {
    /// Ends a neuron with all that is in it and removes its files. Blocks.
    pub(super) fn destroy(&self, id: &NeuronId) -> Result<(), NeuronError> {
        if !self.home.path().is_dir() {
            return Err(NeuronError::NotFound(id.clone()));
        }
        let lock = self.change(id, CHANGE_TIME)?;
        let lock = lock.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))?;
        let seen = look(&self.home, id, true).map_err(failed(format!("look at neuron {id}")))?;
        let ended = match seen {
            Seen::Absent => Err(NeuronError::NotFound(id.clone())),
            Seen::Abandoned => self.clear(id).and(Err(NeuronError::NotFound(id.clone()))),
            Seen::Starting(_) | Seen::There(_) => self.clear(id),
        };
        lock.remove();
        ended
    }

    /// Refuses to replace a neuron that runs, or to make one more where there is no room, and
    /// removes what is there of one that does not run. The change lock must be held.
    pub(super) fn make_way(&self, id: &NeuronId) -> Result<(), NeuronError> {
        let seen = look(&self.home, id, true).map_err(failed(format!("look at neuron {id}")))?;
        if let Seen::There(there) = &seen
            && there.process.is_some()
        {
            let owner = owner_elsewhere(&self.home, id).map_err(failed("look for an owner"))?;
            return Err(match owner {
                Some(pid) => NeuronError::OwnedElsewhere(id.clone(), pid),
                None => NeuronError::Exists(id.clone()),
            });
        }
        if !matches!(seen, Seen::Absent) {
            // Asked again when the place is taken; asked here so that nothing is removed in vain.
            let taken = Taken::count(&self.home).map_err(failed("count neurons"))?;
            taken.has_room(self.neurons_max)?;
        }
        self.clear(id)
    }

    /// Ends and removes whatever there is of a neuron. The change lock must be held.
    pub(super) fn clear(&self, id: &NeuronId) -> Result<(), NeuronError> {
        // Closes the way out and lets go of connections and locks.
        let owned = self.owned().remove(id);
        drop(owned);
        let folder = self.home.folder(id);
        let what = format!("remove neuron {id}");
        for rest in [self.home.staged(id), self.home.old(id)] {
            self.end_processes(id, &rest).map_err(failed(&what))?;
            remove_tree(rest.path()).map_err(failed(&what))?;
        }
        self.end_processes(id, &folder).map_err(failed(&what))?;
        let old = self.home.old(id);
        match std::fs::rename(folder.path(), old.path()) {
            Ok(()) => remove_tree(old.path()).map_err(failed(&what)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(&what)(error)),
        }
    }

    pub(super) fn end_processes(&self, id: &NeuronId, folder: &Folder) -> io::Result<()> {
        if !folder.path().is_dir() {
            return Ok(());
        }
        let state = State::read(folder.path())?;
        // The one that was written down, and the one that listens: a crash may have come between.
        let known = state.as_ref().and_then(|state| state.process);
        let listening = super::door::Door::new(id.clone(), folder.path().to_owned());
        let listening = listening.first_process()?;
        let own = std::process::id();
        for process in known.into_iter().chain(listening).filter(|process| process.pid != own) {
            process.end()?;
        }
        let mut cgroups: Vec<PathBuf> = state.map(|state| state.cgroups).unwrap_or_default();
        if cgroups.is_empty() {
            cgroups = find_cgroups(&self.home.host_name(id), &[]);
        }
        remove_cgroups(&cgroups);
        Ok(())
    }

    /// Removes what somebody left who died while he created or destroyed a neuron: what is on its
    /// way in or out, and these `abandoned` ones. What somebody else is at work on is his, and
    /// what cannot be removed stays: nobody who wants another neuron is to suffer for it.
    pub(super) fn sweep(&self, abandoned: &[NeuronId]) {
        let passing = self.home.passing().unwrap_or_else(|error| {
            tracing::warn!(%error, "look for what a crash left of neurons");
            Vec::new()
        });
        for id in abandoned.iter().chain(&passing) {
            if let Err(error) = self.sweep_one(id) {
                self.complain(id, &error);
            }
        }
        if let Err(error) = self.sweep_warm() {
            self.complain(&NeuronId::new("ready"), &error);
        }
    }

    /// Ends those that a process had ready which is gone.
    fn sweep_warm(&self) -> io::Result<()> {
        let is_left = |id: &NeuronId| {
            Ok::<_, io::Error>(Lock::holder(&self.home.warm(id).owner_lock())? == Holder::Nobody)
        };
        let mut left = Vec::new();
        for id in self.home.warm_ids()? {
            if is_left(&id)? {
                left.push(id);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        self.home.make()?;
        // Who makes one has this lock until it is locked itself. Held by somebody else: the next
        // one who looks does this.
        let Ok(_places) = Lock::take(&self.home.places_lock())? else { return Ok(()) };
        for id in left {
            let folder = self.home.warm(&id);
            if folder.path().is_dir() && is_left(&id)? {
                self.end_processes(&id, &folder)?;
                remove_tree(folder.path())?;
            }
        }
        Ok(())
    }

    fn sweep_one(&self, id: &NeuronId) -> Result<(), NeuronError> {
        let path = self.home.change_lock(id);
        if Lock::holder(&path).map_err(failed("lock a neuron"))? != Holder::Nobody {
            return Ok(());
        }
        let Ok(lock) = self.change(id, Duration::ZERO)? else { return Ok(()) };
        let seen = look(&self.home, id, true).map_err(failed("look at a neuron"))?;
        let cleared = if matches!(seen, Seen::There(_)) {
            // The neuron itself is whole; what is left is of an earlier one of that name.
            let rests = [self.home.staged(id), self.home.old(id)];
            rests.iter().try_for_each(|rest| {
                self.end_processes(id, rest)?;
                remove_tree(rest.path()).map_err(io::Error::from)
            })
        } else {
            return self.clear(id).map(|()| lock.remove());
        };
        lock.remove();
        cleared.map_err(failed("remove what a crash left of a neuron"))
    }
}
