//! `cargo xtask demo`: the main job, from a clean clone to a repaired project.

use anyhow::Result;

use crate::house::House;
use crate::{needs, process, say};

/// Builds in the dev profile and runs `narthex demo` with the arguments.
///
/// # Errors
/// When something cannot be installed or built, or the demonstration fails.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    say::line("This builds narthex and its workspace agent in the dev profile (a release build");
    say::line("takes several times as long), then runs `narthex demo`: a scripted model repairs");
    say::line("a small broken project in a temporary folder with the real tools.");
    say::line("It needs no key and, once cargo has its crates, no network.\n");
    needs::ensure(&[needs::GIT, needs::BASH, needs::COMPILER])?;
    let house = House::open()?;
    say::step("build", || house.build())?;
    process::run(process::program(house.binary("narthex")).arg("demo").args(arguments))
}
