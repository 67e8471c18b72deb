//! A folder, a home and a scripted model server, and agents on them.

use std::path::PathBuf;
use std::time::Duration;

use narthex::protocol::{Mode, Wire};
use narthex::{Agent, AgentBuilder, Provider, Secret};
use testkit::model_server::ModelServer;

/// How long a test waits for something that must happen; generous, since machines are shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that one test needs.
pub(crate) struct Stand {
    folder: tempfile::TempDir,
    pub(crate) server: ModelServer,
}

impl Stand {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder, server: ModelServer::start().await }
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.cwd().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.cwd().join(name)).ok()
    }

    /// Describes an agent without a word on modes and callbacks.
    pub(crate) fn builder(&self) -> AgentBuilder {
        Agent::builder()
            .cwd(self.cwd())
            .home(self.home())
            .model("anthropic/claude-sonnet-4-6")
            .agent_command(crate::embedded_agent::command())
            .provider(self.provider())
    }

    /// Describes the scripted model server.
    pub(crate) fn provider(&self) -> Provider {
        Provider {
            name: "anthropic".to_owned(),
            wire: Wire::Anthropic,
            base_url: self.server.anthropic_base(),
            key: Some(Secret::new("key-a".to_owned())),
            headers: Vec::new(),
            structured_output: narthex::StructuredOutput::Auto,
        }
    }

    pub(crate) async fn agent(&self, mode: Mode) -> Agent {
        self.builder().mode(mode).build().await.unwrap()
    }
}

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}
