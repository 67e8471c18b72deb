//! A runtime whose disk, model, tools and world belong to the test.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::*;
use protocol::event::Done;
use protocol::*;
use runtime_api::{AgentSettings, CreateSession, Handle, Overflow, Position, Prompt, Subscription};
use serde_json::{Map, json};
use testkit::clock::{TestClock, TestIds};
use testkit::memory_store::MemoryDisk;
use tokio::sync::mpsc;

use crate::fakes::{Around, FakeBook, FakeCheckpoints, FakeChecks, FakeHooks, FakeNeurons};

/// What outlives every process: the disk, the model's script, and the effects that were had.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) disk: MemoryDisk,
    pub(crate) model: Arc<FakeModel>,
    /// How often each named effect was had.
    pub(crate) effects: Arc<Mutex<BTreeMap<String, usize>>>,
    /// Calls that began before the disk knew of them.
    pub(crate) too_early: Arc<Mutex<Vec<String>>>,
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) running_most: Arc<AtomicUsize>,
    pub(crate) ids: Arc<TestIds>,
    /// Hooks, checks, files, rules: what is around the engine.
    pub(crate) around: Arc<Around>,
}

/// An answer of the scripted model.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    Say(&'static str),
    /// Name of the tool and of the effect.
    Call(Vec<(&'static str, &'static str)>),
    Blocks(Vec<Block>),
    Whole(Vec<Block>, StopReason),
    Fail(ModelError),
    /// Says something, then nothing any more.
    Stall(&'static str),
    Panic,
}

#[derive(Debug, Default)]
pub(crate) struct FakeModel {
    pub(crate) script: Mutex<VecDeque<Script>>,
    /// What it writes when it is asked for a summary.
    pub(crate) summaries: Mutex<VecDeque<Script>>,
    /// Whether it counts the tokens of what it reads, as a provider does.
    pub(crate) counts: AtomicBool,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
    pub(crate) info: Mutex<Option<ModelInfo>>,
    /// What it is known as among others.
    pub(crate) listed: Mutex<Vec<ModelInfo>>,
    calls: AtomicUsize,
}

impl FakeModel {
    pub(crate) fn push(&self, script: Script) {
        self.script.lock().unwrap().push_back(script);
    }

    pub(crate) fn known(&self) -> ModelInfo {
        self.info.lock().unwrap().clone().unwrap_or(ModelInfo {
            id: "fake/model".into(),
            provider: "fake".into(),
            wire: Wire::Scripted,
            context_window: None,
            max_output: None,
            price: Some(Price { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 2.0 }),
            images: false,
        })
    }
}

#[derive(Debug)]
struct Asked {
    model: Arc<FakeModel>,
    info: ModelInfo,
}

#[async_trait]
impl Model for Asked {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError> {
        self.model.requests.lock().unwrap().push(request.clone());
        let faults = faults(&request.messages);
        assert_eq!(faults, Vec::<String>::new(), "a strict provider refuses this");
        let next = match request.tools.is_empty() {
            // Whoever summarises has no tools.
            true => self.model.summaries.lock().unwrap().pop_front(),
            false => self.model.script.lock().unwrap().pop_front(),
        };
        let (content, stop) = match next.unwrap_or(Script::Say("nothing scripted")) {
            Script::Say(text) => {
                deltas.send(Delta::Text(text.into())).await.ok();
                (vec![Block::text(text)], StopReason::EndTurn)
            }
            Script::Call(calls) => {
                let number = self.model.calls.fetch_add(1, Ordering::Relaxed);
                let block = |(index, (tool, effect)): (usize, &(&str, &str))| Block::ToolUse {
                    id: ToolCallId::new(format!("toolu_{number}_{index}")),
                    name: (*tool).to_owned(),
                    input: json!({"effect": effect}).as_object().cloned().unwrap(),
                    malformed: None,
                    signed: None,
                };
                (calls.iter().enumerate().map(block).collect(), StopReason::ToolUse)
            }
            Script::Blocks(blocks) => (blocks, StopReason::ToolUse),
            Script::Whole(blocks, stop) => (blocks, stop),
            Script::Fail(error) => return Err(error),
            Script::Stall(text) => {
                deltas.send(Delta::Text(text.into())).await.ok();
                std::future::pending().await
            }
            Script::Panic => panic!("the driver breaks"),
        };
        let mut usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        if self.model.counts.load(Ordering::Relaxed) {
            usage.input_tokens = tokens_of(request);
            usage.output_tokens = content.iter().map(block_tokens).sum();
        }
        Ok(ModelResponse { content, stop, usage })
    }
}

