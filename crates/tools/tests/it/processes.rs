//! `process_start` and what follows it, and `elevated`.

use std::time::Duration;

use driver_api::ProcessScope;
use protocol::Effect;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Bench, text_of};

/// A folder whose calls share their processes under a name.
fn bench(scope: &str) -> (Bench, CancellationToken) {
    let bench = Bench::new();
    let over = enter(&bench, scope);
    (bench, over)
}

fn enter(bench: &Bench, scope: &str) -> CancellationToken {
    let over = CancellationToken::new();
    let scope = ProcessScope { name: scope.to_owned(), over: over.clone() };
    *bench.host.processes.lock().unwrap() = Some(scope);
    over
}

/// Starts a command and returns its id.
async fn start(bench: &Bench, command: &str) -> String {
    let text = bench.ok("process_start", json!({ "command": command })).await;
    let id = text.strip_prefix("started as ").unwrap().split(':').next().unwrap();
    id.to_owned()
}

/// Reads until a process has said something.
async fn until(bench: &Bench, id: &str, said: &str) -> String {
    let mut all = String::new();
    for _ in 0..2_000 {
        all = bench.ok("process_output", json!({"id": id, "wait_ms": 50})).await;
        if all.contains(said) {
            return all;
        }
    }
    panic!("never said {said:?}: {all}");
}

#[tokio::test]
async fn a_process_goes_on_after_its_call_until_it_is_ended() {
    let (bench, _over) = bench("one");
    let id = start(&bench, "echo up; echo err >&2; sleep 600; echo never").await;
    until(&bench, &id, "up\n").await;
    let text = until(&bench, &id, "err\n").await;
    assert!(text.starts_with(&format!("{id}: running for ")), "{text}");
    let listed = bench.ok("process_list", json!({})).await;
    assert!(listed.starts_with(&format!("{id}: running for ")), "{listed}");
    assert!(listed.ends_with(": echo up; echo err >&2; sleep 600; echo never"), "{listed}");
    let ended = bench.ok("process_kill", json!({ "id": id })).await;
    assert!(ended.starts_with(&format!("{id}: ended by signal ")), "{ended}");
    let again = bench.ok("process_kill", json!({ "id": id })).await;
    assert!(again.starts_with(&format!("{id}: it had ended before: ended by ")), "{again}");
    let text = bench.ok("process_output", json!({ "id": id })).await;
    assert!(text.contains("up\n") && text.contains("err\n") && !text.contains("never"), "{text}");
}

#[tokio::test]
async fn output_is_read_on_and_waited_for() {
    let (bench, _over) = bench("one");
    let input = json!({"command": "cat; echo; cat go; echo two; exit 3", "input": "one"});
    // A pipe without a writer holds the command up.
    bench.ok("run_shell", json!({"command": "mkfifo go"})).await;
    let text = bench.ok("process_start", input).await;
    let id = text.strip_prefix("started as ").unwrap().split(':').next().unwrap();
    let text = until(&bench, id, "one\n").await;
    assert!(text.ends_with("(go on with since = 4)"), "{text}");
    let call = json!({"id": id, "since": 4, "wait_ms": 60_000});
    let go = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        bench.ok("run_shell", json!({"command": "echo go > go"})).await
    };
    let (text, _) = tokio::join!(bench.ok("process_output", call), go);
    assert!(text.contains("go\n") && !text.contains("one"), "{text}");
    until(&bench, id, "two\n").await;
    // Nothing more comes but its end.
    let call = json!({"id": id, "since": 11, "wait_ms": 60_000});
    let text = bench.ok("process_output", call).await;
    assert!(text.starts_with(&format!("{id}: exit code 3 after ")), "{text}");
    assert!(text.ends_with("\n(no new output)\n(go on with since = 11)"), "{text}");
    let text = bench.ok("process_output", json!({"id": id, "since": 4})).await;
    assert!(text.ends_with("\ngo\ntwo\n(go on with since = 11)"), "{text}");
}

