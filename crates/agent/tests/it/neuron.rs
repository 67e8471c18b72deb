//! Neurons, as root and as an ordinary user.

#[allow(
    unsafe_code,
    clippy::print_stdout,
    reason = "the battery makes system calls that no safe library offers, and tells of each"
)]
mod battery;
mod ends;
mod files;
mod house;
mod inside;
mod limits;
mod network;
mod probe;
