//! What the fuzz targets reach of this crate: the parsers of what a neuron says.

use crate::hello;
use crate::target::Target;

/// Reads `host:port` and writes it in its one spelling.
///
/// # Errors
/// What is wrong with it.
pub fn target(authority: &str, default_port: Option<u16>) -> Result<String, String> {
    Target::parse(authority, default_port).map(|target| target.to_string())
}

/// What the first bytes of a stream say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// There is more to come.
    Unfinished,
    /// A hello with one reading, and the name in it.
    Whole(Option<String>),
    /// Anything else.
    Refused,
}

/// Reads the first bytes of a stream as a tunnel does.
pub fn hello(bytes: &[u8]) -> Hello {
    match hello::parse(bytes) {
        Ok(None) => Hello::Unfinished,
        Ok(Some(name)) if hello::second_opinion(bytes).as_ref() == Some(&name) => {
            Hello::Whole(name)
        }
        Ok(Some(_)) | Err(_) => Hello::Refused,
    }
}
