//! A client of a real server: the v1 door over a real runtime.

use std::time::Duration;

use narthex::client::{Client, CreateSession, ServerEvent};
use narthex::protocol::{Effect, Mode, TurnEnd};
use narthex::{Agent, Callbacks, Decision, Reply, Secret, Server, ServerOptions};
use serde_json::json;
use testkit::model_server::{Answer, At, End, Gate, tool_results};

use crate::stand::{Stand, soon};

async fn served(stand: &Stand) -> (Agent, Server, Client) {
    let agent = stand.agent(Mode::Ask).await;
    let options = ServerOptions::new(agent.runtime().clone(), stand.cwd());
    let server = Server::start(options).await.unwrap();
    let client = Client::connect(server.url(), server.token().expose()).unwrap();
    (agent, server, client)
}

async fn stop(agent: Agent, server: Server) {
    soon("the server's end", server.stop()).await.unwrap();
    agent.close().await.unwrap();
}

#[tokio::test]
async fn the_remote_example_of_the_tour_works_as_it_stands() {
    let stand = Stand::new().await;
    let options = json!([{"label": "Postgres"}, {"label": "SQLite"}]);
    stand.server.push_all([
        Answer::call("write_file", json!({"path": "form.txt", "content": "validated"})),
        Answer::call("ask_question", json!({"question": "Which?", "options": options})),
        Answer::call("run_shell", json!({"command": "touch no"})),
        Answer::text("All done.").deltas(3),
    ]);
    let (agent, server, client) = served(&stand).await;
    let cwd = stand.cwd().to_str().unwrap().to_owned();
    let wanted = CreateSession::at(cwd).mode(Mode::Ask);
    let session = client.create_session(wanted).await.unwrap();
    let callbacks = Callbacks::new()
        .on_permission(|request| async move {
            match request.effect {
                Effect::Write => Decision::AllowOnce,
                _ => Decision::deny("read-only please"),
            }
        })
        .on_question(|question| async move { Reply::choose(&question.options[0].label) });
    let (mut text, mut unknown, mut last) = (String::new(), Vec::new(), 0);
    let result = session.run_with("Add input validation", callbacks, |event| {
        text.push_str(event.body.text_delta().unwrap_or_default());
        assert!(event.id.unwrap() > last, "in order");
        last = event.id.unwrap();
        if let ServerEvent::Other { kind, .. } = &event.body {
            unknown.push(kind.clone());
        }
    });
    let result = soon("the end", result).await.unwrap();
    assert_eq!((result.reason, text.as_str()), (TurnEnd::Completed, "All done."));
    assert_eq!(unknown, Vec::<String>::new(), "every event of our own server is known");
    assert_eq!(stand.read("form.txt").as_deref(), Some("validated"));
    let told = tool_results(&*stand.server.request(3).await);
    assert!(told.last().unwrap().text.contains("Postgres"));
    assert_eq!(stand.read("no"), None);

    let info = session.info().await.unwrap();
    assert_eq!((info.state.as_str(), info.last_event_id), ("idle", last));
    assert_eq!(session.messages().await.unwrap().len(), 8);
    assert_eq!(session.usage().await.unwrap().turns, 4);
    assert!(session.permissions().await.unwrap().is_empty());
    assert!(!session.checkpoints().await.unwrap().is_empty());
    assert!(!session.commands().await.unwrap().is_empty());
    assert!(client.sessions().await.unwrap().iter().any(|known| known.id == info.id));
    assert!(client.models().await.unwrap().iter().any(|model| model.default));
    assert!(client.health().await.unwrap().version.is_some());
    let undone = session.undo().await.unwrap();
    assert!(undone.undone, "{undone:?}");
    assert_eq!(stand.read("form.txt"), None);
    let fork = session.fork(None).await.unwrap();
    assert_ne!(fork.id(), session.id());
    session.close().await.unwrap();
    let error = session.info().await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(404), Some("session_not_found")));
    stop(agent, server).await;
}

