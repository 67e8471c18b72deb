//! Files of the machine, of other neurons, and of the folder that is written through.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::neuron::Layer;
use libc::c_long;

use super::attempt::{Attempt, Told, call, path, processes, readable, writable};
use super::place::Place;
use super::processes::of_the_agent;

/// Sockets by which programs of a machine are told what to do.
const SOCKETS: [&str; 8] = [
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/snapd.socket",
    "/tmp/.X11-unix/X0",
];

pub(super) const LIST: &[Attempt] = &[
    ("a file of the machine by its path", |place| readable(place.path("secret"))),
    ("a file of the machine through the first process's root", |place| {
        readable(below("/proc/1/root", &place.path("secret")))
    }),
    ("a file of the machine through its own root", |place| {
        let up = Path::new("/proc/self/root/../../../..");
        readable(below(up, &place.path("secret")))
    }),
    ("a file of the machine through where others stand", |place| {
        let secret = place.path("secret");
        Told::any(processes().into_iter().flat_map(|pid| {
            let of = |name: &str| below(format!("/proc/{pid}/{name}"), &secret);
            [readable(of("root")), readable(of("cwd")), readable(format!("/proc/{pid}/cwd/key"))]
        }))
    }),
    ("a file of the machine through a link", |place| {
        let link = place.path("folder").join("battery-link");
        let _old = fs::remove_file(&link);
        symlink(place.path("secret"), &link).unwrap();
        readable(&link)
    }),
    ("a file of the machine by a second name", |place| {
        let name = place.path("folder").join("battery-name");
        Told::of(fs::hard_link(place.path("secret"), name))
    }),
    ("a file of the machine that is mounted over", |place| {
        // What lies beneath a mount is seen by whoever stood in it before, or by its own folder.
        Told::any(
            ["/proc/self/cwd", "/proc/thread-self/root", "/dev/fd/../../root"]
                .map(|way| readable(below(way, &place.path("secret")))),
        )
    }),
    ("the descriptors of the agent's processes", |place| {
        if place.is_off(Layer::Pid) || place.is_off(Layer::Mount) {
            return Told::absent("processes of the machine are among them");
        }
        Told::any(
            of_the_agent()
                .into_iter()
                .map(|pid| Told::of(fs::read_link(format!("/proc/{pid}/fd/3")))),
        )
    }),
    ("a descriptor that the launcher was started with", |_| {
        Told::any((3..256).map(|number| {
            let name = CString::new("key").unwrap();
            Told::of(call(libc::SYS_openat, &[number, path(&name), 0]))
        }))
    }),
    ("a shown file opened again for writing", |place| {
        if place.is_off(Layer::Mount) {
            return Told::absent("nothing is shown without a root of its own");
        }
        let file = File::open(super::MARKER).unwrap();
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        Told::any([writable(super::MARKER), writable(again)])
    }),
    ("a shown file by a name without rights", |place| {
        if place.is_off(Layer::Mount) {
            return Told::absent("nothing is shown without a root of its own");
        }
        let name = CString::new(super::MARKER).unwrap();
        let flags = c_long::from(libc::O_PATH);
        let file = call(libc::SYS_openat, &[-100, path(&name), flags]).unwrap();
        let mode = call(libc::SYS_fchmodat, &[-100, path(&name), 0o666]);
        Told::any([writable(format!("/proc/self/fd/{file}")), Told::of(mode)])
    }),
    ("passwords of the machine", |_| {
        Told::any(
            ["shadow", "gshadow", "shadow-", "sudoers"]
                .map(|name| readable(Path::new("/etc").join(name))),
        )
    }),
    ("users of the machine", |_| {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let others = users.lines().filter(|line| {
            !["root:", "neuron:", "nobody:"].iter().any(|own| line.starts_with(own))
        });
        let count = others.count();
        Told::open_if(count > 0, format!("{count} others"))
    }),
    ("a file that is for root alone, in a folder of the base", |place| {
        if place.text("root") == "false" {
            return Told::absent("only root can lay one out");
        }
        readable(place.path("based").join("closed"))
    }),
    ("a file made in a folder of the base", |place| {
        let name = format!("made-{}", place.text("name"));
        // Seen from outside where it came through.
        let _made = fs::write(place.path("based").join(name), "x");
        Told::held("see the folder")
    }),
    ("a file of the base changed", |place| {
        let opened = OpenOptions::new().append(true).open(open_of(place));
        let _written = opened.and_then(|mut file| io::Write::write_all(&mut file, b"changed\n"));
        Told::held("see the folder")
    }),
    ("a file of another neuron", |place| readable(place.path("other"))),
    ("a file of another neuron that is for itself alone", |place| readable(place.path("private"))),
    ("memory shared with the machine", |place| readable(place.path("shared"))),
    ("git's hooks in the folder", |place| made(place, ".git/hooks/pre-commit")),
    ("git's settings in the folder", |place| made(place, ".git/config")),
    ("git's settings replaced by a new file", |place| {
        let git = place.path("folder").join(".git");
        fs::write(git.join("config.lock"), "[core]").unwrap();
        Told::of(fs::rename(git.join("config.lock"), git.join("config")))
    }),
    ("a .git moved away and replaced", |place| {
        let folder = place.path("folder");
        let moved = fs::rename(folder.join(".git"), folder.join("moved"));
        if moved.is_ok() {
            fs::rename(folder.join("moved"), folder.join(".git")).unwrap();
        }
        Told::of(moved)
    }),
    ("hooks of a repository further down", |place| made(place, "deep/down/.git/hooks/post-merge")),
    ("where a worktree is said to be", |place| made(place, "module/.git")),
    ("the hooks that a worktree leads to", |place| made(place, ".git/modules/module/hooks/x")),
    ("whose settings a worktree takes", |place| made(place, ".git/worktrees/tree/commondir")),
    ("what a shell outside executes in the folder", |place| made(place, ".envrc")),
    ("tasks of an editor in the folder", |place| made(place, ".vscode/tasks.json")),
    ("servers that narthex would start in the folder", |place| made(place, ".mcp.json")),
    ("narthex's settings in the folder", |place| made(place, ".narthex/settings.toml")),
    ("a protected folder by renaming one above it in a race", |place| {
        // Names are looked up while the way to them changes.
        let down = place.path("folder").join("deep");
        let aside = place.path("folder").join("aside");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let _gone = fs::rename(&down, &aside);
                    let _back = fs::rename(&aside, &down);
                }
            });
            let mut told = Told::held("it was never written");
            for _ in 0..2_000 {
                for base in [&down, &aside] {
                    if File::create(base.join("down/.git/hooks/raced")).is_ok() {
                        told = Told::open("it was written");
                    }
                }
            }
            is_done.store(true, Ordering::Relaxed);
            told
        })
    }),
    ("a socket of the machine in the folder", |place| {
        Told::of(UnixStream::connect(place.path("folder").join("service.sock")))
    }),
    ("a socket of the machine in a folder of the base", |place| {
        Told::of(UnixStream::connect(place.path("based").join("service.sock")))
    }),
    ("a socket of the machine by its path", |place| {
        Told::of(UnixStream::connect(place.path("socket")))
    }),
    ("the socket of its own agent", |place| agent_of(&place.path("control"))),
    ("sockets of the system and of containers", |_| {
        Told::any(SOCKETS.map(|path| Told::of(UnixStream::connect(path))))
    }),
    ("the layer beneath an overlay by its attributes", |_| {
        let name = CString::new("user.overlay.origin").unwrap();
        let mut value = [0_u8; 256];
        let arguments = [path(c"/usr/bin/env"), path(&name), into_bytes(&mut value), 256];
        match call(libc::SYS_getxattr, &arguments) {
            Ok(_) => Told::open("the overlay's own note was read"),
            Err(error) => Told::held(error.to_string()),
        }
    }),
    ("what is read-only written through a mapping", |place| {
        let file = match File::open(open_of(place)) {
            Ok(file) => file,
            Err(error) => return Told::held(error.to_string()),
        };
        let arguments = [0, 4096, 3, c_long::from(libc::MAP_SHARED), file.as_raw_fd().into(), 0];
        Told::of(call(libc::SYS_mmap, &arguments))
    }),
];

fn into_bytes(bytes: &mut [u8]) -> c_long {
    bytes.as_mut_ptr() as c_long
}

fn below(base: impl AsRef<Path>, path: &Path) -> std::path::PathBuf {
    base.as_ref().join(path.strip_prefix("/").unwrap())
}

/// The file of the base that anybody may write.
fn open_of(place: &Place) -> std::path::PathBuf {
    place.path("based").join(format!("open-{}", place.text("name")))
}

/// Opens a file of the folder for writing, makes it where it is not there.
fn made(place: &Place, name: &str) -> Told {
    let path = place.path("folder").join(name);
    Told::of(OpenOptions::new().create(true).append(true).open(path))
}

/// Whoever is let in is greeted.
fn agent_of(socket: &Path) -> Told {
    let greeted = UnixStream::connect(socket).and_then(|mut stream| {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        io::Write::write_all(&mut stream, &[agent::neuron::COMMANDS])?;
        let mut head = [0; agent::wire::HEADER_LEN];
        stream.read_exact(&mut head)
    });
    Told::of(greeted)
}
