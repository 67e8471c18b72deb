//! What keeps a session apart from the machine, in words that logs and answers share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a neuron is kept apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NeuronDriver {
    /// Not at all: a folder of its own on the machine, nothing more.
    Host,
    /// Namespaces, an overlay, landlock, seccomp and a cgroup of Linux.
    Namespace,
}

impl NeuronDriver {
    /// Returns the name that settings and answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            NeuronDriver::Host => "host",
            NeuronDriver::Namespace => "namespace",
        }
    }
}

/// How far a machine can keep neurons apart.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// Not at all.
    None,
    /// Some layers are missing; the reasons say which.
    Partial,
    /// Every layer is in force.
    Full,
}

impl IsolationLevel {
    /// Returns the name that settings and answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            IsolationLevel::None => "none",
            IsolationLevel::Partial => "partial",
            IsolationLevel::Full => "full",
        }
    }
}

/// Where the writes to a neuron's folder go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Into a layer of the neuron's own; the folder stays as it is.
    #[default]
    Overlay,
    /// Into the folder itself.
    Folder,
}

impl Writes {
    /// Returns the name that settings and answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Writes::Overlay => "overlay",
            Writes::Folder => "folder",
        }
    }
}

/// The sandbox of a session that has a neuron of its own. It is as strong whenever the session is
/// opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSandbox {
    /// What keeps it apart.
    pub driver: NeuronDriver,
    /// How far.
    pub isolation: IsolationLevel,
    /// Where writes to its folder go.
    pub writes: Writes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire() {
        let sandbox = SessionSandbox {
            driver: NeuronDriver::Namespace,
            isolation: IsolationLevel::Partial,
            writes: Writes::Overlay,
        };
        let text = r#"{"driver":"namespace","isolation":"partial","writes":"overlay"}"#;
        assert_eq!(serde_json::to_string(&sandbox).unwrap(), text);
        assert_eq!(serde_json::from_str::<SessionSandbox>(text).unwrap(), sandbox);
        for (name, shown) in [
            (NeuronDriver::Host.as_str(), serde_json::to_string(&NeuronDriver::Host).unwrap()),
            (IsolationLevel::Full.as_str(), serde_json::to_string(&IsolationLevel::Full).unwrap()),
            (Writes::Folder.as_str(), serde_json::to_string(&Writes::Folder).unwrap()),
        ] {
            assert_eq!(format!("{name:?}"), shown);
        }
    }
}
