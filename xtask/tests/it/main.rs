//! What fuzzing found, held by ordinary tests: no fuzzer, no nightly toolchain.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    unused_attributes,
    reason = "the targets are programs of their own, written for a fuzzer"
)]

// The targets ask this crate for the macro that the fuzzer's crate has for them elsewhere.
extern crate self as libfuzzer_sys;

mod replay;

/// Makes a function of a target.
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        pub(crate) fn check($data: &[u8]) {
            $body
        }
    };
    (|$text:ident: &str| $body:block) => {
        pub(crate) fn check(data: &[u8]) {
            let Ok($text) = std::str::from_utf8(data) else { return };
            $body
        }
    };
}
pub(crate) use fuzz_target;
