//! Tests of the scripted model server, through a plain TCP client.

use std::time::{Duration, Instant};

use protocol::{StopReason, Usage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// A client of one connection.
struct Client(TcpStream);

/// An answer as a client saw it: `is_whole` tells whether it ended as HTTP says.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
    is_whole: bool,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Returns the data of the events that are JSON.
    fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    fn of_type(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }
}

impl Client {
    async fn new(server: &ModelServer) -> Self {
        Self(TcpStream::connect(server.address).await.unwrap())
    }

    async fn send(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nx-goog-api-key: k\r\n\
             Authorization: Bearer k\r\nanthropic-version: 2023-06-01\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all((head + &body).as_bytes()).await.unwrap();
    }

    async fn reply(&mut self) -> Reply {
        let mut seen = Vec::new();
        let end = loop {
            if let Some(at) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            assert_ne!(self.0.read_buf(&mut seen).await.unwrap(), 0, "closed before the head");
        };
        let head = String::from_utf8(seen[..end].to_vec()).unwrap();
        let mut rest = seen[end + 4..].to_vec();
        let status = head[9..12].parse().unwrap();
        let length = head
            .split("content-length: ")
            .nth(1)
            .map(|rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
        let is_over = |rest: &[u8]| match length {
            Some(length) => rest.len() == length,
            None => rest.ends_with(b"\r\n0\r\n\r\n") || rest == b"0\r\n\r\n",
        };
        while !is_over(&rest) {
            if self.0.read_buf(&mut rest).await.unwrap_or(0) == 0 {
                break;
            }
        }
        let is_whole = is_over(&rest);
        let body = if length.is_some() { rest } else { unchunk(&rest) };
        Reply { status, head, body, is_whole }
    }

    async fn ask(&mut self, path: &str, body: &Value) -> Reply {
        self.send(path, body).await;
        self.reply().await
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        let chunk = &rest[at + 2..];
        out.extend(&chunk[..size.min(chunk.len())]);
        rest = chunk.get(size + 2..).unwrap_or_default();
    }
    out
}

const MESSAGES: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const GEMINI: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn anthropic(messages: &[Value]) -> Value {
    json!({"model": "m", "max_tokens": 10, "stream": true, "messages": messages})
}

fn chat(messages: &[Value]) -> Value {
    json!({"model": "m", "stream": true, "messages": messages,
           "stream_options": {"include_usage": true}})
}

fn responses(input: &[Value]) -> Value {
    json!({"model": "m", "stream": true, "input": input})
}

fn gemini(contents: &[Value]) -> Value {
    json!({"contents": contents})
}

/// A first request for each wire.
fn first_requests() -> [(Api, &'static str, Value); 4] {
    [
        (Api::Anthropic, MESSAGES, anthropic(&[user("hi")])),
        (Api::Chat, CHAT, chat(&[user("hi")])),
        (Api::Responses, RESPONSES, responses(&[user("hi")])),
        (Api::Gemini, GEMINI, gemini(&[json!({"role": "user", "parts": [{"text": "hi"}]})])),
    ]
}

fn usage() -> Usage {
    let (cache_read_tokens, cache_write_tokens) = (11, 13);
    Usage {
        input_tokens: 5,
        output_tokens: 7,
        cache_read_tokens,
        cache_write_tokens,
        ..Usage::default()
    }
}

fn rich() -> Answer {
    Answer::text("grüße dich")
        .deltas(3)
        .thinking("well well")
        .signature("Sig+/==")
        .and_call(Call::new("read", json!({"path": "a"})).id("one"))
        .and_call(Call::raw("list", "{\"x").id("two"))
        .usage(usage())
        .reasoning_tokens(2)
}

#[tokio::test]
async fn anthropic_streams_blocks_in_order() {
    let server = ModelServer::start().await;
    server.push(rich());
    let reply = Client::new(&server).await.ask(MESSAGES, &anthropic(&[user("hi")])).await;
    assert_eq!(reply.status, 200);
    let starts = reply.of_type("content_block_start");
    let kinds: Vec<_> = starts.iter().map(|e| e["content_block"]["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(starts[2]["content_block"]["id"], "one");
    let mut text = String::new();
    let mut broken = String::new();
    let mut signature = Value::Null;
    for event in reply.of_type("content_block_delta") {
        let delta = &event["delta"];
        text += delta["text"].as_str().unwrap_or_default();
        if event["index"] == 3 {
            broken += delta["partial_json"].as_str().unwrap();
        }
        if delta["type"] == "signature_delta" {
            signature = delta["signature"].clone();
        }
    }
    assert_eq!(text, "grüße dich");
    assert_eq!(broken, "{\"x");
    assert_eq!(signature, "Sig+/==");
    let end = &reply.of_type("message_delta")[0];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    let spent = json!({"input_tokens": 5, "cache_creation_input_tokens": 13,
                       "cache_read_input_tokens": 11, "output_tokens": 7});
    assert_eq!(end["usage"], spent);
    assert_eq!(reply.of_type("content_block_stop").len(), 4);
    assert!(reply.text().ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    server.assert_clean();
}

#[tokio::test]
async fn chat_streams_fragments_by_index() {
    let server = ModelServer::start().await;
    server.push(rich());
    let reply = Client::new(&server).await.ask(CHAT, &chat(&[user("hi")])).await;
    let mut args = [String::new(), String::new()];
    let (mut text, mut thought) = (String::new(), String::new());
    for event in reply.events() {
        let delta = &event["choices"][0]["delta"];
        text += delta["content"].as_str().unwrap_or_default();
        thought += delta["reasoning_content"].as_str().unwrap_or_default();
        if let Some(call) = delta["tool_calls"].get(0) {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            args[index] += call["function"]["arguments"].as_str().unwrap();
        }
    }
    assert_eq!((text.as_str(), thought.as_str()), ("grüße dich", "well well"));
    assert_eq!(args, ["{\"path\":\"a\"}", "{\"x"]);
    let last = reply.events().pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 29);
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 11);
    assert!(reply.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn responses_streams_items_and_repeats_them_at_the_end() {
    let server = ModelServer::start().await;
    server.push(rich());
    let reply = Client::new(&server).await.ask(RESPONSES, &responses(&[user("hi")])).await;
    let numbers: Vec<_> =
        reply.events().iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let last = reply.events().pop().unwrap();
    assert_eq!(last["type"], "response.completed");
    let done: Vec<_> =
        reply.of_type("response.output_item.done").iter().map(|e| e["item"].clone()).collect();
    assert_eq!(last["response"]["output"], Value::from(done.clone()));
    let kinds: Vec<_> = done.iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(done[0]["encrypted_content"], "Sig+/==");
    assert_eq!(done[3]["arguments"], "{\"x");
    assert_eq!(last["response"]["usage"]["input_tokens"], 29);
}

#[tokio::test]
async fn gemini_streams_parts_and_signs_the_first_call() {
    let server = ModelServer::start().await;
    server.push(rich()).push(Answer::text("a").thinking("b").signature("s"));
    let mut client = Client::new(&server).await;
    let request = gemini(&[json!({"role": "user", "parts": [{"text": "hi"}]})]);
    let reply = client.ask(GEMINI, &request).await;
    let parts: Vec<_> = (reply.events().iter())
        .flat_map(|e| e["candidates"][0]["content"]["parts"].as_array().unwrap().clone())
        .collect();
    let signed: Vec<_> =
        parts.iter().filter(|part| part.get("thoughtSignature").is_some()).collect();
    assert_eq!(signed.len(), 1);
    assert_eq!(
        signed[0]["functionCall"],
        json!({"id": "one", "name": "read", "args": {"path": "a"}})
    );
    let last = reply.events().pop().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["thoughtsTokenCount"], 2);
    assert_eq!(last["usageMetadata"]["candidatesTokenCount"], 5);
    let reply = client.ask("/v1/models/m:generateContent", &request).await.json();
    let parts = json!([{"text": "b", "thought": true}, {"text": "a"},
                       {"text": "", "thoughtSignature": "s"}]);
    assert_eq!(reply["candidates"][0]["content"]["parts"], parts);
}

#[tokio::test]
async fn a_request_without_a_stream_gets_a_whole_answer() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    for (api, path, mut body) in first_requests() {
        server.push(Answer::text("whole").and_call(Call::new("read", json!({"path": "a"}))));
        body["stream"] = json!(false);
        let path = path.replace(":streamGenerateContent?alt=sse", ":generateContent");
        let reply = client.ask(&path, &body).await.json();
        let (text, call) = match api {
            Api::Anthropic => (&reply["content"][0]["text"], &reply["content"][1]["name"]),
            Api::Chat => {
                let message = &reply["choices"][0]["message"];
                (&message["content"], &message["tool_calls"][0]["function"]["name"])
            }
            Api::Responses => {
                (&reply["output"][0]["content"][0]["text"], &reply["output"][1]["name"])
            }
            Api::Gemini => {
                let parts = &reply["candidates"][0]["content"]["parts"];
                (&parts[0]["text"], &parts[1]["functionCall"]["name"])
            }
        };
        assert_eq!((text, call), (&json!("whole"), &json!("read")), "{api:?}");
    }
    server.assert_clean();
}

#[tokio::test]
async fn errors_come_in_the_form_of_the_provider() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    for (api, path, body) in first_requests() {
        server.push(Answer::error(429, "slow down").retry_after("7"));
        let reply = client.ask(path, &body).await;
        assert_eq!(reply.status, 429);
        assert!(reply.head.contains("\r\nretry-after: 7\r\n"), "{}", reply.head);
        let error = &reply.json()["error"];
        assert_eq!(error["message"], "slow down");
        let word = match api {
            Api::Anthropic => (&error["type"], "rate_limit_error"),
            Api::Chat | Api::Responses => (&error["code"], "rate_limit_exceeded"),
            Api::Gemini => (&error["status"], "RESOURCE_EXHAUSTED"),
        };
        assert_eq!(word.0, word.1);
    }
}

#[tokio::test]
async fn a_stream_can_end_in_an_error_or_without_a_reason() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    for (api, path, body) in first_requests() {
        server.push(Answer::text("half").stream_error("overloaded_error"));
        let reply = client.ask(path, &body).await;
        assert!(reply.is_whole);
        let text = reply.text();
        assert!(text.contains("half") && text.contains("scripted stream error"), "{api:?} {text}");
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{api:?}");
    }
    server.push(Answer::text("x").without_stop()).push(Answer::text("x").stop_word("odd"));
    server.push(Answer::text("x").stop(StopReason::MaxTokens));
    for word in [Value::Null, json!("odd"), json!("length")] {
        let reply = client.ask(CHAT, &chat(&[user("hi")])).await;
        let events = reply.events();
        assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], word);
    }
}

