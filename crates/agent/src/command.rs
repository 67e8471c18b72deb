//! A command as the agent sees it: its minder, its output, what its reader may still be sent.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::crew::Minder;
use crate::handover::FILES;
use crate::outbox::Outbox;
use crate::wire::{FRAME_COST, OUTPUT_MAX, Reply, Stream, WINDOW};

/// How much output is still taken once the tree is gone. A pipe holds at most this much; more can
/// only come from a stranger who was handed the pipe.
const DRAIN_MAX: usize = 1 << 20;

/// How far a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its minder lives.
    Minded,
    /// Its minder died; the agent ends what is left.
    Orphaned,
    /// Nothing of it lives any more; this is to be said when its output is through.
    Over(Reply),
}

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    /// Absent once it has no more to do with this command: it may have another already.
    pub(crate) minder: Option<Minder>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    pub(crate) stage: Stage,
    /// Output waits until the start was told: a quick command writes before its minder speaks.
    pub(crate) is_started: bool,
    credit: u32,
    drained: usize,
}

impl Command {
    pub(crate) fn new(minder: Minder, [out, err]: [OwnedFd; FILES]) -> Self {
        Self {
            minder: Some(minder),
            out: Some(out),
            err: Some(err),
            stage: Stage::Minded,
            is_started: false,
            credit: WINDOW,
            drained: 0,
        }
    }

    /// Writes a whole frame to the minder, as long as it has to do with this command.
    pub(crate) fn tell(&self, frame: &[u8]) -> io::Result<()> {
        self.minder.as_ref().map_or(Ok(()), |minder| minder.tell(frame))
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    /// Gives back what the reader took.
    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes).min(WINDOW);
    }

    /// Returns the pipes that may be read now.
    pub(crate) fn readable(&self) -> impl Iterator<Item = (Stream, &OwnedFd)> {
        let out = self.out.as_ref().map(|pipe| (Stream::Stdout, pipe));
        let err = self.err.as_ref().map(|pipe| (Stream::Stderr, pipe));
        let may_read = self.may_read();
        [out, err].into_iter().flatten().filter(move |_| may_read)
    }

    fn may_read(&self) -> bool {
        self.is_started && self.credit > FRAME_COST
    }

    /// Reads one piece of a stream into the outbox.
    pub(crate) fn relay(&mut self, id: u32, stream: Stream, outbox: &mut Outbox) {
        let room = self.credit.saturating_sub(FRAME_COST) as usize;
        let is_over = self.is_over();
        let pipe = match stream {
            Stream::Stdout => &mut self.out,
            Stream::Stderr => &mut self.err,
        };
        let Some(open) = pipe else { return };
        let mut buffer = [0; OUTPUT_MAX];
        let part = buffer.get_mut(..room.min(OUTPUT_MAX)).unwrap_or_default();
        match rustix::io::retry_on_intr(|| rustix::io::read(&*open, &mut *part)) {
            Ok(count @ 1..) => {
                outbox.push_output(id, stream, part.get(..count).unwrap_or_default());
                let cost = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(FRAME_COST);
                self.credit = self.credit.saturating_sub(cost);
                if is_over {
                    self.drained += count;
                }
            }
            // Somebody outside of the tree may hold the pipe for ever: empty is enough.
            Err(Errno::AGAIN) if !is_over => {}
            Ok(_) | Err(_) => *pipe = None,
        }
        if self.drained > DRAIN_MAX {
            self.stop_reading();
        }
    }

    /// Closes the pipes: nobody reads any more.
    pub(crate) fn stop_reading(&mut self) {
        self.out = None;
        self.err = None;
    }

    /// Sends on what the pipes of a command that is over still hold, as far as the reader and
    /// the outbox have room. Returns the last word once everything is through.
    pub(crate) fn finish(&mut self, id: u32, outbox: &mut Outbox) -> Option<Reply> {
        let Stage::Over(last) = self.stage.clone() else { return None };
        if !self.is_started {
            // Its minder died before it could say so: nobody waits for output.
            self.stop_reading();
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.is_open(stream) && self.may_read() && !outbox.is_full() {
                self.relay(id, stream, outbox);
            }
        }
        (self.out.is_none() && self.err.is_none()).then_some(last)
    }

    fn is_open(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.out.is_some(),
            Stream::Stderr => self.err.is_some(),
        }
    }
}
