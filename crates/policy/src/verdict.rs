//! What the policy says about a call.

use protocol::event::DeniedBy;
use serde::Serialize;

/// Yes, a question, or no. The order is from widest to strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person decides; where nobody can be asked it is denied.
    Ask,
    /// It does not run.
    Deny,
}

impl Decision {
    /// Returns the name that programs read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// What decided: [`DeniedBy::Rule`] (also for an effect that is asked for),
    /// [`DeniedBy::Policy`] for a rule of a governing layer, or [`DeniedBy::Mode`]. A denial shows
    /// it as `by`.
    pub by: DeniedBy,
    /// Why, for the model and for people: names the rule and its layer, or the mode.
    pub reason: String,
}

impl Verdict {
    /// Makes a verdict.
    pub(crate) fn new(decision: Decision, by: DeniedBy, reason: impl Into<String>) -> Self {
        Self { decision, by, reason: reason.into() }
    }
}