#[tokio::test]
async fn a_cut_leaves_exactly_the_bytes_before_it() {
    let server = ModelServer::start().await;
    let body = anthropic(&[user("hi")]);
    let whole = {
        server.push(Answer::text("abcdef").deltas(3));
        Client::new(&server).await.ask(MESSAGES, &body).await.body
    };
    for cut in [1, 100, whole.len() - 1] {
        server.push(Answer::text("abcdef").deltas(3).cut_at(cut));
        let reply = Client::new(&server).await.ask(MESSAGES, &body).await;
        assert!(!reply.is_whole);
        assert_eq!(reply.body.len(), cut);
    }
    server.push(Answer::text("abcdef").cut_at(100).reset());
    let mut client = Client::new(&server).await;
    client.send(MESSAGES, &body).await;
    let mut seen = Vec::new();
    let error = client.0.read_to_end(&mut seen).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(server.ended(5).await.end(), Some(End::Cut));
}

#[tokio::test]
async fn a_gate_holds_the_answer_back() {
    let server = ModelServer::start().await;
    let gate = Gate::new();
    server.push(Answer::text("abc").deltas(3).gate(At::Text, &gate));
    let mut client = Client::new(&server).await;
    client.send(MESSAGES, &anthropic(&[user("hi")])).await;
    gate.reached().await;
    let mut seen = vec![0; 4096];
    let length = client.0.read(&mut seen).await.unwrap();
    let text = String::from_utf8_lossy(&seen[..length]).into_owned();
    assert!(text.contains("\"text\":\"a\"") && !text.contains("\"text\":\"b\""), "{text}");
    assert_eq!(server.request(1).await.end(), None);
    gate.open();
    assert_eq!(server.ended(1).await.end(), Some(End::Finished));
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_in_a_gate_a_stall_and_a_pause() {
    let server = ModelServer::start().await;
    let gate = Gate::new();
    server.push(Answer::text("a").gate(At::Start, &gate)).push(Answer::silence());
    server.push(Answer::text("a").stall(At::Text));
    server.push(Answer::text("a").delay(Duration::from_secs(3600)));
    for number in 1..=4 {
        let mut client = Client::new(&server).await;
        client.send(MESSAGES, &anthropic(&[user("hi")])).await;
        server.request(number).await;
        drop(client);
        assert_eq!(server.ended(number).await.end(), Some(End::ClientGone));
    }
}

#[tokio::test]
async fn pieces_leave_with_their_delay() {
    let server = ModelServer::start().await;
    server.push(Answer::text("abc").deltas(3).delay(Duration::from_millis(30)));
    let start = Instant::now();
    Client::new(&server).await.ask(MESSAGES, &anthropic(&[user("hi")])).await;
    assert!(start.elapsed() >= Duration::from_millis(90));
}

#[tokio::test]
async fn raw_bytes_pass_as_they_stand() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    let euro = "€".as_bytes();
    server.push(Answer::raw_chunks([euro[..1].to_vec(), Vec::new(), euro[1..].to_vec()]));
    server.push(Answer::data([json!({"choices": []})]));
    server.push(Answer::raw("<html>").raw_as(502, "text/html"));
    let body = chat(&[user("hi")]);
    assert_eq!(client.ask(CHAT, &body).await.text(), "€");
    assert_eq!(client.ask(CHAT, &body).await.text(), "data: {\"choices\":[]}\n\n");
    let page = client.ask(CHAT, &body).await;
    assert_eq!((page.status, page.text().as_str()), (502, "<html>"));
}

