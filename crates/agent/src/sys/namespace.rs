//! Namespaces, detached mounts, and the loopback device.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

use super::{CLONE_INTO_CGROUP, CloneArgs, Side};

/// Forks into new namespaces (`CLONE_NEW…`), and into a cgroup of the second version where one is
/// given and the system lets us. Tells on the parent's side whether the child is in it.
pub(crate) fn fork_apart(
    namespaces: u64,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<(Side, bool)> {
    if let Some(cgroup) = cgroup {
        let within = clone(&CloneArgs {
            flags: namespaces | CLONE_INTO_CGROUP,
            cgroup: u64::from(cgroup.as_raw_fd().unsigned_abs()),
            exit_signal: exit_signal(),
            ..CloneArgs::default()
        });
        if let Ok(side) = within {
            return Ok((side, true));
        }
    }
    let args = CloneArgs { flags: namespaces, exit_signal: exit_signal(), ..CloneArgs::default() };
    Ok((clone(&args)?, false))
}

fn exit_signal() -> u64 {
    u64::from(libc::SIGCHLD.unsigned_abs())
}

fn clone(args: &CloneArgs) -> io::Result<Side> {
    // SAFETY: without CLONE_VM this is a fork: the child goes on with a copy of this memory and
    // stack. The process has one thread, so no lock is held by a thread that is gone.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const *args, size_of::<CloneArgs>()) };
    match i32::try_from(pid) {
        Ok(pid) if pid >= 0 => Ok(Pid::from_raw(pid).map_or(Side::Child, Side::Parent)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Leaves namespaces for new ones.
pub(crate) fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: neither memory nor descriptors are unshared, and the process has one thread.
    if unsafe { libc::unshare(namespaces) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What to change of a mount.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MountChange<'a> {
    /// `MOUNT_ATTR_…` to set.
    pub(crate) set: u64,
    /// The user namespace whose map says as whom a file's owner appears.
    pub(crate) map: Option<BorrowedFd<'a>>,
    /// Whether all mounts below are meant too.
    pub(crate) is_recursive: bool,
}

/// Changes a mount that nobody else sees yet.
pub(crate) fn change_mount(mount: impl AsFd, change: MountChange<'_>) -> io::Result<()> {
    let mut attributes = MaybeUninit::<libc::mount_attr>::zeroed();
    // SAFETY: it has only numbers, for which zero is a value.
    let attributes = unsafe { attributes.assume_init_mut() };
    attributes.attr_set = change.set;
    if let Some(map) = change.map {
        attributes.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attributes.userns_fd = u64::from(map.as_raw_fd().unsigned_abs());
    }
    let recursive = if change.is_recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and terminated, the structure outlives the call, its size is told.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const *attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Switches the loopback device of this network namespace on.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: plain system calls; the structure is zeroed, of the size that the kernel expects,
    // and outlives both. The flag is IFF_UP, whose constant is of another width. The descriptor
    // is ours alone and closed by its owner.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request = MaybeUninit::<libc::ifreq>::zeroed().assume_init();
        for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = 1;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Drops every capability from the set that executed programs could regain. Those that the kernel
/// does not know are past the end.
pub(crate) fn empty_bounding_set() -> io::Result<()> {
    for capability in 0_u64..64 {
        // SAFETY: a plain system call without pointers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0_u64, 0_u64, 0_u64) } < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// The credentials of the process at the other end of a Unix socket: its id (0 where it is in
/// another process namespace) and its user.
pub(crate) fn peer(stream: impl AsFd) -> io::Result<(i32, u32)> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or_default();
    // SAFETY: the kernel writes at most `length` bytes into the structure, which has only numbers.
    unsafe {
        let done = libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &raw mut length,
        );
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let credentials = credentials.assume_init();
        Ok((credentials.pid, credentials.uid))
    }
}

/// Asks the kernel for its version of landlock; 0 where there is none.
pub(crate) fn landlock_abi() -> u32 {
    // SAFETY: with this flag the call only returns a number and looks at no memory.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, 1_u32)
    };
    u32::try_from(version).unwrap_or_default()
}
