//! Providers as settings name them.

use std::path::PathBuf;

use protocol::Wire;
use stdx::Secret;

use crate::structured::StructuredOutput;

/// A model server.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The name before the slash of a model's name. Not `demo`, which is the scripted model's.
    pub name: String,
    /// The wire that it speaks.
    pub wire: Wire,
    /// Where it is, for example `https://api.anthropic.com` or `http://127.0.0.1:11434/v1`. A
    /// version at the end (`/v1`, `/v1beta`) may stand there or be left out.
    pub base_url: String,
    /// The key, where it needs one.
    pub key: Option<Secret<String>>,
    /// Further headers of every request; they replace those of the wire.
    pub headers: Vec<(String, String)>,
    /// How it is told what JSON an answer must be.
    pub structured_output: StructuredOutput,
}

/// What the models are built of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The servers.
    pub providers: Vec<Provider>,
    /// The scenario of the scripted model `demo`; the built-in one where absent.
    pub scenario: Option<PathBuf>,
}

/// Why models could not be built of their settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A provider's name is empty, reserved, or has a slash or space in it.
    #[error("provider name {0:?} cannot be used: it must be a word without slashes, not demo")]
    Name(String),
    /// Two providers have one name.
    #[error("two providers are named {0}")]
    Twice(String),
    /// A base URL is none.
    #[error("base_url of provider {provider}: {reason}")]
    BaseUrl {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header or key cannot stand in an HTTP request.
    #[error("{what} of provider {provider} cannot stand in an http header")]
    Header {
        /// The provider.
        provider: String,
        /// `key` or the header's name.
        what: String,
    },
    /// A provider was given the wire of the scripted model.
    #[error("provider {0}: the wire scripted has no server; use the model demo")]
    Scripted(String),
    /// The scenario file cannot be used.
    #[error("scenario {path}: {reason}")]
    Scenario {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The data file of models does not fit its schema: a bug of the build.
    #[error("built-in model table: {0}")]
    Table(String),
}

/// Returns the variable that the vendor's own tools read the key of a hosted server from.
pub(crate) fn key_variable(host: &str) -> Option<&'static str> {
    match host {
        "api.anthropic.com" => Some("ANTHROPIC_API_KEY"),
        "api.openai.com" => Some("OPENAI_API_KEY"),
        "generativelanguage.googleapis.com" => Some("GEMINI_API_KEY"),
        "openrouter.ai" => Some("OPENROUTER_API_KEY"),
        _ => None,
    }
}
