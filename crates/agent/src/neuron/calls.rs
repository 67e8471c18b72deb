//! The system calls that a neuron may make. Everything else does not exist for it (`ENOSYS`), as
//! on an older kernel: programs then do without, or by older means.
//!
//! Not in the list, each for what it has opened before: `io_uring` (sockets and files past every
//! filter), `keyctl` and its like (keys are not in namespaces), `ptrace` and the reading of other
//! processes' memory, `bpf`, `perf_event_open`, `userfaultfd`, new namespaces and mounts, handles
//! of files, modules, clocks, swap, quotas, and what passes its flags where they cannot be looked
//! at (`clone3`, `openat2`; libraries fall back to the older calls).
//!
//! Nor can the limit of core dumps be changed: it is what keeps the machine's handler of them away.
//!
//! Nor can a file be made that lends its owner's rights to whoever executes it: in a folder that is
//! written through, the owner is somebody of the machine.

mod search;

use std::collections::BTreeMap;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET,
    CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, c_long,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompRule,
};

/// Namespaces of time have no constant in every version of the C library.
const CLONE_NEWTIME: u64 = 0x80;

/// All that makes a new namespace.
const NAMESPACES: u64 = CLONE_NEWTIME
    | (CLONE_NEWCGROUP as u64)
    | (CLONE_NEWIPC as u64)
    | (CLONE_NEWNET as u64)
    | (CLONE_NEWNS as u64)
    | (CLONE_NEWPID as u64)
    | (CLONE_NEWUSER as u64)
    | (CLONE_NEWUTS as u64);

/// The bits of a file's mode that lend its owner's rights.
const LENDING: u64 = 0o6000;

/// The flags with which an open takes a mode: `O_CREAT`, and what tells `O_TMPFILE`.
const MAKING: u64 = 0o100 | 0o20_000_000;