/// Counts what a request has, four bytes a token.
pub(crate) fn tokens_of(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        (tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()) as u64
    });
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    (request.system.len() as u64 + tools.sum::<u64>()) / 4 + blocks.map(block_tokens).sum::<u64>()
}

fn block_tokens(block: &Block) -> u64 {
    let bytes = match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse { name, input, .. } => {
            name.len() + serde_json::to_string(input).unwrap().len()
        }
        Block::ToolResult { content, .. } => return content.iter().map(block_tokens).sum(),
        Block::RedactedThinking { .. } | Block::Image(_) => 4_000,
    };
    bytes as u64 / 4
}

#[derive(Debug)]
struct FakeModels(Arc<FakeModel>);

impl Models for FakeModels {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, Refusal> {
        if name == "nobody/nothing" {
            return Err(Refusal::new(RefusalCode::InvalidModel, "no such model"));
        }
        let model = Arc::clone(&self.0);
        let listed = model.listed.lock().unwrap().iter().find(|info| info.id == name).cloned();
        let info = listed.unwrap_or_else(|| model.known());
        Ok(Arc::new(Asked { model, info }))
    }

    fn list(&self) -> Vec<ModelInfo> {
        self.0.listed.lock().unwrap().clone()
    }
}

/// A tool with an effect that the world counts: `look` reads, `touch` executes, `wait` runs until
/// it is stopped (`slow` for a second more), `breaks` panics.
struct FakeTool {
    spec: ToolSpec,
    effect: Effect,
    world: World,
}

impl std::fmt::Debug for FakeTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.spec.name)
    }
}

#[async_trait]
impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn facts(
        &self,
        input: &Map<String, serde_json::Value>,
        _: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let summary = input.get("effect").map(ToString::to_string).unwrap_or_default();
        let command = (self.effect == Effect::Execute).then(|| "make it".to_owned());
        Ok(CallFacts { effect: self.effect, summary, paths: Vec::new(), command })
    }

    fn asks(&self, input: &Map<String, serde_json::Value>) -> Result<Option<Asks>, ToolError> {
        let text = input["effect"].as_str().unwrap_or_default().to_owned();
        let option = |label: &str| protocol::event::QuestionOption {
            id: label.to_lowercase(),
            label: label.to_owned(),
            description: None,
        };
        Ok(match self.spec.name.as_str() {
            "question" => Some(Asks::Question {
                question: text,
                options: vec![option("Postgres"), option("SQLite")],
                multi_select: false,
                allow_other: true,
            }),
            "exit_plan" => Some(Asks::Plan { plan: text }),
            _ => None,
        })
    }

    async fn preview(
        &self,
        input: &Map<String, serde_json::Value>,
        _: &CallFacts,
        _: &dyn Workspace,
    ) -> Option<String> {
        let text = input["effect"].as_str().filter(|text| text.contains('='))?;
        Some(format!("+{text}"))
    }

    async fn run(
        &self,
        input: &Map<String, serde_json::Value>,
        _: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let effect = input["effect"].as_str().unwrap_or_default().to_owned();
        let running = self.world.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.world.running_most.fetch_max(running, Ordering::SeqCst);
        *self.world.effects.lock().unwrap().entry(effect.clone()).or_default() += 1;
        self.look_at_the_disk(context);
        let outcome = match self.spec.name.as_str() {
            // A call that hears no stop.
            "wait" if effect == "stubborn" => std::future::pending().await,
            "wait" => {
                context.cancel.cancelled().await;
                if effect == "slow" {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                ToolOutcome::error("stopped by the user")
            }
            "breaks" => panic!("the tool breaks"),
            "inquire" => self.inquire(&effect, context).await,
            // Names separated by commas.
            "find" => {
                let activates = effect.split(',').map(str::to_owned).collect();
                ToolOutcome { activates, ..ToolOutcome::text("found") }
            }
            "same" => ToolOutcome::text("the same as ever"),
            _ => {
                self.change_files(&effect);
                tokio::time::sleep(Duration::from_millis(5)).await;
                ToolOutcome::text(format!("did {effect}"))
            }
        };
        self.world.running.fetch_sub(1, Ordering::SeqCst);
        Ok(outcome)
    }
}

impl FakeTool {
    /// `PATH=CONTENTS` writes a file, `PATH=` removes it.
    fn change_files(&self, effect: &str) {
        let Some((path, contents)) = effect.split_once('=') else { return };
        let mut files = self.world.around.files.lock().unwrap();
        match contents {
            "" => files.remove(path),
            contents => files.insert(path.to_owned(), contents.to_owned()),
        };
    }

