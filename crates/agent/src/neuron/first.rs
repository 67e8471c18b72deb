//! How a neuron's first process comes to be what it is: in a fork of the launcher, step by step,
//! with less at each, until nothing is left but a loop.

use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{
    DumpableBehavior, chdir, geteuid, getpid, set_child_subreaper, set_dumpable_behavior, setsid,
    umask,
};
use rustix::system::sethostname;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::failure::{At, Outcome, refused};
use super::layer::{Layer, Layers};
use super::notes::Notes;
use super::plan::{Answer, Failure, HostId, Plan, Report, WORKSPACE};
use super::relay::listen_inside;
use super::restrict::{Restrictions, become_user, limit};
use super::root;
use super::source::Sources;
use super::warden::{Door, Warden, WayOut};
use crate::sys;
use crate::sys::namespace::{empty_bounding_set, raise_loopback, unshare};

/// The launcher's word that the ids of the user namespace are set.
pub(super) const MAPPED: u8 = b'M';
/// That the process is in its cgroups.
pub(super) const PLACED: u8 = b'C';
/// That whoever wanted the neuron knows of it.
pub(super) const GO: u8 = b'G';
/// The answer to that: from here on the process no longer ends with the launcher.
pub(super) const GONE: u8 = b'A';

/// What the launcher's fork begins with.
#[derive(Debug)]
pub(super) struct First<'a> {
    pub(super) plan: &'a Plan,
    pub(super) sources: Sources,
    pub(super) listener: OwnedFd,
    pub(super) is_root: bool,
    /// The neuron's folder on the machine.
    pub(super) home: Option<OwnedFd>,
}

/// Becomes the first process and never returns. `control` leads to the launcher.
pub(super) fn become_first(first: First<'_>, control: OwnedFd) -> ! {
    let built = catch_unwind(AssertUnwindSafe(|| first.build(&control)));
    let failure = match built {
        Ok(Ok((warden, report))) => {
            if say(&control, &Answer::Up(report)).is_ok()
                && hear(&control, GO).is_ok()
                && send(&control, &[GONE], SendFlags::NOSIGNAL).is_ok()
            {
                drop(control);
                // A defect of the loop ends the neuron: nobody could reach it any more.
                let Err(_) = catch_unwind(AssertUnwindSafe(|| warden.keep()));
            }
            sys::exit_now(1)
        }
        Ok(Err(failure)) => failure,
        Err(_) => refused("build the neuron", "the agent has a defect"),
    };
    let _said = say(&control, &Answer::Failed(failure));
    sys::exit_now(1)
}

fn say(control: &OwnedFd, answer: &Answer) -> Outcome<()> {
    let bytes = answer.encode().map_err(|error| refused("answer", error.to_string()))?;
    send(control, &bytes, SendFlags::NOSIGNAL).at("answer").map(drop)
}

/// Waits for a word of the launcher. Its death ends everything.
fn hear(control: &OwnedFd, word: u8) -> Outcome<()> {
    let mut byte = [0];
    let step = "wait for the launcher";
    let (count, _) =
        rustix::io::retry_on_intr(|| recv(control, &mut byte, RecvFlags::empty())).at(step)?;
    if count == 1 && byte == [word] { Ok(()) } else { Err(refused(step, "it is gone")) }
}

