//! MCP servers that are programs: started by the assembly, spoken with, and gone with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use narthex::{McpOptions, Options, ServerState, build, connections};

use crate::stand::PATIENCE;

/// Speaks enough of the protocol for one tool, tells its process, and starts a child that would
/// outlive it.
const SERVER: &str = r#"echo $$ > "$1"
sleep 300 &
echo $! >> "$1"
echo "a complaint" >&2
tool='{"name":"look","description":"Looks","inputSchema":{"type":"object"}}'
part() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"*\([^\",}]*\).*/\\1/p"; }
while read -r line; do
  id=$(part id)
  case $line in
    *'"initialize"'*)
      facts='"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}'
      answer="\"result\":{\"protocolVersion\":\"$(part protocolVersion)\",$facts}" ;;
    *'"tools/list"'*) answer="\"result\":{\"tools\":[$tool]}" ;;
    *) answer='"error":{"code":-32601,"message":"no such method"}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

struct House {
    folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::write(folder.path().join("work/server.sh"), SERVER).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self, text: &str) -> Options {
        let origin = connect::Origin::Settings;
        let read = connect::settings::from_json(text, &origin, &|_| None).unwrap();
        assert_eq!(read.mistakes, []);
        let mut options = Options::new(self.path("home"));
        options.agent_command = crate::embedded_agent::command();
        options.mcp = Some(McpOptions::new(read.servers, self.path("work")));
        options
    }

    /// The processes that the program told of, while they live.
    fn living(&self) -> Vec<u32> {
        let told = std::fs::read_to_string(self.path("work/pids")).unwrap_or_default();
        let pids = told.lines().filter_map(|line| line.parse().ok());
        pids.filter(|pid| is_alive(*pid)).collect()
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    let state = stat.ok().and_then(|stat| stat.rsplit(')').next()?.trim().chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

fn program() -> String {
    let server = serde_json::json!({
        "mcpServers": {"x": {"command": "sh", "args": ["server.sh", "pids"]}},
    });
    server.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_spoken_with_and_its_whole_tree_ends_with_the_house() {
    let house = House::new();
    let built = build(house.options(&program())).await.unwrap();
    built.connected(PATIENCE).await;
    let stands = built.servers();
    assert_eq!((stands[0].state, stands[0].tools), (ServerState::Connected, 1), "{stands:?}");
    assert_eq!(house.living().len(), 2);
    // The pipe that it reads from has no name any more.
    let left = std::fs::read_dir(house.path("home/run")).unwrap().flatten();
    let pipes = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".in"));
    assert_eq!(pipes.count(), 0);
    built.close().await;
    assert!(house.living().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_missing_or_ends_is_told() {
    let house = House::new();
    let text = r#"{"mcpServers": {"a": {"command": "no-such-program-anywhere"},
                   "b": {"command": "sh", "args": ["-c", "echo out of order >&2; exit 3"]}}}"#;
    let pool = connections(house.options(text)).unwrap();
    pool.settled(PATIENCE).await;
    let stands = pool.status();
    let told: Vec<String> = stands.iter().map(|it| it.error.clone().unwrap_or_default()).collect();
    assert!(told[0].contains("no-such-program-anywhere was not found"), "{told:?}");
    assert!(told[1].contains("exit code 3"), "{told:?}");
    pool.stop().await;
}

#[tokio::test]
async fn without_servers_and_neurons_nothing_is_started_or_waited_for() {
    let house = House::new();
    let mut options = Options::new(house.path("home"));
    options.agent_command = crate::embedded_agent::command();
    let built = build(options).await.unwrap();
    let waited = tokio::time::timeout(Duration::ZERO, built.connected(PATIENCE)).await;
    assert!(waited.is_ok() && built.servers().is_empty() && built.neurons().is_none());
    assert!(!house.path("home/neurons").exists());
    built.close().await;
}