    /// Asks what it is told to, and says what it heard: a question, one that it takes back, a plan,
    /// or many questions one after the other.
    async fn inquire(&self, what: &str, context: &ToolContext) -> ToolOutcome {
        let option = |id: &str| protocol::event::QuestionOption {
            id: id.to_owned(),
            label: id.to_uppercase(),
            description: None,
        };
        let question = || Asks::Question {
            question: what.to_owned(),
            options: vec![option("yes"), option("no")],
            multi_select: false,
            allow_other: true,
        };
        let heard = match what {
            "plan" => context.host.ask(Asks::Plan { plan: what.to_owned() }).await,
            "back" => {
                let asked = context.host.ask(question());
                let within = Duration::from_secs(5);
                tokio::time::timeout(within, asked).await.unwrap_or_default()
            }
            "again" => {
                let within = Duration::from_secs(5);
                let first = tokio::time::timeout(within, context.host.ask(question())).await;
                assert!(first.is_err(), "nobody answers the first one");
                context.host.ask(question()).await
            }
            "many" => {
                let mut heard = None;
                for _ in 0..30 {
                    heard = context.host.ask(question()).await;
                }
                heard
            }
            "large" => {
                let Asks::Question { options, .. } = question() else { unreachable!() };
                let question = "x".repeat(20_001);
                let (multi_select, allow_other) = (false, true);
                let asks = Asks::Question { question, options, multi_select, allow_other };
                context.host.ask(asks).await
            }
            _ => context.host.ask(question()).await,
        };
        ToolOutcome::text(format!("heard {heard:?}"))
    }

    /// Notes a call whose answer or start the disk does not have.
    fn look_at_the_disk(&self, context: &ToolContext) {
        let id = context.call.as_str();
        let sessions = self.world.disk.sessions();
        let rows = sessions.iter().flat_map(|session| self.world.disk.rows(session));
        let rows: Vec<LogRow> = rows.filter(|row| row.body.contains(id)).collect();
        let has = |kind| rows.iter().any(|row| row.kind == kind);
        if !has(EventKind::AssistantMessage) || !has(EventKind::ToolStarted) {
            self.world.too_early.lock().unwrap().push(id.to_owned());
        }
    }
}

/// Brings the tools that the test says are there: those that new sessions are offered, and others.
#[derive(Clone)]
struct FakeSource {
    world: World,
}

impl std::fmt::Debug for FakeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a source")
    }
}

#[async_trait]
impl ToolSource for FakeSource {
    fn offers(&self, place: Place<'_>) -> Vec<Arc<dyn Tool>> {
        let around = &self.world.around;
        let place = match place {
            Place::Folder(folder) => folder.to_owned(),
            Place::Neuron(neuron) => format!("in {neuron}"),
        };
        around.source_folders.lock().unwrap().push(place);
        let offers = around.offers.lock().unwrap().clone();
        offers.iter().map(|name| tool(&self.world, name, Effect::Read)).collect()
    }

    fn find(&self, name: &str, _: Place<'_>) -> Option<Arc<dyn Tool>> {
        let around = &self.world.around;
        let mut found = around.found.lock().unwrap();
        let there = around.there.lock().unwrap();
        let offers = around.offers.lock().unwrap();
        if !there.iter().chain(offers.iter()).any(|known| known == name) {
            found.remove(name);
            return None;
        }
        let found = found.entry(name.to_owned());
        Some(Arc::clone(found.or_insert_with(|| tool(&self.world, name, Effect::Read))))
    }

    async fn enter(&self, neuron: &NeuronId, _: &Arc<dyn Workspace>) {
        let place = format!("entered {neuron}");
        self.world.around.source_folders.lock().unwrap().push(place);
    }
}

fn tool(world: &World, name: &str, effect: Effect) -> Arc<dyn Tool> {
    let input_schema = json!({
        "type": "object",
        "properties": {"effect": {"type": "string"}},
        "required": ["effect"],
        "additionalProperties": false
    });
    let description = "A tool of the test.".to_owned();
    let spec = ToolSpec { name: name.into(), description, input_schema };
    Arc::new(FakeTool { spec, effect, world: world.clone() })
}

/// A folder that holds what the test put there.
#[derive(Debug)]
pub(crate) struct TestFolder(pub(crate) Vec<PathBuf>, pub(crate) bool, pub(crate) Arc<Around>);

#[async_trait]
impl Workspace for TestFolder {
    fn cwd(&self) -> &Path {
        &self.0[0]
    }

    fn roots(&self) -> &[PathBuf] {
        &self.0
    }

