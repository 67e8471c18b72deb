//! The public contract: one golden file per kind of event.

mod events;
mod schema;
