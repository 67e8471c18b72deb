//! Layers: one source of rules each.

use std::fmt;

use protocol::Mode;
use protocol::event::DeniedBy;
use serde::{Serialize, Serializer};

use crate::Rule;
use crate::wildcard::Wildcard;

/// Where a layer comes from, from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerName {
    /// The managed settings of the machine. A governing layer: it only tightens.
    Managed,
    /// The signed bundle that the managed settings' address gave. A governing layer.
    Remote,
    /// The signed bundle that a host pushed. A governing layer.
    Pushed,
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
    /// Every name, from strongest to weakest.
    pub const ALL: [LayerName; 8] = [
        LayerName::Managed,
        LayerName::Remote,
        LayerName::Pushed,
        LayerName::System,
        LayerName::User,
        LayerName::Project,
        LayerName::Session,
        LayerName::Flags,
    ];

    /// Tells whether the layer governs: its allow rules grant nothing but list what weaker layers
    /// may allow at most.
    #[must_use]
    pub fn is_governing(self) -> bool {
        self <= LayerName::Pushed
    }

    /// Returns the name that programs read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LayerName::Managed => "managed",
            LayerName::Remote => "remote",
            LayerName::Pushed => "pushed",
            LayerName::System => "system",
            LayerName::User => "user",
            LayerName::Project => "project",
            LayerName::Session => "session",
            LayerName::Flags => "flags",
        }
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
            LayerName::Remote => "remote policy settings",
            LayerName::Pushed => "pushed policy settings",
            LayerName::System => "system settings",
            LayerName::User => "user settings",
            LayerName::Project => "project settings",
            LayerName::Session => "session",
            LayerName::Flags => "flags",
        })
    }
}

impl Serialize for LayerName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Tells whether `wide` names every model that `narrow` names; both as in [`Layer::models`]. When
/// that cannot be told it does not.
#[must_use]
pub fn covers_models(wide: &str, narrow: &str) -> bool {
    Wildcard::new(wide).covers(&Wildcard::new(narrow))
}

/// One source of rules and locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Where it comes from.
    pub name: LayerName,
    /// What runs without asking; of a governing layer: what weaker layers may allow at most, where
    /// there is any or [`Layer::is_allow_list`].
    pub allow: Vec<Rule>,
    /// Of a governing layer: that its allow rules are the whole list of what weaker layers may
    /// allow, even where there are none: then they may allow nothing.
    pub is_allow_list: bool,
    /// Whether its allow rules are answers that were kept for good. They count only where
    /// [`Policy::may_persist`](crate::Policy::may_persist).
    pub is_kept: bool,
    /// What is asked for in every mode.
    pub ask: Vec<Rule>,
    /// What never runs.
    pub deny: Vec<Rule>,
    /// Whether full-auto is forbidden.
    pub disable_full_auto: bool,
    /// Whether an "always" may be kept for the session at most.
    pub disable_persist: bool,
    /// The only mode that sessions may have. Of several layers' the tightest holds.
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
            is_allow_list: false,
            is_kept: false,
            ask: Vec::new(),
            deny: Vec::new(),
            disable_full_auto: false,
            disable_persist: false,
            locked_mode: None,
            models: None,
        }
    }

    /// Tells whether a governing layer lists what weaker layers may allow at most.
    pub(crate) fn has_allow_list(&self) -> bool {
        self.name.is_governing() && (self.is_allow_list || !self.allow.is_empty())
    }

    /// Returns the settings' keys with which the layer locks something.
    pub(crate) fn locked_keys(&self) -> impl Iterator<Item = &'static str> {
        let locks = [
            ("permissions.mode", self.locked_mode.is_some()),
            ("disableFullAuto", self.disable_full_auto),
            ("permissions.allowPersist", self.disable_persist),
            ("models.allowed", self.models.is_some()),
        ];
        locks.into_iter().filter_map(|(key, is_locked)| is_locked.then_some(key))
    }
}
