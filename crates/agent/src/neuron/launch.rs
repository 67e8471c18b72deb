//! The launcher: a fresh process that reads a plan, starts a neuron's first process, sets what can
//! only be set from outside, and leaves when the neuron is up.

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, mkdirat, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown,
    SocketFlags, SocketType, recv, recvmsg, send, shutdown, socketpair,
};
use rustix::process::{
    Pid, Signal, WaitOptions, getegid, geteuid, kill_process, setpriority_process, umask, waitpid,
};

use super::disk::mount_image;
use super::failure::{At, Outcome, missing, refused};
use super::first::{First, GO, GONE, MAPPED, PLACED, become_first};
use super::groups::{self, Groups, remove_cgroups};
use super::layer::{Layer, Layers};
use super::notes::Notes;
use super::plan::{Answer, HostId, MESSAGE_MAX, Plan, Report};
use super::root::layer_folders;
use super::source::Sources;
use crate::handover::write_all;
use crate::sys::namespace::fork_apart;
use crate::sys::{self, Side};

/// How long whoever started the launcher may take to send the plan, or to read the answer.
const PLAN_TIME: Duration = Duration::from_secs(10);

/// How long the first process may take: a file system that hangs must not hang the launcher. Less
/// than the half minute that a driver waits for the launcher, or the reason would come too late to
/// be heard.
const BUILD_TIME: Duration = Duration::from_secs(20);

/// The priority of what may be late.
const LEAST_URGENT: i32 = 19;

/// How many bytes the first process's report may have: a few reasons with paths in them.
const REPORT_MAX: usize = 64 << 10;

/// Runs the launcher on its standard input. See [`Plan`].
pub(super) fn run() -> ExitCode {
    let Ok(stream) = sys::take_stream() else { return ExitCode::from(2) };
    // Whoever wants the neuron may be gone: an error of `write`, not a death half-way.
    sys::ignore_signals();
    let ordered = take_order(&stream);
    let started = ordered.and_then(|(plan, listener)| start(&plan, listener));
    let (answer, started) = match started {
        Ok(started) => (Answer::Up(started.report.clone()), Some(started)),
        Err(failure) => (Answer::Failed(failure), None),
    };
    let told = tell(&stream, &answer);
    match (told, started) {
        (Ok(()), Some(started)) => started.release(&stream),
        (Err(_), Some(started)) => {
            started.end();
            ExitCode::FAILURE
        }
        (_, None) => ExitCode::FAILURE,
    }
}

/// Reads the plan and the descriptor that comes with it.
fn take_order(stream: &OwnedFd) -> Outcome<(Plan, OwnedFd)> {
    let step = "read the plan";
    set_socket_timeout(stream, Timeout::Recv, Some(PLAN_TIME)).at(step)?;
    set_socket_timeout(stream, Timeout::Send, Some(PLAN_TIME)).at(step)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let mut head = [0; 4];
    let received = retry_on_intr(|| {
        recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut along, RecvFlags::CMSG_CLOEXEC)
    });
    let have = received.at(step)?.bytes;
    let listener = along.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    read_all(stream, head.get_mut(have..).unwrap_or_default()).at(step)?;
    let len = u32::from_le_bytes(head) as usize;
    if len > MESSAGE_MAX {
        return Err(refused(step, format!("{len} bytes are over the limit of {MESSAGE_MAX}")));
    }
    let mut bytes = vec![0; len];
    read_all(stream, &mut bytes).at(step)?;
    let plan = Plan::decode(&bytes).map_err(|error| refused(step, error.to_string()))?;
    let listener = listener.ok_or_else(|| refused(step, "no socket came with it"))?;
    Ok((plan, listener))
}