#[tokio::test]
async fn events_are_watched_and_a_prompt_is_interrupted_over_the_wire() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("never").gate(At::Head, &gate));
    let (agent, server, client) = served(&stand).await;
    let session = client.create_session(CreateSession::default()).await.unwrap();
    let mut events = session.events_after(0);
    let first = soon("the first event", events.next()).await.unwrap().unwrap();
    assert_eq!(first.body.known().map(|body| body.kind().as_str()), Some("session_start"));
    let queued = session.prompt("Wait").await.unwrap();
    assert_eq!((queued.queued, queued.position), (false, 0));
    soon("the model is asked", gate.reached()).await;
    session.set_mode(Mode::Plan).await.unwrap();
    assert!(session.interrupt().await.unwrap());
    assert_eq!(stand.server.ended(1).await.end(), Some(End::ClientGone));
    let mut kinds = Vec::new();
    loop {
        let event = soon("an event", events.next()).await.unwrap().unwrap();
        let kind = event.body.known().unwrap().kind().as_str();
        kinds.push(kind);
        if kind == "prompt_finished" {
            break;
        }
    }
    assert!(kinds.contains(&"mode_changed") && kinds.contains(&"done"), "{kinds:?}");
    session.close().await.unwrap();
    let rest = soon("the end", async {
        let mut rest = Vec::new();
        while let Some(event) = events.next().await {
            rest.push(event.unwrap().body);
        }
        rest
    });
    let rest = rest.await;
    assert_eq!(rest.len(), 1, "closed, and nothing after it: {rest:?}");
    stop(agent, server).await;
}

#[tokio::test]
async fn a_wrong_token_and_a_folder_outside_are_refused() {
    let stand = Stand::new().await;
    let (agent, server, client) = served(&stand).await;
    let stranger = Client::connect(server.url(), "guess").unwrap();
    let error = stranger.sessions().await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(401), Some("unauthorized")));
    assert!(stranger.health().await.unwrap().version.is_none());
    let error = client.create_session(CreateSession::at("/")).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(403), Some("cwd_outside_roots")));
    let error = client.session("nothing").prompt("x").await.unwrap_err();
    assert_eq!(error.code(), Some("session_not_found"));
    let mut events = client.session("nothing").events();
    let error = soon("the no", events.next()).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some("session_not_found"));
    for token in ["x", "fifteen-letters", "with a space in it", "0123456789abcdéf"] {
        let mut weak = ServerOptions::new(agent.runtime().clone(), stand.cwd());
        weak.token = Some(Secret::new(token.to_owned()));
        let error = Server::start(weak).await.unwrap_err().to_string();
        assert!(error.starts_with("token: expected 16 to 1024 visible"), "{error}");
    }
    let taken = ServerOptions::new(agent.runtime().clone(), stand.cwd());
    let mut taken = taken;
    taken.port = server.url().rsplit(':').next().unwrap().parse().unwrap();
    let error = Server::start(taken).await.unwrap_err().to_string();
    assert!(error.starts_with("port: 127.0.0.1:"), "{error}");
    stop(agent, server).await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_network_error() {
    let stand = Stand::new().await;
    let (agent, server, client) = served(&stand).await;
    let session = client.create_session(CreateSession::default()).await.unwrap();
    soon("the server's end", server.stop()).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(20), session.info()).await.unwrap();
    assert!(matches!(error, Err(narthex::client::ClientError::Network(_))), "{error:?}");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_remote_prompt_that_waits_is_withdrawn_and_the_one_that_runs_goes_on() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("mine").gate(At::Head, &gate));
    let (agent, server, client) = served(&stand).await;
    let session = client.create_session(CreateSession::default()).await.unwrap();
    let other = client.session(session.id().as_str());
    let (first, ()) = soon(
        "the first prompt",
        futures_util::future::join(session.run("one", Callbacks::new()), async {
            gate.reached().await;
            {
                let waiting = other.run("two", Callbacks::new());
                let queued = async {
                    while other.info().await.unwrap().queued == 0 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    ended = waiting => panic!("{ended:?}"),
                    () = queued => {}
                }
            }
            while other.info().await.unwrap().queued > 0 {
                tokio::task::yield_now().await;
            }
            gate.open();
        }),
    )
    .await;
    let first = first.unwrap();
    assert_eq!((first.reason, first.text.as_str()), (TurnEnd::Completed, "mine"));
    assert_eq!(stand.server.request_count(), 1);
    session.close().await.unwrap();
    stop(agent, server).await;
}
