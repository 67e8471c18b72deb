//! Neurons that run nothing: they record what a door asks and answer what a test wrote.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use protocol::{Effect, NeuronId, Refusal, RefusalCode, Timestamp};
use runtime_api::Error;
use runtime_api::neuron::{
    CreateNeuron, Exec, Executed, Install, Isolation, IsolationLevel, NeuronDriver, NeuronInfo,
    NeuronRuntime, NeuronState, OverlayEntry, ToolListing, ToolRan, ToolRun, Writes,
};
use serde_json::json;

/// When every neuron was started.
pub const STARTED: Timestamp = Timestamp(1_796_000_000_000);

/// Tools that exist, with their effects.
const TOOLS: [(&str, Effect); 8] = [
    ("read", Effect::Read),
    ("write", Effect::Write),
    ("edit", Effect::Write),
    ("bash", Effect::Execute),
    ("list_dir", Effect::Read),
    ("glob", Effect::Read),
    ("grep", Effect::Read),
    ("apply_patch", Effect::Write),
];

/// What a door asked.
#[derive(Clone, Debug)]
pub enum NeuronCall {
    /// `create`.
    Create(CreateNeuron),
    /// `destroy`.
    Destroy(NeuronId),
    /// `exec`.
    Exec(NeuronId, Exec),
    /// `run_tool`.
    RunTool(NeuronId, ToolRun),
    /// `install`.
    Install(NeuronId, Install),
    /// `fork`.
    Fork(NeuronId, NeuronId),
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<NeuronCall>,
    neurons: Vec<NeuronInfo>,
    executed: Executed,
    ran: Option<ToolRan>,
    refusals: VecDeque<(&'static str, Refusal)>,
}

/// The neurons. Script them before they are given to the door.
#[derive(Debug, Default)]
pub struct FakeNeurons(Mutex<State>);

impl FakeNeurons {
    /// Makes none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a neuron.
    #[must_use]
    pub fn neuron(self, info: NeuronInfo) -> Self {
        self.state().neurons.push(info);
        self
    }

    /// Sets what comes of every command and installation.
    #[must_use]
    pub fn executed(self, executed: Executed) -> Self {
        self.state().executed = executed;
        self
    }

    /// Sets what comes of every tool.
    #[must_use]
    pub fn ran(self, ran: ToolRan) -> Self {
        self.state().ran = Some(ran);
        self
    }

    /// Makes the next call of this method fail.
    #[must_use]
    pub fn refuse(self, method: &'static str, code: RefusalCode, message: &str) -> Self {
        self.state().refusals.push_back((method, Refusal::new(code, message)));
        self
    }

    /// Returns what was asked so far, in order.
    pub fn calls(&self) -> Vec<NeuronCall> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a neuron that runs; change what matters.
pub fn neuron_info(id: &str) -> NeuronInfo {
    NeuronInfo {
        id: NeuronId::new(id),
        state: NeuronState::Running,
        created_at: STARTED,
        driver: Some(NeuronDriver::Namespace),
        isolation: Some(isolation()),
        pid: Some(4_242),
        workspace: Some(PathBuf::from("/workspace")),
        folder: None,
        writes: Writes::default(),
        owner_pid: None,
    }
}

fn isolation() -> Isolation {
    let layers = vec!["namespaces".to_owned()];
    Isolation { level: IsolationLevel::Full, layers, reasons: Vec::new() }
}

impl State {
    /// Answers with the refusal that the test planted for this method, or records the call.
    fn enter(&mut self, method: &'static str, call: Option<NeuronCall>) -> Result<(), Error> {
        self.calls.extend(call);
        if self.refusals.front().is_some_and(|(planned, _)| *planned == method)
            && let Some((_, refusal)) = self.refusals.pop_front()
        {
            return Err(refusal.into());
        }
        Ok(())
    }

    fn find(&self, id: &NeuronId) -> Result<NeuronInfo, Error> {
        let found = self.neurons.iter().find(|info| info.id == *id).cloned();
        found.ok_or_else(|| {
            let message = format!("there is no neuron {id}");
            Refusal::new(RefusalCode::NeuronNotFound, message).into()
        })
    }

    fn add(&mut self, id: &NeuronId) -> Result<NeuronInfo, Error> {
        let is_live = |info: &NeuronInfo| info.id == *id && info.state != NeuronState::Stopped;
        if self.neurons.iter().any(is_live) {
            return Err(Refusal::new(RefusalCode::NeuronExists, "it exists").into());
        }
        self.neurons.retain(|info| info.id != *id);
        let info = neuron_info(id.as_str());
        self.neurons.push(info.clone());
        Ok(info)
    }
}

#[async_trait]
impl NeuronRuntime for FakeNeurons {
    async fn isolation(&self, _: Option<NeuronDriver>) -> Isolation {
        isolation()
    }

    async fn create(&self, neuron: CreateNeuron) -> Result<NeuronInfo, Error> {
        let mut state = self.state();
        let id = neuron.id.clone();
        state.enter("create", Some(NeuronCall::Create(neuron)))?;
        state.add(&id)
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, Error> {
        let mut state = self.state();
        state.enter("list", None)?;
        Ok(state.neurons.clone())
    }

    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, Error> {
        let mut state = self.state();
        state.enter("info", None)?;
        state.find(neuron)
    }

    async fn destroy(&self, neuron: &NeuronId) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("destroy", Some(NeuronCall::Destroy(neuron.clone())))?;
        state.find(neuron)?;
        state.neurons.retain(|info| info.id != *neuron);
        Ok(())
    }

    async fn exec(&self, neuron: &NeuronId, exec: Exec) -> Result<Executed, Error> {
        let mut state = self.state();
        state.enter("exec", Some(NeuronCall::Exec(neuron.clone(), exec)))?;
        state.find(neuron)?;
        Ok(state.executed.clone())
    }

    async fn run_tool(&self, neuron: &NeuronId, run: ToolRun) -> Result<ToolRan, Error> {
        let mut state = self.state();
        state.enter("run_tool", Some(NeuronCall::RunTool(neuron.clone(), run)))?;
        state.find(neuron)?;
        let plain = ToolRan { output: "done".to_owned(), is_error: false, duration_ms: 1 };
        Ok(state.ran.clone().unwrap_or(plain))
    }

    fn tools(&self, offered: &[String]) -> Vec<ToolListing> {
        let known = |name: &String| TOOLS.into_iter().find(|(known, _)| known == name);
        let listing = |(name, effect): (&str, Effect)| ToolListing {
            name: name.to_owned(),
            description: format!("The tool {name}."),
            input_schema: json!({"type": "object"}),
            effect,
            is_always_asked: false,
        };
        offered.iter().filter_map(known).map(listing).collect()
    }

    async fn install(&self, neuron: &NeuronId, install: Install) -> Result<Executed, Error> {
        let mut state = self.state();
        state.enter("install", Some(NeuronCall::Install(neuron.clone(), install)))?;
        state.find(neuron)?;
        Ok(state.executed.clone())
    }

    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, Error> {
        let mut state = self.state();
        state.enter("fork", Some(NeuronCall::Fork(from.clone(), to.clone())))?;
        state.find(from)?;
        state.add(&to)
    }

    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, Error> {
        let mut state = self.state();
        state.enter("changes", None)?;
        state.find(neuron)?;
        Ok(Vec::new())
    }
}
