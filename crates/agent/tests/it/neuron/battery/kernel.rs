//! Calls of the kernel that have opened doors before: namespaces, mounts, other processes' memory,
//! keys, programs in the kernel, and what belongs to the machine as a whole.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_long;

use super::attempt::{Attempt, Told, at, call, finish, fork, in_fork, into, leave, path};
use super::place::namespace;

const CURRENT: c_long = libc::AT_FDCWD as c_long;
const NEW_USER: c_long = libc::CLONE_NEWUSER as c_long;
const NEW_MOUNTS: c_long = libc::CLONE_NEWNS as c_long;

pub(super) const LIST: &[Attempt] = &[
    ("a user namespace by unshare", |_| unshared(NEW_USER)),
    ("a mount namespace by unshare", |_| unshared(NEW_MOUNTS)),
    ("a network namespace by unshare", |_| unshared(libc::CLONE_NEWNET as c_long)),
    ("a process namespace by unshare", |_| unshared(libc::CLONE_NEWPID as c_long)),
    ("a user namespace by clone", |_| {
        in_fork(|| {
            let flags = NEW_USER | libc::SIGCHLD as c_long;
            left(call(libc::SYS_clone, &[flags])?)
        })
    }),
    ("a user namespace by clone3", |_| {
        in_fork(|| {
            let mut words = [0_u64; 11];
            words[0] = libc::CLONE_NEWUSER.unsigned_abs().into();
            words[4] = libc::SIGCHLD.unsigned_abs().into();
            left(call(libc::SYS_clone3, &[at(&words), size_of_val(&words) as c_long])?)
        })
    }),
    ("a mount in a user namespace of its own", |_| {
        in_fork(|| {
            call(libc::SYS_unshare, &[NEW_USER | NEW_MOUNTS])?;
            tmpfs(c"/tmp")
        })
    }),
    ("the first process's mounts by setns", |_| joined("/proc/1/ns/mnt")),
    ("the first process's users by setns", |_| joined("/proc/1/ns/user")),
    ("the first process's namespaces by its pidfd", |_| {
        in_fork(|| {
            let first = call(libc::SYS_pidfd_open, &[1, 0])?;
            call(libc::SYS_setns, &[first, NEW_MOUNTS | NEW_USER]).map(|_| true)
        })
    }),
    ("the owner of the mounts by ioctl", |_| {
        // The namespace that owns ours is not ours: whoever has it can enter it.
        climbed("mnt", 0xb701)
    }),
    ("the parent user namespace by ioctl", |_| climbed("user", 0xb702)),
    ("the parent process namespace by ioctl", |_| climbed("pid", 0xb702)),
    ("a tmpfs mounted", |_| in_fork(|| tmpfs(c"/tmp"))),
    ("a folder bound over /proc", |_| mounted(c"/tmp", c"/proc", libc::MS_BIND)),
    ("the layer moved elsewhere", |_| mounted(c"/home/neuron", c"/dev/shm", libc::MS_MOVE)),
    ("/proc mounted anew, writable", |_| mounted(c"", c"/proc", libc::MS_REMOUNT | libc::MS_BIND)),
    ("/proc unmounted", |_| unmounted(c"/proc")),
    ("the cover of /proc/keys unmounted", |_| unmounted(c"/proc/keys")),
    ("a file system by fsopen", |_| Told::of(call(libc::SYS_fsopen, &[path(c"tmpfs"), 0]))),
    ("a copy of the root by open_tree", |_| {
        Told::of(call(libc::SYS_open_tree, &[CURRENT, path(c"/"), 1]))
    }),
    ("a mount changed by mount_setattr", |_| {
        let writable = [0_u64, libc::MOUNT_ATTR_RDONLY, 0, 0];
        let arguments =
            [CURRENT, path(c"/proc"), 0, at(&writable), size_of_val(&writable) as c_long];
        Told::of(call(libc::SYS_mount_setattr, &arguments))
    }),
    ("cgroups mounted", |_| {
        let arguments = [path(c"none"), path(c"/tmp"), path(c"cgroup2"), 0, 0];
        in_fork(|| call(libc::SYS_mount, &arguments).map(|_| true))
    }),
    ("another root by pivot_root", |_| {
        in_fork(|| call(libc::SYS_pivot_root, &[path(c"."), path(c".")]).map(|_| true))
    }),
    ("out of a chroot", |_| in_fork(|| call(libc::SYS_chroot, &[path(c"/tmp")]).map(|_| true))),
    ("the first process traced", |_| {
        let seize = c_long::from(libc::PTRACE_SEIZE);
        Told::of(call(libc::SYS_ptrace, &[seize, 1, 0, 0]))
    }),
    ("a process of its own traced", |_| {
        with_child(|child| {
            let seize = c_long::from(libc::PTRACE_SEIZE);
            call(libc::SYS_ptrace, &[seize, child, 0, 0])
        })
    }),
    ("memory of the first process read", |_| Told::of(other_memory(libc::SYS_process_vm_readv, 1))),
    ("memory of the first process written", |_| {
        Told::of(other_memory(libc::SYS_process_vm_writev, 1))
    }),
    ("memory of a process of its own read", |_| {
        with_child(|child| other_memory(libc::SYS_process_vm_readv, child))
    }),
    ("a descriptor of the first process", |_| {
        let first = call(libc::SYS_pidfd_open, &[1, 0]);
        Told::of(first.and_then(|first| call(libc::SYS_pidfd_getfd, &[first, 3, 0])))
    }),
    ("objects compared with the first process", |_| {
        Told::of(call(libc::SYS_kcmp, &[own_pid(), 1, 0, 0, 0]))
    }),
    ("a session of keys", |_| in_fork(|| call(libc::SYS_keyctl, &[1, 0]).map(|_| true))),
    ("a key", |_| {
        let arguments = [path(c"user"), path(c"battery"), path(c"x"), 1, -2];
        in_fork(|| call(libc::SYS_add_key, &arguments).map(|_| true))
    }),
    ("a ring of io_uring", |_| {
        let mut parameters = [0_u32; 30];
        closed(call(libc::SYS_io_uring_setup, &[1, into(&mut parameters)]))
    }),
    ("a map of bpf", |_| {
        let array = [2_u32, 4, 4, 1, 0, 0, 0, 0];
        closed(call(libc::SYS_bpf, &[0, at(&array), size_of_val(&array) as c_long]))
    }),
    ("a counter of perf", |_| {
        let mut attributes = [0_u8; 64];
        // A software clock of this process alone, without the kernel's part.
        attributes[0] = 1;
        attributes[4] = 64;
        attributes[40] = 0b0110_0000;
        closed(call(libc::SYS_perf_event_open, &[at(&attributes), 0, -1, -1, 0]))
    }),
    ("page faults in user space", |_| closed(call(libc::SYS_userfaultfd, &[1]))),
    ("files watched by fanotify", |_| closed(call(libc::SYS_fanotify_init, &[0x200, 0]))),
    ("a file opened by its handle", |_| Told::of(by_handle())),
    ("the kernel's log", |_| {
        let mut text = [0_u8; 256];
        Told::of(call(libc::SYS_syslog, &[3, into(&mut text), 256]))
    }),
    ("a module loaded", |_| {
        let file = call(libc::SYS_memfd_create, &[path(c"module"), 0]).unwrap();
        let told = Told::of(call(libc::SYS_finit_module, &[file, path(c""), 0]));
        closed(Ok(file));
        told
    }),
    ("a module removed", |_| Told::of(call(libc::SYS_delete_module, &[path(c"no_such"), 0]))),
    ("another kernel by kexec", |_| Told::of(call(libc::SYS_kexec_load, &[0, 0, 0, 0]))),
    ("the machine's clock", |_| {
        let mut now = [0_i64; 2];
        call(libc::SYS_clock_gettime, &[0, into(&mut now)]).unwrap();
        Told::of(call(libc::SYS_clock_settime, &[0, at(&now)]))
    }),
    ("the host name", |_| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let name = name.trim();
        Told::of(call(libc::SYS_sethostname, &[at(name.as_bytes()), name.len() as c_long]))
    }),
    ("a swap file", |_| Told::of(call(libc::SYS_swapon, &[path(c"battery-swap"), 0]))),
    ("quotas", |_| Told::of(call(libc::SYS_quotactl, &[0x8000_0100, 0, 0, 0]))),
    ("accounting of processes", |_| Told::of(call(libc::SYS_acct, &[path(c"battery-accounts")]))),
    ("the keys that restart the machine", |_| {
        let arguments = [0xfee1_dead_u32 as c_long, 672_274_793, 0, 0];
        Told::of(call(libc::SYS_reboot, &arguments))
    }),
    ("a personality without protection of memory", |_| {
        in_fork(|| call(libc::SYS_personality, &[0x0040_0000]).map(|_| true))
    }),
    ("pages of the first process moved", |_| {
        let mut status = [0_i32];
        let page = [at(&status)];
        Told::of(call(libc::SYS_move_pages, &[1, 1, at(&page), 0, into(&mut status), 0]))
    }),
    ("ports of the processor", |_| ports()),
    ("calls of the 32-bit kind", |_| old_kind()),
    ("calls of the x32 kind", |_| {
        // `getpid`, with the bit that tells them apart.
        Told::of(call(0x4000_0000 + 39, &[]))
    }),
    ("a filter of its own that allows everything", |_| {
        in_fork(|| {
            let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
            let program = libc::sock_fprog { len: 1, filter: &raw const allow as *mut _ };
            call(libc::SYS_seccomp, &[1, 0, at(&program)])?;
            call(libc::SYS_unshare, &[NEW_USER]).map(|_| true)
        })
    }),
    ("sockets to virtual machines", |_| socket(40, 1, 0)),
    ("sockets of packets", |_| socket(libc::AF_PACKET, 3, 0)),
    ("sockets of ciphers", |_| socket(libc::AF_ALG, 5, 0)),
    ("sockets of XDP", |_| socket(44, 3, 0)),
    ("netlink of the firewall", |_| socket(libc::AF_NETLINK, 3, 12)),
    ("netlink of the audit", |_| socket(libc::AF_NETLINK, 3, 9)),
    ("netlink of everything else", |_| socket(libc::AF_NETLINK, 3, 16)),
];