#[tokio::test]
async fn routes_and_keys_come_before_the_queue() {
    let server = ModelServer::start().await;
    server.push(Answer::text("queue"));
    server.push_for("alpha", Answer::text("short key")).push_for("alphabet", Answer::text("long"));
    server.route(|request| last_user_text(request) == "routed", Answer::text("route"));
    let mut client = Client::new(&server).await;
    let cases = [
        ("routed", "route"),
        ("the alphabet", "long"),
        ("the alphabet", "short key"),
        ("the alphabet", "queue"),
        ("routed", "route"),
        ("more", state::UNSCRIPTED),
    ];
    for (said, heard) in cases {
        let text = client.ask(CHAT, &chat(&[user(said)])).await.text();
        assert!(text.contains(&json!(heard).to_string()), "{said}: {text}");
    }
    assert_eq!(server.unscripted_count(), 1);
}

#[tokio::test]
async fn many_clients_take_one_answer_each() {
    let server = std::sync::Arc::new(ModelServer::start().await);
    let answers = 40;
    server.push_all((0..answers).map(|index| Answer::text(format!("answer-{index:02}"))));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..answers {
        let server = std::sync::Arc::clone(&server);
        clients.spawn(async move {
            let mut client = Client::new(&server).await;
            client.ask(CHAT, &chat(&[user("hi")])).await.text()
        });
    }
    let texts = clients.join_all().await;
    for index in 0..answers {
        let name = format!("answer-{index:02}");
        assert_eq!(texts.iter().filter(|text| text.contains(&name)).count(), 1, "{name}");
    }
    assert_eq!(server.answers_left(), 0);
}

