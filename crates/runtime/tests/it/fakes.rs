//! Hooks, checks, files and rule books that belong to the test.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use driver_api::*;
use protocol::event::Persist;
use protocol::{Finding, NeuronId, SessionId, TreeId};

use crate::house::TestFolder;

/// What a check answers, one after the other.
type CheckAnswers = VecDeque<Result<Vec<Finding>, Fault>>;

/// A tree of files: path to contents.
type Files = BTreeMap<String, String>;

/// Everything around the engine that a test scripts and looks at.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// Answers of the hooks of a moment, one after the other; the last one stays.
    pub(crate) hooks: Mutex<HashMap<Moment, VecDeque<HookAnswer>>>,
    /// What hooks were told.
    pub(crate) told: Mutex<Vec<Happening>>,
    /// How long a hook takes, in milliseconds.
    pub(crate) hook_ms: Mutex<u64>,
    /// Answers of the check; without any there is no check.
    pub(crate) checks: Mutex<Option<CheckAnswers>>,
    /// Changes that the check saw.
    pub(crate) checked: Mutex<Vec<PendingChange>>,
    /// The files of the workspace.
    pub(crate) files: Mutex<Files>,
    /// How long a capture takes, in milliseconds, and how many were begun.
    pub(crate) capture_ms: Mutex<u64>,
    pub(crate) captures: Mutex<usize>,
    /// What the workspaces hold, by absolute path, and how long a read takes, in milliseconds.
    pub(crate) stored: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    pub(crate) read_ms: Mutex<u64>,
    /// How long opening a workspace takes, in milliseconds.
    pub(crate) open_ms: Mutex<u64>,
    /// Over whose workspaces what was put that a client lends.
    pub(crate) lent: Mutex<Vec<(protocol::SessionId, driver_api::Lends)>>,
    /// Whether asking the hooks what they want breaks.
    pub(crate) hooks_break: std::sync::atomic::AtomicBool,
    /// Captured trees.
    trees: Mutex<Vec<Files>>,
    /// Rules that were kept.
    pub(crate) kept: Mutex<Vec<(Persist, PathBuf, String)>>,
    /// The layers above the sessions.
    pub(crate) policy: Mutex<policy::Policy>,
    /// Whether files are captured.
    pub(crate) has_checkpoints: std::sync::atomic::AtomicBool,
    /// Who is told of everything.
    pub(crate) observers: Mutex<Vec<Arc<dyn Observer>>>,
    /// How many sessions may be open.
    pub(crate) sessions_max: Mutex<Option<usize>>,
    /// Tools that the source offers new sessions, and tools that it has besides.
    pub(crate) offers: Mutex<Vec<String>>,
    pub(crate) there: Mutex<Vec<String>>,
    /// Those that were found and are still there.
    pub(crate) found: Mutex<HashMap<String, Arc<dyn Tool>>>,
    /// The folders that the source was asked to make an offer for.
    pub(crate) source_folders: Mutex<Vec<String>>,
    /// The neurons, with whether they run; without any the runtime keeps none.
    pub(crate) neurons: Mutex<Option<BTreeMap<String, bool>>>,
    /// How often a neuron was entered.
    pub(crate) entered: Mutex<usize>,
}

impl Around {
    /// Lets the hooks of a moment answer.
    pub(crate) fn hook(&self, moment: Moment, answer: HookAnswer) {
        self.hooks.lock().unwrap().entry(moment).or_default().push_back(answer);
    }

