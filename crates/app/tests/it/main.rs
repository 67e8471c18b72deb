//! The program's settings; black-box tests of the binary stand beside them.

mod crash;
mod processes;
mod program;
mod settings;
mod storage;
mod wires;
