//! What can be seen of a neuron from outside.

use std::io;
use std::path::Path;

use driver_api::{NeuronInfo, NeuronState, Writes};
use protocol::{NeuronId, Timestamp};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::home::{Folder, Home};
use super::lock::{Holder, Lock};
use super::process::Identity;
use super::state::{Phase, State};

/// A neuron on disk.
#[derive(Debug)]
pub(super) enum Seen {
    /// There is none.
    Absent,
    /// Somebody creates it.
    Starting(Box<State>),
    /// Somebody died while he created it.
    Abandoned,
    /// It is there.
    There(Box<There>),
}

/// A neuron that was created.
#[derive(Debug)]
pub(super) struct There {
    /// Absent where the file is lost.
    pub(super) state: Option<State>,
    /// Its first process, where it lives.
    pub(super) process: Option<Identity>,
    created_at: Timestamp,
}

/// Looks at a neuron. `is_locked` says that this very task holds its change lock, so that nobody
/// else is creating it.
pub(super) fn look(home: &Home, id: &NeuronId, is_locked: bool) -> io::Result<Seen> {
    let folder = home.folder(id);
    if !is_there(&folder)? {
        return Ok(Seen::Absent);
    }
    match look_at(home, id, is_locked) {
        // It was destroyed while it was looked at.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_there(&folder)? => {
            Ok(Seen::Absent)
        }
        seen => seen,
    }
}

fn is_there(folder: &Folder) -> io::Result<bool> {
    match folder.path().symlink_metadata() {
        Ok(facts) => Ok(facts.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn look_at(home: &Home, id: &NeuronId, is_locked: bool) -> io::Result<Seen> {
    let folder = home.folder(id);
    let state = State::read(folder.path())?;
    if let Some(state) = state.as_ref().filter(|state| state.phase == Phase::Starting) {
        if !is_locked && Lock::holder(&home.change_lock(id))? != Holder::Nobody {
            return Ok(Seen::Starting(Box::new(state.clone())));
        }
        // The lock is let go after the file is written: what was read may be old.
        let again = if is_locked { None } else { State::read(folder.path())? };
        return match again {
            Some(state) if state.phase == Phase::Created => there(home, id, Some(state)),
            _ => Ok(Seen::Abandoned),
        };
    }
    there(home, id, state)
}

fn there(home: &Home, id: &NeuronId, state: Option<State>) -> io::Result<Seen> {
    let process = match &state {
        Some(State { process: Some(process), .. }) => process.is_alive()?.then_some(*process),
        Some(_) => None,
        // Nobody wrote down which process it was, but it listens.
        None => home.door(id).first_process()?,
    };
    let created_at = match &state {
        Some(state) => state.created_at,
        None => made_at(home.folder(id).path())?,
    };
    Ok(Seen::There(Box::new(There { state, process, created_at })))
}

/// When a folder was made; where the file system does not know, when it was last changed.
fn made_at(folder: &Path) -> io::Result<Timestamp> {
    let wanted = StatxFlags::BTIME | StatxFlags::CTIME;
    let facts = statx(CWD, folder, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let has_birth = facts.stx_mask & StatxFlags::BTIME.bits() != 0 && facts.stx_btime.tv_sec > 0;
    let time = if has_birth { facts.stx_btime } else { facts.stx_ctime };
    Ok(Timestamp(time.tv_sec.saturating_mul(1_000) + i64::from(time.tv_nsec / 1_000_000)))
}

/// Describes a neuron, where there is one.
pub(super) fn info(home: &Home, id: &NeuronId) -> io::Result<Option<NeuronInfo>> {
    Ok(match look(home, id, false)? {
        Seen::Absent | Seen::Abandoned => None,
        Seen::Starting(state) => {
            Some(describe(id, Some(&state), (NeuronState::Starting, None), state.created_at))
        }
        Seen::There(there) => {
            let is_running = there.process.is_some();
            let stage = if is_running { NeuronState::Running } else { NeuronState::Stopped };
            let stage = (stage, there.process);
            let mut info = describe(id, there.state.as_ref(), stage, there.created_at);
            if is_running {
                info.owner_pid = owner_elsewhere(home, id)?;
            }
            Some(info)
        }
    })
}

/// Returns the living process that owns a neuron, if that is another one.
pub(super) fn owner_elsewhere(home: &Home, id: &NeuronId) -> io::Result<Option<u32>> {
    Ok(match Lock::holder(&home.folder(id).owner_lock())? {
        Holder::Process(pid) if pid != std::process::id() => Some(pid),
        Holder::Process(_) | Holder::Nobody => None,
    })
}

fn describe(
    id: &NeuronId,
    state: Option<&State>,
    (stage, process): (NeuronState, Option<Identity>),
    created_at: Timestamp,
) -> NeuronInfo {
    NeuronInfo {
        id: id.clone(),
        state: stage,
        created_at,
        driver: state.map(State::driver),
        isolation: state.filter(|_| stage != NeuronState::Starting).map(State::isolation),
        pid: process.map(|process| process.pid),
        workspace: state.map(|state| state.workspace.clone()),
        folder: state.and_then(|state| state.folder.clone()),
        writes: state.map_or(Writes::Overlay, State::writes),
        owner_pid: None,
    }
}
