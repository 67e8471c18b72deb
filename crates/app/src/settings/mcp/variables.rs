//! Which variables the user's own servers read: those that may hold a secret are kept from
//! commands and from other programs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use crate::environment::Environment;

/// What commands cannot do without, and what no secret is in.
const USUAL: [&str; 12] = [
    "HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "TERM", "TMPDIR", "HOSTNAME", "TZ",
    "DISPLAY",
];

/// The environment, with a note of what was read of it.
#[derive(Debug)]
pub(super) struct Noting<'a> {
    environment: &'a Environment,
    secret: RefCell<BTreeSet<String>>,
}

impl<'a> Noting<'a> {
    pub(super) fn new(environment: &'a Environment) -> Self {
        Self { environment, secret: RefCell::default() }
    }

    /// Returns a variable, and notes it where it may be a secret.
    pub(super) fn look(&self, name: &str) -> Option<String> {
        let value = self.environment.raw(name)?;
        if may_be_secret(name, value) {
            self.secret.borrow_mut().insert(name.to_owned());
        }
        Some(value.to_owned())
    }

    /// Returns what was noted.
    pub(super) fn secret(self) -> BTreeSet<String> {
        self.secret.into_inner()
    }
}

/// Tells whether a variable may hold a secret: any may, but for those that every program has, and
/// for a place that is there.
fn may_be_secret(name: &str, value: &str) -> bool {
    let is_usual = USUAL.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_");
    let path = Path::new(value);
    let is_place = path.is_absolute() && path.exists();
    !(is_usual || value.is_empty() || is_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_noted_but_for_places_and_what_everybody_has() {
        let variables =
            [("HOME", "/root"), ("PAT", "s3cret"), ("GOPATH", "/"), ("EMPTY", ""), ("OTHER", "x")];
        let environment = Environment::new(Path::new("/"), &variables);
        let noting = Noting::new(&environment);
        for (name, value) in &variables[..4] {
            assert_eq!(noting.look(name).as_deref(), Some(*value));
        }
        assert_eq!(noting.look("NOPE"), None);
        assert_eq!(noting.secret().into_iter().collect::<Vec<_>>(), ["PAT"]);
    }
}