#[tokio::test]
async fn what_was_signed_must_come_back_unchanged() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    server.push(Answer::call("read", json!({})).thinking("deep").redacted_thinking("sealed"));
    let reply = client.ask(MESSAGES, &anthropic(&[user("hi")])).await;
    let deltas = reply.of_type("content_block_delta");
    let signature =
        deltas.iter().find_map(|event| event["delta"]["signature"].as_str()).unwrap().to_owned();
    assert!(signature.contains(['+', '/']), "{signature}");
    let id = reply.of_type("content_block_start")[2]["content_block"]["id"].clone();
    let follow_up = |thinking: &str, signature: &str, sealed: &str| {
        let mut body = anthropic(&[
            user("hi"),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": thinking, "signature": signature},
                {"type": "redacted_thinking", "data": sealed},
                {"type": "tool_use", "id": id, "name": "read", "input": {}}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": "done"},
                {"type": "text", "text": "and?"}]}),
        ]);
        body["thinking"] = json!({"type": "adaptive"});
        body
    };
    server.push(Answer::text("good"));
    let good = client.ask(MESSAGES, &follow_up("deep", &signature, "sealed")).await;
    assert_eq!(good.status, 200, "{}", good.text());
    for (thinking, signature, sealed) in [
        ("deep.", signature.as_str(), "sealed"),
        ("deep", "other", "sealed"),
        ("deep", signature.as_str(), "x"),
    ] {
        let bad = client.ask(MESSAGES, &follow_up(thinking, signature, sealed)).await;
        assert_eq!(bad.status, 400);
        assert_eq!(bad.json()["error"]["type"], "invalid_request_error");
    }
    let mut lost = follow_up("deep", &signature, "sealed");
    lost["messages"][1]["content"].as_array_mut().unwrap().drain(..2);
    assert_eq!(client.ask(MESSAGES, &lost).await.status, 400);
    let request = server.request(2).await;
    assert_eq!(
        tool_results(&request),
        [ToolResult {
            id: id.as_str().unwrap().into(),
            text: "done".into(),
            is_error: Some(false)
        }]
    );
    assert_eq!(last_user_text(&request), "and?");
    assert_eq!(said(&request), "hi\ndone\nand?");
}

