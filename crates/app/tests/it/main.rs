//! The program's settings; black-box tests of the binary stand beside them.

mod settings;
mod crash;
mod processes;
mod program;
mod storage;
mod wires;
