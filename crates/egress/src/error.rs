//! Why a door cannot be opened.

/// Why a door cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// A rule or a credential cannot be used. A secret is never part of the text.
    #[error("{field}: {reason}")]
    Rule {
        /// Its place, such as `egress.allow[2].host`.
        field: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The certificates of the neuron cannot be made, or those of the machine cannot be read.
    #[error("set up the certificates of a neuron: {0}")]
    Certificates(String),
}

impl EgressError {
    pub(crate) fn rule(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Rule { field: field.into(), reason: reason.into() }
    }
}