    /// Puts a file into the workspaces.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.stored.lock().unwrap().insert(PathBuf::from(path), bytes.to_vec());
    }

    /// Says what lies at a path.
    pub(crate) fn stat(&self, path: &Path) -> Option<FileStat> {
        let stored = self.stored.lock().unwrap();
        let (kind, size) = match stored.get(path) {
            Some(bytes) => (EntryKind::File, bytes.len() as u64),
            None if stored.keys().any(|file| file.starts_with(path)) => (EntryKind::Folder, 0),
            None => return None,
        };
        Some(FileStat { kind, size, mode: 0o644, modified_ns: 0 })
    }

    /// Sets the state of a neuron; none removes it.
    pub(crate) fn neuron(&self, id: &str, runs: Option<bool>) {
        let mut neurons = self.neurons.lock().unwrap();
        let neurons = neurons.get_or_insert_default();
        match runs {
            Some(runs) => neurons.insert(id.to_owned(), runs),
            None => neurons.remove(id),
        };
    }

    /// Lets the check answer.
    pub(crate) fn check(&self, answer: Result<Vec<Finding>, Fault>) {
        self.checks.lock().unwrap().get_or_insert_default().push_back(answer);
    }

    /// Returns what hooks of a moment were told.
    pub(crate) fn told_of(&self, moment: Moment) -> Vec<Happening> {
        let told = self.told.lock().unwrap();
        told.iter().filter(|it| it.moment() == moment).cloned().collect()
    }
}

/// Makes a vote with a reason.
pub(crate) fn vote(vote: HookVote, reason: &str) -> HookAnswer {
    HookAnswer { vote: Some(vote), reason: Some(reason.to_owned()), ..HookAnswer::default() }
}

/// Makes a finding.
pub(crate) fn finding(message: &str, blocking: bool) -> Finding {
    Finding {
        rule_id: "secret".to_owned(),
        severity: "error".to_owned(),
        message: message.to_owned(),
        path: None,
        line: None,
        blocking,
    }
}

#[derive(Debug)]
pub(crate) struct FakeHooks(pub(crate) Arc<Around>);

#[async_trait]
impl Hooks for FakeHooks {
    fn wants(&self, moment: Moment, _: &str) -> bool {
        let breaks = self.0.hooks_break.load(std::sync::atomic::Ordering::Relaxed);
        assert!(!breaks, "the hooks break");
        self.0.hooks.lock().unwrap().contains_key(&moment)
    }

