//! What a line itself puts into variables.

use std::collections::BTreeMap;

/// What is known of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Every value is a number.
    pub(crate) is_number: bool,
    /// No value begins like an option.
    pub(crate) starts_safely: bool,
}

/// The variables that a line sets. What it does not set comes from outside and is taken for
/// harmless as a number, since no line can have chosen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    bound: BTreeMap<String, Bound>,
    /// Whether any variable may be set to anything.
    is_open: bool,
}

impl Variables {
    /// Notes one more value of a variable.
    pub(crate) fn bind(&mut self, name: &str, bound: Bound) {
        let known = self.bound.entry(name.to_owned()).or_insert(bound);
        known.is_number &= bound.is_number;
        known.starts_safely &= bound.starts_safely;
    }

    /// Notes that any variable may have any value.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    pub(crate) fn is_number(&self, name: &str) -> bool {
        !self.is_open && self.bound.get(name).is_none_or(|bound| bound.is_number)
    }

    pub(crate) fn starts_safely(&self, name: &str) -> bool {
        !self.is_open && self.bound.get(name).is_some_and(|bound| bound.starts_safely)
    }
}
