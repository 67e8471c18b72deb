//! Single requests of a client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use narthex::client::{Client, ClientError, CreateSession, Prompt, ServerHealth, SessionState};
use narthex::protocol::event::RewindScope;
use narthex::protocol::{CheckpointId, Image, Mode, PromptId};
use narthex::runtime_api::GoBack;
use serde_json::{Value, json};

use crate::scripted_http::{Piece, Reply, Server, session};
use crate::stand::soon;

fn reply(line: &str) -> Value {
    let point = json!({"id": "c1", "createdAt": "2026-12-01T08:00:00.000Z", "messageId": "m1",
                       "label": "Fix it", "files": 2});
    match line {
        "GET /health" => json!({"status": "ok", "version": "9.9.9", "uptimeMs": 5, "sessions": 1}),
        "GET /models" => json!({"models": [{"id": "a/b", "provider": "a", "default": true}]}),
        "GET /sessions" => json!({"sessions": [session(3, "dreaming")]}),
        "POST /sessions/s1/interrupt" => json!({"interrupted": true}),
        "GET /sessions/s1/checkpoints" => json!({"checkpoints": [point]}),
        "POST /sessions/s1/rewind" => {
            json!({"checkpoint": point, "filesChanged": ["a"], "messagesRemoved": 2})
        }
        "POST /sessions/s1/undo" => json!({"undone": false, "filesChanged": []}),
        "GET /sessions/s1/usage" => json!({"inputTokens": 1, "outputTokens": 2,
            "cacheReadTokens": 3, "cacheWriteTokens": 4, "turns": 5, "prompts": 6, "byModel": {}}),
        "GET /sessions/s1/commands" => json!({"commands": [{"name": "compact",
            "description": "Summarise", "source": "builtin"}]}),
        "GET /sessions/s1/permissions" => json!({"requests": [{"type": "of-the-future"}]}),
        _ => session(3, "idle"),
    }
}

#[tokio::test]
async fn every_method_asks_its_route() {
    let server = Server::start(|request| Reply::json(200, &reply(&request.line()))).await;
    let client = server.client();
    let health: ServerHealth = client.health().await.unwrap();
    assert_eq!((health.status.as_str(), health.version.as_deref()), ("ok", Some("9.9.9")));
    assert_eq!(client.models().await.unwrap()[0].id, "a/b");
    let sessions = client.sessions().await.unwrap();
    assert_eq!((sessions[0].state.as_str(), sessions[0].last_event_id), ("dreaming", 3));
    let wanted = CreateSession::at("/work").mode(Mode::Ask);
    let session = client.create_session(wanted).await.unwrap();
    assert_eq!(session.id().as_str(), "s1");
    session.info().await.unwrap();
    assert!(session.interrupt().await.unwrap());
    session.set_mode(Mode::AutoEdit).await.unwrap();
    session.set_model("a/b").await.unwrap();
    assert_eq!(session.checkpoints().await.unwrap()[0].files, 2);
    let back = session.rewind(&CheckpointId::new("c1"), RewindScope::Files).await.unwrap();
    assert_eq!((back.files_changed, back.messages_removed), (vec!["a".to_owned()], 2));
    assert!(!session.undo().await.unwrap().undone);
    let usage = session.usage().await.unwrap();
    assert_eq!((usage.usage.output_tokens, usage.cost_usd, usage.turns), (2, None, 5));
    assert_eq!(session.commands().await.unwrap()[0].name, "compact");
    assert_eq!(session.permissions().await.unwrap().len(), 1);
    session.fork(None).await.unwrap();
    session.close().await.unwrap();
    let requests = server.requests();
    let bodies: Vec<(String, Value)> =
        requests.iter().map(|request| (request.line(), request.body.clone())).collect();
    let expected = [
        ("GET /health", Value::Null),
        ("GET /models", Value::Null),
        ("GET /sessions", Value::Null),
        ("POST /sessions", json!({"cwd": "/work", "mode": "ask"})),
        ("GET /sessions/s1", Value::Null),
        ("POST /sessions/s1/interrupt", json!({})),
        ("POST /sessions/s1/mode", json!({"mode": "auto-edit"})),
        ("POST /sessions/s1/model", json!({"model": "a/b"})),
        ("GET /sessions/s1/checkpoints", Value::Null),
        ("POST /sessions/s1/rewind", json!({"checkpointId": "c1", "scope": "files"})),
        ("POST /sessions/s1/undo", json!({})),
        ("GET /sessions/s1/usage", Value::Null),
        ("GET /sessions/s1/commands", Value::Null),
        ("GET /sessions/s1/permissions", Value::Null),
        ("POST /sessions/s1/fork", json!({})),
        ("DELETE /sessions/s1", Value::Null),
    ];
    assert_eq!(bodies, expected.map(|(line, body)| (line.to_owned(), body)));
    for request in requests {
        assert_eq!(request.header("authorization"), Some("Bearer the-token"), "{request:?}");
        let is_json = request.header("content-type") == Some("application/json");
        assert_eq!(is_json, request.body != Value::Null, "{request:?}");
    }
}

