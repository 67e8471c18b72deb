//! The way out of a neuron: the proxy of `egress`, on the socket that the driver of neurons shows
//! inside.

mod log;

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use driver_api::{Clock, Egress, Fault};
use egress::{Certificates, Door, Options};
use outbound::SystemResolver;
use protocol::NeuronId;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sandbox::{EgressDoor, EgressGate, EgressPlace};
use stdx::Secret;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use self::log::EgressLog;

/// The socket in the folder of a neuron's way out.
const SOCKET: &str = "proxy.sock";

/// The file with the certificate of the neuron's authority, in the same folder.
const CA_FILE: &str = "ca.pem";

/// The file with all certificates that commands trust, in the same folder.
const BUNDLE_FILE: &str = "roots.pem";

/// Names that all neurons together look up at once. Each holds a thread of the 512 that everything
/// has which waits for files and the store, for half a minute where no server of a name answers.
const LOOKUPS_MAX: usize = 64;

/// Names that one neuron looks up at once: it waits for its own, and no other does for them.
const LOOKUPS_OF_ONE_MAX: usize = 8;

/// Connections of all neurons at once: each has two descriptors, and some dozen neurons that use
/// all of theirs are more than a machine usually sees.
const CONNECTIONS_MAX: u64 = 2_048;

/// Which part of the descriptors that this process may have is for connections of neurons, as so
/// many descriptors for each connection: two are in use, and three quarters are for all else.
const DESCRIPTORS_PER_CONNECTION: u64 = 8;

/// Opens ways out.
#[derive(Debug)]
pub(crate) struct WaysOut {
    clock: Arc<dyn Clock>,
    resolver: SystemResolver,
    /// Places for connections of all neurons, made with the first way out: by then the limit of
    /// descriptors is what it will be.
    connections: OnceLock<Arc<Semaphore>>,
}

impl WaysOut {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let resolver = SystemResolver::new(LOOKUPS_MAX);
        Self { clock, resolver, connections: OnceLock::new() }
    }

    fn connections(&self) -> Arc<Semaphore> {
        let make = || {
            let descriptors = getrlimit(Resource::Nofile).current;
            Arc::new(Semaphore::new(connections_max(descriptors)))
        };
        Arc::clone(self.connections.get_or_init(make))
    }
}

/// Returns how many connections neurons may have; without a number there is no limit.
fn connections_max(descriptors: Option<u64>) -> usize {
    let share = descriptors.unwrap_or(u64::MAX) / DESCRIPTORS_PER_CONNECTION;
    usize::try_from(share.clamp(1, CONNECTIONS_MAX)).unwrap_or(1)
}

#[async_trait]
impl EgressGate for WaysOut {
    fn prepare(&self, has_credentials: bool, folder: &Path) -> Result<EgressPlace, Fault> {
        let mut place = EgressPlace { socket: SOCKET.to_owned(), files: Vec::new() };
        if has_credentials {
            let Options { ca_path, bundle_path, .. } = Options::default();
            for (name, inside) in [(CA_FILE, ca_path), (BUNDLE_FILE, bundle_path)] {
                // One that is there is what a neuron was shown before.
                let path = folder.join(name);
                if !path.exists() {
                    write(&path, "")
                        .map_err(|error| Fault::with("make the files of a way out", error))?;
                }
                place.files.push((name.to_owned(), PathBuf::from(inside)));
            }
        }
        Ok(place)
    }

    async fn open(
        &self,
        neuron: &NeuronId,
        egress: &Egress,
        folder: &Path,
        authority: Option<&Secret<Vec<u8>>>,
    ) -> Result<EgressDoor, Fault> {
        let what = format!("open the way out of neuron {neuron}");
        let listener = bind(folder).map_err(|error| Fault::with(&*what, error))?;
        let options = Options {
            clock: Arc::clone(&self.clock),
            // Programs that have read the certificate go on trusting what it vouches for, and the
            // placeholders that they know stay the ones that are looked for.
            kept: authority.cloned(),
            resolver: Arc::new(self.resolver.share(LOOKUPS_OF_ONE_MAX)),
            connections: self.connections(),
            ..Options::default()
        };
        let audit = Arc::new(EgressLog::new(neuron.clone(), Arc::clone(&self.clock)));
        let door = Door::open(neuron.clone(), egress, listener, audit, options)
            .map_err(|error| Fault::with(&*what, error))?;
        let certificates = door.certificates().await;
        if let Some(certificates) = certificates.map_err(|error| Fault::with(&*what, error))? {
            let Certificates { ca_pem, bundle_pem } = certificates;
            for (name, text) in [(CA_FILE, ca_pem), (BUNDLE_FILE, bundle_pem)] {
                write(&folder.join(name), &text).map_err(|error| Fault::with(&*what, error))?;
            }
        }
        let (variables, authority) = (door.variables(), door.kept());
        Ok(EgressDoor { variables, authority, guard: Box::new(door) })
    }
}

