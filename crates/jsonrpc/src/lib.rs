//! JSON-RPC 2.0, one message per line, with requests in both directions.
//!
//! **What**: [`open`] makes of two byte streams a [`Peer`] to call and answer with, an [`Inbox`] of
//! what the other side asks, and an [`Outbox`] that writes.
//! **Knows** nobody.
//! **Never** starts a task or knows a method. What is no message is answered here and goes no
//! further; every line, queue and wait has a limit. Batches are refused.
#![deny(missing_docs)]

mod inbox;
mod line;
mod message;
mod outbox;
mod peer;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub use inbox::Inbox;
pub use line::LINE_BYTES_MAX;
pub use message::{Call, ErrorObject, Id};
pub use outbox::Outbox;
pub use peer::{CallError, Peer};

/// Messages that wait to be written: a burst of a turn fits, and whoever does not read holds up
/// senders instead of filling the memory.
const OUTGOING_MAX: usize = 256;

/// Makes a connection of what the other side writes and what it reads. The inbox has to be asked
/// and the outbox be run, or nothing moves.
pub fn open<R, W>(reader: R, writer: W) -> (Peer, Inbox<R>, Outbox<W>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (outgoing, waiting) = mpsc::channel(OUTGOING_MAX);
    let shared = Arc::new(peer::Shared::new(outgoing));
    let inbox = Inbox::new(reader, Arc::clone(&shared));
    let outbox = Outbox::new(writer, waiting, Arc::clone(&shared));
    (Peer::new(shared), inbox, outbox)
}

#[cfg(test)]
mod tests;
