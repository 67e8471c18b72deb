//! Layers: one source of rules each.

use std::fmt;

use protocol::Mode;
use protocol::event::DeniedBy;

use crate::Rule;

/// Where a layer comes from, from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerName {
    /// The managed settings of the machine. A governing layer: it only tightens.
    Managed,
    /// The system's settings file.
    System,
    /// The user's settings file.
    User,
    /// The settings file of a trusted project.
    Project,
    /// What was allowed for good while the session ran.
    Session,
    /// The flags of the command line, or the settings of one session at a server.
    Flags,
}

impl LayerName {
    /// Tells whether the layer governs: its allow rules grant nothing but list what weaker layers
    /// may allow at most.
    #[must_use]
    pub fn is_governing(self) -> bool {
        self == LayerName::Managed
    }

    /// Returns what a refusal by this layer is put down to.
    pub(crate) fn denied_by(self) -> DeniedBy {
        if self.is_governing() { DeniedBy::Policy } else { DeniedBy::Rule }
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayerName::Managed => "managed settings",
            LayerName::System => "system settings",
            LayerName::User => "user settings",
            LayerName::Project => "project settings",
            LayerName::Session => "session",
            LayerName::Flags => "flags",
        })
    }
}

/// One source of rules and locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Where it comes from.
    pub name: LayerName,
    /// What runs without asking; of a governing layer: what weaker layers may allow at most, where
    /// there is any.
    pub allow: Vec<Rule>,
    /// What is asked for in every mode.
    pub ask: Vec<Rule>,
    /// What never runs.
    pub deny: Vec<Rule>,
    /// Whether full-auto is forbidden.
    pub disable_full_auto: bool,
    /// The only mode that sessions may have.
    pub locked_mode: Option<Mode>,
    /// The only models that sessions may use, `provider/model` each, where `*` matches any run.
    pub models: Option<Vec<String>>,
}

impl Layer {
    /// Makes a layer that says nothing yet.
    #[must_use]
    pub fn new(name: LayerName) -> Self {
        Self {
            name,
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            disable_full_auto: false,
            locked_mode: None,
            models: None,
        }
    }
}
