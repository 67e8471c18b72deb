//! What the door asks of the program around it.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::Timestamp;
use runtime_api::PolicyTag;
use serde_json::Value;
use stdx::Secret;

use crate::capabilities::ModelEndpoint;

/// A policy that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The id of its bundle.
    pub id: String,
    /// The settings that were taken out of it.
    pub stripped_keys: Vec<String>,
}

/// A policy that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why, for programs: `unsigned`, `bad_signature`, `unknown_key`, `expired`, `malformed` and
    /// others.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// Why a host is asked for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenReason {
    /// There is none yet.
    Initial,
    /// The time of the last one is over.
    Expired,
    /// The endpoint did not take the last one.
    Rejected,
}

/// A token of a host.
#[derive(Clone, Debug)]
pub struct Minted {
    /// The token. Kept in memory alone.
    pub secret: Secret<String>,
    /// When it ends to hold, where that is known.
    pub expires_at: Option<Timestamp>,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The host said no, or what it said is no token.
    #[error("the application gave no token: {0}")]
    Refused(String),
    /// It does not answer.
    #[error("the application does not answer")]
    Gone,
}

/// Asks the host that is connected for tokens.
#[async_trait]
pub trait TokenSource: Send + Sync + Debug {
    /// Asks for one. Has a limit of time of its own.
    ///
    /// # Errors
    /// [`MintError`].
    async fn token(&self, audience: &str, reason: TokenReason) -> Result<Minted, MintError>;
}

/// The program around the door: policy, and where models are found.
pub trait Surroundings: Send + Sync + Debug {
    /// Returns the time.
    fn now(&self) -> Timestamp;

    /// Returns the keys of settings that are locked, as managed settings spell them.
    fn locked(&self) -> Vec<String>;

    /// Returns where the policy in force comes from, where there is one.
    fn policy_source(&self) -> Option<String>;

    /// Takes a policy, for sessions that begin from now on; `envelope` is the bundle with its
    /// signature.
    ///
    /// # Errors
    /// [`Rejected`]. What was in force stays.
    fn push(&self, envelope: &Value) -> Result<Pushed, Rejected>;

    /// Keeps what binds sessions that begin now beyond the policy of all: what was pushed, and
    /// that they may use these models alone where there are any.
    fn binding(&self, models: Option<&[String]>) -> Option<PolicyTag>;

    /// Lets models be asked at a host's endpoint from now on.
    ///
    /// # Errors
    /// Says what is wrong with the endpoint.
    fn lend_models(
        &self,
        endpoint: &ModelEndpoint,
        is_exclusive: bool,
        tokens: Arc<dyn TokenSource>,
    ) -> Result<(), String>;

    /// Returns the model of sessions that name none, of those that may be used.
    fn default_model(&self, allowed: Option<&[String]>) -> Option<String>;
}
