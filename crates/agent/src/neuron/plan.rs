//! What a launcher is told, and what it tells back.

use std::path::PathBuf;

use super::layer::{Layer, Layers};

/// How many bytes an encoded [`Plan`] or [`Answer`] may have. Paths and names are all that is in
/// them; a list of a thousand long paths still fits.
pub const MESSAGE_MAX: usize = 1 << 20;

/// The user and group id of a neuron's processes as they see themselves, where
/// [`Layer::User`] is in force.
pub const INSIDE_ID: u32 = 1000;

/// The name of that user.
pub const INSIDE_USER: &str = "neuron";

/// Where a neuron without a folder of the machine works.
pub const WORKSPACE: &str = "/workspace";

/// Where the way out is inside: a proxy for HTTP and CONNECT, where the plan has one.
pub const EGRESS_PORT: u16 = 3128;

/// The folders that a launcher makes in [`Plan::layer`]. All belong to the neuron's host id.
pub mod layout {
    /// The home folder.
    pub const HOME: &str = "home";
    /// What is `/tmp` (and `/var/tmp`) inside.
    pub const TMP: &str = "tmp";
    /// The working folder of a neuron without a folder of the machine.
    pub const WORKSPACE: &str = "workspace";
    /// What the neuron changed of the folder of the machine, as an upper layer of overlayfs.
    pub const FOLDER_UPPER: &str = "folder/upper";
    /// What overlayfs needs beside it.
    pub const FOLDER_WORK: &str = "folder/work";
    /// What the neuron changed of the base: below it one folder per base folder, each with an
    /// `upper` and a `work`. A root filesystem has one with the name `root`.
    pub const SYSTEM: &str = "system";
}

/// A folder of the machine that is part of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseFolder {
    /// Real and absolute; the same inside. One that does not exist is left out, a link is shown as
    /// a link.
    pub path: PathBuf,
    /// Whether what belongs to root belongs to the neuron inside (as root only, by an id-mapped
    /// mount), so that it can be changed in the neuron's layer. What only root may read can then
    /// be read by the neuron: never for folders that hold secrets.
    pub is_mapped: bool,
}

/// What a neuron is made of. All of it is read-only; changes go to the neuron's own layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Folders of the machine. Of `/etc`, what could be secret or is the machine's own is masked.
    Host(Vec<BaseFolder>),
    /// A folder that holds a whole root filesystem; always id-mapped where that can be done.
    Root(PathBuf),
}

impl Default for Base {
    /// The system folders of the machine.
    fn default() -> Self {
        let mapped = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
        // What is for root alone in these two stays so.
        let kept = ["/etc", "/opt"];
        let folder = |is_mapped| move |path| BaseFolder { path: PathBuf::from(path), is_mapped };
        let folders =
            mapped.into_iter().map(folder(true)).chain(kept.into_iter().map(folder(false)));
        Base::Host(folders.collect())
    }
}

/// Where writes to a folder of the machine go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FolderWrites {
    /// Into [`layout::FOLDER_UPPER`].
    #[default]
    Layer,
    /// Into the folder itself. What a tool outside would execute by itself (`.git/hooks`,
    /// `.git/config`, what a `.git` file points to, `.envrc`, `.mcp.json`, `.narthex` and the
    /// folders of editors) is read-only where it exists, and sockets lead nowhere; see
    /// [`Layer::Protected`].
    Through,
}

/// A folder of the machine that a neuron works in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Real and absolute. It has the same path inside.
    pub path: PathBuf,
    /// Where writes go.
    pub writes: FolderWrites,
}

/// Ids of the host that no other user has. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// What a neuron may use. Absent means no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes. Needs a cgroup.
    pub memory_bytes: Option<u64>,
    /// Processes and threads, those of the agent among them (about three per running command).
    /// By a resource limit of the neuron's user namespace, and by a cgroup where that costs
    /// nothing more.
    pub pids: Option<u32>,
    /// Processor time in thousandths of a core. Needs a cgroup.
    pub cpu_millis: Option<u32>,
    /// What all layers together may hold, in bytes. The layers are in [`Plan::disk`] then. Without
    /// one they are in memory: they end with the neuron, nothing of them is seen outside, and they
    /// count as its memory.
    pub disk_bytes: Option<u64>,
}