#[tokio::test]
async fn messages_come_page_by_page() {
    let message = |number: usize| {
        json!({"id": format!("m{number}"), "role": "user", "content": [],
               "createdAt": "2026-12-01T08:00:00.000Z"})
    };
    let server = Server::start(move |request| {
        let first = !request.path.contains("after=");
        let range = if first { 0..1_000 } else { 1_000..1_003 };
        let messages: Vec<Value> = range.map(message).collect();
        Reply::json(200, &json!({"messages": messages, "hasMore": first}))
    });
    let server = server.await;
    let messages = server.client().session("s1").messages().await.unwrap();
    assert_eq!((messages.len(), messages[1_002].id.as_str()), (1_003, "m1002"));
    let lines = server.lines();
    assert_eq!(lines[0], "GET /sessions/s1/messages?limit=1000");
    assert_eq!(lines[1], "GET /sessions/s1/messages?limit=1000&after=m999");
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::nothing(),
        1 => Reply::error(503, "shutting_down"),
        _ => Reply::json(202, &json!({"promptId": "p1", "queued": true, "position": 2})),
    });
    let server = server.await;
    let session = server.client().session("s1");
    let queued = soon("the prompt", session.prompt("Do it")).await.unwrap();
    assert_eq!((queued.prompt_id.as_str(), queued.queued, queued.position), ("p1", true, 2));
    soon("another", session.prompt("Do it")).await.unwrap();
    let requests = server.requests();
    let keys: Vec<&str> =
        requests.iter().map(|request| request.header("idempotency-key").unwrap()).collect();
    assert_eq!((keys[0], keys[1]), (keys[2], keys[2]), "one key for one prompt");
    assert_ne!(keys[2], keys[3], "another for the next");
    assert!(requests.iter().all(|request| request.body == json!({"text": "Do it"})));
}

#[tokio::test]
async fn what_would_do_harm_twice_is_asked_once_and_all_else_five_times() {
    let server = Server::start(|_| Reply::nothing()).await;
    let session = server.client().session("s1");
    for error in [
        session.undo().await.map(drop),
        session.rewind(&CheckpointId::new("c1"), RewindScope::Both).await.map(drop),
    ] {
        assert!(matches!(error, Err(ClientError::Network(_))), "{error:?}");
    }
    assert_eq!(server.requests().len(), 2);
    for error in [
        session.set_mode(Mode::Ask).await.map(drop),
        session.set_model("a/b").await.map(drop),
        session.interrupt().await.map(drop),
        session.fork(None).await.map(drop),
        session.info().await.map(drop),
        session.close().await,
    ] {
        assert!(matches!(error, Err(ClientError::Network(_))), "{error:?}");
    }
    assert_eq!(server.requests().len(), 2 + 6 * 5);
}

#[tokio::test]
async fn a_full_queue_is_told_after_a_few_attempts() {
    for (header, attempts) in [("retry-after: 0", 5), ("x-none: 0", 1)] {
        let server = Server::start(move |_| Reply::error(429, "queue_full").header(header)).await;
        let error = server.client().session("s1").prompt("Do it").await.unwrap_err();
        assert_eq!(error.code(), Some("queue_full"));
        assert_eq!(server.requests().len(), attempts, "{header}");
    }
}

#[tokio::test]
async fn an_answer_that_drips_is_not_waited_for_longer_than_its_limit() {
    let server = Server::start(|_| {
        let mut slow = Reply::json(200, &session(0, "idle"));
        let drip = [Piece::Send(" ".to_owned()), Piece::Wait(Duration::from_millis(40))];
        slow.pieces = std::iter::repeat_n(drip, 100).flatten().collect();
        slow
    });
    let server = server.await;
    let client = server.client_with(|options| {
        options.answer_timeout = Duration::from_millis(200);
        options.attempts_max = 1;
    });
    let error = soon("the error", client.session("s1").info()).await.unwrap_err();
    assert!(error.to_string().contains("took longer than"), "{error}");
}

