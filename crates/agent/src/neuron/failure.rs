//! Errors that know at which step they happened.

use std::io;

use super::layer::Layer;
use super::plan::{Failure, Missing};

pub(super) type Outcome<T> = Result<T, Failure>;

/// Names the step at which something failed.
pub(super) trait At<T> {
    fn at(self, step: &str) -> Outcome<T>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: &str) -> Outcome<T> {
        self.map_err(|error| {
            let error = error.into();
            Failure {
                step: step.to_owned(),
                errno: error.raw_os_error().unwrap_or_default(),
                cause: error.to_string(),
            }
        })
    }
}

/// A failure that is nothing of the system's.
pub(super) fn refused(step: &str, cause: impl Into<String>) -> Failure {
    Failure { step: step.to_owned(), errno: 0, cause: cause.into() }
}

/// What is told of a layer that does without.
pub(super) fn missing(layer: Layer, reason: impl Into<String>) -> Missing {
    Missing { layer, reason: reason.into() }
}
