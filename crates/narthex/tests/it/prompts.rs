//! Prompts, streams, and what changes an agent.

use narthex::protocol::{EventBody, Mode, RefusalCode, Role, TurnEnd};
use narthex::{Agent, Error};
use serde_json::json;
use testkit::model_server::{Answer, At, End, Gate, said, tool_results};

use crate::stand::{Stand, soon};

fn kinds(events: &[EventBody]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind().as_str()).collect()
}

#[tokio::test]
async fn a_prompt_runs_to_its_end_and_tells_what_came_of_it() {
    let stand = Stand::new().await;
    stand.write("a.txt", "hello from a file\n");
    stand.server.push(Answer::call("read_file", json!({"path": "a.txt"})));
    stand.server.push(Answer::text("It says hello.").deltas(3));
    let agent = stand.agent(Mode::Ask).await;
    let (mut text, mut events) = (String::new(), Vec::new());
    let result = agent.prompt_with("What does a.txt say?", |event| {
        if let EventBody::TextDelta(delta) = &event.body {
            text.push_str(&delta.text);
        }
        events.push(event.body.clone());
    });
    let result = soon("the end", result).await.unwrap();
    assert_eq!(result.reason, TurnEnd::Completed);
    assert_eq!((result.text.as_str(), text.as_str()), ("It says hello.", "It says hello."));
    assert_eq!((result.turns, result.usage.output_tokens), (2, 20));
    assert!(result.cost_usd.is_some_and(|cost| cost > 0.0), "the price is known");
    assert_eq!(&result.session_id, agent.session_id());
    let kinds = kinds(&events);
    assert_eq!(kinds.first(), Some(&"prompt_started"), "{kinds:?}");
    assert_eq!(kinds[kinds.len() - 2..], ["done", "prompt_finished"], "{kinds:?}");
    let second = stand.server.request(2).await;
    assert!(tool_results(&second)[0].text.contains("hello from a file"));
    let messages = agent.messages().await.unwrap();
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    agent.close().await.unwrap();
    stand.server.assert_clean();
}

