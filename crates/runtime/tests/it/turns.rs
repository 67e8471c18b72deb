//! Turns: what the model says, what its calls do, how a turn ends.

use std::sync::atomic::Ordering;

use driver_api::{ModelError, ModelErrorKind};
use protocol::event::{Answer, DeniedBy, Persist};
use protocol::{Block, EventBody, Mode, StopReason, ToolCallId, TurnEnd};
use runtime_api::{AgentSettings, CreateSession, Error, Interrupt, Limits, Prompt};
use serde_json::{Map, json};

use crate::house::{Script, World, new_session, session, session_with, turn, until_done, watch};

#[tokio::test(start_paused = true)]
async fn a_turn_reads_acts_and_says() {
    let world = World::default();
    world.model.push(Script::Call(vec![("look", "a"), ("touch", "b")]));
    world.model.push(Script::Say("It works."));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, events) = turn(&handle, &id, "do it").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert_eq!((done.result.text.as_str(), done.result.turns), ("It works.", 2));
    assert_eq!(done.result.usage.input_tokens, 200);
    let cost = done.result.cost_usd.unwrap();
    assert!((cost - 0.0004).abs() < 1e-9, "{cost}");
    let kinds: Vec<_> = events.iter().map(|body| body.kind().as_str()).collect();
    let expected = [
        "session_updated",
        "prompt_started",
        "turn_start",
        "assistant_message",
        "usage",
        "tool_call",
        "tool_call",
        "tool_result",
        "tool_result",
        "turn_start",
        "text_delta",
        "assistant_message",
        "usage",
        "done",
        "prompt_finished",
    ];
    assert_eq!(kinds, expected);
}

