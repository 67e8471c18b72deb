//! Permission modes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What runs without asking when no rule decides.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Only looks: edits and commands are refused.
    Plan,
    /// Reads run, everything else is asked for.
    #[default]
    Ask,
    /// Edits inside the folder run too, commands and the network are asked for.
    AutoEdit,
    /// Everything runs that no rule forbids.
    FullAuto,
}

impl Mode {
    /// Every mode, in the order from tightest to widest.
    pub const ALL: [Mode; 4] = [Mode::Plan, Mode::Ask, Mode::AutoEdit, Mode::FullAuto];

    /// Returns the mode as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Plan => "plan",
            Mode::Ask => "ask",
            Mode::AutoEdit => "auto-edit",
            Mode::FullAuto => "full-auto",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
            format!("unknown mode '{text}': expected plan, ask, auto-edit or full-auto")
        })
    }
}
