//! What of the machine is there to be reached: files, sockets, queues, processes, another neuron.

use std::ffi::CString;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use agent::neuron::{
    Base, BaseFolder, Egress, Folder, FolderWrites, Layer, Layers, Limits, ShownFile, layout,
};
use tempfile::TempDir;

use super::super::house::{Neuron, Site, USER, Who, is_root};
use super::place::{NAMESPACES, namespace};
use super::{BINARY, MARKER};

/// What the battery's neurons may use.
const LIMITS: Limits = Limits {
    memory_bytes: Some(128 << 20),
    pids: Some(128),
    cpu_millis: Some(500),
    disk_bytes: Some(16 << 20),
};

/// What is in a file of the base that anybody may write.
const OPEN: &str = "open\n";

/// Where a folder of the base can be: nothing of a neuron's own lies over these.
const PLACES: [&str; 4] = ["/srv", "/var/lib", "/mnt", env!("CARGO_TARGET_TMPDIR")];

/// All that an attempt may be after, for one kind of user.
pub(super) struct Machine {
    pub(super) who: Who,
    /// A folder that nobody shows to a neuron, but which anybody may enter.
    hidden: TempDir,
    /// One that is part of the base.
    based: TempDir,
    other: Neuron,
    tcp4: TcpListener,
    tcp6: Option<TcpListener>,
    sockets: Vec<UnixListener>,
    queue: (i32, i32),
    posix_queue: CString,
    shared: PathBuf,
}

/// A neuron to make, and the process of the machine that it is to leave alone.
pub(super) struct Stage {
    pub(super) site: Site,
    pub(super) victim: Child,
    /// The marker, as the neuron sees it.
    pub(super) marker: PathBuf,
    pub(super) binary: PathBuf,
    pub(super) project: PathBuf,
    pub(super) word: String,
}

