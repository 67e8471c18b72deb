//! Those who are told what happens, for measurements and traces.

use std::fmt::Debug;

use protocol::Event;

/// Is told of everything that happens in any session of this process.
pub trait Observer: Send + Sync + Debug {
    /// Takes notice of an event: recorded ones after they are durable, deltas when they are shown;
    /// in order per session, from several threads. Must not block and must not fail: it stands on
    /// the way of every event.
    fn saw(&self, event: &Event);
}
