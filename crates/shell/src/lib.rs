//! Which commands does a command line run, which files does it write, and what cannot be told?
//!
//! **What**: [`read`] takes a line apart into a [`Script`]: every simple command wherever it
//! stands, its words resolved as the shell would resolve them, the files that redirections write
//! and read, and the reasons why some of it cannot be told.
//! **Knows** nobody.
//! **Never** runs anything, does no I/O and never fails: what it cannot read it says so about.
//!
//! Two grammars of bash read each line. They know nothing of each other, so that a gap of one is
//! seen by the other: where one finds an error, or where they do not find the same commands, the
//! line is *opaque*. Words are resolved by a third reading of our own, which has to find the same
//! substitutions as the grammar. Each substitution is read again as a line of its own.
#![deny(missing_docs)]

mod arithmetic;
mod assignment;
mod bounds;
mod braces;
mod filter;
mod gather;
mod git;
mod interpreter;
mod looking;
mod outline;
mod program;
mod runners;
mod script;
mod second;
mod tree;
mod variables;
mod word;
mod wrapper;

pub use looking::{looks, only_looks};
pub use script::{BLANK, Part, Role, Script, UNKNOWN, Word, Write};

/// Reads a command line. Never fails: what it cannot read it marks.
#[must_use]
pub fn read(command: &str) -> Script {
    gather::read(command)
}