/// H4: whenever a call begins, the disk has the answer that asked for it, and its start.
#[tokio::test(start_paused = true)]
async fn h4_each_answer_is_durable_before_its_first_call_begins() {
    let world = World::default();
    for new in ["1", "2", "3", "4", "5"] {
        world.model.push(Script::Call(vec![("look", new), ("touch", "b"), ("touch", "c")]));
    }
    world.model.push(Script::Say("Done."));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.turns, 6);
    assert_eq!(world.effect_count("b"), 5);
    assert_eq!(*world.too_early.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn r2_five_hundred_calls_run_eight_at_a_time() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "many"); 500]));
    world.model.push(Script::Say("Done."));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert_eq!(world.effect_count("many"), 500);
    assert_eq!(world.running_most.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn v2_wrong_calls_become_one_error_result_each() {
    let world = World::default();
    let call =
        |id: &str, name: &str, input: serde_json::Value, malformed: Option<&str>| Block::ToolUse {
            id: ToolCallId::new(id),
            name: name.into(),
            input: input.as_object().cloned().unwrap_or_default(),
            malformed: malformed.map(Into::into),
            signed: None,
        };
    world.model.push(Script::Blocks(vec![
        call("", "touch", json!({"effect": "a"}), None),
        call("same", "touch", json!({"effect": "b"}), None),
        call("same", "touch", json!({"effect": "c"}), None),
        call("x", "rocket", json!({}), None),
        call("y", "touch", json!({"efect": "d"}), None),
        call("z", "touch", json!({}), Some("{\"effect\": \"d")),
    ]));
    world.model.push(Script::Say("I see."));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, events) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    let wrong: Vec<String> = events
        .iter()
        .filter_map(|body| match body {
            EventBody::ToolResult(result) if result.is_error => match &result.output[0] {
                Block::Text { text, .. } => Some(text.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong.iter().any(|text| text.contains("no tool 'rocket'") && text.contains("touch")));
    assert!(wrong.iter().any(|text| text.contains("efect")), "{wrong:?}");
    assert!(wrong.iter().any(|text| text.contains("not a JSON object")), "{wrong:?}");
    let had = ["a", "b", "c", "d"].map(|name| world.effect_count(name));
    assert_eq!(had, [1, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn v2_malformed_calls_are_not_repeated_for_ever() {
    let world = World::default();
    for _ in 0..10 {
        world.model.push(Script::Blocks(vec![Block::ToolUse {
            id: ToolCallId::new("t"),
            name: "touch".into(),
            input: Map::new(),
            malformed: Some("{".into()),
            signed: None,
        }]));
    }
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    assert_eq!(done.result.code.as_deref(), Some("malformed_calls"));
    assert_eq!(world.request_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_steps_ends_the_turn() {
    let world = World::default();
    for _ in 0..5 {
        world.model.push(Script::Call(vec![("look", "x")]));
    }
    let handle = world.process();
    let limits = Limits { max_turns: 2, ..Limits::default() };
    let id = session_with(&handle, AgentSettings { limits, ..AgentSettings::default() }).await;
    let (done, _) = turn(&handle, &id, "loop").await;
    assert_eq!(done.result.reason, TurnEnd::MaxTurns);
    assert_eq!(world.request_count(), 2);
    world.model.script.lock().unwrap().clear();
    world.model.push(Script::Say("Going on."));
    let (done, _) = turn(&handle, &id, "go on").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn h8_a_failure_is_an_error_with_a_truthful_message() {
    let world = World::default();
    world
        .model
        .push(Script::Fail(ModelError::new(ModelErrorKind::Unauthorized, "401: the key is wrong")));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    assert_eq!(done.result.code.as_deref(), Some("unauthorized"));
    assert_eq!(done.result.message.as_deref(), Some("401: the key is wrong"));
    assert_eq!(world.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn e3_a_broken_tool_and_a_broken_driver_still_end_the_turn_once() {
    let world = World::default();
    world.model.push(Script::Call(vec![("breaks", "x"), ("touch", "y")]));
    world.model.push(Script::Panic);
    world.model.push(Script::Say("Still here."));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, events) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    let results = events.iter().filter(|body| matches!(body, EventBody::ToolResult(_)));
    assert_eq!(results.count(), 2);
    let (done, _) = turn(&handle, &id, "again").await;
    assert_eq!(done.result.text, "Still here.");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_calls_and_keeps_what_was_said() {
    let world = World::default();
    world.model.push(Script::Call(vec![("wait", "w")]));
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    while world.effect_count("w") == 0 {
        tokio::task::yield_now().await;
    }
    assert!(handle.interrupt(&id, Interrupt::Running).await.unwrap());
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    let stopped = events.iter().any(|body| {
        matches!(body, EventBody::ToolResult(result)
        if format!("{:?}", result.output).contains("stopped by the user"))
    });
    assert!(stopped, "the call's own last words are kept");

    world.model.push(Script::Stall("half an answer"));
    handle.prompt(&id, Prompt::text("talk")).await.unwrap();
    loop {
        let event = viewer.next_event().await.unwrap();
        if matches!(event.body, EventBody::TextDelta(_)) {
            break;
        }
    }
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    let kept = events.iter().any(|body| {
        matches!(body, EventBody::AssistantMessage(message)
        if message.stop_reason == StopReason::Interrupted
            && message.content == vec![Block::text("half an answer")])
    });
    assert!(kept, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn prompts_queue_up_and_run_in_order() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "first")]));
    world.model.push(Script::Say("one"));
    world.model.push(Script::Say("two"));
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    let first = handle.prompt(&id, Prompt::text("1")).await.unwrap();
    let second = handle.prompt(&id, Prompt::text("2")).await.unwrap();
    assert_eq!((first.position, second.position), (0, 1));
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.text, "one");
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.text, "two");
}

#[tokio::test(start_paused = true)]
async fn a6_what_must_be_asked_for_is_denied_where_nobody_can_be_asked() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("I may not."));
    let handle = world.process();
    let mode = Some(Mode::Ask);
    let new = CreateSession { mode, ..new_session(AgentSettings::default()) };
    let id = handle.create(new).await.unwrap().id;
    let (done, events) = turn(&handle, &id, "go").await;
    assert_eq!((done.result.reason, done.result.unanswered), (TurnEnd::Completed, 1));
    let denied = events
        .iter()
        .any(|body| matches!(body, EventBody::ToolDenied(denied) if denied.by == DeniedBy::Nobody));
    assert!(denied, "{events:?}");
    assert_eq!(world.effect_count("x"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_lets_a_call_run_and_always_lets_the_next_one_too() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("Done."));
    let handle = world.process();
    let mode = Some(Mode::Ask);
    let agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    let new = CreateSession { mode, ..new_session(agent) };
    let id = handle.create(new).await.unwrap().id;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let request = loop {
        let event = viewer.next_event().await.unwrap();
        if let EventBody::PermissionRequest(request) = &event.body {
            break request.request_id.clone();
        }
    };
    let always = Answer::AllowAlways { rule: Some("touch".into()), persist: Persist::Session };
    handle.answer(&id, &request, always.clone()).await.unwrap();
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert!(!events.iter().any(|body| matches!(body, EventBody::PermissionRequest(_))));
    assert_eq!(world.effect_count("x"), 2);
    let again = handle.answer(&id, &request, always).await.unwrap_err();
    let Error::Refusal(refusal) = again else { panic!("a refusal") };
    assert_eq!(refusal.code, protocol::RefusalCode::RequestResolved);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_fit_is_refused_before_anybody_pays() {
    let world = World::default();
    *world.model.info.lock().unwrap() = Some(driver_api::ModelInfo {
        id: "fake/small".into(),
        provider: "fake".into(),
        wire: protocol::Wire::Scripted,
        context_window: Some(1_000),
        max_output: None,
        price: None,
        images: false,
    });
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, &"words ".repeat(10_000)).await;
    assert_eq!(done.result.code.as_deref(), Some("context_overflow"));
    assert_eq!(world.request_count(), 0);
    // The prompt that nobody heard is not in the way of the next one.
    world.model.push(Script::Say("Hello."));
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.text, "Hello.");
    let requests = world.model.requests.lock().unwrap();
    assert!(!format!("{:?}", requests[0].messages).contains("words"));
}