#[tokio::test]
async fn a_price_that_is_not_known_is_missing() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("hi"));
    let agent = stand.builder().model("anthropic/nobody-knows-it").build().await.unwrap();
    let result = soon("the end", agent.prompt("hello")).await.unwrap();
    assert_eq!((result.reason, result.cost_usd), (TurnEnd::Completed, None));
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_read_to_its_end_has_the_result() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("one two three").deltas(3));
    let agent = stand.agent(Mode::Ask).await;
    let mut stream = agent.stream("Count.");
    let mut text = String::new();
    while let Some(event) = soon("an event", stream.next()).await {
        if let EventBody::TextDelta(delta) = event.unwrap().body {
            text.push_str(&delta.text);
        }
        if stream.result().is_none() {
            continue;
        }
    }
    assert_eq!(text, "one two three");
    assert_eq!(stream.result().map(|result| result.reason), Some(TurnEnd::Completed));
    assert!(soon("nothing more", stream.next()).await.is_none());
    assert_eq!(stream.finish().await.unwrap().text, "one two three");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_dropped_interrupts_its_prompt() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("a long answer").deltas(2).stall(At::Text));
    stand.server.push(Answer::text("and on it goes"));
    let agent = stand.agent(Mode::Ask).await;
    let mut stream = agent.stream("Summarize the README");
    loop {
        let event = soon("text", stream.next()).await.unwrap().unwrap();
        if matches!(event.body, EventBody::TextDelta(_)) {
            break;
        }
    }
    drop(stream);
    let cut = stand.server.ended(1).await;
    assert_eq!(cut.end(), Some(End::ClientGone), "the model is not read on");
    // The next prompt comes after the end of the one that was given up.
    let result = soon("the next prompt", agent.prompt("Go on")).await.unwrap();
    assert_eq!((result.reason, result.text.as_str()), (TurnEnd::Completed, "and on it goes"));
    let log = agent.runtime().export(agent.session_id()).await.unwrap().rows;
    let ends: Vec<&str> = log
        .iter()
        .filter(|row| row.kind.as_str() == "done")
        .map(|row| if row.body.contains("interrupted") { "interrupted" } else { "other" })
        .collect();
    assert_eq!(ends, ["interrupted", "other"]);
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_prompt_whose_future_is_dropped_is_interrupted() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("never").gate(At::Head, &gate));
    stand.server.push(Answer::text("done"));
    let agent = stand.agent(Mode::Ask).await;
    tokio::select! {
        result = agent.prompt("Wait") => panic!("ended: {result:?}"),
        () = soon("the model is asked", gate.reached()) => {}
    }
    assert_eq!(stand.server.ended(1).await.end(), Some(End::ClientGone));
    let result = soon("the next prompt", agent.prompt("Go on")).await.unwrap();
    assert_eq!(result.text, "done");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn prompts_wait_for_each_other_and_one_that_is_given_up_never_begins() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("first").gate(At::Head, &gate));
    stand.server.push(Answer::text("third"));
    let agent = stand.agent(Mode::Ask).await;
    let first = agent.stream("one");
    soon("the first prompt", gate.reached()).await;
    let second = agent.stream("two");
    let third = agent.stream("three");
    drop(second);
    gate.open();
    assert_eq!(soon("the first", first.finish()).await.unwrap().text, "first");
    assert_eq!(soon("the third", third.finish()).await.unwrap().text, "third");
    assert_eq!(stand.server.request_count(), 2);
    assert!(said(&*stand.server.request(2).await).contains("three"));
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_prompt_too_many_is_refused() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("first").gate(At::Head, &gate));
    stand.server.route(|_| true, Answer::text("more").gate(At::Head, &gate));
    let agent = stand.agent(Mode::Ask).await;
    let waiting: Vec<_> = (0..17).map(|number| agent.stream(format!("prompt {number}"))).collect();
    let error = soon("the refusal", agent.prompt("one more")).await.unwrap_err();
    assert_eq!(error.code(), Some(RefusalCode::QueueFull));
    gate.open();
    for stream in waiting {
        assert_eq!(soon("a prompt", stream.finish()).await.unwrap().reason, TurnEnd::Completed);
    }
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_is_behind_can_still_interrupt() {
    let stand = Stand::new().await;
    let many = 2_000;
    let calls = (0..600)
        .map(|_| testkit::model_server::Call::new("read_file", json!({"path": "missing.txt"})));
    stand.server.push(Answer::calls(calls).and_text("word ".repeat(many)).deltas(many));
    stand.server.push(Answer::text("never").stall(At::Head));
    let agent = stand.agent(Mode::Ask).await;
    let mut stream = agent.stream("Say much");
    let first = soon("an event", stream.next()).await.unwrap().unwrap();
    assert_eq!(first.body.kind().as_str(), "prompt_started");
    // Nobody reads while this is asked.
    assert!(soon("the stop", agent.interrupt()).await.unwrap());
    let result = soon("the end", stream.finish()).await.unwrap();
    assert_eq!(result.reason, TurnEnd::Interrupted);
    assert!(!agent.interrupt().await.unwrap(), "nothing runs any more");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn mode_and_model_change_from_the_next_call_on() {
    let stand = Stand::new().await;
    stand.server.push(Answer::call("write_file", json!({"path": "a.txt", "content": "x"})));
    stand.server.push(Answer::text("could not"));
    stand.server.push(Answer::call("write_file", json!({"path": "a.txt", "content": "x"})));
    stand.server.push(Answer::text("written"));
    let agent = stand.agent(Mode::Plan).await;
    soon("the first", agent.prompt("Write a.txt")).await.unwrap();
    assert_eq!(stand.read("a.txt"), None);
    agent.set_mode(Mode::AutoEdit).await.unwrap();
    agent.set_model("anthropic/claude-opus-4-6").await.unwrap();
    let result = soon("the second", agent.prompt("Again")).await.unwrap();
    assert_eq!(result.text, "written");
    assert_eq!(stand.read("a.txt").as_deref(), Some("x"));
    let request = stand.server.request(3).await;
    assert_eq!(request.body["model"], "claude-opus-4-6");
    let info = agent.info().await.unwrap();
    assert_eq!((info.mode, info.model.as_str()), (Mode::AutoEdit, "anthropic/claude-opus-4-6"));
    let error = agent.set_model("nobody/x").await.unwrap_err();
    assert_eq!(error.code(), Some(RefusalCode::InvalidModel));
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_session_can_be_resumed_with_the_rights_that_are_said_now() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("Noted."));
    stand.server.push(Answer::text("It was seven."));
    let agent = stand.builder().mode(Mode::FullAuto).title("numbers").build().await.unwrap();
    soon("the first", agent.prompt("The number is seven")).await.unwrap();
    let id = agent.session_id().as_str().to_owned();
    agent.close().await.unwrap();

    let again = stand.builder().resume(&id).build().await.unwrap();
    let info = again.info().await.unwrap();
    assert_eq!((info.mode, info.title.as_deref()), (Mode::Ask, Some("numbers")));
    let result = soon("the second", again.prompt("Which number was it?")).await.unwrap();
    assert_eq!(result.text, "It was seven.");
    assert!(said(&*stand.server.request(2).await).contains("Which number"));
    assert_eq!(again.messages().await.unwrap().len(), 4);
    again.close().await.unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    let error = stand.builder().cwd(elsewhere.path()).resume(&id).build().await.unwrap_err();
    assert!(error.to_string().starts_with("cwd: session"), "{error}");
    let error = stand.builder().resume("nothing").build().await.unwrap_err();
    assert_eq!(error.code(), Some(RefusalCode::SessionNotFound));
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let stand = Stand::new().await;
    let folder = stand.cwd();
    let table = [
        (Agent::builder().home(stand.home()), "cwd: say"),
        (Agent::builder().cwd(&folder), "home: say"),
        (stand.builder().cwd("/no/such/folder"), "cwd: /no/such/folder: "),
        (stand.builder().root("/no/such/root"), "root: /no/such/root: "),
        (stand.builder().allow("run_shell("), "allow: 'run_shell('"),
        (stand.builder().deny(""), "deny: ''"),
        (stand.builder().max_turns(0), "max_turns: "),
        (stand.builder().key("nobody", "k"), "key: there is no model server 'nobody'"),
    ];
    for (builder, expected) in table {
        let error = builder.build().await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{expected}: {error}");
    }
    let error = stand.builder().model("nobody/x").build().await.unwrap_err();
    assert_eq!(error.code(), Some(RefusalCode::InvalidModel), "{error}");
    // What failed left nothing behind that is in the way.
    stand.server.push(Answer::text("hi"));
    let agent = stand.agent(Mode::Ask).await;
    assert_eq!(soon("the end", agent.prompt("hello")).await.unwrap().text, "hi");
    let blank = agent.prompt("  ").await.unwrap_err();
    assert_eq!(blank.code(), Some(RefusalCode::Invalid));
    agent.close().await.unwrap();
}

