//! A folder with a workspace in it, hooks from JSON, and calls to tell them of.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver_api::{Happening, HookAnswer, HookPlace, HookedCall, Hooks, Workspace};
use hooks::{CommandHooks, HookSet, Origin};
use protocol::{Mode, SessionId, ToolCallId};
use sandbox::{Agent, AgentOptions, HostOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// More than any test needs, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) workspace: Arc<dyn Workspace>,
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::within("")
    }

    /// A folder whose workspace works in a folder beneath it.
    pub(crate) fn within(sub: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join(sub);
        std::fs::create_dir_all(&cwd).unwrap();
        let agent = Agent::new(AgentOptions { command: crate::embedded_agent::command() });
        let options = HostOptions { cwd, ..HostOptions::default() };
        Self { workspace: sandbox::host(options, agent).unwrap(), folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn cwd(&self) -> &Path {
        self.workspace.cwd()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Writes a script that hooks can run as `./name`.
    pub(crate) fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) async fn tell(&self, hooks: &CommandHooks, happening: &Happening) -> HookAnswer {
        let session = SessionId::new("ses_1");
        let workspace = &*self.workspace;
        let place = HookPlace { session: &session, mode: Mode::AutoEdit, workspace };
        tokio::time::timeout(PATIENCE, hooks.tell(happening, place)).await.unwrap()
    }
}

pub(crate) fn set(value: &Value) -> HookSet {
    HookSet::from_value(value).unwrap()
}

/// Hooks of the person's, for every tool at one moment.
pub(crate) fn at(moment: &str, commands: &[&str]) -> CommandHooks {
    from(Origin::User, moment, commands)
}

pub(crate) fn from(origin: Origin, moment: &str, commands: &[&str]) -> CommandHooks {
    CommandHooks::new(vec![(origin, set(&json!({moment: [group("", commands)]})))]).unwrap()
}

pub(crate) fn group(matcher: &str, commands: &[&str]) -> Value {
    let hook = |command: &&str| json!({"type": "command", "command": command, "timeout": 50});
    json!({"matcher": matcher, "hooks": commands.iter().map(hook).collect::<Vec<_>>()})
}

pub(crate) fn call(tool: &str, input: Value, paths: &[&str]) -> HookedCall {
    let Value::Object(input) = input else { panic!("expected an object") };
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    HookedCall { id: ToolCallId::new("call_1"), tool: tool.to_owned(), input, paths }
}

pub(crate) fn shell(command: &str) -> Happening {
    Happening::PreToolUse(call("run_shell", json!({"command": command}), &[]))
}

/// How many processes run `sleep` with this number.
pub(crate) fn alive(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{mark}");
    lines.filter(|line| String::from_utf8_lossy(line).starts_with(&wanted)).count()
}

pub(crate) fn mark(test: u32) -> String {
    format!("95{}{test:02}", std::process::id())
}

pub(crate) async fn wait_for(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "expected {what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