/// Calls that set a mode, and which argument it is.
const MODES: &[(c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that set a mode where their flags say so, and which arguments those are.
const OPENS: &[(c_long, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// Puts characters into a terminal's input as if they had been typed.
const TIOCSTI: u64 = 0x5412;
/// Reads and writes the console.
const TIOCLINUX: u64 = 0x541C;

/// Execution domains: the plain one, without random addresses (debuggers, some runtimes), and the
/// question which it is.
const PERSONALITIES: [u64; 3] = [0, 0x0004_0000, 0xffff_ffff];

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Allowed whatever their arguments are.
const PLAIN: &[c_long] = calls![
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres
    SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect
    SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait
    SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_faccessat
    SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchown SYS_fchownat SYS_fcntl
    SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr SYS_fsetxattr
    SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_mempolicy
    SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid
    SYS_getgroups SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid
    SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid SYS_getrusage SYS_getsid
    SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel SYS_io_destroy
    SYS_io_getevents SYS_io_setup SYS_io_submit SYS_ioprio_get SYS_ioprio_set SYS_kill
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lgetxattr
    SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr
    SYS_madvise SYS_mbind SYS_membarrier SYS_memfd_create SYS_mincore SYS_mkdirat SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open
    SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_msgctl SYS_msgget
    SYS_msgrcv SYS_msgsnd SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_nanosleep
    SYS_newfstatat SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free
    SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2
    SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead SYS_readlinkat
    SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr
    SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending
    SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend
    SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_semctl SYS_semget
    SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_mempolicy
    SYS_set_robust_list SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups
    SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid SYS_setresuid
    SYS_setreuid SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl
    SYS_shmdt SYS_shmget SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socketpair SYS_splice
    SYS_statfs SYS_statx SYS_symlinkat SYS_sync SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill
    SYS_timer_create SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime
    SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate
    SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write
    SYS_writev
];

/// Older forms, most of which only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = calls![
    SYS_access SYS_alarm SYS_arch_prctl SYS_chown SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_getdents
    SYS_getpgrp SYS_getrlimit SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_pause
    SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_renameat SYS_rmdir SYS_select
    SYS_signalfd SYS_stat SYS_symlink SYS_sync_file_range SYS_time SYS_unlink SYS_utime
    SYS_utimes SYS_vfork
];

/// `renameat`, `sync_file_range`, `getrlimit`, which the C library's bindings leave out here.
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[38, 84, 163];

#[cfg(target_arch = "x86_64")]
const SETRLIMIT: c_long = libc::SYS_setrlimit;
/// Left out there as well.
#[cfg(not(target_arch = "x86_64"))]
const SETRLIMIT: c_long = 164;

fn condition(
    argument: u8,
    width: Width,
    operation: Is,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, width, operation, value)
}

/// Compiles the list for this architecture.
///
/// # Errors
/// On an architecture for which there are no filters.
pub(super) fn filter() -> Result<BpfProgram, BackendError> {
    search::program(&rules()?)
}

/// What is allowed: whatever the arguments are where there is no rule, else where one fits.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        PLAIN.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let no_namespace = condition(0, Width::Qword, Is::MaskedEq(NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace])?]);
    let mut families = Vec::new();
    for family in [AF_UNIX, AF_INET, AF_INET6] {
        let family = condition(0, Width::Dword, Is::Eq, u64::from(family.unsigned_abs()))?;
        families.push(SeccompRule::new(vec![family])?);
    }
    // Of the kernel's own sockets the one that lists interfaces: runtimes ask for their names.
    families.push(SeccompRule::new(vec![
        condition(0, Width::Dword, Is::Eq, u64::from(AF_NETLINK.unsigned_abs()))?,
        condition(2, Width::Dword, Is::Eq, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))?,
    ])?);
    rules.insert(libc::SYS_socket, families);
    let not = |value| condition(1, Width::Dword, Is::Ne, value);
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![not(TIOCSTI)?, not(TIOCLINUX)?])?]);
    let mut personalities = Vec::new();
    for value in PERSONALITIES {
        let same = condition(0, Width::Dword, Is::Eq, value)?;
        personalities.push(SeccompRule::new(vec![same])?);
    }
    rules.insert(libc::SYS_personality, personalities);
    // A core dump goes to whatever program the machine has for them, with its rights, unless the
    // limit is exactly 1; see `restrict::limit`.
    let core = u64::from(libc::RLIMIT_CORE);
    let no_core = |argument| condition(argument, Width::Dword, Is::Ne, core);
    rules.insert(SETRLIMIT, vec![SeccompRule::new(vec![no_core(0)?])?]);
    let asks_only = condition(2, Width::Qword, Is::Eq, 0)?;
    let either = [SeccompRule::new(vec![no_core(1)?])?, SeccompRule::new(vec![asks_only])?];
    rules.insert(libc::SYS_prlimit64, either.to_vec());
    let lends_nothing =
        |mode| condition(mode, Width::Dword, Is::MaskedEq(LENDING), 0).map(|mode| vec![mode]);
    for (call, mode) in MODES {
        rules.insert(*call, vec![SeccompRule::new(lends_nothing(*mode)?)?]);
    }
    for (call, flags, mode) in OPENS {
        let makes_nothing = condition(*flags, Width::Dword, Is::MaskedEq(MAKING), 0)?;
        let either =
            [SeccompRule::new(vec![makes_nothing])?, SeccompRule::new(lends_nothing(*mode)?)?];
        rules.insert(*call, either.to_vec());
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_compiles_and_names_nothing_twice() {
        let program = filter().unwrap();
        assert!(
            program.len() < 4_096,
            "the kernel takes 4,096 instructions, not {}",
            program.len()
        );
        let mut calls: Vec<_> = PLAIN.iter().chain(OLDER).collect();
        let count = calls.len();
        calls.sort();
        calls.dedup();
        assert_eq!(calls.len(), count);
    }

    #[test]
    fn what_opened_doors_before_is_not_in_it() {
        let closed: &[c_long] = calls![
            SYS_add_key SYS_bpf SYS_chroot SYS_clone3 SYS_delete_module SYS_finit_module
            SYS_fsopen SYS_init_module SYS_io_uring_enter SYS_io_uring_register
            SYS_io_uring_setup SYS_kexec_load SYS_keyctl SYS_mount SYS_mount_setattr
            SYS_move_mount SYS_name_to_handle_at SYS_openat2 SYS_open_by_handle_at SYS_open_tree
            SYS_perf_event_open SYS_pidfd_getfd SYS_pivot_root SYS_process_vm_readv
            SYS_process_vm_writev SYS_ptrace SYS_quotactl SYS_reboot SYS_request_key SYS_setns
            SYS_swapon SYS_syslog SYS_umount2 SYS_unshare SYS_userfaultfd SYS_vhangup
        ];
        for call in closed {
            assert!(!PLAIN.contains(call) && !OLDER.contains(call), "{call}");
        }
    }
}
