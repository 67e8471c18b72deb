//! Model servers that are known by name.

use model::{Provider, StructuredOutput};
use protocol::Wire;

/// A model server that is known by name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownServer {
    /// Its name: what stands before the slash of a model's name.
    pub name: &'static str,
    /// The wire that it speaks.
    pub wire: Wire,
    /// Where it is.
    pub base_url: &'static str,
    /// The variable that the vendor's own tools read the key from; none where it needs no key.
    pub key_variable: Option<&'static str>,
    /// The variable with another address.
    pub url_variable: Option<&'static str>,
    /// The model that is taken where this is the only server with a key and no model is set.
    pub default_model: Option<&'static str>,
}

/// Every model server that is known by name.
pub const KNOWN_SERVERS: &[KnownServer] = &[
    KnownServer {
        name: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com",
        key_variable: Some("ANTHROPIC_API_KEY"),
        url_variable: Some("ANTHROPIC_BASE_URL"),
        default_model: Some("claude-sonnet-4-6"),
    },
    KnownServer {
        name: "openai",
        wire: Wire::OpenaiResponses,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-5.2"),
    },
    KnownServer {
        name: "gemini",
        wire: Wire::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        key_variable: Some("GEMINI_API_KEY"),
        url_variable: Some("GEMINI_BASE_URL"),
        default_model: Some("gemini-2.5-pro"),
    },
    KnownServer {
        name: "openrouter",
        wire: Wire::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
        url_variable: None,
        default_model: Some("anthropic/claude-sonnet-4.6"),
    },
    local("ollama", "http://127.0.0.1:11434/v1", Some("OLLAMA_HOST")),
    local("llamacpp", "http://127.0.0.1:8080/v1", None),
    local("lmstudio", "http://127.0.0.1:1234/v1", None),
    local("vllm", "http://127.0.0.1:8000/v1", None),
];

const fn local(
    name: &'static str,
    base_url: &'static str,
    url_variable: Option<&'static str>,
) -> KnownServer {
    KnownServer {
        name,
        wire: Wire::OpenaiChat,
        base_url,
        key_variable: None,
        url_variable,
        default_model: None,
    }
}

impl KnownServer {
    /// Returns the server as a provider without a key.
    #[must_use]
    pub fn provider(&self) -> Provider {
        Provider {
            name: self.name.to_owned(),
            wire: self.wire,
            base_url: self.base_url.to_owned(),
            key: None,
            headers: Vec::new(),
            structured_output: StructuredOutput::Auto,
        }
    }

    /// Returns the address that a value of the server's variable means.
    #[must_use]
    pub fn address_of(&self, value: &str) -> String {
        if self.name == "ollama" { ollama_url(value) } else { value.to_owned() }
    }
}

/// Completes the address that Ollama's own tools read: scheme and port may be missing, and the
/// address to listen on at every interface is no address to call.
fn ollama_url(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|letter| letter.is_ascii_digit()) => (host, port),
        _ if scheme == "https" => (rest, "443"),
        _ => (rest, "11434"),
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        host => host,
    };
    format!("{scheme}://{host}:{port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ollama_are_completed() {
        let table = [
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("http://box:9999/", "http://box:9999/v1"),
            ("https://ollama.example", "https://ollama.example:443/v1"),
            (":8000", "http://127.0.0.1:8000/v1"),
        ];
        for (text, url) in table {
            assert_eq!(ollama_url(text), url, "{text}");
        }
    }
}
