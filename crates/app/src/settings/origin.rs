//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

use narthex::LayerName;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program.
    BuiltIn,
    /// A settings file.
    File(LayerName, PathBuf),
    /// A file of kept keys.
    Keys(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::File(layer, path) => write!(f, "{layer}, {}", path.display()),
            Origin::Keys(path) => write!(f, "narthex login, {}", path.display()),
            Origin::Variable(name) => write!(f, "environment, {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value with where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub(crate) fn built_in(value: T) -> Self {
        Self { value, origin: Origin::BuiltIn }
    }

    /// Takes a stronger layer's value, where it has one.
    pub(crate) fn take(&mut self, value: Option<T>, origin: &Origin) {
        if let Some(value) = value {
            *self = Self { value, origin: origin.clone() };
        }
    }
}

impl<T: Clone> Sourced<Option<T>> {
    /// Takes a stronger layer's value for what may be absent.
    pub(crate) fn take_some(&mut self, value: Option<&T>, origin: &Origin) {
        self.take(value.map(|value| Some(value.clone())), origin);
    }
}
