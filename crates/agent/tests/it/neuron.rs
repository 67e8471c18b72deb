//! Neurons, as root and as an ordinary user.

#[allow(unsafe_code, reason = "the battery makes system calls that no safe library offers")]
mod battery;
mod ends;
mod files;
mod house;
mod inside;
mod limits;
mod network;
mod probe;
