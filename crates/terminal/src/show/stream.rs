//! `stream-json`: every event of the agent as one line, as the schema has it.

use std::io;

use protocol::Event;
use protocol::event::EventClass;

use crate::Console;

/// Prints an event, unless it is the server's or the core's own.
pub(super) fn event(event: &Event, console: &mut Console) -> io::Result<()> {
    match event.body.kind().class() {
        EventClass::Public | EventClass::Delta => {
            let json = serde_json::to_string(event).map_err(io::Error::other)?;
            console.json(&json)
        }
        EventClass::Server | EventClass::Internal => Ok(()),
    }
}