    fn is_local(&self) -> bool {
        self.1
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        if path.is_empty() {
            return Err(WorkspaceError::Unfit("the path is empty".to_owned()));
        }
        let mut real = PathBuf::new();
        for part in self.cwd().join(path).components() {
            match part {
                std::path::Component::ParentDir => drop(real.pop()),
                part => real.push(part),
            }
        }
        let root = real.starts_with(self.cwd()).then(|| self.cwd().to_path_buf());
        let stat = self.2.stat(&real);
        Ok(Located { real, root, stat })
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let takes = *self.2.read_ms.lock().unwrap();
        tokio::time::sleep(Duration::from_millis(takes)).await;
        let not_found = || WorkspaceError::NotFound(file.shown());
        let bytes = self.2.stored.lock().unwrap().get(&file.real).cloned();
        let (bytes, stat) = bytes.zip(self.2.stat(&file.real)).ok_or_else(not_found)?;
        let (path, size) = (file.shown(), stat.size);
        match size > limit {
            true => Err(WorkspaceError::TooLarge { path, size, limit }),
            false => Ok(Contents { bytes, stat }),
        }
    }

    async fn write(&self, file: &Located, _: &[u8]) -> Result<FileStat, WorkspaceError> {
        Err(WorkspaceError::Forbidden(file.shown()))
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        Err(WorkspaceError::NotFound(file.shown()))
    }

    async fn spawn(
        &self,
        _: Spawn,
        _: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        Err(WorkspaceError::NotFound("bash".into()))
    }
}

#[derive(Debug)]
struct Folders(bool, Arc<Around>);

#[async_trait]
impl Workspaces for Folders {
    async fn open(
        &self,
        cwd: &str,
        roots: &[String],
    ) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        assert!(!roots.iter().any(|root| root == "/breaks"), "the workspace breaks");
        let takes = *self.1.open_ms.lock().unwrap();
        tokio::time::sleep(Duration::from_millis(takes)).await;
        if cwd == "/missing" {
            return Err(WorkspaceError::NotFound(cwd.to_owned()));
        }
        Ok(Arc::new(TestFolder(vec![PathBuf::from(cwd)], self.0, Arc::clone(&self.1))))
    }

    fn prepare(&self) {}

    fn lent(
        &self,
        own: Arc<dyn Workspace>,
        lender: Arc<dyn driver_api::Lender>,
        session: &protocol::SessionId,
    ) -> Arc<dyn Workspace> {
        self.1.lent.lock().unwrap().push((session.clone(), lender.lends()));
        own
    }
}

impl World {
    /// Starts a process on the world's disk.
    pub(crate) fn process(&self) -> Handle {
        self.process_on(self.disk.process())
    }

    /// Starts a process whose sessions begin in a mode.
    pub(crate) fn process_in(&self, mode: Mode) -> Handle {
        self.process_with(self.disk.process(), mode)
    }

    pub(crate) fn process_on(&self, store: Arc<dyn Store>) -> Handle {
        self.process_with(store, Mode::FullAuto)
    }

    pub(crate) fn process_on_in(&self, store: Arc<dyn Store>, mode: Mode) -> Handle {
        self.process_with(store, mode)
    }

    fn process_with(&self, store: Arc<dyn Store>, default_mode: Mode) -> Handle {
        let policy = self.around.policy.lock().unwrap().clone();
        self.process_under(store, default_mode, runtime::Policies::new(policy))
    }

    /// Starts a process whose policy the test replaces.
    pub(crate) fn process_with_policies(&self) -> (Handle, runtime::Policies) {
        let policies = runtime::Policies::default();
        let store = self.disk.process();
        (self.process_under(store, Mode::FullAuto, policies.clone()), policies)
    }

