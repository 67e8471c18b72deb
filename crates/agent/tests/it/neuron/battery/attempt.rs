//! One attempt, and the means to make it.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use super::place::Place;

/// A name, and what is tried.
pub(super) type Attempt = (&'static str, fn(&Place) -> Told);

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It did not succeed, for this reason.
    Held(String),
    /// It did.
    Open(String),
    /// This kernel, machine or run has nothing to try it with.
    Absent(String),
}

impl Told {
    pub(super) fn held(why: impl Into<String>) -> Self {
        Told::Held(why.into())
    }

    pub(super) fn open(what: impl Into<String>) -> Self {
        Told::Open(what.into())
    }

    pub(super) fn absent(why: impl Into<String>) -> Self {
        Told::Absent(why.into())
    }

    /// A success is a hole.
    pub(super) fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Told::open("it succeeded"),
            Err(error) => Told::Held(error.to_string()),
        }
    }

    pub(super) fn open_if(is_open: bool, what: impl Into<String>) -> Self {
        if is_open { Told::Open(what.into()) } else { Told::Held(what.into()) }
    }

    /// One of several ways is enough.
    pub(super) fn any(all: impl IntoIterator<Item = Told>) -> Self {
        let mut last = Told::absent("there is nothing to try");
        for told in all {
            match told {
                Told::Open(_) => return told,
                Told::Held(_) => last = told,
                Told::Absent(_) => {}
            }
        }
        last
    }

    /// One line of the battery's output.
    pub(super) fn line(&self, name: &str) -> String {
        let (word, detail) = match self {
            Told::Held(detail) => ("held", detail),
            Told::Open(detail) => ("open", detail),
            Told::Absent(detail) => ("absent", detail),
        };
        format!("attempt\t{name}\t{word}\t{}", detail.replace(['\n', '\t'], " "))
    }

    /// Reads such a line.
    pub(super) fn parse(line: &str) -> Option<(String, Self)> {
        // What runs the tests writes its own words before the first one.
        let line = line.get(line.find("attempt\t")?..)?;
        let mut parts = line.splitn(4, '\t').skip(1);
        let (name, word, detail) = (parts.next()?, parts.next()?, parts.next()?);
        let told = match word {
            "held" => Told::held(detail),
            "open" => Told::open(detail),
            "absent" => Told::absent(detail),
            _ => return None,
        };
        Some((name.to_owned(), told))
    }
}

/// Makes a system call by its number.
pub(super) fn call(number: libc::c_long, arguments: &[libc::c_long]) -> io::Result<libc::c_long> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: made only inside of a neuron; pointers among the arguments are to objects that the
    // caller keeps until it returns, of the size that the call expects.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The address of an object for [`call`].
pub(super) fn at<T: ?Sized>(object: &T) -> libc::c_long {
    std::ptr::from_ref(object).cast::<u8>() as libc::c_long
}

/// The address of an object that the call writes to.
pub(super) fn into<T: ?Sized>(object: &mut T) -> libc::c_long {
    std::ptr::from_mut(object).cast::<u8>() as libc::c_long
}

/// The address of a path.
pub(super) fn path(text: &CStr) -> libc::c_long {
    text.as_ptr() as libc::c_long
}

/// Makes a fork of this process, which must do little: it has copies of locks that nobody opens.
/// Returns 0 in the fork.
pub(super) fn fork() -> io::Result<i32> {
    // SAFETY: the fork makes system calls and ends by `leave`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Ends a fork.
pub(super) fn leave(code: i32) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(code) }
}

/// Ends a child and waits for it.
pub(super) fn finish(pid: i32, signal: i32) -> i32 {
    let mut status = 0;
    // SAFETY: plain calls; the status outlives them.
    unsafe {
        if signal != 0 {
            libc::kill(pid, signal);
        }
        libc::waitpid(pid, &raw mut status, 0);
    }
    status
}

/// Tries something that would change this process in a fork of it, which has ten seconds. `true`
/// is a success.
pub(super) fn in_fork(try_it: impl FnOnce() -> io::Result<bool>) -> Told {
    match fork() {
        Ok(0) => {
            // SAFETY: a plain call.
            unsafe { libc::alarm(10) };
            leave(match try_it() {
                Ok(true) => 0,
                Ok(false) => 255,
                Err(error) => error.raw_os_error().filter(|code| *code < 255).unwrap_or(254),
            })
        }
        Ok(pid) => {
            let status = finish(pid, 0);
            if libc::WIFSIGNALED(status) {
                return Told::held(format!("died of signal {}", libc::WTERMSIG(status)));
            }
            match libc::WEXITSTATUS(status) {
                0 => Told::open("it succeeded"),
                255 => Told::held("it had no effect"),
                code => Told::held(io::Error::from_raw_os_error(code).to_string()),
            }
        }
        Err(error) => panic!("no fork for an attempt: {error}"),
    }
}

/// Reading something of a file is a success.
pub(super) fn readable(path: impl AsRef<Path>) -> Told {
    let path = path.as_ref();
    let read = File::open(path).and_then(|mut file| file.read(&mut [0; 64]));
    match read {
        Ok(0) => Told::held(format!("{} is empty", path.display())),
        Ok(_) => Told::open(format!("{} was read", path.display())),
        Err(error) => Told::held(error.to_string()),
    }
}

/// Opening a file for writing is a success; nothing is written.
pub(super) fn writable(path: impl AsRef<Path>) -> Told {
    Told::of(OpenOptions::new().write(true).open(path))
}

/// The processes that can be seen.
pub(super) fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
