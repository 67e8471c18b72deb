//! Copying what a neuron wrote, for another one that begins with it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ::agent::neuron::layout;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid,
    XattrFlags, chownat, copy_file_range, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat,
    ftruncate, futimens, linkat, mkdirat, mknodat, openat, readlinkat, seek, statat, symlinkat,
    utimensat,
};
use rustix::io::Errno;

/// How deep folders may be nested in what is copied: each level takes two descriptors, and no
/// project comes near.
const DEPTH_MAX: usize = 128;

/// How many bytes of a file are copied at once.
const CHUNK: usize = 1 << 20;

/// How many bytes the names of a file's attributes, and the value of one, may have: what Linux
/// itself allows.
const ATTRIBUTE_MAX: usize = 64 << 10;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whose files become whose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    pub(super) from: u32,
    pub(super) to: u32,
}

/// Copies a neuron's layer into an empty folder: contents, bits, times, links, overlay's marks.
/// What overlayfs needs for its work is left out, and sockets, which nobody listens on.
pub(super) fn copy_layer(from: &Path, to: &Path, owners: Option<Owners>) -> Result<(), Errno> {
    let (from, to) = (open(CWD, from)?, open(CWD, to)?);
    let mut copy = Copy { top: &to, owners, linked: HashMap::new() };
    for name in [layout::HOME, layout::TMP, layout::WORKSPACE, layout::FOLDER_UPPER] {
        copy.below(&from, Path::new(name))?;
    }
    match open(&from, Path::new(layout::SYSTEM)) {
        Ok(system) => {
            for name in names(&system)? {
                let upper = Path::new(layout::SYSTEM).join(text(&name)).join("upper");
                copy.below(&from, &upper)?;
            }
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn text(name: &CStr) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())
}

struct Copy<'a> {
    top: &'a OwnedFd,
    owners: Option<Owners>,
    /// Files with more than one name, by device and number, and the first name of each.
    linked: HashMap<(u64, u64), PathBuf>,
}

