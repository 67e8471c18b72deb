//! Sessions: created, resumed, listed, closed, changed.

use protocol::event::SessionEnd;
use protocol::{Mode, RefusalCode, SessionId};
use runtime_api::{SessionInfo, SessionState};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::house::{House, ID, at, open_session, stored_session};

const OTHER: &str = "06f0000000000000000000000t";

#[tokio::test]
async fn a_session_is_created_with_the_defaults_of_the_server() {
    let house = House::new(FakeRuntime::new());
    let reply = house.post("/v1/sessions", &json!({})).await;
    assert_eq!(reply.status, 201);
    let session = reply.json();
    let root = house.root.to_str().unwrap();
    assert_eq!(session["cwd"], root);
    assert_eq!(session["mode"], "ask");
    assert_eq!(session["model"], "anthropic/claude-sonnet-4-6");
    assert_eq!(session["state"], "idle");
    for (field, expected) in [("queued", 0), ("pendingRequests", 0), ("lastEventId", 0)] {
        assert_eq!(session[field], expected, "{field}");
    }
    let Some(Call::Create(asked)) = house.runtime.calls().pop() else { panic!("nothing created") };
    assert!(asked.agent.is_attended, "the agent is the server's");
}

#[tokio::test]
async fn every_field_reaches_the_runtime() {
    let house = House::new(FakeRuntime::new());
    let body = json!({
        "cwd": "in", "mode": "auto-edit", "model": "a/b", "title": "t",
        "appendSystemPrompt": "be brief", "allow": ["run_shell(npm test *)"],
        "deny": ["web_fetch", "write_file"], "mcp": true
    });
    assert_eq!(house.post("/v1/sessions", &body).await.status, 201);
    let Some(Call::Create(asked)) = house.runtime.calls().pop() else { panic!("nothing created") };
    assert_eq!(asked.cwd, house.root.join("in").to_str().unwrap());
    assert_eq!(asked.mode, Some(Mode::AutoEdit));
    assert_eq!(asked.model.as_deref(), Some("a/b"));
    assert_eq!(asked.title.as_deref(), Some("t"));
    assert_eq!(asked.append_system_prompt.as_deref(), Some("be brief"));
    assert_eq!(asked.allow, ["run_shell(npm test *)"]);
    assert_eq!(asked.deny, ["web_fetch", "write_file"]);
}

#[tokio::test]
async fn null_is_as_good_as_absent() {
    let house = House::new(FakeRuntime::new());
    let body = json!({"cwd": null, "mode": null, "title": null, "allow": null, "mcp": null});
    assert_eq!(house.post("/v1/sessions", &body).await.status, 201);
}

