//! Frames that take descriptors along: a command's outputs, on their way to its minder.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};

/// How many descriptors go with a command: its two outputs.
pub(crate) const FILES: usize = 2;

/// How much room the system needs to pass them.
pub(crate) const FILES_SPACE: usize = rustix::cmsg_space!(ScmRights(FILES));

/// Writes a whole frame to a socket, with descriptors that the receiver gets copies of.
pub(crate) fn hand_over(
    to: impl AsFd,
    frame: &[u8],
    files: &[BorrowedFd<'_>; FILES],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); FILES_SPACE];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let fits = along.push(SendAncillaryMessage::ScmRights(files));
    debug_assert!(fits, "the room is made for them");
    let parts = [IoSlice::new(frame)];
    let sent = rustix::io::retry_on_intr(|| sendmsg(&to, &parts, &mut along, SendFlags::NOSIGNAL))?;
    // They belong to the first byte; what did not fit at once follows plainly.
    write_all(to, frame.get(sent..).unwrap_or_default())
}

/// Writes all of it, waiting for room where that is needed.
pub(crate) fn write_all(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let mut unsent = bytes;
    while !unsent.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::write(&to, unsent))?;
        unsent = unsent.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Makes a pipe whose read end does not block; the command's end does, as programs expect.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}
