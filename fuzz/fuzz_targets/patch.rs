//! Patches in both forms: the input up to its first NUL is what every old file contains, the rest
//! the patch. Nothing panics, the same patch has the same answer, what is previewed is what is
//! done, and a patch that is refused changes nothing.
#![no_main]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, Fault, FileStat, Located, Output, Process, Spawn, ToolContext, ToolHost,
    Workspace, WorkspaceError,
};
use libfuzzer_sys::fuzz_target;
use protocol::ToolCallId;
use protocol::event::Display;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fuzz_target!(|text: &str| {
    let (content, patch) = text.split_once('\0').unwrap_or(("one\ntwo\nthree\n", text));
    let tool = tools::native().into_iter().find(|tool| tool.spec().name == "apply_patch");
    let tool = tool.expect("it is a native tool");
    let input = Map::from_iter([("patch".to_owned(), Value::from(patch))]);
    let files = Arc::new(Files::new(content));
    let Ok(facts) = now(tool.facts(&input, &*files)) else { return };
    assert_eq!(now(tool.facts(&input, &*files)).ok().as_ref(), Some(&facts));
    let preview = now(tool.preview(&input, &facts, &*files));
    assert!(preview.as_ref().is_none_or(|diff| diff.len() <= 64 * 1024));
    assert_eq!(now(tool.preview(&input, &facts, &*files)), preview);
    assert!(!files.is_changed(), "a preview only looks");
    match now(tool.run(&input, &facts, &context(&files))) {
        Ok(outcome) => {
            let Some(Display::Diff { diff, .. }) = outcome.display else { panic!("no diff") };
            assert_eq!(preview.unwrap_or_default(), diff);
            assert!(files.is_changed() || diff.is_empty());
        }
        Err(_) => assert!(preview.is_none() && !files.is_changed()),
    }
});

/// Runs a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("files in memory are there at once"),
    }
}

fn context(files: &Arc<Files>) -> ToolContext {
    ToolContext {
        call: ToolCallId::new("call"),
        workspace: Arc::clone(files) as Arc<dyn Workspace>,
        host: Arc::new(Host),
        progress: mpsc::channel(1).0,
        cancel: CancellationToken::new(),
        spill_dir: PathBuf::from("/spill"),
        images: false,
    }
}

#[derive(Debug)]
struct Host;

impl ToolHost for Host {
    fn seen(&self, _path: &str) -> Option<String> {
        None
    }
}

/// Files in memory: all that are not called something new are there and alike.
#[derive(Debug)]
struct Files {
    content: Vec<u8>,
    roots: [PathBuf; 1],
    /// What was written, or removed, since.
    changed: Mutex<BTreeMap<PathBuf, Option<Vec<u8>>>>,
}

impl Files {
    fn new(content: &str) -> Self {
        let roots = [PathBuf::from("/work")];
        Self { content: content.as_bytes().to_vec(), roots, changed: Mutex::default() }
    }

    fn find(&self, path: &Path) -> Option<Vec<u8>> {
        let changed = self.changed.lock().expect("nothing panics while it is held");
        match changed.get(path) {
            Some(changed) => changed.clone(),
            None => self.first(path),
        }
    }

    fn first(&self, path: &Path) -> Option<Vec<u8>> {
        (!path.to_string_lossy().contains("new")).then(|| self.content.clone())
    }

    fn set(&self, path: &Path, content: Option<Vec<u8>>) {
        let mut changed = self.changed.lock().expect("nothing panics while it is held");
        changed.insert(path.to_owned(), content);
    }

    fn is_changed(&self) -> bool {
        let changed = self.changed.lock().expect("nothing panics while it is held");
        changed.iter().any(|(path, content)| *content != self.first(path))
    }
}

fn stat(content: &[u8]) -> FileStat {
    FileStat { kind: EntryKind::File, size: content.len() as u64, mode: 0o644, modified_ns: 0 }
}

#[async_trait]
impl Workspace for Files {
    fn cwd(&self) -> &Path {
        &self.roots[0]
    }

    fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        if path.is_empty() || path.contains('\0') {
            return Err(WorkspaceError::Unfit("the path is empty".to_owned()));
        }
        let real = self.roots[0].join(path);
        let stat = self.find(&real).map(|content| stat(&content));
        let root = real.starts_with(&self.roots[0]).then(|| self.roots[0].clone());
        Ok(Located { real, root, stat })
    }

    async fn read(&self, file: &Located, _limit: u64) -> Result<Contents, WorkspaceError> {
        let bytes = self.find(&file.real);
        let bytes = bytes.ok_or_else(|| WorkspaceError::NotFound(file.shown()))?;
        Ok(Contents { stat: stat(&bytes), bytes })
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        self.set(&file.real, Some(bytes.to_vec()));
        Ok(stat(bytes))
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        self.set(&file.real, None);
        Ok(())
    }

    async fn spawn(
        &self,
        _spawn: Spawn,
        _output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        Err(Fault::new("start a process: there are only files").into())
    }
}
