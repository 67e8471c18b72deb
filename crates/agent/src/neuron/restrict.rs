//! The last steps of a neuron's first process: what it gives up for itself and for all that it
//! will start. From the first of them on, it can no longer build anything.

use std::io::Read;
use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use seccompiler::{BpfProgram, apply_filter};

use super::calls;
use super::failure::{At, Outcome, refused};
use super::layer::Layer;
use super::notes::Notes;
use super::plan::{INSIDE_ID, Plan};
use crate::handover::write_all;
use crate::sys::namespace::{empty_bounding_set, unshare};

/// What is restricted as far as the kernel can: every right that this version knows.
const KNOWN_ABI: ABI = ABI::V7;

/// Prepared while everything can still be done.
#[derive(Debug)]
pub(super) struct Restrictions {
    calls: Option<BpfProgram>,
    files: Option<RulesetCreated>,
}

impl Restrictions {
    /// Compiles the filter of system calls: while others work, since it takes a while.
    pub(super) fn prepare_calls(plan: &Plan) -> Outcome<Self> {
        let calls = plan.layers.has(Layer::Seccomp).then(calls::filter);
        let calls = calls
            .transpose()
            .map_err(|error| refused("compile the filter of system calls", error.to_string()))?;
        Ok(Self { calls, files: None })
    }

    /// Names the files that may be used. Call it when the root is in place.
    pub(super) fn prepare_files(&mut self, plan: &Plan, notes: &mut Notes) {
        let is_asked = plan.layers.has(Layer::Landlock) && plan.layers.has(Layer::Mount);
        let files = is_asked.then(ruleset).transpose();
        self.files = files.unwrap_or_else(|error| {
            notes.lack(Layer::Landlock, format!("landlock cannot be set up: {error}"));
            None
        });
    }

    /// Applies them, the filter of system calls last.
    pub(super) fn apply(self, plan: &Plan, notes: &mut Notes) -> Outcome<()> {
        if plan.layers.has(Layer::Capabilities) {
            if plan.layers.has(Layer::User) {
                empty_bounding_set().at("empty the bounding set")?;
            }
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, none).at("drop capabilities")?;
            notes.have(Layer::Capabilities);
        }
        if plan.layers.has(Layer::NoNewPrivileges) {
            set_no_new_privs(true).at("set no_new_privs")?;
            notes.have(Layer::NoNewPrivileges);
        }
        if let Some(files) = self.files {
            match files.restrict_self() {
                Ok(status) => note_landlock(&status, notes),
                Err(error) => notes.lack(Layer::Landlock, format!("landlock: {error}")),
            }
        }
        if let Some(calls) = self.calls {
            apply_filter(&calls)
                .map_err(|error| refused("filter system calls", error.to_string()))?;
            notes.have(Layer::Seccomp);
        }
        Ok(())
    }
}

/// Everything may be done below the root but making devices, and in `/proc` only reading. What is
/// not below the root (a descriptor of the machine that came in somehow) is out of reach.
fn ruleset() -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let all = AccessFs::from_all(KNOWN_ABI);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(KNOWN_ABI))?
        .create()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    let ruleset = allow_below_root(ruleset, &root, all, flags)?;
    Ok(ruleset)
}

fn allow_below_root(
    ruleset: RulesetCreated,
    root: &OwnedFd,
    all: landlock::BitFlags<AccessFs>,
    flags: OFlags,
) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let read = AccessFs::from_read(KNOWN_ABI);
    let usual = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    // Rights add up on the way to the root, so a right for all of it could not be taken back in
    // `/proc`: the folders get theirs one by one.
    let mut ruleset = ruleset.add_rule(PathBeneath::new(root, read))?;
    for entry in std::fs::read_dir("/")?.flatten() {
        if entry.file_name() == "proc" || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let folder = openat(root, entry.file_name(), flags, Mode::empty())?;
        ruleset = ruleset.add_rule(PathBeneath::new(folder, usual))?;
    }
    Ok(ruleset)
}

fn note_landlock(status: &RestrictionStatus, notes: &mut Notes) {
    let state = match status.landlock {
        LandlockStatus::NotEnabled => "it is switched off: add landlock to the lsm= of the kernel",
        LandlockStatus::NotImplemented => "this kernel has none: it came with Linux 5.13",
        LandlockStatus::Available { .. } => "this kernel has an old version of it",
    };
    if status.ruleset != RulesetStatus::NotEnforced {
        notes.have(Layer::Landlock);
    }
    if status.ruleset != RulesetStatus::FullyEnforced {
        notes.lack(Layer::Landlock, format!("not all rules of landlock are in force: {state}"));
    }
}

/// Leaves the user namespace in which everything was built for one below it, where the neuron's
/// user has no rights over what was built. `own` is `/proc/self` of the machine.
pub(super) fn become_user(own: &OwnedFd) -> Outcome<()> {
    let step = "enter the inner user namespace";
    unshare(libc::CLONE_NEWUSER).at(step)?;
    // Opened only now: the kernel looks at the namespace of whoever opened it.
    for (name, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{INSIDE_ID} 0 1")),
        ("gid_map", format!("{INSIDE_ID} 0 1")),
    ] {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(own, name, flags, Mode::empty()).at(step)?;
        write_all(&file, text.as_bytes()).at(step)?;
    }
    limit_user(own)
}

/// What the inner user namespace may have: no namespace below it, in which somebody would have
/// rights again, and half of what the kernel lets one user of the machine watch. Without that a
/// neuron could use up what is counted for whoever started it.
fn limit_user(own: &OwnedFd) -> Outcome<()> {
    let step = "limit the inner user namespace";
    set_count(own, "max_user_namespaces", 0).at(step)?;
    for (name, machine) in [
        ("max_inotify_instances", "fs/inotify/max_user_instances"),
        ("max_inotify_watches", "fs/inotify/max_user_watches"),
    ] {
        if let Some(count) = count_of(own, machine) {
            set_count(own, name, count / 2).at(step)?;
        }
    }
    Ok(())
}

fn set_count(own: &OwnedFd, name: &str, count: u64) -> std::io::Result<()> {
    let path = format!("../sys/user/{name}");
    match openat(own, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => write_all(&file, count.to_string().as_bytes()),
        // A kernel without such a limit.
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A number among the kernel's settings; nothing where it has none.
fn count_of(own: &OwnedFd, name: &str) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(own, format!("../sys/{name}"), flags, Mode::empty()).ok()?;
    let mut text = String::new();
    // A number and a line's end.
    std::fs::File::from(file).take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Limits of the process and of all that it starts.
pub(super) fn limit(plan: &Plan, notes: &mut Notes) -> Outcome<()> {
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    // A core dump would be written by the machine, wherever that sends them: for many to a program
    // that runs as root there. That one is called with a limit of 0 too, and left alone with 1.
    setrlimit(Resource::Core, both(1)).at("limit core files")?;
    if let Some(pids) = plan.limits.pids.filter(|_| plan.layers.has(Layer::Pids)) {
        // Counted for this user namespace alone.
        setrlimit(Resource::Nproc, both(u64::from(pids))).at("limit processes")?;
        notes.have(Layer::Pids);
    }
    Ok(())
}
