//! V1: provider trouble, on a clock that the test owns.

use std::time::Duration;

use driver_api::{ModelError, ModelErrorKind};
use protocol::{EventBody, TurnEnd};
use runtime_api::{AgentSettings, Interrupt, Limits, Prompt};

use crate::house::{Script, World, session, session_with, turn, until_done, watch};

fn trouble(kind: ModelErrorKind, words: &str) -> Script {
    let mut error = ModelError::new(kind, words);
    error.partial_text = "half an answer".into();
    Script::Fail(error)
}

#[tokio::test(start_paused = true)]
async fn v1_twenty_minutes_of_trouble_are_survived_within_a_budget_of_thirty() {
    let world = World::default();
    let kinds = [
        (ModelErrorKind::Overloaded, "529: overloaded"),
        (ModelErrorKind::RateLimited, "429: slow down"),
        (ModelErrorKind::Unavailable, "503: unavailable"),
        (ModelErrorKind::Network, "the stream ended before its end was said"),
    ];
    // Pauses reach half a minute, so fifty failures last longer than twenty minutes.
    for index in 0..60 {
        let (kind, words) = kinds[index % kinds.len()];
        world.model.push(trouble(kind, words));
    }
    world.model.push(Script::Say("Back again."));
    let handle = world.process();
    let limits = Limits { retry_budget_ms: 30 * 60_000, ..Limits::default() };
    let id = session_with(&handle, AgentSettings { limits, ..AgentSettings::default() }).await;
    let began = tokio::time::Instant::now();
    let (done, events) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "{:?}", done.result.message);
    assert_eq!(done.result.text, "Back again.");
    let took = began.elapsed();
    assert!(took > Duration::from_secs(20 * 60), "{took:?}");
    let retries: Vec<_> = events
        .iter()
        .filter_map(|body| match body {
            EventBody::Retry(retry) => Some(retry.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(retries.len(), 60);
    assert_eq!(retries[0].reason, "529: overloaded");
    assert_eq!(retries[1].reason, "429: slow down");
    assert!(retries.iter().all(|retry| retry.partial_text == "half an answer"));
    assert!(retries.iter().all(|retry| retry.delay_ms <= 30_000));
}

#[tokio::test(start_paused = true)]
async fn v1_the_budget_is_time_and_its_end_is_an_error() {
    let world = World::default();
    for _ in 0..1_000 {
        world.model.push(trouble(ModelErrorKind::Overloaded, "529: overloaded"));
    }
    let handle = world.process();
    let id = session(&handle).await;
    let began = tokio::time::Instant::now();
    let (done, events) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    assert_eq!(done.result.code.as_deref(), Some("overloaded"));
    assert_eq!(done.result.message.as_deref(), Some("529: overloaded"));
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(120) && took > Duration::from_secs(60), "{took:?}");
    let kept = events.iter().any(|body| {
        matches!(body, EventBody::AssistantMessage(message)
        if format!("{:?}", message.content).contains("half an answer"))
    });
    assert!(kept, "the partial text of the last attempt is kept");
}

#[tokio::test(start_paused = true)]
async fn v1_retry_after_is_honoured() {
    let world = World::default();
    let mut error = ModelError::new(ModelErrorKind::RateLimited, "429: slow down");
    error.retry_after = Some(Duration::from_secs(45));
    world.model.push(Script::Fail(error));
    world.model.push(Script::Say("Now."));
    let handle = world.process();
    let id = session(&handle).await;
    let began = tokio::time::Instant::now();
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.text, "Now.");
    assert!(began.elapsed() >= Duration::from_secs(45));
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_pause_ends_the_turn_at_once() {
    let world = World::default();
    world.model.push(trouble(ModelErrorKind::Overloaded, "529: overloaded"));
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("hi")).await.unwrap();
    loop {
        if let EventBody::Retry(_) = viewer.next_event().await.unwrap().body {
            break;
        }
    }
    let began = tokio::time::Instant::now();
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!(world.request_count(), 1);
}
