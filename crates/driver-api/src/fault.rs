//! Faults: our own failures, as drivers report them.

use std::fmt;

/// A failure that is nobody's wish: a lost disk, a bug. The text is for the log; callers at a door
/// see only that there was one.
#[derive(Debug)]
pub struct Fault {
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    /// Makes a fault that says what was tried, in lower case without a full stop.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// Makes a fault with its cause.
    pub fn with(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { what: what.into(), source: Some(source.into()) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
