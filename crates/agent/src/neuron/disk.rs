//! File systems in images, mounted for nobody but whoever holds the mount.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use crate::sys::loop_device;

/// How often it is tried where the device that stands for the image is just let go of: a tenth of
/// a second in all.
const TRIES: usize = 50;

/// The time in between.
const PAUSE: Duration = Duration::from_millis(2);

/// Mounts an image that holds an ext4 file system, and returns the mount. It is in no folder of the
/// machine: it ends, and the device is free again, when everything is closed that leads into it.
/// Where the image is mounted already, it is the same file system that is seen.
///
/// # Errors
/// Where the caller is not root, and where there are no loop devices or no ext4.
pub fn mount_image(image: &Path) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(image)?;
    let mut tries = 0;
    loop {
        tries += 1;
        match mount(&file) {
            Ok(mount) => return Ok(mount),
            Err(error) if tries < TRIES && is_passing(&error) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
}

/// What is told of a device that lost its file while it was opened.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::NXIO, Errno::BUSY, Errno::NODEV, Errno::INVAL, Errno::IO];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn mount(file: &File) -> io::Result<OwnedFd> {
    // Two devices for one image would be two file systems that destroy each other.
    let (number, _device) = match find(file)? {
        Some(found) => found,
        None => loop_device::attach(file)?,
    };
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", loop_device::path(number))?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Finds the device that stands for a file, where there is one.
fn find(file: &File) -> io::Result<Option<(u32, OwnedFd)>> {
    let facts = file.metadata()?;
    let Ok(entries) = std::fs::read_dir("/sys/block") else { return Ok(None) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        let Some(number) = number.filter(|_| entry.path().join("loop").exists()) else { continue };
        if let Some(device) = loop_device::open_of(number, (facts.dev(), facts.ino())) {
            return Ok(Some((number, device)));
        }
    }
    Ok(None)
}
