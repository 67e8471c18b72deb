//! The life of a neuron, and health.

use std::path::PathBuf;

use http::StatusCode;
use protocol::{NeuronId, RefusalCode};
use runtime_api::SessionState;
use runtime_api::neuron::{NeuronInfo, NeuronState};
use serde_json::json;
use testkit::fake_handle::FakeRuntime;
use testkit::fake_neurons::{FakeNeurons, NeuronCall, neuron_info};

use crate::house::{House, Setting, open_session, refused};

fn house(neurons: FakeNeurons) -> House {
    House::with(Setting::new(), FakeRuntime::new(), neurons)
}

#[tokio::test]
async fn a_created_neuron_is_told_whole() {
    let house = house(FakeNeurons::new());
    let body = json!({
        "agentId": "my-neuron", "workspace": "/srv/app", "env": {"A": "1"}, "memoryMb": 512,
        "vcpus": 2, "unknown": {}
    });
    let reply = house.post("/neurons", &body).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    assert_eq!(
        reply.json(),
        json!({
            "agentId": "my-neuron", "state": "running", "createdAt": "2026-11-30T00:53:20.000Z",
            "mode": "process", "driver": "namespace",
            "isolation": {"level": "full", "layers": ["namespaces"]},
            "pid": 4242, "workspace": "/workspace"
        })
    );
    let calls = house.neurons.calls();
    let [NeuronCall::Create(asked)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(asked.id, NeuronId::new("my-neuron"));
    assert_eq!(asked.folder, Some(PathBuf::from("/srv/app")));
    assert_eq!(asked.env, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(asked.limits.memory_bytes, Some(512 << 20));
    assert_eq!(asked.limits.cpu_millis, Some(2_000));
    let listed = house.get("/neurons").await.json();
    assert_eq!(listed["neurons"][0]["agentId"], "my-neuron");
    assert_eq!(house.get("/neurons/my-neuron").await.status, 200);
    let gone = house.delete("/neurons/my-neuron").await;
    assert_eq!(gone.json(), json!({"agentId": "my-neuron", "destroyed": true}));
    for reply in [house.get("/neurons/my-neuron").await, house.delete("/neurons/my-neuron").await] {
        assert_eq!(reply.code(), refused(404, "NOT_FOUND"));
    }
}

#[tokio::test]
async fn the_cores_no_is_told_in_the_words_of_this_door() {
    for (core, status, code, retry) in [
        (RefusalCode::NeuronExists, 409, "CONFLICT", None),
        (RefusalCode::OwnedElsewhere, 409, "OWNED_ELSEWHERE", None),
        (RefusalCode::NoCapacity, 503, "CAPACITY", Some("30")),
        (RefusalCode::NotSupported, 501, "NOT_SUPPORTED", None),
        (RefusalCode::ShuttingDown, 503, "SHUTTING_DOWN", Some("1")),
    ] {
        let house = house(FakeNeurons::new().refuse("create", core, "secret detail"));
        let reply = house.post("/neurons", &json!({"agentId": "a"})).await;
        assert_eq!(reply.code(), refused(status, code));
        assert_eq!(reply.headers.get("retry-after").map(|it| it.to_str().unwrap()), retry);
        assert!(!String::from_utf8_lossy(&reply.body).contains("secret"));
    }
    let neurons = FakeNeurons::new().refuse("create", RefusalCode::Invalid, "folder: is a file");
    let reply = house(neurons).post("/neurons", &json!({"agentId": "a"})).await;
    assert_eq!(reply.paths(), ["workspace"]);
}

#[tokio::test]
async fn a_stopped_neuron_takes_no_command() {
    let stopped = NeuronInfo { state: NeuronState::Stopped, pid: None, ..neuron_info("worker") };
    let runtime = FakeRuntime::new().session(open_session());
    let house = House::with(Setting::new(), runtime, FakeNeurons::new().neuron(stopped));
    let session = format!("/sessions/{}", crate::house::ID);
    for (path, body) in [
        ("/neurons/worker/exec".to_owned(), json!({"code": "true"})),
        ("/neurons/worker/tool".to_owned(), json!({"tool": "bash", "params": {"command": "x"}})),
        ("/neurons/worker/install".to_owned(), json!({"packages": ["hello"]})),
        ("/sessions".to_owned(), json!({"agentId": "worker"})),
        (format!("{session}/message"), json!({"message": "hi"})),
        (format!("{session}/run"), json!({"message": "hi"})),
    ] {
        let reply = house.post(&path, &body).await;
        assert_eq!(reply.code(), refused(409, "NOT_RUNNING"), "{path}");
    }
    assert_eq!(house.get("/neurons/worker/tools").await.code(), refused(409, "NOT_RUNNING"));
    let snapshot = house.post("/neurons/worker/snapshot", &json!({})).await;
    assert_eq!(snapshot.code(), refused(501, "NOT_SUPPORTED"));
    assert!(house.runtime.calls().is_empty() && house.neurons.calls().is_empty());
    let made = house.post("/neurons", &json!({"agentId": "worker"})).await;
    assert_eq!(made.status, StatusCode::CREATED, "it is replaced");
}

#[tokio::test]
async fn commands_go_to_the_process_that_owns_a_neuron() {
    let elsewhere = NeuronInfo { owner_pid: Some(7), ..neuron_info("worker") };
    let house = house(FakeNeurons::new().neuron(elsewhere));
    let reply = house.post("/neurons/worker/exec", &json!({"code": "true"})).await;
    assert_eq!(reply.code(), refused(409, "OWNED_ELSEWHERE"));
    assert_eq!(house.get("/neurons/worker").await.json()["ownedElsewhere"], true);
    assert_eq!(house.delete("/neurons/worker").await.status, 200, "it ends from anywhere");
}

#[tokio::test]
async fn health_counts_what_runs_and_what_is_active() {
    let stopped = NeuronInfo { state: NeuronState::Stopped, ..neuron_info("stopped") };
    let neurons = FakeNeurons::new().neuron(neuron_info("worker")).neuron(stopped);
    let session = |id: &str, state| runtime_api::SessionInfo {
        id: protocol::SessionId::new(id),
        state,
        ..open_session()
    };
    let foreign = runtime_api::SessionInfo { neuron: None, ..session("v1", SessionState::Running) };
    let runtime = FakeRuntime::new()
        .session(session("a", SessionState::Idle))
        .session(session("b", SessionState::Running))
        .session(session("c", SessionState::Waiting))
        .session(foreign);
    let house = House::with(Setting::new(), runtime, neurons);
    let mut health = house.get("/health").await.json();
    let uptime = health["uptime"].take();
    assert!(uptime.as_f64().unwrap() >= 0.0);
    assert_eq!(
        health,
        json!({"status": "ok", "version": "1.2.3", "activeNeurons": 1, "totalNeurons": 2,
               "activeSessions": 2, "totalSessions": 3, "uptime": null})
    );
}
