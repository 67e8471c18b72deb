//! An agent inside a test binary.
//!
//! Tests of other crates need an agent process, and Cargo builds the binary of this crate only
//! for this crate's own tests. So a test binary can be its own agent: it is executed again with
//! one known argument and turns into an agent before its test harness starts (a harness reads the
//! arguments itself and has threads by then, and an agent must have one).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::sys;

/// The argument that makes a test binary an agent.
#[doc(hidden)]
pub const ARGUMENT: &str = "--be-the-embedded-narthex-agent";

/// Makes this test binary able to be an agent. Write it once, in `tests/it/main.rs`; it adds a
/// module `embedded_agent` with `command()`, which returns the command that starts the agent.
#[macro_export]
macro_rules! embed {
    () => {
        #[allow(unsafe_code, reason = "only this section runs before the test harness")]
        mod embedded_agent {
            /// Returns the command that executes this binary as an agent.
            pub(crate) fn command() -> ::std::vec::Vec<::std::ffi::OsString> {
                let own = ::std::env::current_exe().unwrap();
                ::std::vec![own.into_os_string(), $crate::embed::ARGUMENT.into()]
            }

            extern "C" fn start() {
                $crate::embed::start();
            }

            // SAFETY: the section holds pointers to functions of exactly this kind, which the
            // C library calls one after the other before `main`.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static START: extern "C" fn() = start;
        }
    };
}

/// Becomes the agent and never returns, if the arguments say so.
#[doc(hidden)]
pub fn start() {
    // The standard library need not know the arguments yet.
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    if words.next() == Some(ARGUMENT.as_bytes()) {
        // What follows the last word is empty.
        let part = words.next().filter(|part| !part.is_empty()).map(OsStr::from_bytes);
        let code = crate::run_as(part);
        sys::exit_now(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}
