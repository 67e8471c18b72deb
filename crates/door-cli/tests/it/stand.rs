//! What the tests share: a machine around a fake runtime, streams in memory, events.

use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use door_cli::{
    Check, CheckStatus, DemoProject, Exit, Failure, Globals, House, Machine, Need, SandboxDriver,
    SchemaName, Setting, SettingsFile, Stop, Stops, StreamFacts, Streams, UntrustedProject,
};
use protocol::event::{
    AssistantMessage, DeniedBy, Display, Done, PermissionRequest, PromptFinished, TextDelta,
    ToolCall, ToolDenied, ToolResult, TurnResult, TurnStart, UsageEvent,
};
use protocol::{
    Block, Effect, MessageId, Mode, NeuronDriver, PromptId, RequestId, Risk, StopReason, Target,
    Timestamp, ToolCallId, TurnEnd, Usage,
};
use runtime_api::{AgentSettings, Handle};
use stdx::Secret;
use testkit::fake_handle::{FakeRuntime, Play};
use tokio::sync::mpsc;

/// How long a command may take before it counts as hanging: none of them waits for anything real.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose runtime is a fake.
pub(crate) struct FakeMachine {
    runtime: Arc<FakeRuntime>,
    home: PathBuf,
    demo: Option<PathBuf>,
    has_no_checkpoints: bool,
    /// A project's file that waits for trust.
    untrusted: Mutex<Option<UntrustedProject>>,
    /// Lets what the machine does be stopped half-way.
    pub(crate) stops: mpsc::Sender<Stop>,
}

impl Machine for FakeMachine {
    async fn open(&self, globals: &Globals, need: Need) -> Result<House, Failure> {
        let handle = Handle::new(self.runtime.clone());
        let model = match (&globals.model, need) {
            (Some(model), _) if model == "none" => {
                return Err(Failure::usage("no model to talk to"));
            }
            (Some(model), _) => model.clone(),
            (None, _) => "anthropic/claude-sonnet-4-6".to_owned(),
        };
        Ok(House {
            handle,
            cwd: match &globals.cwd {
                Some(folder) => folder.display().to_string(),
                None => "/src/app".to_owned(),
            },
            model: Some(model),
            asked_model: globals.model.clone(),
            mode: globals.mode.unwrap_or(Mode::Ask),
            sandbox: globals.sandbox.map(|driver| match driver {
                SandboxDriver::Namespace => NeuronDriver::Namespace,
                SandboxDriver::Host => NeuronDriver::Host,
            }),
            key_hints: vec![(
                "anthropic".to_owned(),
                "the key of anthropic came from environment, ANTHROPIC_API_KEY".to_owned(),
            )],
            agent: AgentSettings {
                allow: globals.allow.clone(),
                interaction_timeout_ms: globals.permission_timeout.unwrap_or_default(),
                ..AgentSettings::default()
            },
            home: self.home.clone(),
            notices: Vec::new(),
            untrusted: self.untrusted.lock().unwrap().clone(),
        })
    }

