//! Limits of a turn: money, tokens, time, going round in circles.

use std::time::Duration;

use protocol::event::{Answer, PauseKind, QuestionRequest};
use protocol::*;
use runtime_api::{AgentSettings, Allowance, MessagesAfter, Prompt, Subscription};

use crate::house::*;

fn usd(usd: f64) -> Allowance {
    Allowance { usd: Some(usd), tokens: None }
}

fn tokens(tokens: u64) -> Allowance {
    Allowance { usd: None, tokens: Some(tokens) }
}

async fn pause(viewer: &mut Subscription) -> QuestionRequest {
    loop {
        let event = viewer.next_event().await.expect("the stream goes on");
        if let EventBody::QuestionRequest(request) = &event.body {
            return request.clone();
        }
    }
}

fn go_on() -> Answer {
    Answer::Chosen { answers: vec!["go_on".to_owned()], other: None }
}

/// Every answer of the scripted model uses 100 tokens of input and 10 of output: 0.0002 dollars.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_its_budget_before_more_is_spent() {
    let world = World::default();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"] {
        world.model.push(Script::Call(vec![("touch", name)]));
    }
    let handle = world.process();
    let mut agent = AgentSettings::default();
    // Room for the smallest answer that is worth asking for, and a little more.
    agent.limits.budget.turn = tokens(2_200);
    let id = session_with(&handle, agent).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Budget);
    let message = done.result.message.unwrap();
    assert!(message.contains("of 2200 tokens"), "{message}");
    let used = done.result.usage.prompt_tokens() + done.result.usage.output_tokens;
    assert!(used <= 2_200, "{used}");
    assert!(world.request_count() >= 2, "{}", world.request_count());
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_bounded_by_what_is_left() {
    let world = World::default();
    world.model.push(Script::Say("short"));
    let handle = world.process();
    let mut agent = AgentSettings::default();
    // 10 dollars per million tokens of output: about 2,000 tokens.
    agent.limits.budget.session = usd(0.023);
    let id = session_with(&handle, agent).await;
    turn(&handle, &id, "go").await;
    let bound = world.model.requests.lock().unwrap()[0].max_output.unwrap();
    assert!((1_024..=2_300).contains(&bound), "{bound}");
}

#[tokio::test(start_paused = true)]
async fn the_session_and_the_day_are_limited_as_well() {
    let world = World::default();
    let handle = world.process();
    let mut agent = AgentSettings::default();
    agent.limits.budget.session = tokens(2_100);
    agent.limits.budget.day = tokens(3_000);
    let mut reasons = Vec::new();
    for _ in 0..3 {
        let id = session_with(&handle, agent.clone()).await;
        for _ in 0..12 {
            let (done, _) = turn(&handle, &id, "go").await;
            let why = done.result.message.unwrap_or_default();
            reasons.push((done.result.reason, why.contains("this day")));
        }
    }
    assert!(reasons.contains(&(TurnEnd::Completed, false)), "{reasons:?}");
    assert!(reasons.contains(&(TurnEnd::Budget, false)), "{reasons:?}");
    assert!(reasons.contains(&(TurnEnd::Budget, true)), "{reasons:?}");
    // Another process on the same store has the same day.
    let other = world.process();
    let mut agent = AgentSettings::default();
    agent.limits.budget.day = tokens(2_500);
    let id = session_with(&other, agent).await;
    let (done, _) = turn(&other, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Budget, "{:?}", done.result.message);
    // The next day begins anew.
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    let (done, _) = turn(&other, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "{:?}", done.result.message);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_is_there_may_let_it_go_on() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Call(vec![("touch", "b")]));
    world.model.push(Script::Call(vec![("touch", "c")]));
    world.model.push(Script::Say("done"));
    let handle = world.process();
    let mut agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    agent.limits.budget.turn = tokens(1_600);
    let id = session_with(&handle, agent).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = pause(&mut viewer).await;
    assert_eq!(asked.about, Some(PauseKind::Budget));
    handle.answer(&id, &asked.request_id, go_on()).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert_eq!(world.effect_count("c"), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_says_stop_ends_the_turn() {
    let world = World::default();
    for name in ["a", "b", "c"] {
        world.model.push(Script::Call(vec![("touch", name)]));
    }
    let handle = world.process();
    let mut agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    agent.limits.budget.turn = tokens(1_600);
    let id = session_with(&handle, agent).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = pause(&mut viewer).await;
    let stop = Answer::Chosen { answers: vec!["stop".to_owned()], other: None };
    handle.answer(&id, &asked.request_id, stop).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Budget);
    // The session is as usable as before, for whoever brings more.
    let mut agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    agent.limits.budget.turn = tokens(10_000);
    handle.open(&id, agent).await.unwrap();
    world.model.script.lock().unwrap().clear();
    let (done, _) = turn(&handle, &id, "a short one").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_budget_in_dollars_needs_a_price() {
    let world = World::default();
    let mut info = world.model.known();
    info.price = None;
    *world.model.info.lock().unwrap() = Some(info);
    let handle = world.process();
    let mut agent = AgentSettings::default();
    agent.limits.budget.turn = usd(1.0);
    let id = session_with(&handle, agent).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.code.as_deref(), Some("price_unknown"));
    assert_eq!(world.request_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_at_its_time_limit() {
    let world = World::default();
    world.model.push(Script::Call(vec![("wait", "a")]));
    let handle = world.process();
    let mut agent = AgentSettings::default();
    agent.limits.turn_ms = 30_000;
    let id = session_with(&handle, agent).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Time);
    assert!((30_000..40_000).contains(&done.result.duration_ms), "{}", done.result.duration_ms);
    let (done, _) = turn(&handle, &id, "again").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_goes_round_in_circles_is_told_and_then_stopped() {
    let world = World::default();
    for _ in 0..8 {
        world.model.push(Script::Call(vec![("same", "x")]));
    }
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Repetition);
    assert_eq!(world.request_count(), 4, "told after the third, stopped after the fourth");
    let requests = world.model.requests.lock().unwrap();
    let text = format!("{:?}", requests[3].messages.last().unwrap().content);
    assert!(text.contains("three times"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_person_may_let_a_circle_go_on() {
    let world = World::default();
    for _ in 0..5 {
        world.model.push(Script::Call(vec![("same", "x")]));
    }
    world.model.push(Script::Say("at last"));
    let handle = world.process();
    let id = session_with(&handle, AgentSettings { is_attended: true, ..Default::default() }).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = pause(&mut viewer).await;
    assert_eq!(asked.about, Some(PauseKind::Repetition));
    let told = handle.messages(&id, MessagesAfter::Start, 100).await.unwrap().messages;
    assert!(!told.is_empty());
    handle.answer(&id, &asked.request_id, go_on()).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn repeated_denials_are_a_circle_too() {
    let world = World::default();
    for _ in 0..8 {
        world.model.push(Script::Call(vec![("touch", "x")]));
    }
    let handle = world.process_in(Mode::Ask);
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Repetition);
}

#[tokio::test(start_paused = true)]
async fn what_changes_in_between_is_no_circle() {
    let world = World::default();
    for name in ["a", "b", "c", "d", "e"] {
        world.model.push(Script::Call(vec![("touch", name)]));
        world.model.push(Script::Call(vec![("same", "x")]));
    }
    world.model.push(Script::Say("done"));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}