/// Listens in a folder, in place of whoever did before. The folder is named by its descriptor: an
/// address has at most 107 bytes, a home may be anywhere.
fn bind(folder: &Path) -> io::Result<UnixListener> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    match rustix::fs::unlinkat(&opened, SOCKET, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let socket = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    let listener = UnixListener::bind(&socket)?;
    // Whoever comes to the folder is this user or the neuron.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Writes a file that the neuron reads, unless it says that already. Always into the file that is
/// there: a neuron that runs has that one, and a new one of the same name would be of no use to it.
/// Never through a link.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(flags)
        .open(path)?;
    let len = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let mut before = Vec::new();
    (&mut file).take(len.saturating_add(1)).read_to_end(&mut before)?;
    if before != text.as_bytes() {
        // A program that starts in this moment finds the old text or the new one, never none.
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(len)?;
    }
    // Whatever the mask of this process is: commands of the neuron have another user.
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use base64::Engine as _;
    use driver_api::{EgressCredential, EgressRule, SystemClock};

    use super::*;

    fn egress(has_credential: bool) -> Egress {
        let rule = EgressRule {
            host: "api.example.com".to_owned(),
            port: None,
            methods: Vec::new(),
            allows_private: false,
        };
        let credential = EgressCredential {
            host: "api.example.com".to_owned(),
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            value: Secret::new("planted".to_owned()),
            variable: Some("EXAMPLE_KEY".to_owned()),
        };
        let credentials = has_credential.then_some(credential).into_iter().collect();
        Egress { allow: vec![rule], credentials }
    }

    /// Opens a way out as the driver does and returns it with the certificate that is shown.
    async fn opened(
        ways: &WaysOut,
        folder: &Path,
        authority: Option<&Secret<Vec<u8>>>,
    ) -> (EgressDoor, Vec<u8>) {
        let neuron = NeuronId::new("n");
        let door = ways.open(&neuron, &egress(true), folder, authority).await.unwrap();
        let text = std::fs::read_to_string(folder.join(CA_FILE)).unwrap();
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        (door, base64::engine::general_purpose::STANDARD.decode(body).unwrap())
    }

    #[tokio::test]
    async fn a_door_is_opened_again_over_the_files_that_are_there() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("x".repeat(120));
        std::fs::create_dir(&folder).unwrap();
        let ways = WaysOut::new(Arc::new(SystemClock::default()));
        let place = ways.prepare(true, &folder).unwrap();
        let names: Vec<&str> = place.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [CA_FILE, BUNDLE_FILE]);
        let inode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().ino();
        let shown = names.iter().map(|name| inode(name)).collect::<Vec<_>>();
        let (first, _) = opened(&ways, &folder, None).await;
        let names: Vec<&str> = first.variables.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"https_proxy") && names.contains(&"EXAMPLE_KEY"), "{names:?}");
        assert!(!format!("{first:?}").contains("planted"), "{first:?}");
        drop(first);
        let (_second, _) = opened(&ways, &folder, None).await;
        assert_eq!([CA_FILE, BUNDLE_FILE].map(inode).as_slice(), shown);
        assert!(folder.join(&place.socket).exists());
        let closed = top.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        assert_eq!(ways.prepare(false, &closed).unwrap().files, []);
        let door = ways.open(&NeuronId::new("n"), &egress(false), &closed, None).await.unwrap();
        assert!(door.authority.is_none() && !closed.join(CA_FILE).exists());
    }

    #[tokio::test]
    async fn the_next_owner_of_a_neuron_has_the_authority_and_the_placeholders_that_it_knows() {
        let folder = tempfile::tempdir().unwrap();
        let ways = WaysOut::new(Arc::new(SystemClock::default()));
        let (first, certificate) = opened(&ways, folder.path(), None).await;
        let (kept, variables) = (first.authority.clone().unwrap(), first.variables.clone());
        drop(first);
        let inode = |name: &str| {
            let found = std::fs::metadata(folder.path().join(name)).unwrap();
            (found.ino(), found.modified().unwrap())
        };
        let before = [CA_FILE, BUNDLE_FILE].map(inode);
        let (second, again) = opened(&ways, folder.path(), Some(&kept)).await;
        assert_eq!((again, &second.variables), (certificate.clone(), &variables));
        assert_eq!(second.authority.as_ref(), Some(&kept));
        // A program that reads them in this moment finds them whole: nothing was written.
        assert_eq!([CA_FILE, BUNDLE_FILE].map(inode), before);
        drop(second);
        let (other, fresh) = opened(&ways, folder.path(), None).await;
        assert!(other.authority.as_ref() != Some(&kept) && fresh != certificate);
    }

    #[test]
    fn a_file_that_is_shown_is_never_empty_and_never_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (shown, elsewhere) = (folder.path().join("shown"), folder.path().join("elsewhere"));
        for text in ["long and first", "short", "", "at last"] {
            write(&shown, text).unwrap();
            assert_eq!(std::fs::read_to_string(&shown).unwrap(), text);
        }
        std::fs::write(&elsewhere, "mine").unwrap();
        std::fs::remove_file(&shown).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &shown).unwrap();
        write(&shown, "other").unwrap_err();
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
    }

    #[test]
    fn connections_of_neurons_leave_descriptors_for_all_else() {
        let counts = [Some(1_024), Some(4_096), Some(1 << 20), None, Some(0)].map(connections_max);
        assert_eq!(counts, [128, 512, 2_048, 2_048, 1]);
    }

    #[tokio::test]
    async fn all_ways_out_share_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let ways = WaysOut::new(Arc::new(SystemClock::default()));
        assert!(Arc::ptr_eq(&ways.connections(), &ways.connections()));
        let _door = opened(&ways, folder.path(), None).await;
        // One by this test, one by the way out.
        assert!(Arc::strong_count(ways.connections.get().unwrap()) >= 2);
    }
}