#[tokio::test]
async fn a_scope_sees_its_own_and_its_end_ends_them() {
    let (bench, over) = bench("one");
    let id = start(&bench, "sleep 600").await;
    let other = enter(&bench, "two");
    assert_eq!(bench.ok("process_list", json!({})).await, "no processes");
    for tool in ["process_output", "process_kill"] {
        let told = bench.error(tool, json!({ "id": id })).await;
        assert_eq!(told, format!("there is no process '{id}'; there are: none"));
    }
    let kept = start(&bench, "sleep 600").await;
    over.cancel();
    enter(&bench, "one");
    let mut listed = String::new();
    for _ in 0..2_000 {
        listed = bench.ok("process_list", json!({})).await;
        if listed.contains("ended by signal") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(listed.starts_with(&format!("{id}: ended by signal ")), "{listed}");
    enter(&bench, "two");
    let listed = bench.ok("process_list", json!({})).await;
    assert!(listed.starts_with(&format!("{kept}: running for ")), "{listed}");
    other.cancel();
    let ended = bench.ok("process_kill", json!({ "id": kept })).await;
    assert!(ended.contains("ended by signal"), "{ended}");
}

#[tokio::test]
async fn there_are_only_so_many_and_one_that_did_not_start_takes_no_place() {
    let (bench, over) = bench("one");
    let missing = json!({"command": "true", "cwd": "gone"});
    assert_eq!(bench.error("process_start", missing).await, "cwd: gone is not a folder");
    bench.workspace.missing.lock().unwrap().extend(["bash".to_owned(), "sh".to_owned()]);
    let told = bench.error("process_start", json!({"command": "true"})).await;
    assert_eq!(told, "sh does not exist");
    bench.workspace.missing.lock().unwrap().clear();
    assert_eq!(bench.ok("process_list", json!({})).await, "no processes");
    for _ in 0..16 {
        start(&bench, "sleep 600").await;
    }
    let told = bench.error("process_start", json!({"command": "true"})).await;
    assert!(told.starts_with("16 processes run already"), "{told}");
    over.cancel();
    *bench.host.processes.lock().unwrap() = None;
    let told = bench.error("process_start", json!({"command": "true"})).await;
    assert_eq!(told, "no process can go on here after its call: use run_shell");
}

#[tokio::test]
async fn ended_ones_are_forgotten_the_oldest_first() {
    let (bench, _over) = bench("one");
    let mut ids = Vec::new();
    for _ in 0..34 {
        let id = start(&bench, "true").await;
        // Its end.
        bench.ok("process_kill", json!({ "id": id })).await;
        ids.push(id);
    }
    let listed = bench.ok("process_list", json!({})).await;
    let shown: Vec<_> = listed.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(shown, ids[2..]);
}

#[tokio::test]
async fn their_facts_say_what_they_do() {
    let (bench, _over) = bench("one");
    let facts = bench.facts("process_start", json!({"command": "rm -r x"})).await.unwrap();
    assert_eq!((facts.effect, facts.command.as_deref()), (Effect::Execute, Some("rm -r x")));
    for (tool, effect) in [
        ("process_list", Effect::Read),
        ("process_output", Effect::Read),
        ("process_kill", Effect::Execute),
    ] {
        let input = if tool == "process_list" { json!({}) } else { json!({"id": "p\u{1b}1"}) };
        let facts = bench.facts(tool, input).await.unwrap();
        assert_eq!((facts.effect, facts.command), (effect, None), "{tool}");
        assert_eq!(bench.tool(tool).effect(), effect, "{tool}");
        assert!(!facts.summary.contains('\u{1b}'), "{tool}");
    }
}

#[tokio::test]
async fn an_elevated_command_is_destructive_whatever_it_is() {
    let (bench, _over) = bench("one");
    let input = json!({"command": "echo done; exit 3", "reason": "Because it must be.\nReally."});
    let facts = bench.facts("elevated", input.clone()).await.unwrap();
    assert_eq!(facts.effect, Effect::Destructive);
    assert_eq!(facts.command.as_deref(), Some("echo done; exit 3"));
    assert_eq!(facts.summary, "echo done; exit 3 (because: Because it must be.)");
    let outcome = bench.call("elevated", input).await.unwrap();
    assert_eq!(text_of(&outcome), "done\nexit code 3");
    let blank = json!({"command": "true", "reason": " "});
    assert_eq!(bench.error("elevated", blank).await, "the reason is blank");
}
