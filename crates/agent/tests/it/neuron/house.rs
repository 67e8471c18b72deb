//! Starts neurons and ends them.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use agent::neuron::{
    Answer, Base, COMMANDS, Failure, HostId, Layers, Limits, Plan, Report, layout, remove_cgroups,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};

/// An ordinary user for tests that root runs.
pub(crate) const USER: u32 = 1500;

/// The host id of the first neuron; each has another.
static NEXT_ID: AtomicU32 = AtomicU32::new(100_000);

/// Who starts a neuron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    /// An ordinary user: this process's own where it is one.
    User,
}

/// All that this process can be.
pub(crate) fn everybody() -> Vec<Who> {
    if is_root() { vec![Who::Root, Who::User] } else { vec![Who::User] }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Who {
    /// Whether another user than this process's own is meant.
    pub(crate) fn is_other(self) -> bool {
        self == Who::User && is_root()
    }

    /// Gives a path to whoever it is.
    pub(crate) fn own(self, path: &Path) {
        if self.is_other() {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
    }

    /// The agent's program, where that user may execute it.
    pub(crate) fn program(self, near: &Path) -> PathBuf {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_narthex-agent"));
        if !self.is_other() {
            return program;
        }
        // The folder of builds may be closed to others.
        let copy = near.join("narthex-agent");
        if !copy.exists() {
            std::fs::copy(&program, &copy).unwrap();
            std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        }
        copy
    }

    /// A command of that user that runs the agent with an argument.
    pub(crate) fn agent(self, near: &Path, argument: &str) -> Command {
        let mut command = self.command(&self.program(near));
        command.arg(argument);
        command
    }

    /// A command of that user without variables.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        if self.is_other() {
            command.uid(USER).gid(USER);
        }
        command
    }
}

/// What a neuron is to be, and the folder that holds it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) who: Who,
    pub(crate) plan: Plan,
    /// Removed at the end.
    pub(crate) home: TempDir,
    /// A folder that the launcher is started with as a descriptor, by somebody careless.
    pub(crate) inherited: Option<PathBuf>,
}

impl Site {
    pub(crate) fn new(who: Who) -> Self {
        let home = tempfile::tempdir().unwrap();
        who.own(home.path());
        let layer = home.path().join("layer");
        std::fs::create_dir(&layer).unwrap();
        who.own(&layer);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let host_id = (who == Who::Root).then_some(HostId { uid: id, gid: id });
        let plan = Plan {
            name: format!("test-{}-{id}", std::process::id()),
            layers: Layers::ALL,
            base: Base::default(),
            layer,
            disk: None,
            folder: None,
            home: "/home/neuron".into(),
            host_id,
            limits: Limits::default(),
            cgroup_parents: Vec::new(),
            egress: None,
            files: Vec::new(),
        };
        Self { who, plan, home, inherited: None }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("agent.sock")
    }

    /// Makes a folder of the machine that belongs to whoever it is.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        self.who.own(&path);
        path.canonicalize().unwrap()
    }

    /// Starts the launcher and sends the plan.
    pub(crate) fn launch(&self) -> (Child, UnixStream) {
        let _gone = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = self.who.agent(self.home.path(), agent::neuron::LAUNCH_ARGUMENT);
        if let Some(folder) = &self.inherited {
            let mut careless = self.who.command(Path::new("/bin/bash"));
            // Tried again where it is still open for writing, as below.
            let script = "for i in {1..1000}; do exec \"$0\" \"$1\" 9<\"$2\"; done 2>/dev/null";
            careless.args(["--norc", "-O", "execfail", "-c", script]).arg(command.get_program());
            careless.args(command.get_args()).arg(folder);
            command = careless;
        }
        command.stdin(Stdio::from(OwnedFd::from(far)));
        let child = loop {
            match command.spawn() {
                // The copy is still open for writing in what another test has just forked.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
                spawned => break spawned.unwrap(),
            }
        };
        // It holds the other end of the socket, which has to end with the launcher.
        drop(command);
        let bytes = self.plan.encode().unwrap();
        let head = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        let files = [listener.as_fd()];
        assert!(along.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&near, &[IoSlice::new(&head)], &mut along, SendFlags::NOSIGNAL).unwrap();
        near.write_all(&bytes).unwrap();
        (child, near)
    }

    /// Starts a neuron, and says why not.
    pub(crate) fn try_start(self) -> Result<Neuron, Failure> {
        let (mut launcher, mut stream) = self.launch();
        let answer = message(&mut stream);
        if answer.is_err() {
            // One that is gone already keeps its own status.
            launcher.kill().unwrap();
        }
        let status = launcher.wait().unwrap();
        let answer = answer.unwrap_or_else(|error| panic!("no answer: {error}, then {status}"));
        let answer = Answer::decode(&answer).unwrap();
        match answer {
            Answer::Up(report) => {
                assert!(status.success(), "expected a clean exit, got {status}");
                Ok(Neuron { report, site: self })
            }
            Answer::Failed(failure) => Err(failure),
        }
    }

    pub(crate) fn start(self) -> Neuron {
        self.try_start().unwrap_or_else(|failure| panic!("expected a neuron, got {failure}"))
    }
}

impl Site {
    /// Opens what the kernel closes, to its owner too: the folders that an overlay works in.
    pub(crate) fn open_layer(&self) {
        let system = std::fs::read_dir(self.plan.layer.join(layout::SYSTEM));
        let pairs = system.into_iter().flatten().flatten().map(|entry| entry.path());
        for pair in pairs.chain([self.plan.layer.join("folder")]) {
            let open = PermissionsExt::from_mode(0o700);
            let _absent = std::fs::set_permissions(pair.join("work/work"), open);
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.open_layer();
    }
}

/// Reads a message with its length in front.
pub(crate) fn message(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut bytes = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A neuron that is up; ended with its test.
#[derive(Debug)]
pub(crate) struct Neuron {
    pub(crate) report: Report,
    pub(crate) site: Site,
}

impl Neuron {
    pub(crate) fn connect(&self, purpose: u8) -> UnixStream {
        let mut stream = UnixStream::connect(self.site.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[purpose]).unwrap();
        stream
    }

    pub(crate) fn client(&self) -> Client<()> {
        Client::over(self.connect(COMMANDS), ())
    }

    /// Runs a script and returns what it wrote, errors too.
    pub(crate) fn run(&self, script: &str) -> String {
        let (out, err, _) = self.client().run(&format!("exec 2>&1; {script}"));
        assert_eq!(err, "");
        out.trim_end().to_owned()
    }

    pub(crate) fn has(&self, layer: agent::neuron::Layer) -> bool {
        self.report.layers.has(layer)
    }

    pub(crate) fn kill(&self) {
        kill(self.report.pid);
    }
}

/// Kills a process if it still is there.
pub(crate) fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _gone = kill_process(pid, Signal::KILL);
}

impl Drop for Neuron {
    fn drop(&mut self) {
        self.kill();
        remove_cgroups(&self.report.cgroups);
    }
}