    fn settings(&self, _: &Globals) -> Result<(Vec<Setting>, Vec<String>), Failure> {
        let setting = |key: &str, value: &str| Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: "built in".to_owned(),
        };
        let mut settings = vec![setting("mode", "\"ask\""), setting("model", "")];
        settings.extend(self.has_no_checkpoints.then(|| setting("checkpoints.enabled", "false")));
        Ok((settings, Vec::new()))
    }

    fn set(&self, _: &Globals, key: &str, _: &str) -> Result<PathBuf, Failure> {
        if key == "model" {
            return Ok(PathBuf::from("/home/config.toml"));
        }
        Err(Failure::usage(format!("unknown key '{key}'")))
    }

    fn files(&self, _: &Globals) -> Result<Vec<SettingsFile>, Failure> {
        let path = PathBuf::from("/home/config.toml");
        Ok(vec![SettingsFile { layer: "user".to_owned(), path, state: "read".to_owned() }])
    }

    fn trust(&self, _: &Globals, folder: Option<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
        Ok(vec![folder.unwrap_or_default().join(".narthex/config.toml")])
    }

    fn trust_offered(&self, _: &Globals, offered: &UntrustedProject) -> Result<(), Failure> {
        assert_eq!(self.untrusted.lock().unwrap().take().as_ref(), Some(offered));
        Ok(())
    }

    fn keep_key(&self, _: &Globals, name: &str, key: Secret<String>) -> Result<PathBuf, Failure> {
        let path = self.home.join(name);
        std::fs::write(&path, key.expose()).map_err(|e| Failure::failed(e.to_string()))?;
        Ok(path)
    }

    async fn checks(&self, globals: &Globals) -> Vec<Check> {
        let check = |status, fix: Option<&str>| Check {
            group: "store".to_owned(),
            name: "home".to_owned(),
            status,
            message: "/home".to_owned(),
            fix: fix.map(str::to_owned),
        };
        let mut checks = vec![check(CheckStatus::Ok, None)];
        if globals.trust_project {
            checks.push(check(CheckStatus::Fail, Some("chmod 700 /home")));
        }
        checks
    }

    fn demo(&self) -> Result<DemoProject, Failure> {
        let folder = self.demo.clone().ok_or_else(|| Failure::failed("no demo here"))?;
        Ok(DemoProject {
            folder,
            files: vec![("slug.sh".to_owned(), "old\n".to_owned())],
            prompt: "fix it".to_owned(),
            proof: "test.sh".to_owned(),
        })
    }

    fn schema(&self, _: SchemaName) -> String {
        "{}\n".to_owned()
    }

    fn now() -> Timestamp {
        Timestamp(1_796_000_600_000)
    }
}

/// A stream in memory; it can break like a pipe whose reader has gone, and press Ctrl-C when it
/// sees a word.
#[derive(Clone, Default)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    breaks: bool,
    watches: Option<Watched>,
    types: Option<(&'static str, &'static str, Keyboard)>,
}

/// A word and what happens when it is written.
#[derive(Clone)]
struct Watched {
    word: &'static str,
    stops: Vec<Stop>,
    sender: mpsc::Sender<Stop>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.breaks {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        if let Some(watched) = &mut self.watches
            && String::from_utf8_lossy(bytes).contains(watched.word)
        {
            for stop in watched.stops.drain(..) {
                watched.sender.try_send(stop).unwrap();
            }
        }
        if let Some((word, text, keyboard)) = &self.types
            && String::from_utf8_lossy(bytes).contains(word)
        {
            keyboard.press(text);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

/// A keyboard: what was typed and not read, which the program can throw away.
#[derive(Clone, Default)]
struct Keyboard(Arc<(Mutex<Vec<u8>>, Condvar)>);

impl Keyboard {
    fn press(&self, text: &str) {
        self.0.0.lock().unwrap().extend_from_slice(text.as_bytes());
        self.0.1.notify_all();
    }

    fn forget(&self) {
        self.0.0.lock().unwrap().clear();
    }
}

impl Read for Keyboard {
    /// Gives one line at most, as a terminal does.
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let typed = self.0.0.lock().unwrap();
        let mut typed = self.0.1.wait_while(typed, |typed| !typed.contains(&b'\n')).unwrap();
        let end = typed.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let line: Vec<u8> = typed.drain(..end.min(into.len())).collect();
        into[..line.len()].copy_from_slice(&line);
        Ok(line.len())
    }
}

/// An input that stays open and says nothing.
struct Silence;

impl Read for Silence {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        loop {
            std::thread::park();
        }
    }
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) runtime: Arc<FakeRuntime>,
}

