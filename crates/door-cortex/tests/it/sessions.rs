//! Sessions: created, shown, listed, expired, deleted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use protocol::event::SessionEnd;
use protocol::{Effect, Mode, NeuronId, RefusalCode, SessionId, Timestamp, TurnEnd};
use runtime_api::{SessionInfo, SessionState};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime};
use testkit::fake_neurons::{FakeNeurons, neuron_info};

use crate::house::{CORE, House, ID, Setting, TTL, open_session, refused};
use crate::play;

#[tokio::test]
async fn a_session_is_created_in_its_neuron() {
    let house = House::new(FakeRuntime::new());
    let body = json!({"agentId": "worker", "name": "n", "model": "claude-sonnet-4-6",
                      "systemPrompt": "be brief", "maxTurns": 7});
    let reply = house.post("/sessions", &body).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let session = reply.json();
    let id = session["sessionId"].as_str().unwrap();
    assert!(id.starts_with("ses-") && session["id"] == id, "{session}");
    assert_eq!((&session["agentId"], &session["name"]), (&json!("worker"), &json!("n")));
    assert_eq!((&session["status"], &session["lastSeq"]), (&json!("idle"), &json!(0)));
    assert_eq!(
        session["usage"],
        json!({"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0,
               "cacheCreationTokens": 0, "reasoningTokens": 0, "turns": 0, "runs": 0})
    );
    assert_eq!(session.get("history"), None);
    let calls = house.runtime.calls();
    let [Call::Create(asked)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(asked.neuron, Some(NeuronId::new("worker")));
    assert_eq!(asked.tools.as_ref().unwrap(), &["read", "write", "edit", "bash"]);
    assert_eq!((asked.mode, &asked.asks_for), (Some(Mode::FullAuto), &vec![Effect::Destructive]));
    assert_eq!(asked.append_system_prompt.as_deref(), Some("be brief"));
    assert_eq!((asked.max_turns, asked.agent.limits.max_turns), (Some(7), 50));
    assert_eq!(asked.agent.interaction_timeout_ms, 300_000);
    assert!(asked.agent.is_attended && !asked.agent.carries_on);
    house.post("/sessions", &json!({"agentId": "worker"})).await;
    let calls = house.runtime.calls();
    let Some(Call::Create(plain)) = calls.last() else { panic!("{calls:?}") };
    assert_eq!((plain.max_turns, plain.agent.limits.max_turns), (None, 50));
}

#[tokio::test]
async fn refusals_of_a_creation() {
    for (core, status, code) in [
        (RefusalCode::NeuronNotFound, 404, "NOT_FOUND"),
        (RefusalCode::NeuronNotRunning, 409, "NOT_RUNNING"),
        (RefusalCode::OwnedElsewhere, 409, "OWNED_ELSEWHERE"),
        (RefusalCode::TooManySessions, 503, "CAPACITY"),
        (RefusalCode::ModelNotAllowed, 403, "FORBIDDEN"),
    ] {
        let house = House::new(FakeRuntime::new().refuse("create", core, "no"));
        let reply = house.post("/sessions", &json!({"agentId": "worker"})).await;
        assert_eq!(reply.code(), refused(status, code), "{core:?}");
    }
    let unknown = FakeRuntime::new().refuse("create", RefusalCode::InvalidModel, "no model 'x'");
    let body = json!({"agentId": "worker", "model": "x"});
    assert_eq!(House::new(unknown).post("/sessions", &body).await.paths(), ["model"]);
}

#[tokio::test]
async fn a_session_sums_up_its_runs() {
    let runtime = FakeRuntime::new()
        .session(open_session())
        .turn(play::plain(1, "a secret answer"))
        .turn(play::plain(2, "another"));
    let house = House::new(runtime);
    for _ in 0..2 {
        let path = format!("/sessions/{ID}/message");
        assert_eq!(house.post(&path, &json!({"message": "a secret question"})).await.status, 200);
    }
    let reply = house.get(&format!("/sessions/{ID}")).await;
    assert!(!String::from_utf8_lossy(&reply.body).contains("secret"), "metadata alone");
    let session = reply.json();
    assert_eq!(session["usage"]["inputTokens"], 200);
    assert_eq!(session["usage"]["outputTokens"], 20);
    assert_eq!((&session["usage"]["turns"], &session["usage"]["runs"]), (&json!(2), &json!(2)));
    assert_eq!(session["lastSeq"], 8);
    assert_eq!(session["name"], json!(null), "no name was given, whatever title it has");
}

#[tokio::test]
async fn history_is_the_newest_entries() {
    let mut second = play::begin(2, "hi");
    second.extend(play::says("Let me look."));
    second.extend([play::calls(), play::brings("two")]);
    second.extend(play::ends(2, &play::result(TurnEnd::Completed, "")));
    let runtime =
        FakeRuntime::new().session(open_session()).turn(play::plain(1, "one")).turn(second);
    let house = House::new(runtime);
    let path = format!("/sessions/{ID}/message");
    for _ in 0..2 {
        house.post(&path, &json!({"message": "hi"})).await;
    }
    let history = async |count: usize| house.get(&format!("/sessions/{ID}?history={count}")).await;
    let all = history(1_000).await.json()["history"].as_array().unwrap().clone();
    let roles: Vec<_> = all.iter().map(|entry| entry["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool"]);
    assert_eq!(all[1]["content"], json!([{"type": "text", "text": "one"}]));
    assert_eq!((&all[1]["runId"], &all[1]["turnNumber"]), (&json!("run-prompt1"), &json!(1)));
    assert_eq!(all[0].get("turnNumber"), None);
    assert_eq!(
        all[4]["content"],
        json!([{"type": "tool_result", "toolCallId": "tc-1", "output": "two", "isError": false}])
    );
    assert_eq!(history(2).await.json()["history"], json!(all[3..]));
}

fn numbered(number: usize, neuron: &str) -> SessionInfo {
    SessionInfo {
        id: SessionId::new(format!("s{number}")),
        neuron: Some(NeuronId::new(neuron)),
        ..open_session()
    }
}

#[tokio::test]
async fn a_session_with_a_run_is_listed_behind_any_number_of_expired_ones() {
    let mut runtime = FakeRuntime::new().session(open_session()).turn(play::stalled(1));
    for number in 0..500 {
        let updated_at = Timestamp(0);
        runtime = runtime.session(SessionInfo { updated_at, ..numbered(number, "worker") });
    }
    let house = House::new(runtime);
    let listed = async || {
        let all = house.get("/sessions").await.json()["sessions"].as_array().unwrap().clone();
        all.into_iter().map(|session| session["sessionId"].clone()).collect::<Vec<_>>()
    };
    let mut stream = house.run("hello").await;
    stream.until("text_delta").await;
    assert_eq!(listed().await, [json!(ID)]);
}

#[tokio::test]
async fn sessions_are_listed_by_neuron() {
    let foreign = SessionInfo { neuron: None, ..numbered(3, "one") };
    let runtime =
        FakeRuntime::new().session(numbered(1, "one")).session(numbered(2, "two")).session(foreign);
    let house = House::new(runtime);
    let ids = async |query: &str| {
        let sessions = house.get(&format!("/sessions{query}")).await.json();
        let all = sessions["sessions"].as_array().unwrap().clone();
        all.into_iter().map(|it| it["sessionId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("").await, ["ses-s2", "ses-s1"]);
    assert_eq!(ids("?agentId=two").await, ["ses-s2"]);
    assert!(ids("?agentId=three").await.is_empty());
    assert_eq!(house.get("/sessions/ses-s3").await.code(), refused(404, "NOT_FOUND"));
}

#[tokio::test]
async fn more_sessions_than_a_page_are_counted() {
    let runtime = (0..1_234).fold(FakeRuntime::new(), |it, n| it.session(numbered(n, "one")));
    let house = House::new(runtime);
    assert_eq!(house.get("/health").await.json()["totalSessions"], 1_234);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let house = House::plain();
    for id in ["ses-absent", CORE, "ses-", "absent"] {
        for (method, rest) in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/events"),
            ("GET", "/events?after=0"),
            ("GET", "/approvals"),
            ("GET", "?history=20"),
        ] {
            let reply = house.send(method, &format!("/sessions/{id}{rest}")).await;
            assert_eq!(reply.code(), refused(404, "NOT_FOUND"), "{method} {id}{rest}");
        }
        for route in ["message", "run"] {
            let path = format!("/sessions/{id}/{route}");
            let reply = house.post(&path, &json!({"message": "x"})).await;
            assert_eq!(reply.code(), refused(404, "NOT_FOUND"), "{id} {route}");
        }
        let path = format!("/sessions/{id}/approvals/apr-a");
        let reply = house.post(&path, &json!({"decision": "allow"})).await;
        assert_eq!(reply.code(), refused(404, "NOT_FOUND"), "{id}");
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn a_deleted_session_is_erased() {
    let house = House::plain();
    let reply = house.delete(&format!("/sessions/{ID}")).await;
    assert_eq!(reply.json(), json!({"sessionId": ID, "deleted": true}));
    assert!(matches!(house.runtime.calls().as_slice(), [Call::Remove(id)] if id.as_str() == CORE));
    let again = house.delete(&format!("/sessions/{ID}")).await;
    assert_eq!(again.code(), refused(404, "NOT_FOUND"));
}

#[tokio::test(start_paused = true)]
async fn an_unused_session_expires_and_is_erased() {
    let busy = SessionInfo { state: SessionState::Running, ..numbered(2, "worker") };
    let runtime = FakeRuntime::new().session(open_session()).session(busy);
    let house = House::new(runtime);
    let mut viewer = house.events("", None).await;
    let session = house.get(&format!("/sessions/{ID}")).await.json();
    assert_eq!(session["lastActiveAt"], "2026-11-30T00:54:20.000Z");
    assert_eq!(session["expiresAt"], "2026-12-07T00:54:20.000Z");
    let ttl = i64::try_from(TTL.as_millis()).unwrap();
    house.now.fetch_add(ttl, Ordering::Relaxed);
    let reply = house.get(&format!("/sessions/{ID}")).await;
    assert_eq!(reply.code(), refused(404, "NOT_FOUND"), "at once");
    assert_eq!(house.get("/health").await.json()["totalSessions"], 1);
    tokio::time::sleep(Duration::from_secs(601)).await;
    let erased = |call: &Call| matches!(call, Call::Remove(id) if id.as_str() == CORE);
    assert_eq!(house.runtime.calls().iter().filter(|call| erased(call)).count(), 1);
    let end = viewer.rest().await;
    assert_eq!(end[0].data, json!({"type": "end", "sessionId": ID}));
    assert_eq!(house.get("/sessions/ses-s2").await.status, 200, "a run keeps it");
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_server_that_is_no_more_are_ended() {
    let left = SessionInfo { state: SessionState::Waiting, is_open: false, ..open_session() };
    let elsewhere = SessionInfo { owner_pid: Some(7), ..numbered(2, "worker") };
    let elsewhere = SessionInfo { state: left.state, is_open: false, ..elsewhere };
    let house = House::new(FakeRuntime::new().session(left).session(elsewhere));
    house.breathe().await;
    assert!(house.runtime.calls().is_empty(), "a start touches nothing");
    house.get("/neurons").await;
    house.breathe().await;
    let calls = house.runtime.calls();
    let [Call::Open(id, agent)] = calls.as_slice() else { panic!("{calls:?}") };
    assert!(id.as_str() == CORE && !agent.carries_on);
    house.stopping.cancel();
}

#[tokio::test]
async fn a_stored_session_is_opened_by_its_first_command() {
    let stored = SessionInfo { is_open: false, ..open_session() };
    let turn = play::plain(1, "second answer");
    let house = House::new(FakeRuntime::new().session(stored).turn(turn));
    assert_eq!(house.get(&format!("/sessions/{ID}")).await.status, 200);
    assert!(house.runtime.calls().is_empty(), "to look at it opens nothing");
    let path = format!("/sessions/{ID}/message");
    assert_eq!(house.post(&path, &json!({"message": "hi"})).await.status, 200);
    assert!(matches!(house.runtime.calls()[0], Call::Open(..)));
    let close =
        house.runtime.calls().iter().any(|it| matches!(it, Call::Close(_, SessionEnd::Closed)));
    assert!(!close, "it stays open");
}

#[tokio::test]
async fn a_session_of_another_process_is_owned_elsewhere() {
    let stored = SessionInfo { is_open: false, owner_pid: Some(7), ..open_session() };
    let runtime =
        FakeRuntime::new().session(stored).refuse("open", RefusalCode::OwnedElsewhere, "there");
    let neurons = FakeNeurons::new().neuron(neuron_info("worker"));
    let house = House::with(Setting::new(), runtime, neurons);
    let path = format!("/sessions/{ID}/message");
    let reply = house.post(&path, &json!({"message": "hi"})).await;
    assert_eq!(reply.code(), refused(409, "OWNED_ELSEWHERE"));
}

/// A book in memory.
#[derive(Debug, Default)]
struct Book(std::sync::Mutex<Option<Vec<u8>>>);

impl Book {
    fn value(&self) -> Option<Value> {
        let bytes = self.0.lock().unwrap().clone();
        bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    /// Changes the only place in it.
    fn change(&self, field: &str, to: Value) {
        let mut value = self.value().unwrap();
        value["places"][0][field] = to;
        *self.0.lock().unwrap() = Some(value.to_string().into_bytes());
    }
}

impl door_cortex::PlaceBook for Book {
    fn read(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    fn write(&self, bytes: &[u8]) {
        *self.0.lock().unwrap() = Some(bytes.to_vec());
    }
}

#[tokio::test]
async fn the_next_life_counts_on_from_what_is_written_down_and_holds_it_against_the_log() {
    let book = std::sync::Arc::new(Book::default());
    let with_book = || {
        let mut setting = Setting::new();
        setting.options.places = Some(book.clone() as _);
        setting
    };
    let runtime = FakeRuntime::new().session(open_session());
    let runtime = runtime.turn(play::plain(1, "one")).turn(play::plain(2, "two"));
    let first = House::with(with_book(), runtime, FakeNeurons::new().neuron(neuron_info("worker")));
    let path = format!("/sessions/{ID}/message");
    first.post(&path, &json!({"message": "hi"})).await;
    let runs = async |house: &House| {
        let listed = house.get("/sessions").await.json();
        let session = &listed["sessions"][0];
        (session["usage"]["runs"].as_u64().unwrap(), session["lastSeq"].as_u64().unwrap())
    };
    assert_eq!(runs(&first).await, (1, 4));
    first.stopping.cancel();
    while book.value().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // What is written down counts, and what came since on top of it.
    book.change("runs", json!(40));
    book.change("count", json!(100));
    let second = first.again(with_book());
    assert_eq!(runs(&second).await, (40, 100));
    second.post(&path, &json!({"message": "hi"})).await;
    assert_eq!(runs(&second).await, (41, 104));
    // What the log does not know is counted anew.
    for (field, wrong) in [("when", json!("2026-01-01T00:00:00.000Z")), ("at", json!(999))] {
        let kept = book.value().unwrap()["places"][0][field].clone();
        book.change(field, wrong);
        assert_eq!(runs(&first.again(with_book())).await, (2, 8), "{field}");
        book.change(field, kept);
    }
    *book.0.lock().unwrap() = Some(b"{".to_vec());
    assert_eq!(runs(&first.again(with_book())).await, (2, 8));
}
