//! What a tool call does to the world, as people and policies see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a call may do; a call has the highest effect of its parts. The order matters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Looks at files or state.
    Read,
    /// Asks a person; never asked for itself.
    Interact,
    /// Changes files.
    Write,
    /// Runs a command.
    Execute,
    /// Reaches another machine.
    Network,
    /// Destroys what cannot be brought back.
    Destructive,
}

impl Effect {
    /// Returns the effect as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Read => "read",
            Effect::Interact => "interact",
            Effect::Write => "write",
            Effect::Execute => "execute",
            Effect::Network => "network",
            Effect::Destructive => "destructive",
        }
    }
}

/// How much a person should think before allowing a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Easily undone.
    Low,
    /// Worth a look.
    Medium,
    /// May do harm that stays.
    High,
}

/// What a call is about, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// One line: the path, the command, the address.
    pub summary: String,
    /// What the call may do.
    pub effect: Effect,
    /// The real paths that it touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}
