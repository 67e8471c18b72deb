//! The examples of the tour, as programs: built by `cargo test`, run against a scripted model.
#![allow(clippy::disallowed_methods, reason = "these tests start programs as users do")]

use std::path::PathBuf;
use std::process::{Command, Output};

use narthex::protocol::Mode;
use narthex::{Server, ServerOptions};
use serde_json::json;
use testkit::model_server::{Answer, At, End};

use crate::stand::{Stand, soon};

fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(name);
    assert!(program.is_file(), "{name} is not built: cargo build -p narthex --examples");
    program
}

async fn run(stand: &Stand, name: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(program(name));
    command
        .args(arguments)
        .current_dir(stand.cwd())
        .env("NARTHEX_HOME", stand.home())
        .env("NARTHEX_MODEL", "anthropic/claude-sonnet-4-6")
        .env("ANTHROPIC_BASE_URL", stand.server.anthropic_base())
        .env("ANTHROPIC_API_KEY", "key-a");
    let managed = stand.home().with_file_name("managed.json");
    if managed.is_file() {
        command.env("NARTHEX_MANAGED_SETTINGS", managed);
    }
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = soon("the program's end", ended).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{name}: {status}: {out}{err}");
    (out, err)
}

#[tokio::test]
async fn the_prompt_example_asks_allows_writes_and_runs_commands_itself() {
    let stand = Stand::new().await;
    stand.server.push_all([
        Answer::call("write_file", json!({"path": "a.txt", "content": "x"})),
        Answer::call("run_shell", json!({"command": "touch no"})),
        // Looking is not asked for, and this command runs in the example's own agent.
        Answer::call("run_shell", json!({"command": "ls"})),
        Answer::text("Fixed."),
    ]);
    let (out, _) = run(&stand, "prompt", &["Fix the failing test"]).await;
    let asked = "write_file: a.txt\nrun_shell: touch no\n";
    assert!(out.starts_with(asked), "{out}");
    assert!(out.contains("Fixed.\nCompleted, 40 output tokens, $0."), "{out}");
    assert_eq!(stand.read("a.txt").as_deref(), Some("x"));
    assert_eq!(stand.read("no"), None);
}

#[tokio::test]
async fn a_program_is_governed_without_a_word_of_its_own() {
    let stand = Stand::new().await;
    let managed = json!({"permissions": {"deny": ["write_file"]}}).to_string();
    std::fs::write(stand.home().with_file_name("managed.json"), managed).unwrap();
    stand.server.push_all([
        Answer::call("write_file", json!({"path": "a.txt", "content": "x"})),
        Answer::text("Refused."),
    ]);
    let (out, _) = run(&stand, "prompt", &["Fix the failing test"]).await;
    assert!(out.starts_with("Refused."), "nothing is asked for: {out}");
    assert_eq!(stand.read("a.txt"), None);
}

#[tokio::test]
async fn the_stream_example_reads_to_the_end_or_leaves_early() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("A summary."));
    let (out, _) = run(&stand, "stream", &["Summarize the README"]).await;
    assert_eq!(out, "A summary.\nCompleted after 1 model calls\n");
    stand.server.push(Answer::text("A long summary.").deltas(2).stall(At::Text));
    let (out, _) = run(&stand, "stream", &["Summarize the README", "3"]).await;
    assert!(out.starts_with("A long") && out.ends_with("that is enough\n"), "{out}");
    assert_eq!(stand.server.ended(2).await.end(), Some(End::ClientGone));
}

#[tokio::test]
async fn the_remote_example_runs_at_a_server() {
    let stand = Stand::new().await;
    stand.server.push_all([
        Answer::call("write_file", json!({"path": "a.txt", "content": "x"})),
        Answer::text("Validated."),
    ]);
    let agent = stand.agent(Mode::Ask).await;
    let options = ServerOptions::new(agent.runtime().clone(), stand.cwd());
    let server = Server::start(options).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let file = json!({"url": server.url(), "token": server.token().expose()});
    std::fs::write(home.path().join("server.json"), file.to_string()).unwrap();
    let home = home.path().to_str().unwrap();
    let (out, _) = run(&stand, "remote", &[home, "Add input validation"]).await;
    assert_eq!(out, "Validated.\nCompleted\n");
    assert_eq!(stand.read("a.txt").as_deref(), Some("x"));
    server.stop().await.unwrap();
    agent.close().await.unwrap();
}
