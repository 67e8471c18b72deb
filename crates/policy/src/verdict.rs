//! What the policy says about a call.

use protocol::event::DeniedBy;

/// Yes, a question, or no. The order is from widest to strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person decides; where nobody can be asked it is denied.
    Ask,
    /// It does not run.
    Deny,
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// What decided: [`DeniedBy::Rule`], [`DeniedBy::Policy`] for a rule of a governing layer, or
    /// [`DeniedBy::Mode`]. A denial shows it as `by`.
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
