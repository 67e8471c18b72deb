//! The kernel: a session is a fold. Pure and synchronous.
//!
//! [`evolve`] folds one recorded event, [`decide`] says which events a command adds, [`pending`]
//! says what the world still owes. Time, ids and randomness come in with the command; nothing in
//! here waits, reads or writes. Recovery, replay and the transcript for the model are the same
//! fold over the same log.

mod command;
mod decide;
mod evolve;
mod marks;
mod pending;
mod repeats;
mod state;
mod transcript;
mod view;

pub(crate) use command::{Command, Decided, Ending, ModelAnswer, NewPrompt};
pub(crate) use decide::{GO_ON, decide, nobody, said, title_of, would_finish};
pub(crate) use evolve::{FREED_PERCENT_MIN, IMAGE_BYTES, OUTPUT_FORMAT, evolve, text_of};
pub(crate) use marks::{Marks, is_shown};
pub(crate) use pending::{Owed, pending};
pub(crate) use repeats::TOLD_AT;
pub(crate) use state::{
    BYTES_PER_TOKEN, CallStage, Point, SNAPSHOT_VERSION, State, TOOLS_MAX, Turn, id_hash,
};
pub(crate) use transcript::{BLOCKED, OUTCOME_UNKNOWN, TOO_LONG, Transcript, is_withdrawn};
pub(crate) use view::View;

#[cfg(test)]
mod tests;
