//! Calls over a socket: what is sent, how failures are told, how connections are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver_api::{Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse};
use model::{Options, Provider, StructuredOutput, build};
use protocol::{Block, Message, MessageId, Role, Timestamp, Wire};
use stdx::Secret;
use tokio::sync::mpsc;

use crate::server::{Answer, Server, reply, stream};

const KEY: &str = "sk-very-secret";

pub(crate) const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\
                    \"finish_reason\":\"stop\"}]}\n\n\
                    data: [DONE]\n\n";

pub(crate) fn model_at(url: &str, wire: Wire) -> Arc<dyn Model> {
    let provider = Provider {
        name: "p".into(),
        wire,
        base_url: url.into(),
        key: Some(Secret::new(KEY.into())),
        headers: vec![("x-team".into(), "blue".into())],
        structured_output: StructuredOutput::Auto,
    };
    let models = build(Options { providers: vec![provider], scenario: None }).unwrap();
    models.resolve("p/some-model").unwrap()
}

pub(crate) fn request(text: &str) -> ModelRequest {
    let message = Message {
        id: MessageId::new("m"),
        role: Role::User,
        content: vec![Block::text(text)],
        created_at: Timestamp(0),
    };
    ModelRequest {
        system: "s".into(),
        tools: [].into(),
        messages: vec![Arc::new(message)],
        max_output: None,
        effort: None,
        output: None,
        cache_key: "k".into(),
    }
}

pub(crate) async fn ask(model: &dyn Model) -> (String, Result<ModelResponse, ModelError>) {
    ask_with(model, &request("hi")).await
}

async fn ask_with(
    model: &dyn Model,
    request: &ModelRequest,
) -> (String, Result<ModelResponse, ModelError>) {
    let (sender, mut receiver) = mpsc::channel(256);
    let answer = model.ask(request, sender).await;
    let mut text = String::new();
    while let Ok(Delta::Text(piece)) = receiver.try_recv() {
        text.push_str(&piece);
    }
    (text, answer)
}