fn own_pid() -> c_long {
    std::process::id().into()
}

/// A descriptor that came of a call is closed again.
fn closed(result: io::Result<c_long>) -> Told {
    if let Ok(number) = &result {
        // SAFETY: it was just made and nobody else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(i32::try_from(*number).unwrap()) });
    }
    Told::of(result)
}

/// A clone of a fork leaves at once.
fn left(pid: c_long) -> io::Result<bool> {
    if pid == 0 {
        leave(0);
    }
    finish(i32::try_from(pid).unwrap_or_default(), 0);
    Ok(true)
}

fn unshared(flags: c_long) -> Told {
    in_fork(|| call(libc::SYS_unshare, &[flags]).map(|_| true))
}

fn joined(namespace: &str) -> Told {
    in_fork(|| {
        let file = fs::File::open(namespace)?;
        call(libc::SYS_setns, &[file.as_raw_fd().into(), 0]).map(|_| true)
    })
}

/// Asks for a relative of a namespace. That of our own is no climb.
fn climbed(name: &str, request: c_long) -> Told {
    let file = fs::File::open(format!("/proc/self/ns/{name}")).unwrap();
    match call(libc::SYS_ioctl, &[file.as_raw_fd().into(), request]) {
        Ok(number) => {
            // SAFETY: it was just made and nobody else owns it.
            let found = unsafe { OwnedFd::from_raw_fd(i32::try_from(number).unwrap()) };
            let link = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).unwrap();
            let is_own = namespace("user").as_deref() == link.to_str();
            Told::open_if(!is_own, format!("{}", link.display()))
        }
        Err(error) => Told::held(error.to_string()),
    }
}

