//! What calls bring, and how they end.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use connect::{Server, ServerState};
use protocol::{Block, Effect};
use serde_json::{Value, json};

use crate::house::{House, Person, call_in, context, eventually, house, program, text_of};
use crate::nowhere::Nowhere;
use crate::script::{Script, Scripts};

async fn one(tools: &[&str]) -> (House, Arc<Script>) {
    with(Script::new(tools), program("s")).await
}

async fn with(script: Arc<Script>, server: Server) -> (House, Arc<Script>) {
    let house = house(Scripts::one("s", &script), vec![server]);
    house.until("s", ServerState::Connected).await;
    (house, script)
}

/// Returns the id of the only call of a tool.
fn id_of(script: &Script) -> Value {
    let calls = script.seen("tools/call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0]["id"].clone()
}

#[tokio::test]
async fn m4_a_call_that_takes_too_long_is_cancelled_on_the_wire() {
    for script in [Script::new(&["hang"]), Script::modern(&["hang"])] {
        let server = Server { call_timeout: Duration::from_millis(150), ..program("s") };
        let (house, script) = with(script, server).await;
        let outcome = house.call("mcp__s__hang", json!({})).await;
        let text = text_of(&outcome);
        assert!(outcome.is_error && text.contains("did not answer within 150ms"), "{text}");
        let told = eventually("the cancellation", || {
            script.seen("notifications/cancelled").first().cloned()
        });
        assert_eq!(told.await["params"]["requestId"], id_of(&script));
        assert_eq!(house.status("s").state, ServerState::Connected);
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a_call_of_a_server_that_does_not_read_ends_in_its_time() {
    let server = Server { call_timeout: Duration::from_millis(150), ..program("s") };
    let (house, _script) = with(Script::new(&["deaf"]), server).await;
    // The first has it stop reading, the second fills the pipe, the third does not get into it.
    for len in [1, 100_000, 100_000] {
        let calling = house.call("mcp__s__deaf", json!({"text": "x".repeat(len)}));
        let outcome = tokio::time::timeout(Duration::from_secs(10), calling).await;
        let text = text_of(&outcome.expect("the call never ended"));
        assert!(text.contains("did not answer within 150ms"), "{text}");
    }
    let context = context(Arc::new(Person::default()), house.home.path());
    context.cancel.cancel();
    let tool = house.tool("mcp__s__deaf");
    let outcome = tokio::time::timeout(
        Duration::from_secs(10),
        call_in(&tool, json!({"text": "x".repeat(100_000)}), &context),
    );
    let text = text_of(&outcome.await.expect("the stop never came through"));
    assert!(text.starts_with("stopped by the user"), "{text}");
    house.pool.stop().await;
}

#[tokio::test]
async fn m4_a_stop_of_the_turn_is_told_to_the_server() {
    for script in [Script::new(&["hang"]), Script::modern(&["hang"])] {
        let (house, script) = with(script, program("s")).await;
        let context = context(Arc::new(Person::default()), house.home.path());
        let tool = house.tool("mcp__s__hang");
        let stop = async {
            eventually("the call", || script.seen("tools/call").first().cloned()).await;
            context.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(call_in(&tool, json!({}), &context), stop);
        assert!(text_of(&outcome).starts_with("stopped by the user"), "{}", text_of(&outcome));
        let told = eventually("the cancellation", || {
            script.seen("notifications/cancelled").first().cloned()
        });
        assert_eq!(told.await["params"]["requestId"], id_of(&script));
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn m4_a_call_that_is_dropped_is_told_to_the_server() {
    let (house, script) = one(&["hang"]).await;
    let context = context(Arc::new(Person::default()), house.home.path());
    let tool = house.tool("mcp__s__hang");
    let call = tokio::spawn(async move { call_in(&tool, json!({}), &context).await });
    eventually("the call", || script.seen("tools/call").first().cloned()).await;
    call.abort();
    let told =
        eventually("the cancellation", || script.seen("notifications/cancelled").first().cloned());
    assert_eq!(told.await["params"]["requestId"], id_of(&script));
    house.pool.stop().await;
}

#[tokio::test]
async fn an_error_of_the_server_is_told_with_its_words() {
    let (house, _) = one(&["refuse", "result"]).await;
    let outcome = house.call("mcp__s__refuse", json!({})).await;
    assert!(outcome.is_error);
    assert_eq!(text_of(&outcome), "the MCP server s refused the call: not today (-32000)");
    let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    let outcome = house.call("mcp__s__result", failed).await;
    assert!(outcome.is_error);
    assert_eq!(text_of(&outcome), "no");
    house.pool.stop().await;
}

#[tokio::test]
async fn results_become_blocks() {
    let (house, _) = one(&["result"]).await;
    let image = base64::engine::general_purpose::STANDARD.encode(b"pixels");
    let content = json!([
        {"type": "text", "text": "first"},
        {"type": "image", "mimeType": "image/png", "data": image},
        {"type": "image", "mimeType": "image/tiff", "data": image},
        {"type": "audio", "mimeType": "audio/wav", "data": image},
        {"type": "resource_link", "name": "plan", "uri": "file:///plan", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
    ]);
    let outcome = house.call("mcp__s__result", json!({"content": content})).await;
    assert!(matches!(&outcome.content[1], Block::Image(image) if image.mime_type == "image/png"));
    let text = text_of(&outcome);
    for part in [
        "first",
        "[image, image/tiff, 6 B, which cannot be shown here]",
        "[audio, audio/wav, 6 B, which cannot be shown here]",
        "[resource plan: file:///plan, text/plain]",
        "[resource file:///x]\ninside",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let structured = json!({"content": [], "structuredContent": {"a": 1}});
    let outcome = house.call("mcp__s__result", structured).await;
    assert_eq!(text_of(&outcome), "{\n  \"a\": 1\n}");
    let outcome = house.call("mcp__s__result", json!({"content": []})).await;
    assert_eq!(text_of(&outcome), "(no output)");
    house.pool.stop().await;
}

#[tokio::test]
async fn long_results_are_cut_and_kept_whole_in_a_file() {
    let (house, _) = one(&["result"]).await;
    let long = format!("begin{}end", "ü".repeat(40_000));
    let content = json!({"content": [{"type": "text", "text": long}]});
    let outcome = house.call("mcp__s__result", content).await;
    let text = text_of(&outcome);
    assert!(text.chars().count() <= 30_000 && outcome.truncated);
    assert!(text.starts_with("begin") && text.ends_with("end"));
    let file = outcome.spill.unwrap();
    assert!(text.contains(&format!("characters left out; the whole output is in {file}")));
    assert_eq!(std::fs::read_to_string(file).unwrap(), long);
    house.pool.stop().await;
}

#[tokio::test]
async fn progress_is_shown_live() {
    let (house, _) = one(&["progress"]).await;
    let (sender, mut pieces) = tokio::sync::mpsc::channel(8);
    let mut context = context(Arc::new(Person::default()), house.home.path());
    context.progress = sender;
    let outcome = call_in(&house.tool("mcp__s__progress"), json!({}), &context).await;
    assert_eq!(text_of(&outcome), "done");
    let piece = tokio::time::timeout(crate::house::PATIENCE, pieces.recv()).await.unwrap();
    assert_eq!(piece.unwrap().text, "1 of 2: half\n");
    house.pool.stop().await;
}

#[tokio::test]
async fn the_gate_is_told_what_a_call_does() {
    let (house, _) = one(&["echo", "write"]).await;
    let input = json!({"text": "x".repeat(500)});
    let input = input.as_object().unwrap();
    for (name, expected) in [("mcp__s__echo", Effect::Read), ("mcp__s__write", Effect::Network)] {
        let facts = house.tool(name).facts(input, &Nowhere).await.unwrap();
        assert_eq!(facts.effect, expected, "{name}");
        assert_eq!(facts.summary.chars().count(), 200);
        assert!(facts.summary.contains(" of s: {\"text\":\"xxx"), "{}", facts.summary);
    }
    house.pool.stop().await;
}
