//! The kernel: a session is a fold. Pure and synchronous.
//!
//! [`evolve`] folds one recorded event, [`decide`] says which events a command adds, [`pending`]
//! says what the world still owes. Time, ids and randomness come in with the command; nothing in
//! here waits, reads or writes. Recovery, replay and the transcript for the model are the same
//! fold over the same log.

mod command;
mod decide;
mod evolve;
mod pending;
mod state;
mod transcript;

pub(crate) use command::{Command, Ending, ModelAnswer};
pub(crate) use decide::{decide, nobody};
pub(crate) use evolve::evolve;
pub(crate) use pending::{Owed, pending};
pub(crate) use state::{SNAPSHOT_VERSION, State, id_hash};
pub(crate) use transcript::Transcript;

#[cfg(test)]
mod tests;
