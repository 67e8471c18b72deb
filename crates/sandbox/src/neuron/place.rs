//! A place for one more neuron: below the ceiling, with a user of its own.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;

use ::agent::neuron::layout;
use driver_api::NeuronError;
use protocol::NeuronId;

use super::home::{Folder, Home};
use super::lock::{Holder, Lock};
use super::process::Identity;
use super::state::{Phase, State};

/// What neurons there are take up.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// How many run or are being created.
    alive: usize,
    uids: BTreeSet<u32>,
    /// Those whose creator died.
    pub(super) abandoned: Vec<NeuronId>,
}

impl Taken {
    /// Counts. The lock of places must be held, so that nobody else takes what is seen as free.
    pub(super) fn count(home: &Home) -> io::Result<Self> {
        let mut taken = Self::default();
        for id in home.ids()? {
            if !taken.add(&home.folder(&id))?
                && Lock::holder(&home.change_lock(&id))? == Holder::Nobody
            {
                taken.alive -= 1;
                taken.abandoned.push(id);
            }
        }
        for id in home.passing()? {
            taken.add(&home.staged(&id))?;
            taken.add(&home.old(&id))?;
        }
        // Those that wait are beside the ceiling, but their users are theirs.
        for id in home.warm_ids()? {
            taken.add_user(&home.warm(&id))?;
        }
        Ok(taken)
    }

    /// Looks at the users alone, without reading what is known of each neuron: for those of whom
    /// there are fewer than may be. The lock of places must be held.
    pub(super) fn users(home: &Home, ids: &[NeuronId]) -> io::Result<Self> {
        let mut taken = Self::default();
        let mut folders: Vec<Folder> = ids.iter().map(|id| home.folder(id)).collect();
        for id in home.passing()? {
            folders.extend([home.staged(&id), home.old(&id)]);
        }
        folders.extend(home.warm_ids()?.iter().map(|id| home.warm(id)));
        for folder in folders {
            match folder.layer().symlink_metadata().map(|facts| facts.uid()) {
                Ok(uid) if uid != 0 => drop(taken.uids.insert(uid)),
                // It has none, or is just about to have it.
                _ => drop(taken.add_user(&folder)?),
            }
        }
        Ok(taken)
    }

    /// Refuses where as many as may be are there.
    pub(super) fn has_room(&self, neurons_max: usize) -> Result<(), NeuronError> {
        if self.alive < neurons_max {
            return Ok(());
        }
        let text = format!("{} neurons run, no more may: destroy one first", self.alive);
        Err(NeuronError::Capacity(text))
    }

    /// Returns whether its creation is over.
    fn add(&mut self, folder: &Folder) -> io::Result<bool> {
        let Some(state) = self.add_user(folder)? else { return Ok(true) };
        let is_alive = state.process.map(Identity::is_alive).transpose()?.unwrap_or(false);
        let is_over = state.phase != Phase::Starting;
        self.alive += usize::from(is_alive || !is_over);
        Ok(is_over)
    }

    /// Counts the user of a neuron, also of one that is stopped: its files are still this user's.
    /// Returns its state, where that is not lost.
    fn add_user(&mut self, folder: &Folder) -> io::Result<Option<State>> {
        // One that cannot be read is nobody else's trouble: it counts as lost.
        let state = State::read(folder.path()).unwrap_or_default();
        match &state {
            Some(state) => self.uids.extend(state.uid),
            // Whose its files are can be seen.
            None => {
                let layer = folder.layer();
                let seen = [layer.join(layout::HOME), layer].map(|path| path.symlink_metadata());
                let users = seen.into_iter().flatten().map(|facts| facts.uid());
                // What is root's was never given away.
                self.uids.extend(users.filter(|uid| *uid != 0));
            }
        }
        Ok(state)
    }

    /// Returns the first user from `base` on that no neuron has, and that no process of the
    /// machine runs as: another home may have given it away.
    pub(super) fn free_uid(&self, base: u32) -> io::Result<u32> {
        let mut busy = self.uids.clone();
        for entry in std::fs::read_dir("/proc")? {
            // A process may be gone by now.
            busy.extend(entry?.metadata().ok().map(|facts| facts.uid()));
        }
        // At most as many are busy as were counted, so one of these is free.
        let candidates = (0..=busy.len()).filter_map(|count| u32::try_from(count).ok());
        let mut free = candidates.filter_map(|count| base.checked_add(count));
        free.find(|uid| !busy.contains(uid))
            .ok_or_else(|| io::Error::other("no user id is free for a neuron"))
    }
}
