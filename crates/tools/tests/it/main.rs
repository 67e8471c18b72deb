//! The native tools on a real folder.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should say so where it stands"
)]

mod apply_patch;
mod asks;
mod edit_file;
mod elsewhere;
mod list_dir;
mod local_workspace;
mod preview;
mod processes;
mod read_file;
mod run_shell;
mod search;
mod specs;
mod write_file;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use driver_api::{
    CallFacts, ProcessScope, Progress, Tool, ToolContext, ToolError, ToolHost, ToolOutcome,
};
use protocol::{Block, ToolCallId};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use local_workspace::LocalWorkspace;

/// Remembers the files that were seen, as the runtime does.
#[derive(Debug, Default)]
struct Host {
    seen: Mutex<HashMap<String, Option<String>>>,
    /// Names that no path may have.
    protected: Mutex<Vec<&'static str>>,
    /// Whether whoever calls knows what is there.
    overwrites: AtomicBool,
    /// To what processes belong that outlive their call.
    processes: Mutex<Option<ProcessScope>>,
}

impl ToolHost for Host {
    fn seen(&self, path: &str) -> Option<String> {
        self.seen.lock().unwrap().get(path).cloned().flatten()
    }

    fn overwrites_unseen(&self) -> bool {
        self.overwrites.load(Ordering::Relaxed)
    }

    fn processes(&self) -> Option<ProcessScope> {
        self.processes.lock().unwrap().clone()
    }

    fn may_read(&self, path: &Path) -> bool {
        let protected = self.protected.lock().unwrap();
        !path.iter().any(|name| protected.iter().any(|it| name == *it))
    }
}

/// A folder with the tools at work in it.
struct Bench {
    _folder: tempfile::TempDir,
    spill: tempfile::TempDir,
    tools: Vec<Arc<dyn Tool>>,
    host: Arc<Host>,
    workspace: Arc<LocalWorkspace>,
    context: ToolContext,
    progress: mpsc::Receiver<Progress>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spill = tempfile::tempdir().unwrap();
        let host = Arc::new(Host::default());
        let workspace = Arc::new(LocalWorkspace::new(folder.path()));
        let (sender, progress) = mpsc::channel(1_000);
        let context = ToolContext {
            call: ToolCallId::new("call_1"),
            workspace: workspace.clone(),
            host: host.clone(),
            progress: sender,
            cancel: CancellationToken::new(),
            spill_dir: spill.path().to_owned(),
            images: true,
        };
        let tools = tools::native().into_iter().chain(tools::chosen()).collect();
        Self { _folder: folder, spill, tools, host, workspace, context, progress }
    }

    fn path(&self) -> &Path {
        self.workspace.root()
    }

    /// Makes a file and the folders above it.
    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap().clone()
    }

    async fn facts(&self, name: &str, input: Value) -> Result<CallFacts, ToolError> {
        self.tool(name).facts(&object(input), &*self.workspace).await
    }

    /// Calls a tool as the runtime does: facts, run, and the stamps remembered.
    async fn call(&self, name: &str, input: Value) -> Result<ToolOutcome, ToolError> {
        let (tool, input) = (self.tool(name), object(input));
        let facts = tool.facts(&input, &*self.workspace).await?;
        let outcome = tool.run(&input, &facts, &self.context).await?;
        let mut seen = self.host.seen.lock().unwrap();
        for stamp in &outcome.files {
            seen.insert(stamp.path.clone(), stamp.hash.clone());
        }
        drop(seen);
        Ok(outcome)
    }

    /// Asks what a call would change, as the runtime does before it runs.
    async fn preview(&self, name: &str, input: Value) -> Option<String> {
        let (tool, input) = (self.tool(name), object(input));
        let facts = tool.facts(&input, &*self.workspace).await.unwrap();
        tool.preview(&input, &facts, &*self.workspace).await
    }

    /// Calls a tool that must succeed and returns its text.
    async fn ok(&self, name: &str, input: Value) -> String {
        let outcome = self.call(name, input).await.unwrap();
        assert!(!outcome.is_error, "{}", text_of(&outcome));
        text_of(&outcome)
    }

    /// Calls a tool that must fail and returns what the model is told.
    async fn error(&self, name: &str, input: Value) -> String {
        match self.call(name, input).await {
            Ok(outcome) if outcome.is_error => text_of(&outcome),
            Ok(outcome) => panic!("an error was expected, got {}", text_of(&outcome)),
            Err(error) => error.to_string(),
        }
    }

    async fn read(&self, path: &str) {
        self.call("read_file", serde_json::json!({ "path": path })).await.unwrap();
    }
}

fn object(input: Value) -> Map<String, Value> {
    let Value::Object(map) = input else { panic!("an object was expected") };
    map
}

fn text_of(outcome: &ToolOutcome) -> String {
    let texts = outcome.content.iter().map(|block| match block {
        Block::Text { text, .. } => text.as_str(),
        other => panic!("a text was expected, got {other:?}"),
    });
    texts.collect()
}

/// Sorted names of everything below a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        if path.is_dir() {
            names.extend(self::names(&path));
        }
    }
    names.sort();
    names
}

#[test]
fn every_file_of_this_folder_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for name in names(&folder).iter().filter_map(|name| name.strip_suffix(".rs")) {
        assert!(name == "main" || main.contains(&format!("mod {name};")), "{name} is not listed");
    }
}