/// A command to run in a stand.
pub(crate) struct Stand {
    runtime: FakeRuntime,
    input: Option<String>,
    typed: Option<(&'static str, &'static str, &'static str)>,
    facts: StreamFacts,
    stops: Vec<Stop>,
    stops_at: Option<(&'static str, Vec<Stop>)>,
    breaks: bool,
    demo: Option<PathBuf>,
    untrusted: Option<UntrustedProject>,
    has_no_checkpoints: bool,
}

impl Stand {
    pub(crate) fn new(runtime: FakeRuntime) -> Self {
        Self {
            runtime,
            input: Some(String::new()),
            typed: None,
            facts: StreamFacts::default(),
            stops: Vec::new(),
            stops_at: None,
            breaks: false,
            demo: None,
            untrusted: None,
            has_no_checkpoints: false,
        }
    }

    /// Lets the settings say that no files are captured.
    pub(crate) fn without_checkpoints(mut self) -> Self {
        self.has_no_checkpoints = true;
        self
    }

    /// Lets the folder bring a settings file that nobody has trusted.
    pub(crate) fn untrusted(mut self, project: UntrustedProject) -> Self {
        self.untrusted = Some(project);
        self
    }

    pub(crate) fn input(mut self, text: &str) -> Self {
        self.input = Some(text.to_owned());
        self
    }

    /// Types `before` before anything is shown, and `text` whenever `word` is shown to people.
    pub(crate) fn types(
        mut self,
        before: &'static str,
        word: &'static str,
        text: &'static str,
    ) -> Self {
        self.typed = Some((before, word, text));
        self
    }

    /// Leaves standard input open without a byte. Waiting takes no time then.
    pub(crate) fn silent_input(mut self) -> Self {
        self.input = None;
        self
    }

    /// Sits a person at all three streams, without colours so that outputs read well.
    pub(crate) fn terminal(mut self) -> Self {
        self.facts = StreamFacts {
            input_is_terminal: true,
            out_is_terminal: true,
            err_is_terminal: true,
            no_color: true,
            ..StreamFacts::default()
        };
        self
    }

    pub(crate) fn facts(mut self, facts: StreamFacts) -> Self {
        self.facts = facts;
        self
    }

    pub(crate) fn stops(mut self, stops: &[Stop]) -> Self {
        self.stops = stops.to_vec();
        self
    }

    /// Stops when this word appears on standard output.
    pub(crate) fn stops_at(mut self, word: &'static str, stops: &[Stop]) -> Self {
        self.stops_at = Some((word, stops.to_vec()));
        self
    }

    pub(crate) fn broken_pipe(mut self) -> Self {
        self.breaks = true;
        self
    }

    pub(crate) fn demo(mut self, folder: PathBuf) -> Self {
        self.demo = Some(folder);
        self
    }

    /// Runs a command line, given without the program's name.
    pub(crate) fn run(self, args: &[&str]) -> Outcome {
        let words = std::iter::once("narthex").chain(args.iter().copied());
        let cli = door_cli::parse(words.map(Into::into)).unwrap();
        let (sender, stops) = Stops::channel();
        let watches =
            self.stops_at.map(|(word, stops)| Watched { word, stops, sender: sender.clone() });
        let out = Sink { breaks: self.breaks, watches, ..Sink::default() };
        let keyboard = Keyboard::default();
        let types = self.typed.map(|(_, word, text)| (word, text, keyboard.clone()));
        if let Some((before, _, _)) = self.typed {
            keyboard.press(before);
        }
        let err = Sink { types, ..Sink::default() };
        let is_silent = self.input.is_none();
        let input: Box<dyn BufRead + Send> = match self.input {
            Some(_) if self.typed.is_some() => Box::new(BufReader::new(keyboard.clone())),
            Some(text) => Box::new(Cursor::new(text.into_bytes())),
            None => Box::new(BufReader::new(Silence)),
        };
        let streams = Streams {
            input,
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            forget: Box::new(move || keyboard.forget()),
            facts: self.facts,
        };
        let folder = tempfile::tempdir().unwrap();
        let runtime = Arc::new(self.runtime);
        let machine = FakeMachine {
            runtime: runtime.clone(),
            home: folder.path().to_owned(),
            demo: self.demo,
            has_no_checkpoints: self.has_no_checkpoints,
            untrusted: Mutex::new(self.untrusted),
            stops: sender.clone(),
        };
        let mut tokio = tokio::runtime::Builder::new_current_thread();
        let tokio = tokio.enable_all().start_paused(is_silent).build().unwrap();
        let exit: Exit = tokio.block_on(async {
            for stop in self.stops {
                sender.try_send(stop).unwrap();
            }
            let run = door_cli::run(cli, &machine, streams, stops);
            tokio::time::timeout(PATIENCE, run).await.unwrap()
        });
        Outcome { code: exit.code(), out: out.text(), err: err.text(), runtime }
    }
}

pub(crate) fn step(turn: u32) -> Play {
    let prompt_id = PromptId::new("prompt1");
    TurnStart { turn, prompt_id, model: "anthropic/claude-sonnet-4-6".to_owned() }.into()
}

pub(crate) fn delta(text: &str) -> Play {
    TextDelta { text: text.to_owned() }.into()
}

pub(crate) fn says(text: &str, stop_reason: StopReason) -> Play {
    let content = vec![Block::text(text)];
    AssistantMessage { message_id: MessageId::new("message1"), content, stop_reason }.into()
}

fn target(summary: &str, effect: Effect) -> Target {
    Target { summary: summary.to_owned(), effect, paths: Vec::new() }
}

pub(crate) fn calls(id: &str, tool: &str, summary: &str) -> Play {
    ToolCall {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        input: serde_json::Map::new(),
        target: target(summary, Effect::Execute),
    }
    .into()
}

pub(crate) fn brings(id: &str, tool: &str, is_error: bool, display: Option<Display>) -> Play {
    brings_text(id, tool, (is_error, "first line\nsecond line"), display)
}

pub(crate) fn brings_text(
    id: &str,
    tool: &str,
    (is_error, text): (bool, &str),
    display: Option<Display>,
) -> Play {
    ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        is_error,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 12,
        display,
        files: Vec::new(),
    }
    .into()
}

pub(crate) fn denies(id: &str, tool: &str, by: DeniedBy, reason: &str) -> Play {
    ToolDenied {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        reason: reason.to_owned(),
        by,
    }
    .into()
}

pub(crate) fn used(input_tokens: u64, output_tokens: u64) -> Play {
    let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
    let model = Some("anthropic/claude-sonnet-4-6".to_owned());
    UsageEvent { usage, cost_usd: Some(0.0123), model, purpose: None }.into()
}

pub(crate) fn asks(id: &str, summary: &str) -> Play {
    asks_with(id, summary, vec!["run_shell(touch *)".to_owned()])
}

pub(crate) fn asks_with(id: &str, summary: &str, suggested_rules: Vec<String>) -> Play {
    let input = serde_json::json!({ "command": summary });
    PermissionRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("call1"),
        tool_name: "run_shell".to_owned(),
        effect: Effect::Execute,
        target: target(summary, Effect::Execute),
        input: input.as_object().cloned().unwrap(),
        suggested_rules,
        risk: Risk::Medium,
        reason: Some("mode ask".to_owned()),
        review: false,
        diff: None,
        checks: Vec::new(),
        expires_at: None,
    }
    .into()
}

pub(crate) fn result(reason: TurnEnd, text: &str) -> TurnResult {
    TurnResult {
        reason,
        code: None,
        message: None,
        usage: Usage { input_tokens: 1200, output_tokens: 34, ..Usage::default() },
        cost_usd: Some(0.0123),
        turns: 2,
        duration_ms: 3400,
        text: text.to_owned(),
        unanswered: 0,
        structured: None,
    }
}

/// The end of a turn: its `done` and the last event of its prompt.
pub(crate) fn ends(result: TurnResult) -> Vec<Play> {
    let finished = PromptFinished { prompt_id: PromptId::new("prompt1"), result: result.clone() };
    vec![Done { result }.into(), finished.into()]
}

/// A whole turn that says one thing.
pub(crate) fn answer(text: &str) -> Vec<Play> {
    let mut plays = vec![step(1), delta(text), says(text, StopReason::EndTurn)];
    plays.extend(ends(result(TurnEnd::Completed, text)));
    plays
}
