//! What this machine can do: found out by making a neuron of nothing, and ending it.
//!
//! Where that fails, each namespace is tried alone, so that all that is missing is told at once.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, shutdown, socket_with,
};
use rustix::process::{WaitOptions, geteuid, getpid, waitpid};

use super::failure::{At, Outcome};
use super::launch::{start, write_message};
use super::layer::{Layer, Layers};
use super::notes::Notes;
use super::plan::{Base, Failure, HostId, Limits, Missing, Plan, Probe};
use crate::sys::namespace::{fork_apart, landlock_abi};
use crate::sys::{self, Side};

/// A host id for the probe: above those of people and services, and of any other container.
const PROBE_ID: u32 = 99_999;

/// What the probe's neuron may use: enough to be made, and something of each limit.
const PROBE_LIMITS: Limits = Limits {
    memory_bytes: Some(64 << 20),
    pids: Some(64),
    cpu_millis: Some(1_000),
    disk_bytes: Some(1 << 20),
};

/// Tries everything in processes of its own, which are gone when it returns. Takes about as long
/// as to start a neuron.
///
/// Call it in a process with one thread, as the agent is.
pub fn probe() -> Probe {
    probe_with(Layers::ALL)
}

/// As [`probe`], for some of the layers.
pub(super) fn probe_with(layers: Layers) -> Probe {
    let mut probe =
        Probe { layers: Layers::NONE, missing: Vec::new(), landlock_abi: landlock_abi() };
    let started = unnamed_listener().and_then(|listener| start(&plan(layers), listener));
    match started {
        Ok(started) => {
            let report = started.report.clone();
            started.end();
            probe.layers = report.layers;
            probe.missing = report.missing;
            if layers.has(Layer::Protected) && report.layers.has(Layer::Mount) {
                probe.layers = probe.layers.with(Layer::Protected);
            }
        }
        Err(failure) => try_each(layers, &failure, &mut probe),
    }
    let told = |layer| probe.missing.iter().any(|entry: &Missing| entry.layer == layer);
    let silent: Vec<Layer> =
        Layer::ALL.into_iter().filter(|layer| !probe.layers.has(*layer) && !told(*layer)).collect();
    for layer in silent {
        let reason = format!("{} is switched off", layer.as_str());
        probe.missing.push(Missing { layer, reason });
    }
    probe
}

/// A neuron of the system folders, with its layers in memory.
fn plan(layers: Layers) -> Plan {
    let id = PROBE_ID;
    Plan {
        name: format!("probe-{}", getpid().as_raw_pid()),
        layers,
        base: Base::default(),
        layer: PathBuf::from("/"),
        disk: None,
        folder: None,
        home: PathBuf::from("/home/neuron"),
        host_id: geteuid().is_root().then_some(HostId { uid: id, gid: id }),
        limits: PROBE_LIMITS,
        cgroup_parents: Vec::new(),
        egress: None,
        files: Vec::new(),
    }
}

/// A socket without a file. Nobody is served on it: the neuron ends before it is let go.
fn unnamed_listener() -> Outcome<OwnedFd> {
    let step = "make a socket";
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).at(step)?;
    let name = format!("narthex-probe-{}", getpid().as_raw_pid());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).at(step)?;
    bind(&socket, &address).at(step)?;
    Ok(socket)
}

/// Which of the layers are at fault when no neuron can be made.
fn try_each(layers: Layers, failure: &Failure, probe: &mut Probe) {
    let mut notes = Notes::default();
    let flags = [
        (Layer::User, libc::CLONE_NEWUSER),
        (Layer::Mount, libc::CLONE_NEWNS),
        (Layer::Pid, libc::CLONE_NEWPID),
        (Layer::Network, libc::CLONE_NEWNET),
        (Layer::Ipc, libc::CLONE_NEWIPC),
        (Layer::Uts, libc::CLONE_NEWUTS),
    ];
    for (layer, flag) in flags.into_iter().filter(|(layer, _)| layers.has(*layer)) {
        let flag = u64::from((flag | libc::CLONE_NEWUSER).unsigned_abs());
        match fork_apart(flag, None) {
            Ok((Side::Child, _)) => sys::exit_now(0),
            Ok((Side::Parent(pid), _)) => {
                let _reaped = waitpid(Some(pid), WaitOptions::empty());
                notes.have(layer);
            }
            Err(error) => notes.lack(
                layer,
                format!(
                    "no {} namespace can be made: {error}; allow user namespaces \
                     (kernel.unprivileged_userns_clone, user.max_user_namespaces, \
                     kernel.apparmor_restrict_unprivileged_userns) or run as root",
                    layer.as_str()
                ),
            ),
        }
    }
    probe.layers = Layers::NONE;
    probe.missing = notes.missing;
    for layer in layers.iter() {
        let is_told = probe.missing.iter().any(|entry| entry.layer == layer);
        if !is_told {
            let reason = format!("no neuron can be made here: {failure}");
            probe.missing.push(Missing { layer, reason });
        }
    }
}

/// Probes, and writes the encoded result with its length in front to standard input, a socket.
pub(super) fn run() -> ExitCode {
    let Ok(stream) = sys::take_stream() else { return ExitCode::from(2) };
    sys::ignore_signals();
    let written = probe().encode().ok().is_some_and(|bytes| write_message(&stream, &bytes).is_ok());
    let _closed = shutdown(stream.as_fd(), rustix::net::Shutdown::Write);
    if written { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