#[tokio::test]
async fn folders_outside_the_roots_are_refused() {
    let house = House::new(FakeRuntime::new());
    for (cwd, expected) in [
        ("door", (403, "cwd_outside_roots")),
        ("/", (403, "cwd_outside_roots")),
        ("in/../..", (403, "cwd_outside_roots")),
        ("missing", (400, "validation_error")),
        ("file", (400, "validation_error")),
        ("a\u{0}b", (400, "validation_error")),
    ] {
        let (status, code, message) =
            house.post("/v1/sessions", &json!({"cwd": cwd})).await.refusal();
        assert_eq!((status, code.as_str()), expected, "{cwd}");
        assert!(message.starts_with("cwd: "), "{message}");
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn the_refusals_of_the_core_have_their_own_status() {
    for (code, expected) in [
        (RefusalCode::Invalid, (400, "validation_error")),
        (RefusalCode::InvalidModel, (400, "invalid_model")),
        (RefusalCode::ModelNotAllowed, (403, "model_not_allowed")),
        (RefusalCode::LockedByPolicy, (403, "locked_by_policy")),
        (RefusalCode::TooManySessions, (429, "too_many_sessions")),
        (RefusalCode::ShuttingDown, (503, "shutting_down")),
    ] {
        let house = House::new(FakeRuntime::new().refuse("create", code, "allow[0]: no rule"));
        let (status, code, message) = house.post("/v1/sessions", &json!({})).await.refusal();
        assert_eq!(((status, code.as_str()), message.as_str()), (expected, "allow[0]: no rule"));
    }
}

#[tokio::test]
async fn a_stored_session_is_resumed_as_it_was() {
    let house = House::with(|root| {
        let info = SessionInfo { mode: Mode::AutoEdit, ..stored_session(ID, root) };
        FakeRuntime::new().session(info)
    });
    assert_eq!(house.get(&at("")).await.code(), (404, "session_not_found".to_owned()));
    let reply = house.post("/v1/sessions", &json!({"resume": ID})).await;
    assert_eq!(reply.status, 201);
    assert_eq!((&reply.json()["id"], &reply.json()["mode"]), (&json!(ID), &json!("auto-edit")));
    assert!(matches!(&house.runtime.calls()[..], [Call::Open(id, agent)]
        if id.as_str() == ID && agent.is_attended));
    assert_eq!(house.get(&at("")).await.status, 200);
    // Once more: it is open already.
    assert_eq!(house.post("/v1/sessions", &json!({"resume": ID})).await.status, 201);
    assert_eq!(house.runtime.calls().len(), 1);
}

#[tokio::test]
async fn a_resumed_session_takes_the_mode_and_model_that_are_named() {
    let house = House::with(|root| FakeRuntime::new().session(stored_session(ID, root)));
    let body = json!({"resume": ID, "mode": "plan", "model": "a/b"});
    let session = house.post("/v1/sessions", &body).await.json();
    assert_eq!((&session["mode"], &session["model"]), (&json!("plan"), &json!("a/b")));
}

#[tokio::test]
async fn a_session_that_cannot_take_its_mode_or_model_is_not_touched() {
    for is_open in [false, true] {
        let house = House::with(|root| {
            let info = SessionInfo { is_open, ..stored_session(ID, root) };
            let runtime = FakeRuntime::new().session(info);
            runtime.refuse("check_settings", RefusalCode::LockedByPolicy, "locked")
        });
        let body = json!({"resume": ID, "model": "a/b", "mode": "full-auto"});
        let reply = house.post("/v1/sessions", &body).await;
        assert_eq!(reply.code(), (403, "locked_by_policy".to_owned()));
        assert!(house.runtime.calls().is_empty(), "it was opened, changed or closed");
    }
}

#[tokio::test]
async fn a_refused_resume_does_not_close_what_another_one_opened() {
    let house = House::with(|root| {
        let runtime = FakeRuntime::new().session(stored_session(ID, root));
        // As if policy had changed between the look and the change.
        runtime.refuse("set_mode", RefusalCode::LockedByPolicy, "locked")
    });
    let (good, bad) = (json!({"resume": ID}), json!({"resume": ID, "mode": "full-auto"}));
    let (good, bad) =
        tokio::join!(house.post("/v1/sessions", &good), house.post("/v1/sessions", &bad));
    assert_eq!((good.status.as_u16(), bad.status.as_u16()), (201, 403));
    assert!(!house.runtime.calls().iter().any(|call| matches!(call, Call::Close(..))));
    assert_eq!(house.get(&at("")).await.status, 200);
}

#[tokio::test]
async fn stored_sessions_are_found_behind_pages_of_others() {
    let house = House::with(|root| {
        let owned = SessionInfo { owner_pid: Some(7), ..stored_session("owned", root) };
        let mut runtime = FakeRuntime::new().session(stored_session(ID, root)).session(owned);
        // All were touched in the same millisecond.
        for number in 0..250 {
            runtime = runtime.session(stored_session(&format!("s{number}"), "/elsewhere"));
        }
        runtime
    });
    let listed = house.get("/v1/sessions?state=stored").await.json();
    let sessions = listed["sessions"].as_array().unwrap();
    let ids: Vec<_> = sessions.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [ID]);
}

#[tokio::test]
async fn what_cannot_be_resumed_says_why() {
    let house = House::with(|root| {
        let elsewhere = SessionInfo { owner_pid: Some(7), ..stored_session(OTHER, root) };
        FakeRuntime::new().session(stored_session(ID, "/elsewhere")).session(elsewhere)
    });
    for (id, expected) in [
        (ID, (403, "cwd_outside_roots")),
        (OTHER, (409, "owned_elsewhere")),
        ("no-such-session", (404, "session_not_found")),
        ("../etc", (404, "session_not_found")),
    ] {
        let (status, code) = house.post("/v1/sessions", &json!({"resume": id})).await.code();
        assert_eq!((status, code.as_str()), expected, "{id}");
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn fields_of_new_sessions_do_not_go_with_resume() {
    let house = House::plain();
    for (field, value) in [
        ("cwd", json!("in")),
        ("title", json!("t")),
        ("appendSystemPrompt", json!("")),
        ("allow", json!([])),
        ("deny", json!([])),
    ] {
        let reply = house.post("/v1/sessions", &json!({"resume": ID, field: value})).await;
        let (status, code, message) = reply.refusal();
        assert_eq!((status, code.as_str()), (400, "validation_error"));
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
}

#[tokio::test]
async fn lists_show_what_is_open_or_what_is_stored() {
    let house = House::with(|root| {
        let id = |number: usize| format!("06f00000000000000000000{number:03}");
        let running = SessionInfo { state: SessionState::Running, ..session_info(&id(1), root) };
        let waiting = SessionInfo { state: SessionState::Waiting, ..session_info(&id(2), root) };
        FakeRuntime::new()
            .session(session_info(&id(0), root))
            .session(running)
            .session(waiting)
            .session(stored_session(&id(3), root))
            .session(stored_session(&id(4), "/elsewhere"))
    });
    for (query, expected) in [
        ("", vec!["002", "001", "000"]),
        ("?state=idle", vec!["000"]),
        ("?state=running", vec!["001"]),
        ("?state=waiting", vec!["002"]),
        ("?state=stored", vec!["003"]),
    ] {
        let listed = house.get(&format!("/v1/sessions{query}")).await.json();
        let sessions = listed["sessions"].as_array().unwrap();
        let ids: Vec<_> = sessions.iter().map(|it| &it["id"].as_str().unwrap()[23..]).collect();
        assert_eq!(ids, expected, "{query}");
    }
}

#[tokio::test]
async fn deleting_closes_and_purging_erases() {
    let house = House::with(|root| {
        FakeRuntime::new()
            .session(open_session())
            .session(stored_session(OTHER, root))
            .session(stored_session("outside", "/elsewhere"))
    });
    assert_eq!(house.delete(&at("?purge=false")).await.status, 204);
    assert!(matches!(house.runtime.calls().last(), Some(Call::Close(id, SessionEnd::Deleted))
        if *id == SessionId::new(ID)));
    assert_eq!(house.delete(&at("")).await.code(), (404, "session_not_found".to_owned()));
    assert_eq!(house.delete("/v1/sessions/outside?purge=true").await.status, 404);
    let other = format!("/v1/sessions/{OTHER}?purge=true");
    assert_eq!(house.delete(&other).await.status, 204);
    assert!(matches!(house.runtime.calls().last(), Some(Call::Remove(_))));
    assert_eq!(house.delete(&other).await.status, 404);
}

#[tokio::test]
async fn a_session_that_another_process_owns_is_its_own() {
    let house = House::with(|root| {
        let info = SessionInfo { owner_pid: Some(7), ..stored_session(ID, root) };
        FakeRuntime::new().session(info).refuse("remove", RefusalCode::OwnedElsewhere, "owned")
    });
    for (method, path, body) in routes_of_a_session() {
        // Answers are handed to the owner.
        if path.starts_with("/permissions/") {
            continue;
        }
        let reply = house.send(method, &at(path), body).await;
        assert_eq!(reply.code(), (409, "owned_elsewhere".to_owned()), "{method} {path}");
    }
    assert_eq!(house.delete(&at("?purge=true")).await.code().0, 409);
}

#[tokio::test]
async fn a_session_that_is_not_here_is_404_on_every_route() {
    let house = House::with(|root| FakeRuntime::new().session(stored_session(ID, root)));
    let long = "x".repeat(65);
    for id in [ID, "no-such-session", "a.b", "%00", "%ff%fe", "%2e%2e", "%2F", "a%20b", &long] {
        for (method, path, body) in routes_of_a_session() {
            let reply = house.send(method, &format!("/v1/sessions/{id}{path}"), body).await;
            let expected = (404, "session_not_found".to_owned());
            assert_eq!(reply.code(), expected, "{method} {id}{path}");
        }
    }
    assert!(house.runtime.calls().is_empty());
}

/// Every route of a session, with a body that it takes.
fn routes_of_a_session() -> Vec<(&'static str, &'static str, Option<Value>)> {
    vec![
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/prompt", Some(json!({"text": "hello"}))),
        ("GET", "/events", None),
        ("POST", "/permissions/req-1", Some(json!({"answer": "allow_once"}))),
        ("GET", "/permissions", None),
        ("POST", "/interrupt", Some(json!({}))),
        ("POST", "/mode", Some(json!({"mode": "ask"}))),
        ("POST", "/model", Some(json!({"model": "a/b"}))),
        ("GET", "/messages", None),
        ("POST", "/fork", Some(json!({}))),
        ("GET", "/checkpoints", None),
        ("POST", "/rewind", Some(json!({"checkpointId": "cp-1"}))),
        ("POST", "/undo", Some(json!({}))),
        ("GET", "/tasks", None),
        ("POST", "/tasks/t-1/stop", None),
        ("GET", "/usage", None),
        ("GET", "/commands", None),
    ]
}

#[tokio::test]
async fn mode_and_model_change() {
    let house = House::plain();
    let session = house.post(&at("/mode"), &json!({"mode": "full-auto"})).await.json();
    assert_eq!(session["mode"], "full-auto");
    let session = house.post(&at("/model"), &json!({"model": "a/b"})).await.json();
    assert_eq!(session["model"], "a/b");
    for (method, path, body, code, expected) in [
        (
            "set_mode",
            "/mode",
            json!({"mode": "ask"}),
            RefusalCode::LockedByPolicy,
            (403, "locked_by_policy"),
        ),
        (
            "set_model",
            "/model",
            json!({"model": "x"}),
            RefusalCode::InvalidModel,
            (400, "invalid_model"),
        ),
        (
            "set_model",
            "/model",
            json!({"model": "x/y"}),
            RefusalCode::ModelNotAllowed,
            (403, "model_not_allowed"),
        ),
    ] {
        let runtime = FakeRuntime::new().session(open_session()).refuse(method, code, "no");
        let (status, code) = House::new(runtime).post(&at(path), &body).await.code();
        assert_eq!((status, code.as_str()), expected);
    }
}

#[tokio::test]
async fn lists_of_a_session_are_shown() {
    use runtime_api::{ModelListing, SessionUsage, SlashCommand};
    let usage = protocol::Usage { input_tokens: 110, output_tokens: 13, ..Default::default() };
    let command = SlashCommand {
        name: "compact".to_owned(),
        description: "summarises".to_owned(),
        argument_hint: None,
        source: "builtin",
    };
    let model = ModelListing {
        id: "a/b".to_owned(),
        provider: "a".to_owned(),
        context_window: Some(1000),
        is_default: true,
    };
    let used = SessionUsage {
        usage,
        cost_usd: None,
        steps: 2,
        prompts: 1,
        by_model: vec![("a/b".to_owned(), usage, Some(0.5))],
    };
    let runtime = FakeRuntime::new().session(open_session()).usage(used);
    let house = House::new(runtime.commands(vec![command]).models(vec![model]));
    assert_eq!(
        house.get(&at("/usage")).await.json(),
        json!({
            "inputTokens": 110, "outputTokens": 13, "cacheReadTokens": 0, "cacheWriteTokens": 0,
            "turns": 2, "prompts": 1,
            "byModel": {"a/b": {"inputTokens": 110, "outputTokens": 13, "cacheReadTokens": 0,
                                "cacheWriteTokens": 0, "costUsd": 0.5}}
        })
    );
    assert_eq!(
        house.get(&at("/commands")).await.json(),
        json!({"commands": [
            {"name": "compact", "description": "summarises", "source": "builtin"}
        ]})
    );
    assert_eq!(
        house.get("/v1/models").await.json(),
        json!({"models": [
            {"id": "a/b", "provider": "a", "contextWindow": 1000, "default": true}
        ]})
    );
    assert_eq!(house.get(&at("/tasks")).await.json(), json!({"tasks": []}));
    let stopped = house.send("POST", &at("/tasks/t-1/stop"), None).await;
    assert_eq!(stopped.code(), (404, "task_not_found".to_owned()));
}
