//! The folder of all neurons, and who may change which of them.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use protocol::NeuronId;

use super::door::Door;
use super::lock::Lock;

/// How many characters an id may have: what doors promise.
const ID_LEN_MAX: usize = 64;

/// How many characters of an id a host name shows: with a number behind it, it stays below the 63
/// that a name may have.
const NAME_LEN_MAX: usize = 40;

const STAGED: &str = ".new-";
const OLD: &str = ".old-";
const WARM: &str = ".warm-";
const LOCKS: &str = ".locks";

/// The folder that holds what a neuron writes, in the neuron's own.
const LAYER: &str = "layer";

/// The folder in which a proxy makes its socket, in the neuron's own.
const EGRESS: &str = "egress";

/// The file of the lock that the owner holds, in the neuron's own folder.
const OWNER: &str = "owner.lock";

/// Returns whether a text can be the id of a neuron. Nothing else ever becomes a path.
pub(super) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=ID_LEN_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The folder `neurons` of a home, and how things are called in it:
///
/// ```text
/// ID/state.json     what is known of it
/// ID/owner.lock     locked by the process that owns it
/// ID/agent.sock     where its first process listens
/// ID/egress/        the proxy's socket, where there is a proxy
/// ID/egress.json    what it may reach
/// ID/egress.key     what the next owner's proxy needs to be trusted
/// ID/layer/         what it writes
/// ID/disk.img       what it writes, where its disk is limited and can be mounted
/// .locks/ID         locked by whoever creates, forks, takes over or destroys it
/// .new-ID, .old-ID  on its way in, on its way out; of interest to nobody once the lock is free
/// .warm-ID          one that nobody has asked for yet, of the process that has its `owner.lock`;
///                   made, given a name and removed under the lock of places
/// ```
#[derive(Debug)]
pub(super) struct Home {
    neurons: PathBuf,
}

/// One neuron's folder, wherever it is just now.
#[derive(Clone, Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Home {
    pub(super) fn new(home: &Path) -> Self {
        Self { neurons: home.join("neurons") }
    }

    /// Makes the folders, for nobody but this user.
    pub(super) fn make(&self) -> io::Result<()> {
        make_folder(&self.neurons)?;
        make_folder(&self.neurons.join(LOCKS))
    }

    pub(super) fn path(&self) -> &Path {
        &self.neurons
    }

    pub(super) fn folder(&self, id: &NeuronId) -> Folder {
        Folder(self.neurons.join(id.as_str()))
    }

    /// Where a neuron is put together before it can be seen.
    pub(super) fn staged(&self, id: &NeuronId) -> Folder {
        Folder(self.neurons.join(format!("{STAGED}{id}")))
    }

    /// Where what is left of a neuron goes before it is removed.
    pub(super) fn old(&self, id: &NeuronId) -> Folder {
        Folder(self.neurons.join(format!("{OLD}{id}")))
    }

    /// Where a neuron is that nobody has asked for yet.
    pub(super) fn warm(&self, id: &NeuronId) -> Folder {
        Folder(self.neurons.join(format!("{WARM}{id}")))
    }

    pub(super) fn door(&self, id: &NeuronId) -> Door {
        Door::new(id.clone(), self.folder(id).0)
    }

    /// The lock of whoever changes a neuron.
    pub(super) fn change_lock(&self, id: &NeuronId) -> PathBuf {
        self.neurons.join(LOCKS).join(id.as_str())
    }

    /// The lock of whoever looks for a place for a new one. No id has a dot.
    pub(super) fn places_lock(&self) -> PathBuf {
        self.neurons.join(LOCKS).join(".places")
    }

    /// Returns the ids of all neurons, sorted.
    pub(super) fn ids(&self) -> io::Result<Vec<NeuronId>> {
        let named = self.names()?.into_iter().filter(|name| is_id(name));
        Ok(named.map(NeuronId::new).collect())
    }

    /// Returns the ids of which something is left that is on its way in or out.
    pub(super) fn passing(&self) -> io::Result<Vec<NeuronId>> {
        let mut ids = Vec::new();
        for name in self.names()? {
            let id = name.strip_prefix(STAGED).or_else(|| name.strip_prefix(OLD));
            ids.extend(id.filter(|id| is_id(id)).map(NeuronId::new));
        }
        Ok(ids)
    }

    /// Returns the ids of neurons that nobody has asked for yet.
    pub(super) fn warm_ids(&self) -> io::Result<Vec<NeuronId>> {
        let names = self.names()?;
        let ids = names.iter().filter_map(|name| name.strip_prefix(WARM));
        Ok(ids.filter(|id| is_id(id)).map(NeuronId::new).collect())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.neurons) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            // A link of that name is nobody's neuron.
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the host name of a neuron, which names its cgroups too: so it is another one for
    /// each id and each home.
    pub(super) fn host_name(&self, id: &NeuronId) -> String {
        let shown = id.as_str().to_ascii_lowercase().replace('_', "-");
        let shown = shown.trim_matches('-');
        let shown = shown.get(..shown.len().min(NAME_LEN_MAX)).unwrap_or_default();
        let own = [self.neurons.as_os_str().as_bytes(), b"\0", id.as_str().as_bytes()].concat();
        format!("n-{shown}-{:016x}", fingerprint(&own))
    }
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn layer(&self) -> PathBuf {
        self.0.join(LAYER)
    }

    pub(super) fn egress(&self) -> PathBuf {
        self.0.join(EGRESS)
    }

    /// Takes the lock of the owner, or tells who has it.
    pub(super) fn own(&self) -> io::Result<Result<Lock, u32>> {
        Lock::take(&self.0.join(OWNER))
    }

    pub(super) fn owner_lock(&self) -> PathBuf {
        self.0.join(OWNER)
    }
}

