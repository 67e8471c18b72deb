//! Measures Narthex against a floor in the same run, and prints one table.
//!
//! **What**: `cargo xtask bench`. `bench/README.md` says what each row means.
//! **Knows** the built program from outside, and the SDK for what happens inside one process.
//! **Never** is part of the product; never compares figures of different runs.

mod arguments;
mod floor;
mod machine;
mod measure;
mod memory;
mod model_server;
mod moment;
mod neurons;
mod program;
mod served;
mod summary;
mod table;
mod wire;

use std::process::ExitCode;

use arguments::Task;

/// Does what the arguments (without the program's name) ask for.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let outcome = match arguments::read(arguments) {
        Ok(Task::Help) => table::line(arguments::HELP),
        Ok(Task::Floor { address, recording }) => floor::run(&address, &recording),
        Ok(Task::FloorServer { recording }) => served::floor::run(&recording),
        Ok(Task::Measure(options)) => measure::run(&options),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            table::complain(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