#[tokio::test]
async fn the_shared_prefix_is_measured_without_cache_marks() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    let block = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let mut marked = block("hi");
    marked["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    let says = json!({"role": "assistant", "content": "well"});
    let other_tools = {
        let mut body = anthropic(&[block("hi")]);
        body["tools"] = json!([{"name": "t", "input_schema": {"type": "object"}}]);
        body
    };
    let requests = [
        anthropic(&[marked]),
        anthropic(&[block("hi"), says.clone(), block("more")]),
        anthropic(&[block("hi"), says.clone(), block("more"), says.clone(), block("yet")]),
        anthropic(&[block("hi"), says, block("moot")]),
        other_tools,
    ];
    for request in &requests {
        client.ask(MESSAGES, request).await;
    }
    let seen = server.requests();
    assert_eq!(seen[0].common_prefix, 0);
    assert_eq!(seen[1].common_prefix, seen[0].prompt_bytes);
    assert_eq!(seen[2].common_prefix, seen[1].prompt_bytes);
    let shared = seen[3].common_prefix;
    assert!(shared > seen[0].prompt_bytes && shared < seen[1].prompt_bytes, "{shared}");
    assert_eq!(seen[4].common_prefix, 0);
    server.push(Answer::text("x").measured_usage());
    let reply = client.ask(MESSAGES, &requests[2]).await;
    let read = reply.of_type("message_delta")[0]["usage"]["cache_read_input_tokens"].clone();
    assert_eq!(read, json!(seen[2].prompt_bytes / 4));
}

#[tokio::test]
async fn results_and_texts_read_alike_on_every_wire() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    let calls = json!([{"id": "c1", "type": "function",
                        "function": {"name": "read", "arguments": "{}"}}]);
    let requests = [
        (
            CHAT,
            chat(&[
                user("hi"),
                json!({"role": "assistant", "content": null, "tool_calls": calls}),
                json!({"role": "tool", "tool_call_id": "c1", "content": "out"}),
            ]),
        ),
        (
            RESPONSES,
            responses(&[
                user("hi"),
                json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}),
                json!({"type": "function_call_output", "call_id": "c1", "output": "out"}),
            ]),
        ),
        (
            GEMINI,
            gemini(&[
                json!({"role": "user", "parts": [{"text": "hi"}]}),
                json!({"role": "model", "parts": [
                {"functionCall": {"id": "c1", "name": "read", "args": {}}}]}),
                json!({"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "read", "response": {"o": "out"}}}]}),
            ]),
        ),
    ];
    for (index, (path, body)) in requests.iter().enumerate() {
        client.ask(path, body).await;
        let request = server.request(index + 1).await;
        assert_eq!(request.violations, [""; 0]);
        assert_eq!(last_user_text(&request), "hi");
        let [result] = &tool_results(&request)[..] else { panic!("one result: {request:?}") };
        assert_eq!(result.id, "c1");
        assert!(said(&request).contains("out") && result.text.contains("out"));
    }
}

