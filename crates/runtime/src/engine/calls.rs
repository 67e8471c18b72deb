//! Running tool calls: a few at a time, writers of one path one after the other.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use driver_api::{
    Access, Asks, CallFacts, ProcessScope, Progress, Tool, ToolContext, ToolError, ToolHost,
    ToolOutcome,
};
use policy::Policy;
use protocol::event::Answer;
use protocol::{NeuronId, SessionId, ToolCallId};
use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::gate::KnownHomes;

/// How many calls of one session run at a time.
pub(crate) const PARALLEL_MAX: usize = 8;

/// Live pieces that may wait for the session, per call.
const PROGRESS: usize = 64;

/// How many questions one call may ask: a form has some, and whoever asks on and on wears a person
/// down.
const QUESTIONS_MAX: u32 = 20;

/// Paths that a call of this process is writing.
#[derive(Debug, Default)]
pub(crate) struct PathLocks(Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>);

impl PathLocks {
    /// Waits until no other call writes any of the paths. The order is that of the names, so two
    /// calls never wait for each other.
    pub(crate) async fn hold(&self, paths: BTreeSet<PathBuf>) -> Vec<OwnedMutexGuard<()>> {
        let mut held = Vec::with_capacity(paths.len());
        for path in paths {
            let lock = {
                let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                // Whatever nobody holds or waits for is forgotten here.
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
                Arc::clone(locks.entry(path).or_default())
            };
            held.push(lock.lock_owned().await);
        }
        held
    }
}

/// Files as the session saw them, shared with the calls that run.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<String, Option<String>>>);

impl Seen {
    pub(crate) fn note(&self, path: String, hash: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path, hash);
    }
}

impl Seen {
    fn hash(&self, path: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().flatten()
    }
}

/// A question of a call that runs, on its way to the session.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) call: ToolCallId,
    pub(crate) question: Asks,
    pub(crate) reply: oneshot::Sender<Option<Answer>>,
}

/// The way in which one call asks.
#[derive(Debug)]
pub(crate) struct Asker {
    call: ToolCallId,
    questions: mpsc::Sender<Box<Inquiry>>,
    /// Cancelled when the turn is stopped.
    cancel: CancellationToken,
    /// How many questions it has asked. Held while one is open: a person is asked one at a time.
    asked: tokio::sync::Mutex<u32>,
}

impl Asker {
    pub(crate) fn new(
        call: ToolCallId,
        questions: mpsc::Sender<Box<Inquiry>>,
        cancel: CancellationToken,
    ) -> Self {
        Self { call, questions, cancel, asked: tokio::sync::Mutex::default() }
    }

    async fn ask(&self, question: Asks) -> Option<Answer> {
        let mut asked = self.asked.lock().await;
        if *asked >= QUESTIONS_MAX {
            tracing::warn!(call = %self.call, "a call asks more than {QUESTIONS_MAX} questions");
            return None;
        }
        *asked += 1;
        let (reply, answer) = oneshot::channel();
        let inquiry = Box::new(Inquiry { call: self.call.clone(), question, reply });
        self.questions.send(inquiry).await.ok()?;
        // The session has gone when nobody replies.
        answer.await.ok().flatten()
    }
}

/// What the runtime does for a call.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) services: Arc<super::options::Services>,
    pub(crate) session: SessionId,
    /// The neuron that the session acts in.
    pub(crate) neuron: Option<NeuronId>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) cwd: PathBuf,
    pub(crate) homes: KnownHomes,
    /// Absent where no call runs yet.
    pub(crate) asker: Option<Asker>,
}

#[async_trait]
impl ToolHost for Host {
    fn seen(&self, path: &str) -> Option<String> {
        self.seen.hash(path)
    }

    fn may_read(&self, path: &Path) -> bool {
        !self.policy.hides(&self.cwd, self.homes.get(), path)
    }

    fn processes(&self) -> Option<ProcessScope> {
        // Whoever acts in a neuron sees what runs there.
        let name = match &self.neuron {
            Some(neuron) => scope_of(neuron),
            None => format!("session {}", self.session),
        };
        Some(ProcessScope { name, over: self.services.tenures.of(&self.session) })
    }

    async fn ask(&self, asks: Asks) -> Option<Answer> {
        let asker = self.asker.as_ref()?;
        tokio::select! {
            biased;
            () = asker.cancel.cancelled() => None,
            answer = asker.ask(asks) => answer,
        }
    }
}

/// Names the processes that calls in a neuron have left running.
pub(crate) fn scope_of(neuron: &NeuronId) -> String {
    format!("neuron {neuron}")
}

/// How long what the calls of sessions left running may go on: until their session is closed. One
/// that is only dropped from memory goes on with them.
#[derive(Debug, Default)]
pub(crate) struct Tenures(Mutex<HashMap<SessionId, CancellationToken>>);

impl Tenures {
    /// Returns what is cancelled with a session. Only sessions that ask are remembered.
    pub(crate) fn of(&self, session: &SessionId) -> CancellationToken {
        self.all().entry(session.clone()).or_default().clone()
    }

    /// Ends what a session left running.
    pub(crate) fn end(&self, session: &SessionId) {
        if let Some(over) = self.all().remove(session) {
            over.cancel();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that the gate let through.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Map<String, Value>,
    pub(crate) facts: CallFacts,
    pub(crate) context: ToolContext,
}

impl Run {
    /// Runs the call; live pieces go to `progress` under its id.
    pub(crate) async fn run(
        self,
        locks: Arc<super::options::Services>,
        progress: mpsc::Sender<(ToolCallId, Progress)>,
    ) -> ToolOutcome {
        let Self { tool, input, facts, mut context } = self;
        let written = facts.paths.iter().filter(|path| path.access == Access::Write);
        let paths = written.map(|path| path.located.real.clone()).collect();
        let _held = locks.path_locks.hold(paths).await;
        let (sender, mut pieces) = mpsc::channel(PROGRESS);
        context.progress = sender;
        let id = context.call.clone();
        let outcome = {
            let mut running = std::pin::pin!(tool.run(&input, &facts, &context));
            loop {
                tokio::select! {
                    outcome = &mut running => break outcome,
                    Some(piece) = pieces.recv() => forward(&progress, &id, piece).await,
                }
            }
        };
        while let Ok(piece) = pieces.try_recv() {
            forward(&progress, &id, piece).await;
        }
        outcome.unwrap_or_else(|error| failed(&tool.spec().name, &error))
    }
}

async fn forward(
    progress: &mpsc::Sender<(ToolCallId, Progress)>,
    id: &ToolCallId,
    piece: Progress,
) {
    // The session has gone when nobody receives; the call goes on to its end all the same.
    let _gone = progress.send((id.clone(), piece)).await;
}

fn failed(name: &str, error: &ToolError) -> ToolOutcome {
    match error {
        ToolError::Fault(fault) => {
            tracing::error!(tool = %name, %fault, "run a call");
            ToolOutcome::error(format!("{name} failed inside: try again or do without it"))
        }
        ToolError::Workspace(driver_api::WorkspaceError::Fault(fault)) => {
            tracing::error!(tool = %name, %fault, "run a call");
            ToolOutcome::error(format!("{name} failed: the workspace did not answer as it should"))
        }
        ToolError::Invalid(_) | ToolError::Workspace(_) => ToolOutcome::error(error.to_string()),
    }
}