#[tokio::test]
async fn rules_and_limits_of_the_builder_hold() {
    let stand = Stand::new().await;
    let shell = |command: &str| Answer::call("run_shell", json!({"command": command}));
    stand.server.push(shell("echo allowed > out.txt"));
    stand.server.push(shell("echo denied"));
    let agent = stand
        .builder()
        .mode(Mode::AutoEdit)
        .allow("run_shell(echo *)")
        .deny("run_shell(echo denied*)")
        .append_system_prompt("Speak like a sailor.")
        .max_turns(2)
        .build()
        .await
        .unwrap();
    let mut denied = Vec::new();
    let result = agent.prompt_with("Go", |event| {
        if let EventBody::ToolDenied(event) = &event.body {
            denied.push(event.by);
        }
    });
    let result = soon("the end", result).await.unwrap();
    assert_eq!((result.reason, result.turns), (TurnEnd::MaxTurns, 2));
    assert_eq!(denied, [narthex::protocol::event::DeniedBy::Rule]);
    assert_eq!(stand.read("out.txt").as_deref(), Some("allowed\n"));
    let request = stand.server.request(1).await;
    assert!(request.body["system"].to_string().contains("like a sailor"));
    agent.close().await.unwrap();
}

#[tokio::test]
async fn several_agents_share_a_runtime() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push_for("slow", Answer::text("slow").gate(At::Head, &gate));
    stand.server.push_for("fast", Answer::text("fast"));
    let first = stand.agent(Mode::Ask).await;
    let second = stand.builder().runtime(first.runtime().clone()).build().await.unwrap();
    assert_ne!(first.session_id(), second.session_id());
    let slow = first.stream("slow");
    soon("the slow prompt", gate.reached()).await;
    assert_eq!(soon("the fast", second.prompt("fast")).await.unwrap().text, "fast");
    second.close().await.unwrap();
    gate.open();
    assert_eq!(soon("the slow", slow.finish()).await.unwrap().text, "slow");
    assert!(matches!(second.prompt("more").await, Err(Error::Closed)));
    first.close().await.unwrap();
}

#[test]
fn an_agent_is_built_inside_a_tokio_runtime() {
    let building = Box::pin(Agent::builder().cwd(".").build());
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let mut building = building;
    let polled = building.as_mut().poll(&mut context);
    let std::task::Poll::Ready(Err(error)) = polled else { panic!("it has nothing to wait for") };
    assert!(error.to_string().contains("inside a tokio runtime"), "{error}");
}