fn read_all(stream: &OwnedFd, mut room: &mut [u8]) -> Result<(), Errno> {
    while !room.is_empty() {
        match retry_on_intr(|| rustix::io::read(stream, &mut *room))? {
            0 => return Err(Errno::CONNRESET),
            count => room = room.get_mut(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Writes a message with its length in front.
fn tell(stream: &OwnedFd, answer: &Answer) -> Outcome<()> {
    let bytes = answer.encode().map_err(|error| refused("answer", error.to_string()))?;
    write_message(stream, &bytes)
}

pub(super) fn write_message(stream: &OwnedFd, bytes: &[u8]) -> Outcome<()> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    write_all(stream, &[len.as_slice(), bytes].concat()).at("answer")
}

/// A neuron that is up and waits for the last word.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) report: Report,
    process: Process,
}

impl Started {
    /// Lets the neuron live on its own. The end of the stream tells that it does.
    fn release(self, stream: &OwnedFd) -> ExitCode {
        let control = &self.process.control;
        let mut byte = [0];
        // A machine that freezes and thaws its processes interrupts waits that have a limit.
        let mut hear = || retry_on_intr(|| recv(control, &mut byte, RecvFlags::empty()));
        let is_released =
            send(control, &[GO], SendFlags::NOSIGNAL).is_ok() && hear().is_ok() && byte == [GONE];
        // Not only closed: a neuron that keeps its descriptors has it too.
        let _ended = shutdown(stream, Shutdown::Both);
        // Nobody waits for this, and what runs in the neuron is not to wait for it either.
        let _calmed = setpriority_process(None, LEAST_URGENT);
        groups::sweep();
        if is_released { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Ends it with all that was made for it.
    pub(super) fn end(self) {
        self.process.end();
    }
}

/// The first process, from outside.
#[derive(Debug)]
struct Process {
    pid: Pid,
    control: OwnedFd,
    groups: Groups,
}

impl Process {
    fn end(self) {
        // Its end is that of everything in its process namespace.
        let _killed = kill_process(self.pid, Signal::KILL);
        let _reaped = waitpid(Some(self.pid), WaitOptions::empty());
        remove_cgroups(&self.groups.made);
    }
}

/// Starts a neuron. What was begun is undone when that fails.
pub(super) fn start(plan: &Plan, listener: OwnedFd) -> Outcome<Started> {
    check(plan)?;
    let is_root = geteuid().is_root();
    let mut notes = Notes::default();
    let mut plan = plan.clone();
    let disk = open_disk(&mut plan, &mut notes);
    let plan = &plan;
    if plan.layers.has(Layer::HostUser) {
        if is_root && plan.host_id.is_some() {
            notes.have(Layer::HostUser);
        } else {
            notes.lack(
                Layer::HostUser,
                "the neuron's processes have the host id of whoever started it: only root can give \
                 them one of their own",
            );
        }
    }
    umask(Mode::from_raw_mode(0o022));
    let mut sources = Sources::default();
    if plan.layers != Layers::NONE {
        sources = Sources::find(plan)?;
        sources.layer = disk;
        if is_root {
            sources.open(plan, true)?;
        }
    }
    let groups = Groups::make(plan, &mut notes);
    let step = "start the first process";
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (near, far) = pair.at(step)?;
    set_socket_timeout(&near, Timeout::Recv, Some(BUILD_TIME)).at(step)?;
    let folder = groups.unified.as_deref().and_then(open_folder);
    let home = open_folder(&plan.layer);
    let forked = fork_apart(namespaces(plan.layers), folder.as_ref().map(AsFd::as_fd)).at(step);
    let (side, is_born_in) = match forked {
        Ok(forked) => forked,
        Err(failure) => {
            remove_cgroups(&groups.made);
            return Err(failure);
        }
    };
    let Side::Parent(pid) = side else {
        drop((near, folder));
        become_first(First { plan, sources, listener, is_root, home }, far)
    };
    drop((far, listener, home));
    let mut process = Process { pid, control: near, groups };
    let led = lead(plan, &mut process, &sources, (is_root, is_born_in), &mut notes);
    match led {
        Ok(report) => Ok(Started { report, process }),
        Err(failure) => {
            process.end();
            Err(failure)
        }
    }
}

/// Mounts the image of a limited disk. Where that cannot be, the layers are in memory.
fn open_disk(plan: &mut Plan, notes: &mut Notes) -> Option<OwnedFd> {
    let is_asked = plan.layers.has(Layer::Disk) && plan.layers.has(Layer::Mount);
    let image = plan.disk.take().filter(|_| is_asked && plan.limits.disk_bytes.is_some())?;
    match mount_image(&image) {
        Ok(mount) => {
            plan.disk = Some(image);
            Some(mount)
        }
        Err(error) => {
            let reason = format!(
                "the limited disk is in memory, counts as memory of the neuron and cannot be \
                 forked: its image cannot be mounted: {error}; that needs root, loop devices and \
                 ext4"
            );
            notes.lack(Layer::Disk, reason);
            None
        }
    }
}

fn open_folder(path: &Path) -> Option<OwnedFd> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Does the launcher's part while the first process does its own, and waits for it.
fn lead(
    plan: &Plan,
    process: &mut Process,
    sources: &Sources,
    (is_root, is_born_in): (bool, bool),
    notes: &mut Notes,
) -> Outcome<Report> {
    if !plan.keeps_layers_in_memory() && plan.layers.has(Layer::Mount) {
        make_layer(plan, sources, plan.host_id.filter(|_| is_root))?;
    }
    if plan.layers.has(Layer::User) {
        map_ids(plan, process.pid, is_root)?;
        if plan.layers.has(Layer::IdMap) && plan.layers.has(Layer::Mount) {
            map_files(plan, process.pid, sources, is_root, notes)?;
        }
    }
    // A process that is gone has said why.
    let _told = send(&process.control, &[MAPPED], SendFlags::NOSIGNAL);
    process.groups.place(process.pid, is_born_in, notes);
    let _told = send(&process.control, &[PLACED], SendFlags::NOSIGNAL);
    let mut bytes = vec![0; REPORT_MAX];
    let mut hear = || recv(&process.control, &mut *bytes, RecvFlags::empty());
    let mut received = hear();
    // A process that left without reading our words is told of before its own last one.
    while matches!(received, Err(Errno::INTR | Errno::CONNRESET)) {
        received = hear();
    }
    let (count, _) = received.at("wait for the first process")?;
    let answer = bytes.get(..count).filter(|bytes| !bytes.is_empty()).map(Answer::decode);
    match answer {
        Some(Ok(Answer::Up(mut report))) => {
            report.pid = process.pid.as_raw_pid().unsigned_abs();
            report.cgroups.clone_from(&process.groups.made);
            report.layers = report.layers.union(notes.layers);
            report.missing.append(&mut notes.missing);
            Ok(report)
        }
        Some(Ok(Answer::Failed(failure))) => Err(failure),
        Some(Err(error)) => Err(refused("read the first process's report", error.to_string())),
        None => Err(refused("wait for the first process", "it died without a word")),
    }
}

fn namespaces(layers: Layers) -> u64 {
    let all = [
        (Layer::User, libc::CLONE_NEWUSER),
        (Layer::Mount, libc::CLONE_NEWNS),
        (Layer::Pid, libc::CLONE_NEWPID),
        // That of the network takes longest: the process makes it itself, while its ids are set.
        (Layer::Ipc, libc::CLONE_NEWIPC),
        (Layer::Uts, libc::CLONE_NEWUTS),
    ];
    let chosen = all.iter().filter(|(layer, _)| layers.has(*layer));
    chosen.fold(0, |flags, (_, flag)| flags | u64::from(flag.unsigned_abs()))
}

/// Says who on the machine 0 is in the namespace in which the neuron is built.
fn map_ids(plan: &Plan, pid: Pid, is_root: bool) -> Outcome<()> {
    let own = HostId { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    let host = plan.host_id.filter(|_| is_root).unwrap_or(own);
    if !is_root {
        // Or a group that forbids something could be left.
        write_map(pid, "setgroups", "deny")?;
    }
    write_map(pid, "uid_map", &format!("0 {} 1", host.uid))?;
    write_map(pid, "gid_map", &format!("0 {} 1", host.gid))
}

fn write_map(pid: Pid, file: &str, text: &str) -> Outcome<()> {
    let path = format!("/proc/{}/{file}", pid.as_raw_pid());
    fs::write(path, text).at(&format!("write {file}"))
}

/// Lets files of others belong to the neuron, as far as root can.
fn map_files(
    plan: &Plan,
    pid: Pid,
    sources: &Sources,
    is_root: bool,
    notes: &mut Notes,
) -> Outcome<()> {
    let Some(host) = plan.host_id.filter(|_| is_root) else {
        notes.lack(
            Layer::IdMap,
            "files of the system can be read but not changed in the neuron's layer: only root can \
             map their owner",
        );
        return Ok(());
    };
    let map = open_users(pid)?;
    let reasons = sources.map(plan, map.as_fd(), |uid, gid| users_for(host, uid, gid))?;
    if reasons.is_empty() {
        notes.have(Layer::IdMap);
    }
    notes.missing.extend(reasons.into_iter().map(|reason| missing(Layer::IdMap, reason)));
    Ok(())
}

fn open_users(pid: Pid) -> Outcome<OwnedFd> {
    let path = format!("/proc/{}/ns/user", pid.as_raw_pid());
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).at("open the user namespace")
}

/// Makes a user namespace in which another owner's ids stand for the neuron's. A process holds it
/// until it is opened.
fn users_for(host: HostId, uid: u32, gid: u32) -> Outcome<OwnedFd> {
    let step = "make a user namespace for folder";
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (near, far) = pair.at(step)?;
    let newuser = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let (side, _) = fork_apart(newuser, None).at(step)?;
    let Side::Parent(pid) = side else {
        drop(near);
        let _count = rustix::io::read(&far, &mut [0]);
        sys::exit_now(0)
    };
    let made = write_map(pid, "uid_map", &format!("{uid} {} 1", host.uid))
        .and_then(|()| write_map(pid, "gid_map", &format!("{gid} {} 1", host.gid)))
        .and_then(|()| open_users(pid));
    drop((near, far));
    let _reaped = waitpid(Some(pid), WaitOptions::empty());
    made
}

/// Makes the folders of the layer and gives them to the neuron.
fn make_layer(plan: &Plan, sources: &Sources, owner: Option<HostId>) -> Outcome<()> {
    let step = "make the folders of layer";
    let layer = match &sources.layer {
        Some(layer) => layer.try_clone().at("open layer")?,
        None => open_folder(&plan.layer).ok_or(Errno::NOENT).at("open layer")?,
    };
    if let Some(HostId { uid, gid }) = owner.filter(|_| plan.disk.is_some()) {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        chownat(&layer, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).at(step)?;
    }
    for folder in layer_folders(plan, &sources.parts) {
        match mkdirat(&layer, &folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).at(step),
        }
        if let Some(HostId { uid, gid }) = owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chownat(&layer, &folder, Some(uid), Some(gid), flags).at(step)?;
        }
    }
    Ok(())
}

/// Refuses what would not end well.
fn check(plan: &Plan) -> Outcome<()> {
    let wrong = |what: &str| Err(refused("check the plan", what));
    let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
    if plan.name.is_empty() || plan.name.len() > 63 || !plan.name.chars().all(is_plain) {
        return wrong("name: expected 1 to 63 letters, digits and hyphens");
    }
    if plan.layers == Layers::NONE {
        return Ok(());
    }
    if let Some(id) = plan.host_id {
        if id.uid == 0 || id.gid == 0 {
            return wrong("host_id: 0 is root, expected ids that nobody has");
        }
        if !geteuid().is_root() {
            return wrong("host_id: only root can give one");
        }
    } else if geteuid().is_root() && plan.layers.has(Layer::HostUser) {
        return wrong("host_id: root must give one, or the neuron would be root on the machine");
    }
    let folder = plan.folder.as_ref().map(|folder| folder.path.as_path());
    let paths = [Some(plan.home.as_path()), folder].into_iter().flatten();
    for path in paths.chain(plan.files.iter().map(|file| file.inside.as_path())) {
        let mut parts = path.components();
        let is_sound = parts.next() == Some(Component::RootDir)
            && parts.clone().count() > 0
            && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_sound {
            return wrong(&format!("{}: expected a plain absolute path", path.display()));
        }
    }
    if !plan.home.starts_with("/home") || plan.home == Path::new("/home") {
        return wrong("home: expected a folder below /home");
    }
    if plan.files.iter().any(|file| !file.inside.starts_with("/run/narthex")) {
        return wrong("files: expected a place below /run/narthex");
    }
    if let Some(folder) = folder {
        check_folder(plan, folder)?;
    }
    Ok(())
}

/// The folder must neither hide what a neuron needs nor be hidden.
fn check_folder(plan: &Plan, folder: &Path) -> Outcome<()> {
    let needed = ["/dev", "/etc", "/home", "/proc", "/run", "/sys", "/tmp", "/usr", "/var"];
    let is_above = needed.iter().any(|path| Path::new(path).starts_with(folder));
    let is_within = ["/dev", "/proc", "/run/narthex", "/sys"].iter().any(|p| folder.starts_with(p));
    if is_above || is_within || plan.home.starts_with(folder) {
        let cause = format!(
            "folder: {} has a meaning of its own inside; expected a folder of a project",
            folder.display()
        );
        return Err(refused("check the plan", cause));
    }
    if plan.layer.starts_with(folder) {
        let cause = format!(
            "folder: {} holds the neuron's own layer; expected one beside it",
            folder.display()
        );
        return Err(refused("check the plan", cause));
    }
    Ok(())
}