/// Requests, each with a word of the fault that must be found in it.
fn anthropic_faults() -> Vec<(&'static str, Value, &'static str)> {
    let says = |content: Value| json!({"role": "assistant", "content": content});
    let hears = |content: Value| json!({"role": "user", "content": content});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "r"});
    let text = json!({"type": "text", "text": "x"});
    let image = |kind: &str, data: &str| {
        let source = json!({"type": "base64", "media_type": kind, "data": data});
        hears(json!([{"type": "image", "source": source}]))
    };
    let turn = |one: Value, two: Value| anthropic(&[user("hi"), says(one), hears(two)]);
    let with = |field: &str, value: Value| {
        let mut body = anthropic(&[user("hi")]);
        body[field] = value;
        body
    };
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let mark = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    vec![
        (MESSAGES, anthropic(&[]), "first message"),
        (MESSAGES, anthropic(&[user(" \n")]), "blank"),
        (MESSAGES, anthropic(&[user("a"), user("b")]), "both user"),
        (MESSAGES, anthropic(&[user("a"), says(json!("b"))]), "last message"),
        (MESSAGES, turn(json!([call("a")]), json!([text])), "has no result"),
        (MESSAGES, turn(json!([call("a")]), json!([result("a"), result("a")])), "2 results"),
        (MESSAGES, turn(json!([call("a")]), json!([result("a"), result("b")])), "no call before"),
        (MESSAGES, turn(json!([call("a")]), json!([text, result("a")])), "after other content"),
        (MESSAGES, turn(json!([call("")]), json!([result("")])), "id of the call is empty"),
        (MESSAGES, turn(json!([call("a b")]), json!([result("a b")])), "odd characters"),
        (MESSAGES, turn(json!([call("a"), call("a")]), json!([result("a")])), "occurs twice"),
        (MESSAGES, turn(json!([{"type": "text", "text": ""}]), json!("x")), "blank"),
        (MESSAGES, anthropic(&[image("image/png", "@@")]), "base64"),
        (MESSAGES, anthropic(&[image("image/tiff", "AAAA")]), "kind that nobody reads"),
        (MESSAGES, anthropic(&[hears(vec![mark; 5].into())]), "more than 4"),
        (MESSAGES, with("max_tokens", json!(0)), "max_tokens"),
        (MESSAGES, with("system", json!("")), "blank"),
        (MESSAGES, with("tools", json!([tool("a.b")])), "the name"),
        (MESSAGES, with("tools", json!([tool("a"), tool("a")])), "two tools"),
        (MESSAGES, with("tools", json!([{"name": "a"}])), "no object"),
        (MESSAGES, json!([]), "no JSON object"),
    ]
}

fn other_faults() -> Vec<(&'static str, Value, &'static str)> {
    let tool_calls = |id: &str, args: &str| {
        let function = json!({"name": "t", "arguments": args});
        json!({"role": "assistant", "content": null,
               "tool_calls": [{"id": id, "type": "function", "function": function}]})
    };
    let output = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let function_call =
        json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let parts = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let asked = parts("user", json!([{"text": "hi"}]));
    let called = parts("model", json!([{"functionCall": {"name": "t", "args": {}}}]));
    vec![
        (CHAT, chat(&[user("a"), tool_calls("c", "{}"), user("b")]), "has no result"),
        (CHAT, chat(&[user("a"), tool_calls("c", "{"), output("c")]), "arguments"),
        (CHAT, chat(&[user("a"), tool_calls("", "{}"), output("")]), "empty"),
        (CHAT, chat(&[user("a"), tool_calls("c", "{}"), output("d")]), "no call before"),
        (CHAT, chat(&[user("a"), json!({"role": "assistant", "tool_calls": []})]), "empty list"),
        (CHAT, chat(&[user("a"), json!({"role": "system", "content": "b"})]), "not the first"),
        (CHAT, chat(&[user("a"), user("b")]), "in a row"),
        (RESPONSES, responses(&[user("a"), function_call]), "has no result"),
        (RESPONSES, responses(&[user("a"), user("b")]), "in a row"),
        (
            RESPONSES,
            responses(&[
                user("a"),
                json!({"type": "reasoning", "id": "r", "summary": [],
            "encrypted_content": "zzz"}),
                user("b"),
            ]),
            "not what was issued",
        ),
        (GEMINI, gemini(&[asked.clone(), called, asked.clone()]), "results of"),
        (GEMINI, gemini(&[asked.clone(), parts("model", json!([{"text": ""}])), asked]), "blank"),
    ]
}

