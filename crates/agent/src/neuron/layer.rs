//! The layers that keep a neuron apart, one by one.

/// One of the layers between a neuron and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// A user namespace: rights inside mean nothing outside.
    User,
    /// A host id that no other user has. Only root can give it.
    HostUser,
    /// A mount namespace with a root of its own.
    Mount,
    /// A process namespace.
    Pid,
    /// A network namespace with nothing in it.
    Network,
    /// A namespace of message queues and shared memory.
    Ipc,
    /// A host name of its own.
    Uts,
    /// A view of cgroups of its own.
    CgroupView,
    /// Writes go to a layer of the neuron's own.
    Overlay,
    /// Files of root belong to the neuron inside, so that it can change them in its layer. This is
    /// comfort, not a wall. Only root can do it.
    IdMap,
    /// `/proc` is read-only, and what tells much is covered.
    ProcReadOnly,
    /// No capabilities, and no user namespace to have any in.
    Capabilities,
    /// No program gains rights when it is executed.
    NoNewPrivileges,
    /// Landlock: files outside of the neuron stay out of reach even by a descriptor.
    Landlock,
    /// An allow list of system calls. No file with the set-user-id or set-group-id bit can be made.
    Seccomp,
    /// No descriptor of the launcher is inherited.
    Descriptors,
    /// [`super::Limits::memory_bytes`].
    Memory,
    /// [`super::Limits::pids`].
    Pids,
    /// [`super::Limits::cpu_millis`].
    Cpu,
    /// [`super::Limits::disk_bytes`].
    Disk,
    /// In a folder that is written through: what a tool outside would execute by itself is
    /// read-only, and sockets lead nowhere.
    Protected,
}

impl Layer {
    /// All of them, in the order in which they are built.
    pub const ALL: [Layer; 21] = [
        Layer::User,
        Layer::HostUser,
        Layer::Mount,
        Layer::Pid,
        Layer::Network,
        Layer::Ipc,
        Layer::Uts,
        Layer::CgroupView,
        Layer::Overlay,
        Layer::IdMap,
        Layer::ProcReadOnly,
        Layer::Capabilities,
        Layer::NoNewPrivileges,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Descriptors,
        Layer::Memory,
        Layer::Pids,
        Layer::Cpu,
        Layer::Disk,
        Layer::Protected,
    ];

    /// Returns the name that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Layer::User => "user",
            Layer::HostUser => "host_user",
            Layer::Mount => "mount",
            Layer::Pid => "pid",
            Layer::Network => "network",
            Layer::Ipc => "ipc",
            Layer::Uts => "uts",
            Layer::CgroupView => "cgroup",
            Layer::Overlay => "overlay",
            Layer::IdMap => "id_map",
            Layer::ProcReadOnly => "proc_read_only",
            Layer::Capabilities => "capabilities",
            Layer::NoNewPrivileges => "no_new_privileges",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Descriptors => "descriptors",
            Layer::Memory => "memory",
            Layer::Pids => "pids",
            Layer::Cpu => "cpu",
            Layer::Disk => "disk",
            Layer::Protected => "protected",
        }
    }

    /// Tells whether a neuron without this layer is less apart: true of all but
    /// [`Layer::IdMap`].
    pub fn is_wall(self) -> bool {
        self != Layer::IdMap
    }

    fn bit(self) -> u32 {
        1 << (self as u8)
    }
}

/// A set of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers(u32);

impl Layers {
    /// Every layer.
    pub const ALL: Layers = Layers((1 << Layer::ALL.len()) - 1);
    /// No layer.
    pub const NONE: Layers = Layers(0);

    /// Tells whether a layer is in the set.
    pub fn has(self, layer: Layer) -> bool {
        self.0 & layer.bit() != 0
    }

    /// Returns the set with a layer.
    #[must_use]
    pub fn with(self, layer: Layer) -> Self {
        Self(self.0 | layer.bit())
    }

    /// Returns the set without a layer.
    #[must_use]
    pub fn without(self, layer: Layer) -> Self {
        Self(self.0 & !layer.bit())
    }

    /// Returns the layers of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the layers, in order.
    pub fn iter(self) -> impl Iterator<Item = Layer> {
        Layer::ALL.into_iter().filter(move |layer| self.has(*layer))
    }

    /// Returns the bits that [`Self::from_bits`] reads.
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// Returns nothing where a bit stands for no layer.
    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then_some(Self(bits))
    }
}