    async fn tell(&self, happening: &Happening, _: HookPlace<'_>) -> HookAnswer {
        self.0.told.lock().unwrap().push(happening.clone());
        let takes = *self.0.hook_ms.lock().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(takes)).await;
        let mut hooks = self.0.hooks.lock().unwrap();
        let answers = hooks.get_mut(&happening.moment()).expect("it is wanted");
        match answers.len() {
            0 | 1 => answers.front().cloned().unwrap_or_default(),
            _ => answers.pop_front().unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FakeChecks(pub(crate) Arc<Around>);

#[async_trait]
impl Checks for FakeChecks {
    async fn examine(
        &self,
        change: &PendingChange,
        _: &dyn Workspace,
    ) -> Result<Vec<Finding>, Fault> {
        self.0.checked.lock().unwrap().push(change.clone());
        let mut answers = self.0.checks.lock().unwrap();
        answers.as_mut().and_then(VecDeque::pop_front).unwrap_or(Ok(Vec::new()))
    }
}

/// Neurons that are names; sessions in them act in folders of the test.
#[derive(Debug)]
pub(crate) struct FakeNeurons(pub(crate) Arc<Around>);

fn unused<T>() -> Result<T, NeuronError> {
    Err(NeuronError::NotSupported("the test has no need of it".to_owned()))
}

#[async_trait]
impl Neurons for FakeNeurons {
    async fn isolation(&self, _: NeuronDriver) -> Isolation {
        Isolation { level: IsolationLevel::None, layers: Vec::new(), reasons: Vec::new() }
    }

    async fn create(&self, _: NeuronSpec) -> Result<NeuronInfo, NeuronError> {
        unused()
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, NeuronError> {
        unused()
    }

    async fn info(&self, _: &NeuronId) -> Result<NeuronInfo, NeuronError> {
        unused()
    }

    async fn workspace(
        &self,
        neuron: &NeuronId,
        cwd: Option<&str>,
    ) -> Result<Arc<dyn Workspace>, NeuronError> {
        *self.0.entered.lock().unwrap() += 1;
        let neurons = self.0.neurons.lock().unwrap();
        match neurons.as_ref().and_then(|neurons| neurons.get(neuron.as_str())) {
            None => Err(NeuronError::NotFound(neuron.clone())),
            Some(false) => Err(NeuronError::NotRunning(neuron.clone())),
            Some(true) => {
                let cwd = PathBuf::from(cwd.unwrap_or("/inside"));
                Ok(Arc::new(TestFolder(vec![cwd], false, Arc::clone(&self.0))))
            }
        }
    }

    async fn destroy(&self, _: &NeuronId) -> Result<(), NeuronError> {
        unused()
    }

    async fn fork(&self, _: &NeuronId, _: NeuronId) -> Result<NeuronInfo, NeuronError> {
        unused()
    }

    async fn changes(&self, _: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError> {
        unused()
    }

    async fn close(&self) {}
}

#[derive(Debug)]
pub(crate) struct FakeBook(pub(crate) Arc<Around>);

#[async_trait]
impl RuleBook for FakeBook {
    async fn keep(&self, level: Persist, root: &Path, rule: &str) -> Result<(), Fault> {
        self.0.kept.lock().unwrap().push((level, root.to_owned(), rule.to_owned()));
        Ok(())
    }
}

/// Captures the test's files.
#[derive(Debug)]
pub(crate) struct FakeCheckpoints(pub(crate) Arc<Around>);

impl FakeCheckpoints {
    fn tree(&self, id: &TreeId) -> Result<Files, CheckpointError> {
        let trees = self.0.trees.lock().unwrap();
        let index: usize = id.as_str().parse().unwrap_or(usize::MAX);
        trees.get(index).cloned().ok_or_else(|| CheckpointError::Gone(id.clone()))
    }
}

fn differing(from: &Files, to: &Files) -> Vec<PathChange> {
    let paths: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let differs = paths.into_iter().filter(|path| from.get(*path) != to.get(*path));
    let change = |path: &String| PathChange {
        path: path.clone(),
        kind: match (from.get(path), to.get(path)) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Modified,
        },
        is_restorable: true,
    };
    differs.map(change).collect()
}

#[async_trait]
impl Checkpoints for FakeCheckpoints {
    async fn capture(&self, _: &SessionId, _: &[PathBuf]) -> Result<Captured, CheckpointError> {
        *self.0.captures.lock().unwrap() += 1;
        let takes = *self.0.capture_ms.lock().unwrap();
        let files = self.0.files.lock().unwrap().clone();
        tokio::time::sleep(std::time::Duration::from_millis(takes)).await;
        let mut trees = self.0.trees.lock().unwrap();
        let known = trees.iter().position(|tree| *tree == files);
        let index = known.unwrap_or(trees.len());
        let count = files.len() as u64;
        if known.is_none() {
            trees.push(files);
        }
        let tree = TreeId::new(index.to_string());
        Ok(Captured { tree, files: count, left_out: Vec::new() })
    }

    async fn changes(
        &self,
        _: &SessionId,
        from: &TreeId,
        to: &TreeId,
    ) -> Result<Vec<PathChange>, CheckpointError> {
        Ok(differing(&self.tree(from)?, &self.tree(to)?))
    }

    async fn restore(&self, restore: Restore) -> Result<Restored, CheckpointError> {
        let mut restored = Restored::default();
        let mut files = self.0.files.lock().unwrap();
        for set in &restore.sets {
            let before = self.tree(&set.before)?;
            let after = match &set.after {
                Some(after) => self.tree(after)?,
                None => files.clone(),
            };
            for change in differing(&before, &after) {
                let is_as_left = files.get(&change.path) == after.get(&change.path);
                let may = restore.is_forced || (is_as_left && set.after.is_some());
                if !may {
                    let why = "changed since the turn left it".to_owned();
                    restored.kept.push(Kept { path: change.path, why });
                    continue;
                }
                if !restore.is_dry {
                    match before.get(&change.path) {
                        Some(text) => files.insert(change.path.clone(), text.clone()),
                        None => files.remove(&change.path),
                    };
                }
                restored.changed.push(change);
            }
        }
        Ok(restored)
    }

    async fn adopt(&self, _: &SessionId, _: &SessionId) -> Result<(), CheckpointError> {
        Ok(())
    }

    async fn forget(&self, _: &SessionId) -> Result<(), CheckpointError> {
        Ok(())
    }
}