fn tmpfs(place: &std::ffi::CStr) -> io::Result<bool> {
    let arguments = [path(c"none"), path(place), path(c"tmpfs"), 0, 0];
    call(libc::SYS_mount, &arguments)?;
    call(libc::SYS_umount2, &[path(place), 0]).map(|_| true)
}

fn mounted(from: &std::ffi::CStr, place: &std::ffi::CStr, flags: libc::c_ulong) -> Told {
    Told::of(call(libc::SYS_mount, &[path(from), path(place), 0, flags as c_long, 0]))
}

fn unmounted(place: &std::ffi::CStr) -> Told {
    Told::of(call(libc::SYS_umount2, &[path(place), c_long::from(libc::MNT_DETACH)]))
}

/// Tries something with a child that sleeps.
fn with_child(try_it: impl FnOnce(c_long) -> io::Result<c_long>) -> Told {
    let child = fork().unwrap();
    if child == 0 {
        // SAFETY: a plain call, at most until its parent ends it or is gone.
        unsafe { libc::sleep(10) };
        leave(0);
    }
    let told = Told::of(try_it(child.into()));
    finish(child, libc::SIGKILL);
    told
}

/// Reads or writes one byte of another process, at an address that a fork of this one has too.
fn other_memory(number: c_long, pid: c_long) -> io::Result<c_long> {
    let mut byte = [0_u8];
    let part = [into(&mut byte), 1];
    match call(number, &[pid, at(&part), 1, at(&part), 1, 0]) {
        // It was let as far as the other one's memory.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
        done => done,
    }
}

fn by_handle() -> io::Result<()> {
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut mount = [0_i32];
    call(
        libc::SYS_name_to_handle_at,
        &[CURRENT, path(c"/tmp"), into(&mut handle), into(&mut mount), 0],
    )?;
    let root = fs::File::open("/")?;
    call(libc::SYS_open_by_handle_at, &[root.as_raw_fd().into(), at(&handle), 0]).map(drop)
}

fn socket(family: i32, kind: i32, protocol: c_long) -> Told {
    closed(call(libc::SYS_socket, &[family.into(), kind.into(), protocol]))
}

#[cfg(target_arch = "x86_64")]
fn ports() -> Told {
    Told::any([
        Told::of(call(libc::SYS_iopl, &[3])),
        Told::of(call(libc::SYS_ioperm, &[0x80, 1, 1])),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn ports() -> Told {
    Told::absent("this processor has none")
}

/// The way into the kernel of 32-bit programs, which has numbers of its own: 20 is `getpid` there.
#[cfg(target_arch = "x86_64")]
fn old_kind() -> Told {
    in_fork(|| {
        let result: i64;
        // SAFETY: the call has no arguments; what it may change is named.
        unsafe {
            std::arch::asm!(
                "int 0x80",
                inlateout("rax") 20_i64 => result,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        Ok(result > 0)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn old_kind() -> Told {
    Told::absent("this processor has none")
}
