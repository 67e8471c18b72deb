//! Providers as settings name them.

use std::path::PathBuf;

use protocol::Wire;
use stdx::Secret;

/// A model server.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The name before the slash of a model's name.
    pub name: String,
    /// The wire that it speaks.
    pub wire: Wire,
    /// Where it is, for example `https://api.anthropic.com` or `http://127.0.0.1:11434/v1`.
    pub base_url: String,
    /// The key, where it needs one.
    pub key: Option<Secret<String>>,
    /// Further headers of every request.
    pub headers: Vec<(String, String)>,
}

/// What the models are built of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The servers.
    pub providers: Vec<Provider>,
    /// The scenario of the scripted model `demo`; the built-in one where absent.
    pub scenario: Option<PathBuf>,
}
