//! The built program with a home, a folder and a model server of its own.
#![allow(clippy::disallowed_methods, reason = "these tests start the built program as users do")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::model_server::{ModelServer, Options};

/// How long a program may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that one test needs.
pub(crate) struct Program {
    folder: tempfile::TempDir,
    pub(crate) server: ModelServer,
    env: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("one JSON object: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        Self { code: output.status.code(), out, err }
    }
}

impl Program {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let server = ModelServer::start_blocking(options);
        let env = vec![
            ("ANTHROPIC_BASE_URL".into(), server.anthropic_base()),
            ("ANTHROPIC_API_KEY".into(), "key-a".into()),
            ("OPENAI_BASE_URL".into(), server.openai_base()),
            ("OPENAI_API_KEY".into(), "key-o".into()),
            ("GEMINI_BASE_URL".into(), server.gemini_base()),
            ("GEMINI_API_KEY".into(), "key-g".into()),
            ("NARTHEX_MODEL".into(), "anthropic/claude-sonnet-4-6".into()),
        ];
        Self { folder, server, env }
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.cwd().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.cwd().join(name)).unwrap_or_default()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narthex"));
        command
            .args(arguments)
            .current_dir(self.cwd())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("NARTHEX_HOME", self.home())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        finish(self.start(arguments))
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(input.as_bytes()).unwrap();
        drop(pipe);
        finish(child)
    }
}

/// Waits for a program's end; one that hangs fails the test instead of holding it up.
pub(crate) fn finish(child: Child) -> Ended {
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap().into(),
        Err(_) => {
            signal(id, "KILL");
            panic!("the program did not end within {PATIENCE:?}");
        }
    }
}

pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
    assert!(sent.is_ok());
}

/// Polls until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Counts living processes whose command line holds a word that only the test uses.
pub(crate) fn alive(word: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    entries
        .flatten()
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            let is_sleep = words.first().is_some_and(|program| program.ends_with(b"sleep"));
            let is_ours = words.get(1).is_some_and(|word_| *word_ == word.as_bytes());
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let is_dead = stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z'));
            is_sleep && is_ours && !is_dead
        })
        .count()
}
