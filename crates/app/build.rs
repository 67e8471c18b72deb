//! Link options of the program.
//!
//! A position-independent program carries a table of places that the loader adjusts at each start:
//! 1.3 MiB here, all of it read, which then counts as memory of every process. Packed it is a
//! hundredth of that. A C library older than 2.36 cannot read the packed form, so that it is used
//! only where the machine that builds has a newer one.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is("PROFILE", "release") && is_glibc && is_native && reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns whether the C library of this machine is at least 2.36.
#[allow(clippy::disallowed_methods, reason = "this runs when the program is built")]
fn reads_packed_relocations() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.trim().trim_start_matches("glibc ").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (2, 36),
        _ => false,
    }
}
