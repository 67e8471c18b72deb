//! What is wrong gets an error that says so, and the next line is read all the same.

use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::Client;
use crate::prompts::finished;

#[tokio::test]
async fn broken_lines_are_answered_and_passed_over() {
    let mut client = Client::meet(FakeRuntime::new()).await;
    for (line, code, words) in [
        ("garbage", -32700, "the line is no JSON"),
        ("[1, 2]", -32600, "batches are not supported"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, -32600, "jsonrpc: expected"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, "id: expected"),
    ] {
        client.write(line).await;
        let answer = client.next(|it| it.get("error").is_some()).await;
        assert_eq!(answer["error"]["code"], code, "{line}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{line}: {message}");
    }
    // Answers that nobody waits for, and notifications that nobody knows, are passed over.
    client.write(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#).await;
    client.write(r#"{"jsonrpc":"2.0","method":"some/thing"}"#).await;
    client.write(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":7}}"#).await;
    client.session().await;
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let mut client = Client::meet(FakeRuntime::new()).await;
    let session = client.session().await;
    let (cwd, file) = (client.cwd(), client.folder.path().join("file"));
    std::fs::write(&file, "x").unwrap();
    let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": ""});
    for (method, params, words) in [
        ("session/new", json!({"cwd": 7, "mcpServers": []}), "cwd: invalid type"),
        ("session/new", json!({"cwd": "a/b", "mcpServers": []}), "cwd: expected an absolute path"),
        (
            "session/new",
            json!({"cwd": "/no/such/folder", "mcpServers": []}),
            "cwd: /no/such/folder",
        ),
        ("session/new", json!({"cwd": file, "mcpServers": []}), "cwd: "),
        ("session/new", json!({"cwd": cwd}), "params: missing field `mcpServers`"),
        (
            "session/new",
            json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["x"]}),
            "additionalDirectories[0]: expected an absolute path",
        ),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), "prompt: is empty"),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": 7}]}),
            "prompt[0]",
        ),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [audio]}),
            "prompt[0].type: audio is not supported",
        ),
        ("session/prompt", json!({"sessionId": "x", "prompt": []}), "sessionId: no such session"),
        ("session/close", json!({}), "params: missing field `sessionId`"),
        ("no/such/method", json!({}), "method: 'no/such/method' is unknown"),
    ] {
        let error = client.ask(method, params.clone()).await.unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(words), "{method} {params}: {message}");
    }
    assert!(!client.runtime.calls().iter().any(|call| matches!(call, Call::Prompt(..))));
}

#[tokio::test]
async fn nothing_comes_before_hello() {
    let mut client = Client::start(FakeRuntime::new(), (None, false));
    let params = json!({"cwd": client.cwd(), "mcpServers": []});
    for (method, params) in [("session/new", params), ("session/list", json!({}))] {
        let error = client.ask(method, params).await.unwrap_err();
        assert_eq!(error["message"], "initialize has to come first", "{method}");
    }
}

#[tokio::test]
async fn requests_have_a_limit_and_ids_are_used_once() {
    let turn = vec![Play::UntilInterrupt, finished("prompt1").into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let first = client.prompt(&session, "wait").await;
    let twice = format!(r#"{{"jsonrpc":"2.0","id":{first},"method":"session/list"}}"#);
    client.write(&twice).await;
    let error = client.answer(first).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().starts_with("id: a request with this id"));
    let mut last = first;
    for _ in 0..64 {
        last = client.prompt(&session, "wait").await;
    }
    let error = client.answer(last).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("which is the most"), "{error}");
}
