//! A minder: starts a command, waits for it, ends whatever is left of it, and is ready for the
//! next one where nothing had to be ended.

#[cfg(test)]
mod tests;
mod watch;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::process::{Pid, set_child_subreaper};

use self::watch::Watch;
use crate::handover::{FILES, write_all};
use crate::inbox::Inbox;
use crate::tree::{Reaped, Tree, reap};
use crate::wire::{Reply, Request, Spawn, Step, VERSION};
use crate::{program, sys};

/// What a minder keeps from one command to the next.
#[derive(Debug)]
struct Post {
    /// The socket to the agent; its end is the agent's death. Absent after that.
    control: Option<OwnedFd>,
    signals: OwnedFd,
    inbox: Inbox,
    /// Descriptors that came and belong to the command that comes.
    files: Vec<OwnedFd>,
    /// Frames that are to be said together.
    unsaid: Vec<u8>,
    tree: Tree,
}

/// A command, and the write ends of its outputs.
#[derive(Debug)]
struct Task {
    id: u32,
    spawn: Spawn,
    outputs: [OwnedFd; FILES],
}

/// Lives the life of a minder. Called in a fresh fork; every other descriptor is closed already.
///
/// # Errors
/// When the agent cannot be reached any more while no command runs.
pub(crate) fn mind(control: OwnedFd) -> io::Result<()> {
    sys::set_name(c"narthex-minder");
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut post = Post {
        control: Some(control),
        signals: sys::child_signals()?,
        inbox: Inbox::default(),
        files: Vec::new(),
        unsaid: Vec::new(),
        tree: Tree::of_self(),
    };
    while let Some(task) = post.wait_for_task()? {
        if !post.serve(task)? {
            break;
        }
    }
    Ok(())
}

impl Post {
    /// Appends a frame to what is said next.
    fn note(&mut self, id: u32, reply: &Reply) {
        let encoded = reply.encode(id, &mut self.unsaid);
        debug_assert!(encoded.is_ok(), "what a minder says is short");
    }

    fn say(&mut self) -> io::Result<()> {
        let said = self.control.as_ref().map_or(Ok(()), |to| write_all(to, &self.unsaid));
        self.unsaid.clear();
        said
    }

    fn refuse(&mut self, id: u32, errno: Errno) -> io::Result<()> {
        self.note(id, &Reply::Failed { step: Step::Launch, errno: errno.raw_os_error() });
        self.say()
    }

    /// Returns nothing when the agent is gone, or spoke in a way that cannot be followed.
    fn wait_for_task(&mut self) -> io::Result<Option<Task>> {
        loop {
            if let Some(frame) = self.inbox.next().map_err(io::Error::other)? {
                let id = frame.header.id;
                match Request::decode(frame.header.kind, frame.payload) {
                    Ok(Request::Spawn(spawn)) => return self.take_up(id, spawn),
                    // Meant for a command that has ended.
                    Ok(Request::Kill { .. } | Request::Credit { .. }) => {}
                    Err(_) => return self.refuse(id, Errno::INVAL).map(|()| None),
                }
            } else {
                let Some(control) = &self.control else { return Ok(None) };
                if self.inbox.fill_with_files(control, &mut self.files)? == 0 {
                    return Ok(None);
                }
            }
        }
    }

    fn take_up(&mut self, id: u32, spawn: Spawn) -> io::Result<Option<Task>> {
        match <[OwnedFd; FILES]>::try_from(std::mem::take(&mut self.files)) {
            Ok(outputs) => Ok(Some(Task { id, spawn, outputs })),
            // The system drops those for which the receiver has no room.
            Err(_) => self.refuse(id, Errno::MFILE).map(|()| None),
        }
    }

    /// Sees a command to its end and reports it. Returns whether everything here is as it was
    /// before, so that another command may come.
    fn serve(&mut self, task: Task) -> io::Result<bool> {
        let Task { id, spawn, outputs: [out, err] } = task;
        let started = start(&spawn, [out.as_fd(), err.as_fd()]);
        // From here on the command and its descendants alone hold the outputs open.
        drop((spawn, out, err));
        let (last, is_plain) = match started {
            Ok(command) => {
                let outcome = Watch::new(self, id, command).until_gone();
                (Reply::Ended(outcome.ended), outcome.is_plain)
            }
            Err((step, errno)) => (Reply::Failed { step, errno }, matches!(reap(), Reaped::None)),
        };
        // The folder of a command that is over must not be kept busy.
        let is_ready = std::env::set_current_dir("/").is_ok() && is_plain;
        self.note(id, &last);
        if is_ready {
            self.note(id, &Reply::Hello { version: VERSION });
        }
        self.say()?;
        Ok(is_ready && self.control.is_some())
    }
}

/// Starts a command whose outputs are given.
fn start(spawn: &Spawn, outputs: [BorrowedFd<'_>; FILES]) -> Result<Pid, (Step, i32)> {
    let at = |step| {
        move |error: io::Error| (step, error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
    };
    let name = spawn.argv.first().map_or(b"".as_slice(), Vec::as_slice);
    let argv = strings(&spawn.argv).map_err(at(Step::Program))?;
    let env = strings(&spawn.env).map_err(at(Step::Launch))?;
    // A minder has one command at a time, so it can stand in the command's folder itself.
    std::env::set_current_dir(OsStr::from_bytes(&spawn.cwd)).map_err(at(Step::Folder))?;
    let path = program::find(name, &spawn.env).map_err(at(Step::Program))?;
    // Without any it is the empty one of this process.
    let input = if spawn.stdin.is_empty() { None } else { Some(sys::input_of(&spawn.stdin)) };
    let input = input.transpose().map_err(at(Step::Launch))?;
    let files = (input.as_ref().map(AsFd::as_fd), outputs);
    sys::spawn(&path, &argv, &env, files).map_err(at(Step::Program))
}

/// Texts with a NUL byte cannot be passed on.
fn strings(list: &[Vec<u8>]) -> io::Result<Vec<CString>> {
    list.iter().map(|item| CString::new(item.as_slice()).map_err(io::Error::from)).collect()
}
