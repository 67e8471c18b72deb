//! A value that never reaches a log, a message or a file by accident.

use std::fmt;

/// Holds a secret: neither `Debug` nor `Display` shows it and it does not serialise.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a secret value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Gives the value to the one place that needs it; the name makes every use easy to find.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_hides_the_value() {
        let text = format!("{:?}", Secret::new("sk-very-secret"));
        assert_eq!(text, "Secret(…)");
    }
}
