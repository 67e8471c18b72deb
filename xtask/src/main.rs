//! The menu and the kitchen: every task of this repository is a command of `cargo xtask`.
//!
//! **What**: builds, checks, tests, generated files, the demonstration.
//! **Knows** the repository from outside: files, manifests, programs; none of its crates.
//! **Never** is part of the product, and never does what a plain cargo command does as well.

mod house;
mod limits;
mod menu;
mod needs;
mod node;
mod process;
mod say;
mod task;
mod tidy;
mod tree;
mod venv;

fn main() -> std::process::ExitCode {
    menu::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
