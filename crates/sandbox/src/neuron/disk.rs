//! The limited disk of a neuron: an image that holds a file system, where this machine can mount
//! one. The launcher mounts it for the neuron alone, so that nothing of it is left on the machine
//! when the neuron is gone; this process mounts it beside, for itself alone, to look at it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::home::Folder;

/// The name of the image in the neuron's folder.
const IMAGE: &str = "disk.img";

/// Where the program that makes file systems is. Not everybody's `PATH` has its folder.
const MAKERS: [&str; 4] =
    ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4", "/bin/mkfs.ext4"];

/// The least bytes for a file system: below it is mostly its own tables.
const BYTES_MIN: u64 = 2 << 20;

/// From how many bytes on a journal of 4 MiB does not take too much of them.
const JOURNAL_FROM: u64 = 64 << 20;

/// Returns the image of a neuron, where it has one.
pub(super) fn image(folder: &Folder) -> Option<PathBuf> {
    Some(folder.path().join(IMAGE)).filter(|path| path.is_file())
}

/// Removes it.
pub(super) fn remove(folder: &Folder) -> io::Result<()> {
    match std::fs::remove_file(folder.path().join(IMAGE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the image of a neuron. It takes room on the machine as it is filled.
///
/// # Errors
/// Says why it cannot be: the disk is in memory then.
pub(super) fn make(folder: &Folder, bytes: u64, uid: Option<u32>) -> Result<(), String> {
    let in_memory = |why: &str| {
        format!(
            "the limited disk is in memory, counts as memory of the neuron and cannot be forked: \
             {why}"
        )
    };
    if uid.is_none() {
        return Err(in_memory("only root can mount a file system of its own"));
    }
    if bytes < BYTES_MIN {
        return Err(in_memory(&format!("a file system needs {BYTES_MIN} bytes or more")));
    }
    let Some(maker) = MAKERS.iter().find(|path| Path::new(path).is_file()) else {
        return Err(in_memory("there is no mkfs.ext4 here, install e2fsprogs"));
    };
    fill(maker, &folder.path().join(IMAGE), bytes).map_err(|error| {
        let _removed = remove(folder);
        in_memory(&format!("no file system can be made: {error}"))
    })
}

#[allow(clippy::disallowed_methods, reason = "this crate is the one that starts processes")]
fn fill(maker: &str, image: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(image)?;
    file.set_len(bytes)?;
    let ran = Command::new(maker)
        // Nothing is kept for root, who never writes there.
        .args(["-q", "-F", "-m", "0"])
        .args(journal(bytes))
        .args(["-E", "lazy_itable_init=0,nodiscard"])
        .arg(image)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!("{maker}: {}", said.lines().next().unwrap_or("it failed"))))
}

/// Says how what was being written when the machine stopped is put right: a neuron that is started
/// again, or looked at, has a disk that nobody checked before.
fn journal(bytes: u64) -> [&'static str; 2] {
    if bytes < JOURNAL_FROM { ["-O", "^has_journal"] } else { ["-J", "size=4"] }
}

/// A neuron's layer, as long as this is kept.
#[derive(Debug)]
pub(super) struct Reached {
    path: PathBuf,
    _mount: Option<OwnedFd>,
}

impl Reached {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the layer of a neuron: its folder, or what its image holds.
pub(super) fn reach(folder: &Folder) -> io::Result<Reached> {
    let Some(image) = image(folder) else {
        return Ok(Reached { path: folder.layer(), _mount: None });
    };
    let mount = ::agent::neuron::mount_image(&image)?;
    // The point makes it a folder to whoever follows no link.
    let path = PathBuf::from(format!("/proc/self/fd/{}/.", mount.as_raw_fd()));
    Ok(Reached { path, _mount: Some(mount) })
}