#[tokio::test]
async fn what_comes_with_a_request_stands_in_its_body_or_query() {
    let server = Server::start(|request| match request.line().as_str() {
        "POST /sessions/s1/prompt" => Reply::json(202, &json!({"promptId": "p1"})),
        line => {
            let path = line.split('?').next().unwrap();
            Reply::json(200, &reply(path))
        }
    });
    let server = server.await;
    let client = server.client();
    let session = client.session("s1");
    let image = Image { mime_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    session.prompt(Prompt::text("Look").image(image).file("a.rs")).await.unwrap();
    let how = GoBack { is_forced: true, is_dry: true };
    session.undo_with(how).await.unwrap();
    session.rewind_with(&CheckpointId::new("c1"), RewindScope::Both, how).await.unwrap();
    session.interrupt_prompt(&PromptId::new("p1")).await.unwrap();
    session.purge().await.unwrap();
    client.sessions_in(SessionState::Stored).await.unwrap();
    let requests = server.requests();
    let bodies: Vec<(String, Value)> =
        requests.iter().map(|request| (request.line(), request.body.clone())).collect();
    let attachments = json!([{"type": "image", "mimeType": "image/png", "data": "AAAA"},
                             {"type": "file", "path": "a.rs"}]);
    let expected = [
        ("POST /sessions/s1/prompt", json!({"text": "Look", "attachments": attachments})),
        ("POST /sessions/s1/undo", json!({"force": true, "dryRun": true})),
        (
            "POST /sessions/s1/rewind",
            json!({"checkpointId": "c1", "scope": "both", "force": true, "dryRun": true}),
        ),
        ("POST /sessions/s1/interrupt", json!({"promptId": "p1"})),
        ("DELETE /sessions/s1?purge=true", Value::Null),
        ("GET /sessions?state=stored", Value::Null),
    ];
    assert_eq!(bodies, expected.map(|(line, body)| (line.to_owned(), body)));
}

#[tokio::test]
async fn a_no_has_status_code_and_request_id() {
    let server = Server::start(|_| {
        Reply::error(429, "queue_full").header("x-request-id: r7").header("retry-after: 400")
    });
    let server = server.await;
    let error = server.client().session("s1").prompt("Do it").await.unwrap_err();
    assert_eq!(error.to_string(), "queue_full: no (status 429)");
    let ClientError::Api(error) = error else { panic!("{error:?}") };
    assert_eq!((error.status, error.code.as_str()), (429, "queue_full"));
    assert_eq!(error.request_id.as_deref(), Some("r7"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(400)));
    assert_eq!(server.requests().len(), 1, "longer than we wait at all");
}

#[tokio::test]
async fn ids_stay_parts_of_a_path() {
    let server = Server::start(|_| Reply::json(200, &session(0, "idle"))).await;
    let client = server.client();
    client.session("a/../b?c#d").info().await.unwrap();
    assert_eq!(server.lines(), ["GET /sessions/a%2F..%2Fb%3Fc%23d"]);
    for id in ["", "..", "."] {
        let error = client.session(id).info().await.unwrap_err();
        assert!(matches!(error, ClientError::Setup(_)), "{error:?}");
    }
}

#[test]
fn a_local_server_is_found_by_its_file() {
    let home = tempfile::tempdir().unwrap();
    let error = Client::local(home.path()).unwrap_err().to_string();
    assert!(error.contains("is a server running with this home?"), "{error}");
    let file = home.path().join("server.json");
    std::fs::write(&file, r#"{"url": "http://127.0.0.1:7420", "token": "secret-token"}"#).unwrap();
    let client = Client::local(home.path()).unwrap();
    let shown = format!("{client:?}");
    assert!(!shown.contains("secret-token"), "{shown}");
    std::fs::write(&file, r#"{"url": 5, "token": "secret-token"}"#).unwrap();
    let error = Client::local(home.path()).unwrap_err().to_string();
    assert!(error.ends_with("expected a JSON object with url and token"), "{error}");
    for (url, token, expected) in [
        ("ftp://x", "t", "url: must be http:// or https://"),
        ("nonsense", "t", "url: "),
        ("http://x", "a\nb", "token: "),
    ] {
        let error = Client::connect(url, token).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_base_with_a_path_is_kept() {
    let server = Server::start(|_| Reply::json(200, &json!({"status": "ok"}))).await;
    for base in ["/below", "/below/"] {
        let client = Client::connect(&format!("{}{base}", server.url), "t").unwrap();
        client.health().await.unwrap();
    }
    assert_eq!(server.lines(), ["GET /below/v1/health", "GET /below/v1/health"]);
}
