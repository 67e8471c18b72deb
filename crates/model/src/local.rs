//! Model servers on this machine: asked whether they are there, never sent a prompt.

use std::time::Duration;

use futures_util::future::join_all;
use outbound::{HeaderMap, Servers, Url};
use serde_json::Value;

use crate::{client, json};

/// How long a server on this machine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);

/// Most of an answer that is read; a list of hundreds of models stays far below.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Most candidates that are asked at once.
const CANDIDATES_MAX: usize = 32;

/// What kind of server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// Ollama.
    Ollama,
    /// llama.cpp's own server.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// vLLM.
    Vllm,
}

impl LocalKind {
    /// Returns the name that people know, which is also a good name for the provider.
    pub fn as_str(self) -> &'static str {
        match self {
            LocalKind::Ollama => "ollama",
            LocalKind::LlamaCpp => "llama.cpp",
            LocalKind::LmStudio => "lmstudio",
            LocalKind::Vllm => "vllm",
        }
    }

    fn path(self) -> &'static str {
        match self {
            LocalKind::Ollama => "api/tags",
            LocalKind::LlamaCpp | LocalKind::LmStudio | LocalKind::Vllm => "v1/models",
        }
    }
}

/// A place where a server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// What is expected there.
    pub kind: LocalKind,
    /// Its address without a path, for example `http://127.0.0.1:11434`.
    pub base_url: String,
}

impl LocalServer {
    /// Returns the usual places.
    pub fn usual() -> Vec<Self> {
        [
            (LocalKind::Ollama, 11434),
            (LocalKind::LlamaCpp, 8080),
            (LocalKind::LmStudio, 1234),
            (LocalKind::Vllm, 8000),
        ]
        .map(|(kind, port)| Self { kind, base_url: format!("http://127.0.0.1:{port}") })
        .into()
    }
}

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: LocalKind,
    /// The base URL for a [`crate::Provider`] of the wire [`protocol::Wire::OpenaiChat`].
    pub base_url: String,
    /// The models that it offers, in its order; may be empty.
    pub models: Vec<String>,
}

/// Asks candidates at once and returns those that answer like a model server within 300 ms, in
/// the order asked. At most the first 32 candidates are asked. Ports such as 8080 are often taken
/// by something else, so the shape of the answer decides, not the port.
pub async fn probe_local(candidates: &[LocalServer]) -> Vec<Found> {
    let client = client::local();
    let probes = candidates.iter().take(CANDIDATES_MAX).map(|server| async {
        tokio::time::timeout(ANSWER_TIMEOUT, probe(&client, server)).await.ok().flatten()
    });
    join_all(probes).await.into_iter().flatten().collect()
}

async fn probe(client: &Servers, server: &LocalServer) -> Option<Found> {
    let base = server.base_url.trim_end_matches('/').trim_end_matches("/v1");
    let answer = get(client, &format!("{base}/{}", server.kind.path())).await;
    let models = match (server.kind, answer) {
        (LocalKind::Ollama, answer) => names(&answer?, "models", &["name", "model"])?,
        (_, Some(answer)) => names(&answer, "data", &["id"])?,
        // Old builds of this server have no list; its properties tell it apart.
        (LocalKind::LlamaCpp, None) => properties(&get(client, &format!("{base}/props")).await?)?,
        (_, None) => return None,
    };
    Some(Found { kind: server.kind, base_url: format!("{base}/v1"), models })
}

async fn get(client: &Servers, url: &str) -> Option<Value> {
    let mut response = client.get(&Url::parse(url).ok()?, HeaderMap::new()).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.ok()? {
        if body.len() + bytes.len() > ANSWER_BYTES_MAX {
            return None;
        }
        body.extend_from_slice(&bytes);
    }
    serde_json::from_slice(&body).ok()
}

fn names(answer: &Value, list: &str, fields: &[&str]) -> Option<Vec<String>> {
    let items = answer.get(list)?.as_array()?;
    let name = |item: &Value| {
        let found =
            fields.iter().map(|field| json::text(item, field)).find(|name| !name.is_empty());
        found.map(str::to_owned)
    };
    Some(items.iter().filter_map(name).collect())
}

fn properties(answer: &Value) -> Option<Vec<String>> {
    answer.get("default_generation_settings")?;
    let alias = json::text(answer, "model_alias");
    let path = json::text(answer, "model_path");
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = if alias.is_empty() { file } else { alias };
    Some(if name.is_empty() { Vec::new() } else { vec![name.to_owned()] })
}