    fn process_under(
        &self,
        store: Arc<dyn Store>,
        default_mode: Mode,
        policies: runtime::Policies,
    ) -> Handle {
        let tools = vec![
            tool(self, "look", Effect::Read),
            tool(self, "touch", Effect::Execute),
            tool(self, "wait", Effect::Execute),
            tool(self, "breaks", Effect::Execute),
            tool(self, "same", Effect::Read),
            tool(self, "question", Effect::Interact),
            tool(self, "exit_plan", Effect::Interact),
            tool(self, "run_shell", Effect::Execute),
            tool(self, "destroy", Effect::Destructive),
            tool(self, "inquire", Effect::Execute),
            tool(self, "find", Effect::Read),
        ];
        let around = &self.around;
        let source = Arc::new(FakeSource { world: self.clone() });
        let has_neurons = around.neurons.lock().unwrap().is_some();
        let neurons = || Arc::new(FakeNeurons(Arc::clone(around))) as Arc<dyn Neurons>;
        let has_checks = around.checks.lock().unwrap().is_some();
        let has_checkpoints = around.has_checkpoints.load(Ordering::Relaxed);
        let checks = || Arc::new(FakeChecks(Arc::clone(around))) as Arc<dyn Checks>;
        let checkpoints = || Arc::new(FakeCheckpoints(Arc::clone(around))) as Arc<dyn Checkpoints>;
        runtime::Options {
            store,
            models: Arc::new(FakeModels(Arc::clone(&self.model))),
            tools,
            tool_sources: vec![source],
            neurons: has_neurons.then(neurons),
            sandboxes: None,
            workspaces: Arc::new(Folders(has_checkpoints, Arc::clone(around))),
            policies,
            clock: Arc::new(TestClock::default()),
            ids: Arc::clone(&self.ids) as _,
            default_model: Some("fake/model".into()),
            default_mode,
            spill: PathBuf::from("/nowhere/spill"),
            user_home: None,
            hooks: Arc::new(FakeHooks(Arc::clone(around))),
            checks: has_checks.then(checks),
            checkpoints: has_checkpoints.then(checkpoints),
            rule_book: Some(Arc::new(FakeBook(Arc::clone(around)))),
            observers: around.observers.lock().unwrap().clone(),
            sessions_max: *around.sessions_max.lock().unwrap(),
            idle_ms: None,
        }
        .start()
    }

    pub(crate) fn effect_count(&self, name: &str) -> usize {
        self.effects.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    pub(crate) fn request_count(&self) -> usize {
        self.model.requests.lock().unwrap().len()
    }
}

/// Creates a session in `/w`.
pub(crate) async fn session(handle: &Handle) -> SessionId {
    session_with(handle, AgentSettings::default()).await
}

pub(crate) async fn session_with(handle: &Handle, agent: AgentSettings) -> SessionId {
    handle.create(new_session(agent)).await.unwrap().id
}

/// Says what a session in `/w` is made of.
pub(crate) fn new_session(agent: AgentSettings) -> CreateSession {
    CreateSession {
        cwd: "/w".to_owned(),
        model: None,
        mode: None,
        title: None,
        allow: Vec::new(),
        deny: Vec::new(),
        append_system_prompt: None,
        neuron: None,
        sandbox: None,
        tools: None,
        asks_for: Vec::new(),
        max_turns: None,
        agent,
    }
}

pub(crate) async fn watch(handle: &Handle, id: &SessionId) -> Subscription {
    handle.subscribe(id, Position::Live, Overflow::Pace(64)).await.unwrap()
}

/// Sends a prompt and collects everything up to the end of its turn.
pub(crate) async fn turn(handle: &Handle, id: &SessionId, text: &str) -> (Done, Vec<EventBody>) {
    let mut viewer = watch(handle, id).await;
    handle.prompt(id, Prompt::text(text)).await.unwrap();
    until_done(&mut viewer).await
}

pub(crate) async fn until_done(viewer: &mut Subscription) -> (Done, Vec<EventBody>) {
    let mut events = Vec::new();
    let mut done = None;
    loop {
        let event = viewer.next_event().await.expect("the stream goes on until the turn ends");
        events.push(event.body.clone());
        match &event.body {
            EventBody::Done(end) => {
                assert!(done.is_none(), "one terminal event per turn");
                done = Some(end.clone());
            }
            EventBody::PromptFinished(_) => return (done.expect("done comes first"), events),
            _ => {}
        }
    }
}

/// Says what a strict provider would refuse.
pub(crate) fn faults(messages: &[Arc<Message>]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut used = std::collections::HashSet::new();
    let mut open: Vec<ToolCallId> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let expected = if index % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != expected || message.content.is_empty() {
            faults.push(format!("message {index}: {:?}", message.role));
        }
        let mut results = Vec::new();
        let mut calls = Vec::new();
        for block in &message.content {
            match block {
                Block::ToolResult { id, .. } => results.push(id.clone()),
                Block::ToolUse { id, .. } => {
                    if id.as_str().is_empty() || !used.insert(id.clone()) {
                        faults.push(format!("message {index}: id {id}"));
                    }
                    calls.push(id.clone());
                }
                other if other.is_blank() => faults.push(format!("message {index}: blank")),
                _ => {}
            }
        }
        if message.role == Role::User && results != open {
            faults.push(format!("message {index}: results {results:?} for {open:?}"));
        }
        open = calls;
    }
    if messages.last().is_none_or(|last| last.role != Role::User) {
        faults.push("the last message must be the user's".into());
    }
    faults
}