#[tokio::test]
async fn each_wire_asks_at_its_place_with_its_key() {
    let done = [
        (
            Wire::OpenaiChat,
            "POST /v1/chat/completions ",
            "authorization: Bearer sk-very-secret",
            CHAT,
        ),
        (
            Wire::OpenaiResponses,
            "POST /v1/responses ",
            "authorization: Bearer sk-very-secret",
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\
             \"delta\":\"hello\"}\n\n\
             data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
        ),
        (
            Wire::Anthropic,
            "POST /v1/messages ",
            "x-api-key: sk-very-secret",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n\
             data: {\"type\":\"message_stop\"}\n\n",
        ),
        (
            Wire::Gemini,
            "POST /v1beta/models/some-model:streamGenerateContent?alt=sse ",
            "x-goog-api-key: sk-very-secret",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hello\"}]},\
             \"finishReason\":\"STOP\"}]}\n\n",
        ),
    ];
    for (wire, line, key, body) in done {
        let server = Server::start(vec![Answer::Close(stream(body, true))]).await;
        let (text, answer) = ask(&*model_at(&server.url, wire)).await;
        assert_eq!(answer.unwrap().content, [Block::text("hello")], "{wire:?}");
        assert_eq!(text, "hello");
        let sent = server.requests().remove(0);
        assert!(sent.starts_with(line), "{sent}");
        for header in
            [key, "x-team: blue", "content-type: application/json", "accept: text/event-stream"]
        {
            assert!(sent.contains(&format!("\r\n{header}\r\n")), "{header} in {sent}");
        }
    }
}

#[tokio::test]
async fn statuses_become_kinds_with_the_providers_words() {
    use ModelErrorKind::*;
    for (status, kind) in [
        ("400", Rejected),
        ("401", Unauthorized),
        ("404", Rejected),
        ("409", Unavailable),
        ("413", ContextOverflow),
        ("429", RateLimited),
        ("500", Unavailable),
        ("503", Overloaded),
        ("529", Overloaded),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"words about {KEY}\"}}}}");
        let server = Server::once(status, "retry-after: 3\r\n", &body).await;
        let error = ask(&*model_at(&server.url, Wire::Anthropic)).await.1.unwrap_err();
        assert_eq!(error.kind, kind, "{status}");
        assert_eq!(error.message, format!("p: status {status}: words about ***"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Server::start(vec![Answer::Close(stream(CHAT, true))]).await;
    let server = Server::once("307", &format!("location: {}/x\r\n", target.url), "").await;
    let error = ask(&*model_at(&server.url, Wire::OpenaiChat)).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn a_cut_connection_is_a_network_error_with_the_text_so_far() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\ndata: {\"choi";
    for is_whole in [true, false] {
        let server = Server::start(vec![Answer::Close(stream(half, is_whole))]).await;
        let (text, answer) = ask(&*model_at(&server.url, Wire::OpenaiChat)).await;
        let error = answer.unwrap_err();
        assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Network, "half"));
        assert_eq!(text, "half");
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let error = ask(&*model_at(&url, Wire::OpenaiChat)).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    let start = format!("p: connect to 127.0.0.1:{port}: Connection refused");
    assert!(error.message.starts_with(&start), "{error}");
}

#[tokio::test]
async fn an_error_event_keeps_live_text_and_partial_text_alike() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n\
                data: {\"error\":{\"message\":\"m\",\"type\":\"overloaded_error\"}}\n\n";
    let server = Server::start(vec![Answer::Close(stream(body, true))]).await;
    let (text, answer) = ask(&*model_at(&server.url, Wire::OpenaiChat)).await;
    let error = answer.unwrap_err();
    assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Overloaded, "half"));
    assert_eq!(text, "half");
}

#[tokio::test]
async fn a_connection_serves_many_calls() {
    let answers = vec![Answer::Keep(stream(CHAT, true)); 3];
    let server = Server::start(answers).await;
    let model = model_at(&server.url, Wire::OpenaiChat);
    for _ in 0..3 {
        assert_eq!(ask(&*model).await.1.unwrap().content, [Block::text("hello")]);
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
    assert_eq!(server.requests()[0], server.requests()[1], "equal requests have equal bytes");
}

#[tokio::test]
async fn a_server_that_never_closes_does_not_delay_the_answer() {
    let server = Server::start(vec![Answer::Hang(stream(CHAT, false))]).await;
    let start = Instant::now();
    let answer = ask(&*model_at(&server.url, Wire::OpenaiChat)).await.1;
    assert_eq!(answer.unwrap().content, [Block::text("hello")]);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn dropping_the_call_hangs_up() {
    let server = Server::start(vec![
        Answer::Hang(stream(": open\n\n", false)),
        Answer::Close(stream(CHAT, true)),
    ])
    .await;
    let model = model_at(&server.url, Wire::OpenaiChat);
    let given_up = tokio::time::timeout(Duration::from_millis(200), ask(&*model)).await;
    assert!(given_up.is_err());
    // The server takes the next connection only after this one was closed.
    let answer = tokio::time::timeout(Duration::from_secs(10), ask(&*model)).await;
    assert_eq!(answer.unwrap().1.unwrap().content, [Block::text("hello")]);
}

#[tokio::test]
async fn a_slow_or_absent_reader_of_deltas() {
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let body = piece.repeat(100) + CHAT;
    let server = Server::start(vec![Answer::Keep(stream(&body, true)); 2]).await;
    let model = model_at(&server.url, Wire::OpenaiChat);
    let (sender, mut receiver) = mpsc::channel(1);
    let request = request("hi");
    let reading = async {
        let mut count = 0;
        while receiver.recv().await.is_some() {
            count += 1;
        }
        count
    };
    let (answer, count) = tokio::join!(model.ask(&request, sender), reading);
    assert_eq!(
        (answer.unwrap().content, count),
        (vec![Block::text("x".repeat(100) + "hello")], 101)
    );
    let (closed, gone) = mpsc::channel(1);
    drop(gone);
    assert!(model.ask(&request, closed).await.is_ok());
}

#[tokio::test]
async fn a_request_over_the_limit_never_leaves() {
    let server = Server::start(vec![]).await;
    let model = model_at(&server.url, Wire::OpenaiChat);
    let error = ask_with(&*model, &request(&"x".repeat(33 << 20))).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::ContextOverflow);
    assert!(error.message.contains("33.0 MiB") && error.message.contains("32.0 MiB"), "{error}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_hosted_server_without_key_names_the_variable() {
    let provider = Provider {
        name: "anthropic".into(),
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com".into(),
        key: None,
        headers: vec![],
        structured_output: StructuredOutput::Auto,
    };
    let models = build(Options { providers: vec![provider], scenario: None }).unwrap();
    let error = ask(&*models.resolve("claude-sonnet-4-6").unwrap()).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unauthorized);
    assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
}

#[tokio::test]
async fn answers_that_are_no_stream() {
    let json = "content-type: application/json\r\n";
    let body = "{\"error\":{\"message\":\"m\",\"code\":429}}";
    let server = Server::start(vec![
        Answer::Close(reply("200", json, body)),
        Answer::Close(reply("200", json, "{\"choices\":[]}")),
        Answer::Close(reply("200", "content-type: text/html\r\n", "<html>")),
    ])
    .await;
    let model = model_at(&server.url, Wire::OpenaiChat);
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(ask(&*model).await.1.unwrap_err().kind);
    }
    use ModelErrorKind::*;
    assert_eq!(kinds, [RateLimited, Malformed, Network]);
}

#[tokio::test]
async fn a_server_without_tls_behind_https_is_a_network_error() {
    let server = Server::once("200", "", "").await;
    let url = server.url.replace("http:", "https:");
    let error = ask(&*model_at(&url, Wire::OpenaiChat)).await.1.unwrap_err();
    // A machine without any certificates cannot ask at all, and says what to install.
    let lacks_roots = error.message.contains("ca-certificates");
    assert!(error.kind == ModelErrorKind::Network || lacks_roots, "{error:?}");
}