/// Makes a folder for nobody but this user, where it is not there.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// FNV-1a: the same in every build, which the standard library's hashes need not be. It has to
/// keep names apart that nobody chooses in order to be the same.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_never_becomes_a_path() {
        let long = "x".repeat(64);
        for id in ["a", "A-b_9", "-", long.as_str()] {
            assert!(is_id(id), "{id}");
        }
        let longer = "x".repeat(65);
        let bad =
            ["", ".", "..", "a/b", "../a", "a.b", "a b", "a\0", "ä", ".locks", longer.as_str()];
        for id in bad {
            assert!(!is_id(id), "{id:?}");
        }
    }

    #[test]
    fn only_folders_with_an_id_are_neurons() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        assert_eq!(home.ids().unwrap(), []);
        home.make().unwrap();
        for name in ["b", "a", "c.d", ".new-x", ".old-y", ".old-..", ".warm-z", ".warm-."] {
            make_folder(&home.path().join(name)).unwrap();
        }
        std::fs::write(home.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/", home.path().join("link")).unwrap();
        assert_eq!(home.ids().unwrap(), ["a", "b"].map(NeuronId::new));
        assert_eq!(home.passing().unwrap(), ["x", "y"].map(NeuronId::new));
        assert_eq!(home.warm_ids().unwrap(), [NeuronId::new("z")]);
    }

    #[test]
    fn host_names_differ_and_can_be_host_names() {
        let (one, other) = (Home::new(Path::new("/a")), Home::new(Path::new("/b")));
        let long = "_".repeat(30) + &"X".repeat(34);
        let mut names = Vec::new();
        for home in [&one, &other] {
            for id in ["a_b", "a-b", "A-B", "---", long.as_str()] {
                let name = home.host_name(&NeuronId::new(id));
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                assert!(name.len() <= 63 && !name.ends_with('-'), "{name}");
                assert!(name.bytes().all(|byte| is_plain(byte) || byte == b'-'), "{name}");
                assert!(!names.contains(&name), "{name} twice");
                names.push(name);
            }
        }
    }
}
