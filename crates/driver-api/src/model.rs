//! Language models.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::event::OutputFormat;
use protocol::{Block, Message, Refusal, StopReason, Usage, Wire};
use serde_json::Value;
use tokio::sync::mpsc;

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments; `type` is `object`.
    pub input_schema: Value,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Prompt tokens outside any cache.
    pub input: f64,
    /// Tokens that the model writes.
    pub output: f64,
    /// Prompt tokens read from a cache.
    pub cache_read: f64,
    /// Prompt tokens written into a cache.
    pub cache_write: f64,
}

impl Price {
    /// Returns what a call costs in US dollars.
    #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn of(&self, usage: &Usage) -> f64 {
        let tokens = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        tokens.iter().map(|(count, price)| *count as f64 * price).sum::<f64>() / 1e6
    }
}

/// What is known about a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// The full name, `provider/model`.
    pub id: String,
    /// Its provider's name in the settings.
    pub provider: String,
    /// The wire that it speaks.
    pub wire: Wire,
    /// How many tokens prompt and answer may have together, where it is known.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have, where it is known.
    pub max_output: Option<u64>,
    /// What it costs, where it is known.
    pub price: Option<Price>,
    /// Whether it reads images.
    pub images: bool,
}

/// How hard a model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// One request. Encoded deterministically: equal prefixes of messages give equal bytes.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The system prompt; not blank.
    pub system: Arc<str>,
    /// The tools, in a fixed order.
    pub tools: Arc<[ToolSpec]>,
    /// The transcript: roles `user` and `assistant` alternate, the first and the last are
    /// `user`, every call has exactly one result in the next message, results come first.
    pub messages: Vec<Arc<Message>>,
    /// The limit of the answer; the driver's default where absent.
    pub max_output: Option<u64>,
    /// How hard to think; the provider's default where absent.
    pub effort: Option<Effort>,
    /// The JSON that the answer's text must be.
    pub output: Option<OutputFormat>,
    /// Stays the same over a session: helps a provider find its cache.
    pub cache_key: String,
}

/// A live piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelResponse {
    /// What it says; no blank blocks. Ids of calls are as the provider gave them: they may be
    /// empty or repeated, and the runtime makes them unique.
    pub content: Vec<Block>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used.
    pub usage: Usage,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Rate limit (429): may be asked again.
    RateLimited,
    /// The provider is overloaded (529, 503): may be asked again.
    Overloaded,
    /// Another failure of the provider (5xx, 408, 409, 425): may be asked again.
    Unavailable,
    /// The connection broke, or the stream ended before its end was said: may be asked again.
    Network,
    /// The stream was not what the wire promises; may be asked again, a few times.
    Malformed,
    /// The request does not fit the model's window.
    ContextOverflow,
    /// The key is missing or wrong.
    Unauthorized,
    /// The provider refuses the request as it stands.
    Rejected,
}

impl ModelErrorKind {
    /// Tells whether asking again may help.
    pub fn is_retryable(self) -> bool {
        match self {
            ModelErrorKind::RateLimited
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Network
            | ModelErrorKind::Malformed => true,
            ModelErrorKind::ContextOverflow
            | ModelErrorKind::Unauthorized
            | ModelErrorKind::Rejected => false,
        }
    }

    /// Returns a stable code for programs.
    pub fn code(self) -> &'static str {
        match self {
            ModelErrorKind::RateLimited => "rate_limited",
            ModelErrorKind::Overloaded => "overloaded",
            ModelErrorKind::Unavailable => "provider_unavailable",
            ModelErrorKind::Network => "network",
            ModelErrorKind::Malformed => "malformed_stream",
            ModelErrorKind::ContextOverflow => "context_overflow",
            ModelErrorKind::Unauthorized => "unauthorized",
            ModelErrorKind::Rejected => "rejected",
        }
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What happened, with the status and the provider's own words (at most 2,000 characters),
    /// never a key.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The text that had come before the stream broke.
    pub partial_text: String,
}

impl ModelError {
    /// Makes an error without partial text.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, partial_text: String::new() }
    }
}

/// One model behind one wire.
#[async_trait]
pub trait Model: Send + Sync + Debug {
    /// Returns what is known about it.
    fn info(&self) -> &ModelInfo;

    /// Asks once: no retries. Sends live pieces to `deltas` as they come and waits when that
    /// queue is full; a closed queue is no error. Dropping the future hangs up.
    ///
    /// # Errors
    /// A [`ModelError`] with what had come so far. A stream that ends before its end was said is
    /// an error.
    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError>;
}

/// Finds models by name.
pub trait Models: Send + Sync + Debug {
    /// Resolves `provider/model`, or a bare name that tells its provider.
    ///
    /// # Errors
    /// [`protocol::RefusalCode::InvalidModel`], with a message that lists what can be resolved.
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, Refusal>;

    /// Lists the models that are known by name. Others may resolve as well.
    fn list(&self) -> Vec<ModelInfo>;
}