impl Machine {
    pub(super) fn new(who: Who) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hidden = tempfile::tempdir().unwrap();
        open_to_all(hidden.path(), 0o755);
        let key = hidden.path().join("key");
        fs::write(&key, "the key").unwrap();
        open_to_all(&key, 0o644);
        let binary = hidden.path().join("binary");
        fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        open_to_all(&binary, 0o755);
        let mut sockets = vec![listen(&hidden.path().join("service.sock"))];
        let name = SocketAddr::from_abstract_name(format!("battery-{unique}")).unwrap();
        sockets.push(UnixListener::bind_addr(&name).unwrap());
        let based = PLACES.iter().find_map(|place| tempfile::tempdir_in(place).ok()).unwrap();
        sockets.push(fill_base(based.path()));
        let shared = PathBuf::from(format!("/dev/shm/battery-{unique}"));
        fs::write(&shared, "shared").unwrap();
        open_to_all(&shared, 0o644);
        let mut site = Site::new(who);
        open_to_all(site.home.path(), 0o711);
        site.plan.limits = Limits { disk_bytes: None, ..LIMITS };
        let other = site.start();
        other.run(
            "cd /home/neuron; echo mine > public; umask 077; echo mine > private; \
             echo more > /dev/shm/more",
        );
        Self {
            who,
            hidden,
            based,
            other,
            tcp4: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            sockets,
            queue: message_queue(),
            posix_queue: posix_queue(&unique),
            shared,
        }
    }

    /// Whether this kind of user can have a layer on this machine, where it is asked for.
    pub(super) fn can(&self, layer: Layer) -> bool {
        self.other.has(layer) || matches!(layer, Layer::Disk | Layer::Protected)
    }

    /// A plain neuron without one of the layers.
    pub(super) fn site(&self, off: Option<Layer>) -> Site {
        let mut site = Site::new(self.who);
        open_to_all(site.home.path(), 0o711);
        if let Some(layer) = off {
            site.plan.layers = Layers::ALL.without(layer);
        }
        if off == Some(Layer::HostUser) {
            site.plan.host_id = None;
        }
        site
    }

    /// Lays out a neuron without one of the layers.
    pub(super) fn stage(&self, off: Option<Layer>) -> Stage {
        let mut site = self.site(off);
        // To be held back makes everything slow: there is a neuron of its own for that.
        site.plan.limits = Limits { cpu_millis: None, ..LIMITS };
        site.inherited = Some(self.hidden.path().to_owned());
        let open = self.based.path().join(format!("open-{}", site.plan.name));
        fs::write(&open, OPEN).unwrap();
        open_to_all(&open, 0o666);
        let project = fill_folder(&site);
        site.plan.folder = Some(Folder { path: project.clone(), writes: FolderWrites::Through });
        if let Base::Host(folders) = &mut site.plan.base {
            let path = self.based.path().canonicalize().unwrap();
            folders.push(BaseFolder { path, is_mapped: false });
        }
        if off != Some(Layer::Network) {
            let folder = site.folder("egress");
            open_to_all(&folder, 0o711);
            site.plan.egress = Some(Egress { folder, socket: "proxy.sock".to_owned() });
        }
        let has_root = off != Some(Layer::Mount);
        let work = site.home.path().join("work");
        fs::create_dir(&work).unwrap();
        open_to_all(&work, 0o777);
        let word = format!("3600.{}", site.plan.name.replace(|c: char| !c.is_ascii_digit(), ""));
        let mut victim = Command::new("sleep");
        victim.arg(&word);
        if let Some(id) = site.plan.host_id {
            victim.uid(id.uid).gid(id.gid);
        } else if self.who.is_other() {
            victim.uid(USER).gid(USER);
        }
        let victim = victim.spawn().unwrap();
        let marker = site.home.path().join("marker");
        let binary = self.hidden.path().join("binary");
        let work = if has_root { "/tmp".into() } else { work };
        fs::write(&marker, self.marker(&site, off, (&victim, &word), &work)).unwrap();
        open_to_all(&marker, 0o644);
        let (mut seen_marker, mut seen_binary) = (marker.clone(), binary.clone());
        if has_root {
            (seen_marker, seen_binary) = (MARKER.into(), BINARY.into());
            site.plan.files = vec![
                ShownFile { outside: marker, inside: MARKER.into() },
                ShownFile { outside: binary, inside: BINARY.into() },
            ];
        }
        Stage { site, victim, marker: seen_marker, binary: seen_binary, project, word }
    }

    fn marker(
        &self,
        site: &Site,
        off: Option<Layer>,
        (victim, word): (&Child, &str),
        work: &Path,
    ) -> String {
        let mut text = String::new();
        let mut say = |key: &str, value: &dyn std::fmt::Display| {
            text += &format!("{key}={value}\n");
        };
        for (name, _) in NAMESPACES {
            say(&format!("namespace.{name}"), &namespace(name).unwrap());
        }
        let layers: Vec<&str> = Layer::ALL
            .into_iter()
            .filter(|layer| Some(*layer) != off && self.can(*layer))
            .map(Layer::as_str)
            .collect();
        let hidden = self.hidden.path();
        let layer = &self.other.site.plan.layer;
        let agent = fs::metadata(site.who.program(site.home.path())).unwrap();
        say("off", &off.map_or("none", Layer::as_str));
        say("layers", &layers.join(","));
        say("root", &is_root());
        say("name", &site.plan.name);
        say("work", &work.display());
        say("secret", &hidden.join("key").display());
        say("socket", &hidden.join("service.sock").display());
        say("based", &self.based.path().display());
        say("folder", &site.plan.folder.as_ref().unwrap().path.display());
        say("control", &site.socket().display());
        say("other", &layer.join(layout::HOME).join("public").display());
        say("private", &layer.join(layout::HOME).join("private").display());
        say("shared", &self.shared.display());
        say("machine", &rustix::system::uname().nodename().to_string_lossy());
        say("victim", &victim.id());
        say("victim.word", &word);
        say("tcp4", &self.tcp4.local_addr().unwrap().port());
        let tcp6 = self.tcp6.as_ref().map_or(0, |own| own.local_addr().unwrap().port());
        say("tcp6", &tcp6);
        let name = self.sockets[1].local_addr().unwrap();
        let name = name.as_abstract_name().unwrap().to_vec();
        say("abstract", &String::from_utf8(name).unwrap());
        say("queue", &self.queue.0);
        say("posix_queue", &self.posix_queue.to_string_lossy());
        say("agent.device", &agent.dev());
        say("agent.file", &agent.ino());
        text
    }

    /// Whether a neuron made its file in the folder of the base, and changed the one that was there
    /// for it.
    pub(super) fn changed_base(&self, name: &str) -> [bool; 2] {
        let made = self.based.path().join(format!("made-{name}"));
        let text = fs::read_to_string(self.based.path().join(format!("open-{name}"))).unwrap();
        [made.exists(), text != OPEN]
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _absent = fs::remove_file(&self.shared);
        // SAFETY: plain calls; the name outlives its one.
        unsafe {
            libc::msgctl(self.queue.1, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_unlink(self.posix_queue.as_ptr());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ended = (self.victim.kill(), self.victim.wait());
    }
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    open_to_all(path, 0o777);
    listener
}

fn fill_base(folder: &Path) -> UnixListener {
    open_to_all(folder, 0o777);
    fs::write(folder.join("closed"), "closed").unwrap();
    open_to_all(&folder.join("closed"), 0o600);
    let lending = folder.join("lending");
    fs::copy("/usr/bin/id", &lending).unwrap();
    open_to_all(&lending, 0o4755);
    listen(&folder.join("service.sock"))
}

/// A folder with all that must stay as it is.
fn fill_folder(site: &Site) -> PathBuf {
    let project = site.folder("project");
    for folder in [
        ".git/hooks",
        ".git/modules/module/hooks",
        ".git/worktrees/tree",
        "deep/down/.git/hooks",
        "module",
        ".vscode",
        ".narthex",
        "race",
        "hidden",
    ] {
        fs::create_dir_all(project.join(folder)).unwrap();
    }
    for (file, text) in [
        (".git/config", "[core]"),
        (".git/worktrees/tree/commondir", "../.."),
        ("module/.git", "gitdir: ../.git/modules/module"),
        ("deep/down/.git/config", "[core]"),
        (".envrc", "true"),
        (".mcp.json", "{}"),
        ("race/key", "fine"),
        ("hidden/key", "hidden"),
    ] {
        fs::write(project.join(file), text).unwrap();
    }
    // Whoever listens is gone with this; what is there is what counts where it is covered.
    let listener = listen(&project.join("service.sock"));
    std::mem::forget(listener);
    if site.who.is_other() {
        let owner = format!("{USER}:{USER}");
        let all = Command::new("chown").arg("-R").arg(owner).arg(&project).status();
        assert!(all.unwrap().success());
    }
    project
}

/// A queue of System V that anybody may use: its key and its id.
fn message_queue() -> (i32, i32) {
    for key in (0x4e_000_000_i32..).step_by(7).take(1_000) {
        // SAFETY: a plain call.
        let id = unsafe { libc::msgget(key, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) };
        if id >= 0 {
            return (key, id);
        }
    }
    panic!("no queue can be made: {}", std::io::Error::last_os_error());
}

fn posix_queue(unique: &str) -> CString {
    let name = CString::new(format!("/battery-{unique}")).unwrap();
    let mode: libc::mode_t = 0o666;
    let nothing = std::ptr::null_mut::<libc::mq_attr>();
    // SAFETY: the name outlives the call; without attributes it has those of the system.
    let queue =
        unsafe { libc::mq_open(name.as_ptr(), libc::O_CREAT | libc::O_RDWR, mode, nothing) };
    assert!(queue >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was just made; its mode was cut by the mask of this process.
    unsafe {
        libc::fchmod(queue, 0o666);
        libc::close(queue);
    }
    name
}