impl First<'_> {
    fn build(self, control: &OwnedFd) -> Result<(Warden, Report), Failure> {
        sys::set_name(c"narthex-neuron");
        sys::ignore_signals();
        // Already a leader: then there is no terminal to get away from either.
        let _session = setsid();
        umask(Mode::from_raw_mode(0o022));
        let door = door(self.plan);
        if self.plan.layers == Layers::NONE {
            return self.build_plain(control, door);
        }
        let mut notes = Notes::default();
        let plan = self.plan;
        if plan.layers.has(Layer::Network) {
            unshare(libc::CLONE_NEWNET).at("make a network namespace")?;
        }
        let mut restrictions = Restrictions::prepare_calls(plan)?;
        hear(control, MAPPED)?;
        let has_user = plan.layers.has(Layer::User);
        if has_user && self.is_root {
            take_ids(HostId { uid: 0, gid: 0 })?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = open("/proc/self", flags, Mode::empty()).at("open /proc/self")?;
        let mut sources = self.sources;
        if !self.is_root {
            sources.open(plan, false)?;
        }
        let egress = if plan.layers.has(Layer::Mount) {
            root::build(plan, sources, &mut notes)?
        } else {
            sources.into_egress()
        };
        sys::blank_standard_files().at("open /dev/null")?;
        let way_out = open_network(plan, egress)?;
        restrictions.prepare_files(plan, &mut notes);
        hear(control, PLACED)?;
        if plan.layers.has(Layer::CgroupView) {
            match unshare(libc::CLONE_NEWCGROUP) {
                Ok(()) => notes.have(Layer::CgroupView),
                Err(error) => notes.lack(
                    Layer::CgroupView,
                    format!("the machine's cgroups can be seen: no namespace for them: {error}"),
                ),
            }
        }
        if has_user && plan.layers.has(Layer::Capabilities) {
            become_user(&own)?;
        } else if let Some(host_id) = plan.host_id.filter(|_| !has_user) {
            if plan.layers.has(Layer::Capabilities) {
                // With the other id the right to do so is gone.
                empty_bounding_set().at("empty the bounding set")?;
            }
            take_ids(host_id)?;
        }
        drop(own);
        limit(plan, &mut notes)?;
        if !plan.layers.has(Layer::Pid) {
            set_child_subreaper(Some(getpid())).at("take in orphans")?;
        }
        let warden = Warden::new(self.listener, door, way_out, self.home)?;
        restrictions.apply(plan, &mut notes)?;
        if plan.layers.has(Layer::Descriptors) {
            let mut open = warden.descriptors();
            open.push(control.as_raw_fd());
            sys::close_all_but(&mut open);
            notes.have(Layer::Descriptors);
        }
        set_dumpable_behavior(DumpableBehavior::NotDumpable).at("close /proc/1")?;
        note_namespaces(plan, &mut notes);
        Ok((warden, report(plan, notes)))
    }

    /// A daemon of the machine that listens, and nothing else.
    fn build_plain(self, control: &OwnedFd, door: Door) -> Result<(Warden, Report), Failure> {
        hear(control, MAPPED)?;
        hear(control, PLACED)?;
        chdir("/").at("enter /")?;
        set_child_subreaper(Some(getpid())).at("take in orphans")?;
        let warden = Warden::new(self.listener, door, None, self.home)?;
        Ok((warden, report(self.plan, Notes::default())))
    }
}

/// Who may connect to the neuron. In a user namespace everybody but its own user is nobody, root
/// too: there the mode of the socket alone tells who may.
fn door(plan: &Plan) -> Door {
    let creator = (!plan.layers.has(Layer::User)).then(|| geteuid().as_raw());
    Door { is_apart: plan.layers.has(Layer::Pid), creator }
}

/// Takes on a user and a group, and no other groups.
fn take_ids(ids: HostId) -> Outcome<()> {
    let step = "take on the neuron's ids";
    set_thread_groups(&[]).at(step)?;
    let (gid, uid) = (rustix::fs::Gid::from_raw(ids.gid), rustix::fs::Uid::from_raw(ids.uid));
    set_thread_res_gid(gid, gid, gid).at(step)?;
    set_thread_res_uid(uid, uid, uid).at(step)?;
    // With new ids a process is closed to itself, too, and could not write its own maps.
    set_dumpable_behavior(DumpableBehavior::Dumpable).at(step)
}

/// Names the machine and opens its one way out.
fn open_network(plan: &Plan, egress: Option<OwnedFd>) -> Outcome<Option<WayOut>> {
    if plan.layers.has(Layer::Uts) {
        sethostname(plan.name.as_bytes()).at("set the host name")?;
    }
    if plan.layers.has(Layer::Network) {
        raise_loopback().at("switch the loopback device on")?;
    }
    let Some((folder, egress)) = egress.zip(plan.egress.as_ref()) else { return Ok(None) };
    let inside = listen_inside().at("listen for the way out")?;
    Ok(Some(WayOut { inside, folder, socket: egress.socket.clone() }))
}

/// Namespaces that were asked for are there, or the process would not be.
fn note_namespaces(plan: &Plan, notes: &mut Notes) {
    for layer in [Layer::User, Layer::Pid, Layer::Network, Layer::Ipc, Layer::Uts] {
        if plan.layers.has(layer) {
            notes.have(layer);
        }
    }
}

fn report(plan: &Plan, notes: Notes) -> Report {
    Report {
        // The launcher knows it, and the cgroups.
        pid: 0,
        layers: notes.layers,
        missing: notes.missing,
        cgroups: Vec::new(),
        workspace: plan.folder.as_ref().map_or_else(|| WORKSPACE.into(), |f| f.path.clone()),
        is_in_memory: plan.keeps_layers_in_memory(),
    }
}
