//! Real programs: this very binary as a server.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connect::{Child, Endpoint, LastLines, Launcher, Scope, Server, ServerState, StdioServer};
use driver_api::{
    Exit, ExitStatus, Fault, Place, Process, ToolSource as _, Workspace, WorkspaceError,
};
use serde_json::{Value, json};
use stdx::Secret;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::house::{eventually, house, program, text_of};

/// Names the file that a server writes its process into.
const LOG: &str = "NARTHEX_TEST_MCP_LOG";

/// Starts programs in groups of their own.
#[derive(Debug)]
struct Programs;

#[async_trait]
impl Launcher for Programs {
    async fn launch(
        &self,
        server: &StdioServer,
        _inside: Option<&Arc<dyn Workspace>>,
    ) -> Result<Child, Fault> {
        let mut command = tokio::process::Command::new(&server.command);
        command.args(server.args.iter().map(Secret::expose));
        command.envs(server.env.iter().map(|(name, value)| (name, value.expose())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| Fault::with("start an MCP server", error))?;
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let stderr = LastLines::default();
        let kept = stderr.clone();
        let heard = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                kept.push(&line);
            }
        });
        let group = i32::try_from(child.id().unwrap()).unwrap();
        let process = Box::new(Group { child, group, heard: Some(heard) });
        Ok(Child { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, process })
    }
}

#[derive(Debug)]
struct Group {
    child: tokio::process::Child,
    group: i32,
    heard: Option<tokio::task::JoinHandle<()>>,
}

impl Group {
    fn signal(group: i32, signal: rustix::process::Signal) {
        let group = rustix::process::Pid::from_raw(group).unwrap();
        let _gone = rustix::process::kill_process_group(group, signal);
    }
}

#[async_trait]
impl Process for Group {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().await.unwrap();
        if let Some(heard) = &mut self.heard {
            heard.await.unwrap();
            self.heard = None;
        }
        let status = match status.code() {
            Some(code) => ExitStatus::Code(code),
            None => ExitStatus::Signal(status.signal().unwrap()),
        };
        Ok(Exit { status, leftovers: 0, killed: false })
    }

    fn kill(&self, grace: Duration) {
        let group = self.group;
        Self::signal(group, rustix::process::Signal::TERM);
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            Self::signal(group, rustix::process::Signal::KILL);
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once it was waited for, the number may be another's.
        if self.child.id().is_some() {
            Self::signal(self.group, rustix::process::Signal::KILL);
        }
    }
}

/// The server: only where the variable is set, else a test like any other.
#[test]
fn acts_as_a_server() {
    let Some(log) = std::env::var_os(LOG) else { return };
    let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    writeln!(log, "{}", std::process::id()).unwrap();
    writeln!(std::io::stderr(), "the server says hello").unwrap();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["id"].is_null() {
            continue;
        }
        let body = match message["method"].as_str().unwrap() {
            "initialize" => json!({"result": {
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "own", "version": "1"}}}),
            "tools/list" => json!({"result": {"tools": [crate::script::tool("echo")]}}),
            "tools/call" => {
                let text = format!("{} heard", std::process::id());
                json!({"result": {"content": [{"type": "text", "text": text}]}})
            }
            _ => json!({"error": {"code": -32601, "message": "unknown"}}),
        };
        let mut whole = body;
        whole["jsonrpc"] = json!("2.0");
        whole["id"] = message["id"].clone();
        let mut out = std::io::stdout();
        writeln!(out, "{whole}").unwrap();
        out.flush().unwrap();
    }
}

fn own(name: &str, log: &Path) -> Server {
    let args = ["--exact", "programs::acts_as_a_server", "--nocapture"];
    let args = args.map(|arg| Secret::new(arg.to_owned())).into();
    let command = std::env::current_exe().unwrap().display().to_string();
    let env = vec![(LOG.to_owned(), Secret::new(log.display().to_string()))];
    let endpoint =
        Endpoint::Stdio(StdioServer { command, args, env, cwd: None, scope: Scope::Host });
    Server { endpoint, ..program(name) }
}

fn pids(log: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_there(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p3_one_process_per_server_whatever_the_number_of_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| folder.path().join(name);
    let broken = Server { endpoint: program("false").endpoint, ..program("broken") };
    let servers = vec![own("one", &log("one")), own("two", &log("two")), broken];
    let house = Arc::new(house(Arc::new(Programs), servers));
    house.until("one", ServerState::Connected).await;
    house.until("two", ServerState::Connected).await;
    let status = house.until("broken", ServerState::Waiting).await;
    assert!(status.error.unwrap().contains("exit code 1"));
    let mut sessions = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let house = Arc::clone(&house);
        sessions.spawn(async move {
            assert_eq!(house.pool.offers(Place::Folder("/repos")).len(), 2);
            let one = text_of(&house.call("mcp__one__echo", json!({})).await);
            let two = text_of(&house.call("mcp__two__echo", json!({})).await);
            (one, two)
        });
    }
    let heard = sessions.join_all().await;
    let (one, two) = (pids(&log("one")), pids(&log("two")));
    assert_eq!((one.len(), two.len()), (1, 1));
    let expected = (format!("{} heard", one[0]), format!("{} heard", two[0]));
    assert!(heard.iter().all(|heard| *heard == expected), "{heard:?}");
    // Configured away, it ends; the other stays.
    let stay = own("two", &log("two"));
    house.pool.configure(&connect::Origin::Settings, vec![stay]);
    eventually("the end of one", || (!is_there(one[0])).then_some(())).await;
    assert!(is_there(two[0]));
    house.pool.stop().await;
    assert!(!is_there(two[0]));
    assert_eq!(pids(&log("two")).len(), 1);
}

#[tokio::test]
async fn a_program_that_does_not_listen_to_its_end_is_killed() {
    let sleeper = StdioServer {
        command: "sh".to_owned(),
        args: ["-c", "trap '' TERM; echo $$ > \"$0\"; while :; do sleep 1; done"]
            .map(|arg| Secret::new(arg.to_owned()))
            .into(),
        env: Vec::new(),
        cwd: None,
        scope: Scope::Host,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut sleeper = sleeper;
    sleeper.args.push(Secret::new(file.display().to_string()));
    let server = Server { endpoint: Endpoint::Stdio(sleeper), ..program("deaf") };
    let house = house(Arc::new(Programs), vec![server]);
    let pid = eventually("the start", || {
        let text = std::fs::read_to_string(&file).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let pid = pid.await;
    house.pool.stop().await;
    eventually("its end", || (!is_there(pid)).then_some(())).await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let house = house(Arc::new(Programs), vec![program("no-such-program-anywhere")]);
    let name = "no-such-program-anywhere";
    let status = house.until(name, ServerState::Waiting).await;
    assert!(status.error.unwrap().starts_with("start an MCP server: "));
    house.pool.stop().await;
}