impl Copy<'_> {
    /// Copies one folder of the layer, where it is there, and makes those above it.
    fn below(&mut self, from: &OwnedFd, path: &Path) -> Result<(), Errno> {
        let source = match open(from, path) {
            Ok(source) => source,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (mut source_above, mut target_above) =
            (open(from, Path::new("."))?, open(self.top, Path::new("."))?);
        for part in path.parent().into_iter().flat_map(Path::components) {
            let part = Path::new(part.as_os_str());
            source_above = open(&source_above, part)?;
            target_above = made(&target_above, part)?;
            self.dress(&source_above, &target_above, &fstat(&source_above)?)?;
        }
        let name = path.file_name().map(Path::new).ok_or(Errno::INVAL)?;
        self.folder(&source, &made(&target_above, name)?, (path, 0))
    }

    fn folder(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        (path, depth): (&Path, usize),
    ) -> Result<(), Errno> {
        if depth > DEPTH_MAX {
            return Err(Errno::LOOP);
        }
        for name in names(from)? {
            let stat = statat(from, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let path = path.join(text(&name));
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    mkdirat(to, &name, Mode::RWXU)?;
                    let (inner, made) = (open(from, &name)?, open(to, &name)?);
                    self.folder(&inner, &made, (&path, depth + 1))?;
                }
                FileType::RegularFile => self.file((from, to), &name, &stat, path)?,
                FileType::Symlink => {
                    let target = readlinkat(from, &name, Vec::new())?;
                    symlinkat(&target, to, &name)?;
                    self.dress_name(to, &name, &stat)?;
                }
                // A mark of overlayfs: what lies below under this name is gone.
                FileType::CharacterDevice if stat.st_rdev == 0 => {
                    mknodat(to, &name, FileType::CharacterDevice, Mode::empty(), 0)?;
                    self.dress_name(to, &name, &stat)?;
                }
                FileType::Fifo => {
                    mknodat(
                        to,
                        &name,
                        FileType::Fifo,
                        Mode::from_raw_mode(stat.st_mode & 0o777),
                        0,
                    )?;
                    self.dress_name(to, &name, &stat)?;
                }
                _ => {}
            }
        }
        // Last: making entries changes the time, and the bits may forbid it.
        self.dress(from, to, &fstat(from)?)
    }

    fn file(
        &mut self,
        (from, to): (&OwnedFd, &OwnedFd),
        name: &CStr,
        stat: &Stat,
        path: PathBuf,
    ) -> Result<(), Errno> {
        if stat.st_nlink > 1 {
            if let Some(first) = self.linked.get(&(stat.st_dev, stat.st_ino)) {
                match linkat(self.top, first, to, name, AtFlags::empty()) {
                    // Where it cannot be named any more, or has as many names as may be, it is
                    // copied.
                    Err(Errno::NAMETOOLONG | Errno::MLINK) => {}
                    done => return done,
                }
            } else {
                self.linked.insert((stat.st_dev, stat.st_ino), path);
            }
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = openat(from, name, flags, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let target = openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
        fill(&source, &target, u64::try_from(stat.st_size).unwrap_or_default())?;
        self.dress(&source, &target, stat)
    }

    /// Gives a copy its attributes, owner, bits and times.
    fn dress(&self, from: &OwnedFd, to: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
        attributes(from, to)?;
        if let Some((uid, gid)) = self.owner(stat) {
            fchown(to, Some(uid), Some(gid))?;
        }
        // After the owner: a change of owner takes some bits away.
        fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        futimens(to, &times(stat))
    }

    /// The same for what cannot be opened.
    fn dress_name(&self, to: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.owner(stat) {
            chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Whose a copy is to be; nothing where all files are this process's own.
    fn owner(&self, stat: &Stat) -> Option<(Uid, Gid)> {
        let Owners { from, to } = self.owners?;
        let turned = |id: u32| if id == from { to } else { id };
        Some((Uid::from_raw(turned(stat.st_uid)), Gid::from_raw(turned(stat.st_gid))))
    }
}

fn open(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, path, FOLDER, Mode::empty())
}

/// Opens a folder of the copy; what the driver made before is taken as it is.
fn made(above: &OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    match mkdirat(above, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open(above, name),
        Err(error) => Err(error),
    }
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn times(stat: &Stat) -> Timestamps {
    #[allow(
        clippy::useless_conversion,
        clippy::cast_possible_wrap,
        reason = "the fields differ between architectures"
    )]
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as i64 };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Copies what a file holds and leaves its holes: a file may seem larger than any disk.
fn fill(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut at = 0;
    while at < size {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        let end = seek(from, SeekFrom::Hole(start))?.min(size);
        copy_part(from, to, start, end)?;
        at = end.max(start + 1);
    }
    ftruncate(to, size)
}

fn copy_part(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> Result<(), Errno> {
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let (mut source, mut target) = (at, at);
        let count = match copy_file_range(from, Some(&mut source), to, Some(&mut target), len) {
            // Between some file systems the kernel does not copy by itself.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                copy_by_hand(from, to, at, len)?
            }
            copied => copied?,
        };
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    Ok(())
}

fn copy_by_hand(from: &OwnedFd, to: &OwnedFd, at: u64, len: usize) -> Result<usize, Errno> {
    let mut buffer = vec![0; len.min(CHUNK)];
    let count = rustix::io::pread(from, &mut buffer, at)?;
    let mut written = 0;
    while let Some(rest) = buffer.get(written..count).filter(|rest| !rest.is_empty()) {
        written += rustix::io::pwrite(to, rest, at + written as u64)?;
    }
    Ok(count)
}

/// Takes over what users and overlayfs wrote beside a file. Rights that a file lends are not among
/// it: no neuron can lend any.
fn attributes(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    let mut list = vec![0_u8; ATTRIBUTE_MAX];
    let len = match flistxattr(from, &mut list) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(()),
        len => len?,
    };
    let mut value = vec![0_u8; ATTRIBUTE_MAX];
    for name in list.get(..len).unwrap_or_default().split(|byte| *byte == 0) {
        if name.starts_with(b"user.") || name.starts_with(b"trusted.overlay.") {
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            let len = fgetxattr(from, &name, &mut value)?;
            fsetxattr(to, &name, value.get(..len).unwrap_or_default(), XattrFlags::empty())?;
        }
    }
    Ok(())
}