/// Faults of the schema of an answer.
fn schema_faults() -> Vec<(&'static str, Value, &'static str)> {
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let with = |body: Value, field: &str, value: Value| {
        let mut body = body;
        body[field] = value;
        body
    };
    let ask = || [user("hi")];
    let named = |strict: bool, name: &str, schema: &Value| {
        let kind = "json_schema";
        json!({"type": kind, "name": name, "schema": schema, "strict": strict})
    };
    let text = |format: Value| with(responses(&ask()), "text", json!({"format": format}));
    let config = |config: Value| {
        let asked = json!({"role": "user", "parts": [{"text": "hi"}]});
        with(gemini(&[asked]), "generationConfig", config)
    };
    let format = json!({"format": {"type": "json_schema", "schema": open}});
    let list = json!({"type": "array"});
    vec![
        (MESSAGES, with(anthropic(&ask()), "output_config", format), "additionalProperties"),
        (RESPONSES, text(named(true, "n", &open)), "a is not required"),
        (RESPONSES, text(named(false, "a b", &open)), "the name is not"),
        (RESPONSES, text(named(false, "n", &list)), "no object at its top"),
        (
            CHAT,
            with(
                chat(&ask()),
                "response_format",
                json!({"type": "json_schema",
                "json_schema": named(true, "n", &open)}),
            ),
            "additionalProperties",
        ),
        (GEMINI, config(json!({"responseJsonSchema": open})), "responseMimeType"),
    ]
}

#[tokio::test]
async fn every_fault_is_refused_and_kept() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    let mut faults = anthropic_faults();
    faults.extend(other_faults());
    faults.extend(schema_faults());
    for (index, (path, body, word)) in faults.iter().enumerate() {
        let reply = client.ask(path, body).await;
        assert_eq!(reply.status, 400, "{body}");
        let found = &server.requests()[index].violations;
        assert!(found.iter().any(|message| message.contains(word)), "{word}: {found:?}");
    }
    let requests: std::collections::BTreeSet<_> =
        server.violations().iter().map(|violation| violation.request).collect();
    assert_eq!(requests.len(), faults.len());
    assert_eq!(server.unscripted_count(), 0, "a refusal takes no answer");
}

#[tokio::test]
async fn a_key_must_come_unless_the_server_wants_none() {
    let bare = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 57\r\n\r\n\
                 {\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    for (needs_key, status) in [(true, 401), (false, 200)] {
        let server = ModelServer::start_blocking(Options { needs_key, ..Options::default() });
        let mut client = Client::new(&server).await;
        client.0.write_all(bare).await.unwrap();
        assert_eq!(client.reply().await.status, status);
    }
}

#[tokio::test]
async fn a_scenario_says_what_the_builders_say() {
    let text = json!({
        "needsKey": false,
        "answers": [
            {"text": "hi", "thinking": "hm", "deltas": 2, "stop": "max_tokens",
             "calls": [{"name": "a", "args": {"x": 1}}, {"name": "b", "rawArgs": "{", "id": ""}]},
            {"status": 529, "error": "full", "errorType": "odd", "retryAfter": "3"},
        ],
        "routes": [{"contains": "special", "answer": {"text": "routed"}}],
    });
    let scenario = Scenario::parse(&text.to_string()).unwrap();
    let server = ModelServer::start_blocking(scenario.options());
    scenario.load(&server);
    let mut client = Client::new(&server).await;
    let reply = client.ask(MESSAGES, &anthropic(&[user("something special")])).await;
    assert!(reply.text().contains("routed"));
    let reply = client.ask(MESSAGES, &anthropic(&[user("hi")])).await;
    assert_eq!(reply.of_type("message_delta")[0]["delta"]["stop_reason"], "max_tokens");
    assert_eq!(reply.of_type("content_block_start")[3]["content_block"]["id"], "");
    let reply = client.ask(MESSAGES, &anthropic(&[user("hi")])).await;
    assert_eq!((reply.status, reply.json()["error"]["type"].clone()), (529, json!("odd")));
    assert!(Scenario::parse("{\"answer\": []}").unwrap_err().to_string().contains("answer"));
    assert_eq!(server.report()["requests"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn lists_and_counts_are_no_model_requests() {
    let server = ModelServer::start().await;
    let mut client = Client::new(&server).await;
    client.0.write_all(b"GET /v1/models HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(client.reply().await.json()["data"][0]["id"], "scripted");
    let count = client.ask("/v1/messages/count_tokens", &json!({})).await;
    assert_eq!(count.json()["input_tokens"], 1);
    assert_eq!(client.ask("/v1/odd", &json!({})).await.status, 404);
    assert_eq!(server.request_count(), 0);
}
