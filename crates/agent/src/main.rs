//! The agent as a program of its own.

fn main() {}