/// The way out. Without one, nothing but the neuron itself can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The folder of the host with the proxy's socket. It is looked into at each connection, so a
    /// new socket may take the place of an old one. The neuron's host id must be able to enter the
    /// folder itself (not those above it) and to write to the socket.
    pub folder: PathBuf,
    /// The name of the socket in it.
    pub socket: String,
}

/// A file of the host that is shown inside, read-only: certificates, for example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFile {
    /// Where it is outside, absolute. It must be readable by the neuron's host id.
    pub outside: PathBuf,
    /// Where it is inside, absolute, below `/run/narthex`.
    pub inside: PathBuf,
}

/// Everything that a launcher needs.
///
/// The driver starts the program `narthex-agent neuron` with no variable but
/// [`crate::OPEN_FILES_VARIABLE`] and a Unix stream socket as standard input, and sends on it: the
/// length as `u32` (little-endian) and the encoded plan, with one descriptor (`SCM_RIGHTS`, beside
/// the first byte): a bound Unix stream socket, on which the neuron's first process listens. It
/// gets back the length and the encoded
/// [`Answer`]; the launcher exits then. What had been begun ends when the answer cannot be
/// delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host name inside, and part of the names of its cgroups: letters, digits and hyphens,
    /// at most 63.
    pub name: String,
    /// The layers to use. With [`Layers::NONE`] there is no isolation at all: the first process is
    /// a plain daemon of the machine, and of the fields below none is looked at.
    pub layers: Layers,
    /// What it is made of.
    pub base: Base,
    /// The folder of the host that holds what the neuron writes; see [`layout`]. It must exist.
    pub layer: PathBuf,
    /// An image with a file system (ext4) of [`Limits::disk_bytes`] that holds all of that instead,
    /// mounted for the neuron alone. Needs root and loop devices; where it cannot be mounted, the
    /// reason is told with [`Layer::Disk`], and the layers are in memory.
    pub disk: Option<PathBuf>,
    /// The folder that it works in; [`WORKSPACE`] where absent.
    pub folder: Option<Folder>,
    /// Its home folder inside, absolute, below `/home`.
    pub home: PathBuf,
    /// The ids of its processes on the host. Needed when the launcher runs as root, impossible
    /// otherwise: then they are the launcher's own.
    pub host_id: Option<HostId>,
    /// What it may use.
    pub limits: Limits,
    /// The cgroups below which to make its own, in any hierarchies; where empty, those that the
    /// launcher is in, and those above them.
    pub cgroup_parents: Vec<PathBuf>,
    /// The way out.
    pub egress: Option<Egress>,
    /// Files of the host to show.
    pub files: Vec<ShownFile>,
}

impl Plan {
    /// Tells whether the neuron's layers are in memory; see [`Limits::disk_bytes`].
    pub fn keeps_layers_in_memory(&self) -> bool {
        self.layers.has(Layer::Disk) && self.limits.disk_bytes.is_some() && self.disk.is_none()
    }
}

/// A layer that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub layer: Layer,
    /// One sentence: what is missing, why, and what would help.
    pub reason: String,
}

/// A neuron that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its first process, in the launcher's process namespace.
    pub pid: u32,
    /// The layers in force.
    pub layers: Layers,
    /// The layers that were asked for and are not in force, or not for all that they are about.
    pub missing: Vec<Missing>,
    /// The cgroups that were made for it, to give to [`super::remove_cgroups`] when it is gone.
    pub cgroups: Vec<PathBuf>,
    /// The working folder inside.
    pub workspace: PathBuf,
    /// Whether its layers are in memory; see [`Limits::disk_bytes`].
    pub is_in_memory: bool,
}

/// Why a neuron is not up. Nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct Failure {
    /// What was tried: a phrase such as `mount /proc`.
    pub step: String,
    /// The system's error number; 0 where there is none.
    pub errno: i32,
    /// Why it did not work.
    pub cause: String,
}

/// What a launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The neuron is up.
    Up(Report),
    /// It is not.
    Failed(Failure),
}

/// What this machine can do for a neuron that the caller starts. See [`super::probe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The layers that work.
    pub layers: Layers,
    /// The others, with reasons.
    pub missing: Vec<Missing>,
    /// The version of landlock, 0 where there is none.
    pub landlock_abi: u32,
}
