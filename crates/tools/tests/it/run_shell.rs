//! `run_shell`.

use std::time::{Duration, Instant};

use driver_api::Access;
use protocol::Effect;
use protocol::event::{Display, OutputStream};
use serde_json::json;

use crate::{Bench, text_of};

#[tokio::test]
async fn both_streams_and_the_true_status_are_reported() {
    let mut bench = Bench::new();
    let input = json!({"command": "echo out; sleep 0.05; echo err >&2; exit 7"});
    let outcome = bench.call("run_shell", input).await.unwrap();
    assert_eq!(text_of(&outcome), "out\nerr\nexit code 7");
    assert!(outcome.is_error && !outcome.truncated);
    assert_eq!(outcome.display, Some(Display::Exit { code: Some(7), signal: None }));
    let first = bench.progress.try_recv().unwrap();
    assert_eq!((first.text.as_str(), first.stream), ("out\n", Some(OutputStream::Stdout)));
    let second = bench.progress.try_recv().unwrap();
    assert_eq!((second.text.as_str(), second.stream), ("err\n", Some(OutputStream::Stderr)));
    assert_eq!(bench.ok("run_shell", json!({"command": "true"})).await, "(no output)\nexit code 0");
    let outcome = bench.call("run_shell", json!({"command": "kill -9 $$"})).await.unwrap();
    assert_eq!(text_of(&outcome), "(no output)\nended by signal 9 (SIGKILL)");
    assert_eq!(outcome.display, Some(Display::Exit { code: None, signal: Some(9) }));
}

#[tokio::test]
async fn facts_carry_the_command() {
    let bench = Bench::new();
    bench.file("dir/x", "");
    let command = format!("echo {}\necho two", "x".repeat(300));
    let input = json!({"command": command, "description": "harmless", "cwd": "dir"});
    let facts = bench.facts("run_shell", input).await.unwrap();
    assert_eq!((facts.effect, facts.command.as_deref()), (Effect::Execute, Some(&*command)));
    assert_eq!(facts.summary, format!("echo {} …", "x".repeat(195)));
    assert_eq!((facts.paths.len(), facts.paths[0].access), (1, Access::Read));
    let check = async |input, expected: &str| {
        assert_eq!(bench.facts("run_shell", input).await.unwrap_err().to_string(), expected);
    };
    check(json!({"command": " "}), "command is empty").await;
    check(json!({"command": "a", "cwd": "dir/x"}), "cwd: dir/x is not a folder").await;
    check(json!({"command": "a", "cwd": "gone"}), "cwd: gone is not a folder").await;
}

#[tokio::test]
async fn it_runs_in_the_folder_and_without_bash() {
    let bench = Bench::new();
    bench.file("dir/x", "");
    let text = bench.ok("run_shell", json!({"command": "pwd; echo $PAGER", "cwd": "dir"})).await;
    assert_eq!(text, format!("{}/dir\ncat\nexit code 0", bench.path().display()));
    let shell = "[ -n \"$BASH_VERSION\" ] && [ \"$0\" = bash ] && echo bash || echo sh";
    assert!(bench.ok("run_shell", json!({"command": shell})).await.starts_with("bash\n"));
    bench.workspace.missing.lock().unwrap().push("bash".to_owned());
    assert!(bench.ok("run_shell", json!({"command": shell})).await.starts_with("sh\n"));
    bench.workspace.missing.lock().unwrap().push("sh".to_owned());
    assert_eq!(bench.error("run_shell", json!({"command": shell})).await, "sh does not exist");
}

#[tokio::test]
async fn a_timeout_ends_the_tree_and_keeps_the_output() {
    let bench = Bench::new();
    let start = Instant::now();
    let input = json!({"command": "echo begun; sleep 60 & sleep 60", "timeout_ms": 300});
    let outcome = bench.call("run_shell", input).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(outcome.is_error);
    assert_eq!(
        text_of(&outcome),
        "begun\ntimed out after 0.3 s: the process and everything it started were ended"
    );
}

#[tokio::test]
async fn a_stop_ends_the_tree() {
    let bench = Bench::new();
    let cancel = bench.context.cancel.clone();
    let call = bench.call("run_shell", json!({"command": "echo begun; sleep 60"}));
    let stop = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(call, stop);
    let outcome = outcome.unwrap();
    assert!(outcome.is_error);
    assert_eq!(text_of(&outcome), "begun\nstopped by the user");
    let error = bench.error("run_shell", json!({"command": "touch ran"})).await;
    assert_eq!(error, "stopped by the user before it began");
    assert!(!bench.path().join("ran").exists());
}

#[tokio::test]
async fn leftovers_are_named() {
    let bench = Bench::new();
    let text = bench.ok("run_shell", json!({"command": "sleep 60 & sleep 60 & echo done"})).await;
    assert_eq!(text, "done\nexit code 0\n2 background processes were ended with the command");
}

#[tokio::test]
async fn a_long_output_is_spilled_and_can_be_read_on() {
    let bench = Bench::new();
    let outcome = bench.call("run_shell", json!({"command": "seq 1 20000"})).await.unwrap();
    let text = text_of(&outcome);
    assert!(!outcome.is_error && outcome.truncated);
    assert!(text.chars().count() <= tools::OUTPUT_CHARS_MAX);
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n20000\nexit code 0"));
    let spill = outcome.spill.unwrap();
    assert!(spill.starts_with(&bench.spill.path().display().to_string()), "{spill}");
    assert!(text.contains(&format!("the whole output is in {spill} (read_file reads on)")));
    let input = json!({"path": spill, "offset": 10_000, "limit": 1});
    let rest = bench.ok("read_file", input).await;
    assert!(rest.starts_with(" 10000\t10000\n(lines 10000-10000 of 20000;"), "{rest}");
}

#[tokio::test]
async fn output_for_terminals_is_made_plain() {
    let bench = Bench::new();
    let command = r"printf '\033[32mok\033[0m\n 10%%\r 90%%\rdone\n\0'";
    let text = bench.ok("run_shell", json!({"command": command})).await;
    assert_eq!(text, "ok\ndone\nexit code 0");
}
