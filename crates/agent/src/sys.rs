//! What the operating system offers and no safe library wraps. The only unsafe code of the agent.
//!
//! JUSTIFICATION: the agent must fork without executing anything (a minder is ready in a fifth of
//! a millisecond that way), place the child in a cgroup as it is born, and spawn with reset
//! signals. All of it relies on the agent having one thread, which [`take_stream`] checks.

pub(crate) mod loop_device;
pub(crate) mod namespace;

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, seek,
};
use rustix::process::Pid;

/// Missing in `libc`; the same number in glibc and musl.
const POSIX_SPAWN_SETSID: libc::c_short = 0x80;

/// `CLONE_INTO_CGROUP` does not fit the type that `libc` gives it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Moves the stream away from standard input and leaves nothing but `/dev/null` on the first
/// three descriptors, so that no command can ever write into the stream.
pub(crate) fn take_stream() -> io::Result<OwnedFd> {
    // SAFETY: nothing else in this process owns descriptor 0 as an object; borrowing it for the
    // two calls below is sound, and a closed one makes them fail.
    let input = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
    rustix::net::getpeername(input)?;
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run already, the agent forks")));
    }
    let stream = rustix::io::fcntl_dupfd_cloexec(input, 3)?;
    blank_standard_files()?;
    Ok(stream)
}

/// Leaves nothing but `/dev/null` on the first three descriptors.
pub(crate) fn blank_standard_files() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..=2 {
        // SAFETY: replacing the standard descriptors affects no owned object of this process.
        if unsafe { libc::dup2(null.as_raw_fd(), number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Closes every descriptor from 3 on but those to keep.
pub(crate) fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut first = 3;
    for kept in keep.iter().copied() {
        close_between(first, kept - 1);
        first = kept + 1;
    }
    close_between(first, RawFd::MAX);
}

fn close_between(first: RawFd, last: RawFd) {
    let (Ok(low), Ok(high)) = (u32::try_from(first), u32::try_from(last)) else { return };
    if low > high {
        return;
    }
    // SAFETY: only called right after the start and right after a fork, where the objects that
    // own these descriptors are either not made yet or never dropped.
    let done = unsafe { libc::syscall(libc::SYS_close_range, low, high, 0) };
    if done == 0 {
        return;
    }
    // Kernels before 5.9 have no close_range.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let names = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    for number in names.collect::<Vec<_>>() {
        if (first..=last).contains(&number) {
            // SAFETY: as above; a number that is closed already only gives an error.
            unsafe { libc::close(number) };
        }
    }
}

/// Ignores what a terminal or a service manager sends to whole groups: the agent ends when its
/// stream closes, because until then somebody waits for true exit statuses. SIGPIPE is an error of
/// `write` here.
pub(crate) fn ignore_signals() {
    let ignored = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    for signal in ignored {
        // SAFETY: SIG_IGN is a valid disposition for each of these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Turns the deaths of children into something to poll: blocks SIGCHLD and returns a descriptor
/// that is readable while one is pending.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set, the other calls only read it; the mask is that of
    // the only thread. A SIGCHLD that was ignored by our parent would hide exits, hence SIG_DFL.
    let number = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut());
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Empties what [`child_signals`] returned. However many children ended, one signal is pending;
/// one that comes right after makes the descriptor readable again.
pub(crate) fn drain_signals(signals: &OwnedFd) {
    let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let _count = rustix::io::read(signals, &mut buffer);
}

/// Which side of a fork this is.
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

/// Forks, and places the child in a cgroup where one is given. Placing at birth matters: to move
/// a process later takes a lock over all forks of the machine for about ten milliseconds.
pub(crate) fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Side> {
    if let Some(cgroup) = cgroup {
        let args = CloneArgs {
            flags: CLONE_INTO_CGROUP,
            exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
            cgroup: u64::from(cgroup.as_raw_fd().unsigned_abs()),
            ..CloneArgs::default()
        };
        // SAFETY: without CLONE_VM this is a fork: the child goes on with a copy of this memory
        // and stack. The process has one thread, so no lock is held by a thread that is gone.
        let pid =
            unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
        if let Ok(pid) = i32::try_from(pid)
            && pid >= 0
        {
            return Ok(Pid::from_raw(pid).map_or(Side::Child, Side::Parent));
        }
        // Too old a kernel, a filter, or no right to that cgroup: a plain fork still does.
    }
    // SAFETY: as above: one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid).map_or(Side::Child, Side::Parent)),
    }
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Ends this process without running anything that belongs to the process it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: always sound; that nothing is dropped or flushed is the point.
    unsafe { libc::_exit(code) }
}

/// Names the process for `ps`. At most 15 bytes are shown.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the pointer is to a terminated string that outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Puts bytes where a program can read them as a file: in memory, at their beginning, sealed so
/// that nobody can change them any more. A pipe would have to be fed while the program runs.
pub(crate) fn input_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Some systems insist that such a file can never be executed; kernels before 6.3 do not know
    // that flag.
    let file = memfd_create(c"input", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create(c"input", flags))?;
    crate::handover::write_all(&file, bytes)?;
    seek(&file, SeekFrom::Start(0))?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Starts a program: in a session of its own (so without a terminal), standard input as given or
/// else as it is here, the two outputs as given, default signal dispositions and an empty mask,
/// nothing else inherited. Returns when it was executed, or why it could not be.
pub(crate) fn spawn(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    (input, [out, err]): (Option<BorrowedFd<'_>>, [BorrowedFd<'_>; 2]),
) -> io::Result<Pid> {
    let mut files = FileActions::new()?;
    if let Some(input) = input {
        files.dup2(input, libc::STDIN_FILENO)?;
    }
    files.dup2(out, libc::STDOUT_FILENO)?;
    files.dup2(err, libc::STDERR_FILENO)?;
    let attributes = Attributes::new()?;
    let argv = pointers(argv);
    let env = pointers(env);
    let mut pid = 0;
    // SAFETY: all pointers are to initialised objects that outlive the call, and both lists end
    // with a null pointer. posix_spawn does not write through them.
    let failure = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const files.0,
            &raw const attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    check(failure)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))
}

fn pointers(list: &[CString]) -> Vec<*mut libc::c_char> {
    list.iter().map(|item| item.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// The `posix_spawn` family returns its error number.
fn check(failure: libc::c_int) -> io::Result<()> {
    if failure == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failure)) }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init initialises the object when it returns 0.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Self(actions.assume_init()))
        }
    }

    fn dup2(&mut self, from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
        // SAFETY: the object is initialised.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from.as_raw_fd(), to)
        })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut made = MaybeUninit::uninit();
        // SAFETY: init initialises the object when it returns 0; the sets are initialised by
        // sigfillset and sigemptyset before they are read.
        unsafe {
            check(libc::posix_spawnattr_init(made.as_mut_ptr()))?;
            let mut attributes = Self(made.assume_init());
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigfillset(set.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, set.as_ptr()))?;
            libc::sigemptyset(set.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, set.as_ptr()))?;
            #[allow(clippy::cast_possible_truncation, reason = "both flags are below 16")]
            let resets = (libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK) as i16;
            let flags = resets | POSIX_SPAWN_SETSID;
            check(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}
