//! What the door asks of the program about policies.

use std::future::Future;
use std::path::{Path, PathBuf};

use serde_json::Value;
use terminal::Failure;

use crate::args::Globals;

/// What a policy says to a call, or to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyWord {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

/// A call with what would happen to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedCall {
    /// The call, as a person reads it.
    pub call: String,
    /// What would happen to it.
    pub word: PolicyWord,
    /// Why.
    pub reason: String,
    /// The mode that counts.
    pub mode: String,
    /// What the mode says.
    pub mode_word: PolicyWord,
    /// Why the mode says so.
    pub mode_reason: String,
    /// The parts that are judged one by one.
    pub parts: Vec<ExplainedPart>,
    /// The layers, from strongest to weakest.
    pub layers: Vec<PolicyLayer>,
    /// Who else has a vote on it beside the policy, one sentence each.
    pub voters: Vec<String>,
    /// What a person should know about the settings, one sentence each.
    pub notices: Vec<String>,
    /// All of it for programs.
    pub json: Value,
}

/// A part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPart {
    /// What it is, for example `command`.
    pub kind: String,
    /// The part itself.
    pub text: String,
    /// What would happen to it.
    pub word: PolicyWord,
    /// Why.
    pub reason: String,
    /// The rules that speak of it.
    pub rules: Vec<ExplainedRule>,
}

/// A rule that speaks of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRule {
    /// The layer that it stands in.
    pub layer: String,
    /// What it says.
    pub word: PolicyWord,
    /// The rule.
    pub rule: String,
    /// Whether it decides the part.
    pub decides: bool,
    /// Why it does not simply apply; empty where it does.
    pub note: String,
}

/// A layer of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyLayer {
    /// Its name.
    pub name: String,
    /// Whether it has a say: in a call, or at all.
    pub has_say: bool,
    /// What it holds.
    pub says: String,
    /// Where it comes from; empty where there is no such layer.
    pub source: String,
}

/// The policy of new sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyInForce {
    /// The layers, from strongest to weakest.
    pub layers: Vec<PolicyLayer>,
    /// Further facts, a name and a value each.
    pub facts: Vec<(String, String)>,
    /// What a person should know about the settings, one sentence each.
    pub notices: Vec<String>,
    /// All of it for programs.
    pub json: Value,
}

/// A key pair that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// The public key.
    pub public: String,
    /// A short name of it.
    pub id: String,
    /// Where the private key was written.
    pub path: PathBuf,
}

/// A bundle that was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedBundle {
    /// The signed bundle, as text with a line end.
    pub text: String,
    /// Where it was written, where it was.
    pub written: Option<PathBuf>,
    /// What a person should know about it, one sentence each.
    pub notices: Vec<String>,
}

/// What came of a look at a signed bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedBundle {
    /// Why it is refused: the reason's name, and in words.
    pub refusal: Option<(String, String)>,
    /// Facts about it, a name and a value each.
    pub facts: Vec<(String, String)>,
    /// All of it for programs.
    pub json: Value,
}

/// The part of the program that knows policies.
pub trait PolicyMachine {
    /// Says what would happen to a call with the settings in force.
    fn explain(
        &self,
        globals: &Globals,
        call: &str,
    ) -> impl Future<Output = Result<ExplainedCall, Failure>>;

    /// Tells the policy of new sessions.
    fn policy(&self, globals: &Globals) -> impl Future<Output = Result<PolicyInForce, Failure>>;

    /// Makes a key pair and writes the private key.
    ///
    /// # Errors
    /// When the file is there, or cannot be written.
    fn make_key(&self, globals: &Globals, out: &Path) -> Result<NewKey, Failure>;

    /// Signs a bundle.
    ///
    /// # Errors
    /// When a file cannot be read or written, or nobody would take the bundle.
    fn sign(
        &self,
        globals: &Globals,
        bundle: &Path,
        key: &Path,
        out: Option<&Path>,
    ) -> Result<SignedBundle, Failure>;

    /// Says whether a signed bundle would hold, with these keys or those of the managed settings.
    ///
    /// # Errors
    /// When the file cannot be read, a key is none, or there is none.
    fn verify(
        &self,
        globals: &Globals,
        file: &Path,
        keys: &[String],
    ) -> Result<VerifiedBundle, Failure>;
}
