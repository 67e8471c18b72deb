//! Streamable HTTP: both revisions, lost servers, cancellation, what may be reached.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use connect::{Endpoint, HttpServer as Place, Origin, Server, ServerState};
use outbound::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use stdx::Secret;

use crate::house::{House, eventually, house, program, text_of};
use crate::http_server::{Asked, HttpServer, Reply, listen};
use crate::script::Scripts;

/// What a server has seen.
type Seen = Arc<Mutex<Vec<(Asked, Value)>>>;

/// Counts the calls that are held up; their connections tell when the client goes.
#[derive(Debug)]
struct Held(Arc<Mutex<i32>>);

impl Held {
    fn new(count: &Arc<Mutex<i32>>) -> Self {
        *count.lock().unwrap() += 1;
        Self(Arc::clone(count))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

/// Answers as a server of either revision.
pub(crate) async fn speak(
    asked: &Asked,
    message: &Value,
    is_modern: bool,
    held: &Arc<Mutex<i32>>,
) -> Option<Reply> {
    if asked.method != "POST" {
        return Some(Reply::status(405));
    }
    let own = json!({"name": "http", "version": "1"});
    let capabilities = json!({"tools": {}});
    let mut reply = None;
    let body = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if is_modern => json!({"result": {
            "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "serverInfo": own, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}}),
        "initialize" if !is_modern => {
            reply = Some(("mcp-session-id", "session-1"));
            json!({"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                              "serverInfo": own}})
        }
        "tools/list" => json!({"result": {"tools": [crate::script::tool("echo"),
            crate::script::tool("hang")], "ttlMs": 0, "cacheScope": "private",
            "resultType": "complete"}}),
        "tools/call" if message["params"]["name"] == "hang" => {
            let _held = Held::new(held);
            std::future::pending::<()>().await;
            return None;
        }
        "tools/call" if message["params"]["arguments"]["text"] == "busy" => {
            return Some(Reply::status(503));
        }
        "tools/call" => {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or("-");
            json!({"result": {"content": [{"type": "text", "text": format!("heard {text}")}],
                              "resultType": "complete"}})
        }
        _ if message["id"].is_null() => return Some(Reply::status(202)),
        _ if !is_modern => return Some(Reply { status: 400, ..Reply::json(&json!("what?")) }),
        method => json!({"error": {"code": -32601, "message": format!("no {method}")}}),
    };
    let mut whole = body;
    whole["jsonrpc"] = json!("2.0");
    whole["id"] = message["id"].clone();
    let mut whole = Reply::json(&whole);
    if let Some((name, value)) = reply {
        whole = whole.header(name, value);
    }
    Some(whole)
}

async fn server(port: u16, is_modern: bool, seen: &Seen, held: &Arc<Mutex<i32>>) -> HttpServer {
    let (seen, held) = (Arc::clone(seen), Arc::clone(held));
    let handler = move |asked: Asked| {
        let (seen, held) = (Arc::clone(&seen), Arc::clone(&held));
        Box::pin(async move {
            let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
            seen.lock().unwrap().push((asked.clone(), message.clone()));
            speak(&asked, &message, is_modern, &held).await
        }) as futures_util::future::BoxFuture<'static, Option<Reply>>
    };
    listen(port, Arc::new(handler)).await
}

pub(crate) fn place(url: &str) -> Server {
    let headers =
        vec![(HeaderName::from_static("x-key"), Secret::new(HeaderValue::from_static("sesame")))];
    let place = Place { url: url.parse().unwrap(), headers, oauth: Default::default() };
    Server { endpoint: Endpoint::Http(place), ..program("web") }
}

fn of_method(seen: &Seen, method: &str) -> Vec<(Asked, Value)> {
    let seen = seen.lock().unwrap();
    seen.iter().filter(|(_, message)| message["method"] == method).cloned().collect()
}

async fn connected(server: Server) -> House {
    let house = house(Arc::new(Scripts::default()), vec![server]);
    house.until("web", ServerState::Connected).await;
    house
}

#[tokio::test]
async fn both_revisions_are_spoken_with_the_headers_of_each() {
    for is_modern in [true, false] {
        let (seen, held) = (Seen::default(), Arc::default());
        let web = server(0, is_modern, &seen, &held).await;
        let house = connected(place(&format!("http://{}/mcp", web.address))).await;
        let outcome = house.call("mcp__web__echo", json!({"text": "x"})).await;
        assert_eq!(text_of(&outcome), "heard x");
        let (call, _) = of_method(&seen, "tools/call").remove(0);
        assert_eq!(call.header("x-key"), "sesame");
        if is_modern {
            assert_eq!(call.header("mcp-protocol-version"), "2026-07-28");
            assert_eq!(
                (call.header("mcp-method"), call.header("mcp-name")),
                ("tools/call", "echo")
            );
        } else {
            assert_eq!(call.header("mcp-protocol-version"), "2025-11-25");
            assert_eq!(call.header("mcp-session-id"), "session-1");
        }
        house.pool.stop().await;
        let ended = seen.lock().unwrap().iter().any(|(asked, _)| asked.method == "DELETE");
        assert_eq!(ended, !is_modern, "an old session is ended");
    }
}

#[tokio::test]
async fn m4_time_outs_and_stops_reach_the_server_over_http() {
    for is_modern in [true, false] {
        let (seen, held) = (Seen::default(), Arc::default());
        let web = server(0, is_modern, &seen, &held).await;
        let place = place(&format!("http://{}/mcp", web.address));
        let house = connected(Server { call_timeout: Duration::from_millis(300), ..place }).await;
        let call = house.call("mcp__web__hang", json!({}));
        let watch = eventually("the call", || (*held.lock().unwrap() == 1).then_some(()));
        let (outcome, ()) = tokio::join!(call, watch);
        assert!(text_of(&outcome).contains("did not answer within"), "{}", text_of(&outcome));
        if is_modern {
            // The end of its stream is the cancellation.
            eventually("the end", || (*held.lock().unwrap() == 0).then_some(())).await;
        } else {
            let told = eventually("the cancellation", || {
                of_method(&seen, "notifications/cancelled").first().cloned()
            });
            let (_, call) = of_method(&seen, "tools/call").remove(0);
            assert_eq!(told.await.1["params"]["requestId"], call["id"]);
        }
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn m1_a_server_that_goes_and_comes_back_fails_one_call() {
    for is_modern in [true, false] {
        let (seen, held) = (Seen::default(), Arc::default());
        let web = server(0, is_modern, &seen, &held).await;
        let address = web.address;
        let house = connected(place(&format!("http://{address}/mcp"))).await;
        drop(web);
        let outcome = house.call("mcp__web__echo", json!({"text": "1"})).await;
        assert!(outcome.is_error && text_of(&outcome).contains("was lost"), "{outcome:?}");
        let _web = eventually_listens(address.port(), is_modern, &seen, &held).await;
        house.until("web", ServerState::Connected).await;
        let outcome = house.call("mcp__web__echo", json!({"text": "2"})).await;
        assert_eq!(text_of(&outcome), "heard 2");
        let calls = of_method(&seen, "tools/call");
        assert_eq!(calls.len(), 1, "the lost call is not repeated: {calls:?}");
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_fails_takes_no_other_with_it() {
    for is_modern in [true, false] {
        let (seen, held) = (Seen::default(), Arc::default());
        let web = server(0, is_modern, &seen, &held).await;
        let house = connected(place(&format!("http://{}/mcp", web.address))).await;
        let hang = house.call("mcp__web__hang", json!({}));
        let others = async {
            eventually("the call", || (*held.lock().unwrap() == 1).then_some(())).await;
            let outcome = house.call("mcp__web__echo", json!({"text": "busy"})).await;
            let text = text_of(&outcome);
            assert!(outcome.is_error && text.contains("failed on the way"), "{text}");
            let outcome = house.call("mcp__web__echo", json!({"text": "x"})).await;
            assert_eq!(text_of(&outcome), "heard x");
        };
        tokio::select! {
            outcome = hang => panic!("it goes on: {outcome:?}"),
            () = others => {}
        }
        assert_eq!(house.status("web").state, ServerState::Connected);
        house.pool.stop().await;
    }
}

/// Listens on a port again once its old connections are gone.
async fn eventually_listens(
    port: u16,
    is_modern: bool,
    seen: &Seen,
    held: &Arc<Mutex<i32>>,
) -> HttpServer {
    eventually("the port", || std::net::TcpListener::bind(("127.0.0.1", port)).ok()).await;
    server(port, is_modern, seen, held).await
}

#[tokio::test]
async fn a_folders_file_opens_no_private_place() {
    let origin = Origin::Folder("/repos".into());
    let server = Server { origin: origin.clone(), ..place("http://10.255.255.1:1/mcp") };
    let house = house(Arc::new(Scripts::default()), vec![server]);
    let status = house.until("web", ServerState::Waiting).await;
    let error = status.error.unwrap();
    assert!(error.contains("refused to connect to 10.255.255.1:1"), "{error}");
    assert!(!error.contains("/mcp"), "{error}");
    house.pool.stop().await;
}
