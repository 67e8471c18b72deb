//! Questions of calls that run: durable interactions like any other, whose answers go to the call.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::{Answer, DecidedBy, Outcome, QuestionRequest, RequestResolved, SessionEnd};
use protocol::*;
use runtime_api::{AgentSettings, Handle, Interrupt, Prompt, Subscription};

use crate::house::*;

fn attended() -> AgentSettings {
    AgentSettings { is_attended: true, ..AgentSettings::default() }
}

async fn question(viewer: &mut Subscription) -> QuestionRequest {
    loop {
        let event = viewer.next_event().await.expect("the stream goes on");
        if let EventBody::QuestionRequest(request) = &event.body {
            return request.clone();
        }
    }
}

/// Begins a turn whose call asks.
async fn asking(
    world: &World,
    agent: AgentSettings,
    what: &'static str,
) -> (Handle, SessionId, Subscription) {
    world.model.push(Script::Call(vec![("inquire", what)]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::FullAuto);
    let id = session_with(&handle, agent).await;
    let viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    (handle, id, viewer)
}

fn resolved(events: &[EventBody]) -> Vec<RequestResolved> {
    let resolved = events.iter().filter_map(|body| match body {
        EventBody::RequestResolved(resolved) => Some(resolved.clone()),
        _ => None,
    });
    resolved.collect()
}

fn heard(events: &[EventBody]) -> String {
    let results = events.iter().filter_map(|body| match body {
        EventBody::ToolResult(result) => Some(format!("{:?}", result.output)),
        _ => None,
    });
    results.collect()
}

fn yes() -> Answer {
    Answer::Chosen { answers: vec!["yes".to_owned()], other: Some("please".to_owned()) }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_asks_and_goes_on_with_the_answer() {
    let world = World::default();
    let (handle, id, mut viewer) = asking(&world, attended(), "Which?").await;
    let asked = question(&mut viewer).await;
    assert_eq!((asked.question.as_str(), asked.options.len()), ("Which?", 2));
    assert!(asked.tool_call_id.is_some());
    let pending = handle.pending(None).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(handle.info(&id).await.unwrap().pending, 1);
    let wrong = Answer::Chosen { answers: vec!["perhaps".to_owned()], other: None };
    assert!(handle.answer(&id, &asked.request_id, wrong).await.is_err());
    handle.answer(&id, &asked.request_id, yes()).await.unwrap();
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    let decided = resolved(&events);
    assert_eq!((decided.len(), decided[0].outcome), (1, Outcome::Answered));
    assert!(heard(&events).contains("answers: [\\\"yes\\\"], other: Some(\\\"please\\\")"));
    assert_eq!(world.effect_count("Which?"), 1);
    let again = handle.answer(&id, &asked.request_id, yes()).await.unwrap_err();
    assert!(again.to_string().contains("decided before"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_from_another_process_too() {
    let world = World::default();
    let (_handle, id, mut viewer) = asking(&world, attended(), "Which?").await;
    let asked = question(&mut viewer).await;
    world.process().answer(&id, &asked.request_id, yes()).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    assert!(heard(&events).contains("yes"));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_where_nobody_is_there_or_it_is_no_question() {
    for (agent, what) in
        [(AgentSettings::default(), "Which?"), (attended(), "plan"), (attended(), "large")]
    {
        let world = World::default();
        let (_handle, _, mut viewer) = asking(&world, agent, what).await;
        let (done, events) = until_done(&mut viewer).await;
        assert_eq!(done.result.reason, TurnEnd::Completed);
        assert!(heard(&events).contains("heard None"), "{what}: {}", heard(&events));
        assert_eq!(resolved(&events), [], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_expires_is_dismissed_or_taken_back() {
    for (what, by) in
        [("late", DecidedBy::Timeout), ("no", DecidedBy::Client), ("back", DecidedBy::Interrupt)]
    {
        let world = World::default();
        let agent = AgentSettings { interaction_timeout_ms: 60_000, ..attended() };
        let (handle, id, mut viewer) = asking(&world, agent, what).await;
        let asked = question(&mut viewer).await;
        if what == "no" {
            handle.answer(&id, &asked.request_id, Answer::Dismissed).await.unwrap();
        }
        let (done, events) = until_done(&mut viewer).await;
        let decided = resolved(&events);
        assert_eq!(decided.len(), 1, "{what}");
        assert_eq!((decided[0].outcome, decided[0].by), (Outcome::Dismissed, by), "{what}");
        assert!(heard(&events).contains("heard None"), "{what}");
        assert_eq!(done.result.unanswered, u32::from(by == DecidedBy::Timeout), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_one_question_at_a_time_and_not_without_end() {
    let world = World::default();
    let (handle, id, mut viewer) = asking(&world, attended(), "many").await;
    for _ in 0..20 {
        let asked = question(&mut viewer).await;
        assert_eq!(handle.pending(Some(&id)).await.unwrap().len(), 1);
        handle.answer(&id, &asked.request_id, yes()).await.unwrap();
    }
    let (_, events) = until_done(&mut viewer).await;
    assert!(heard(&events).contains("heard None"), "the 21st is not asked");
}

#[tokio::test(start_paused = true)]
async fn a_call_may_ask_anew_right_after_it_took_its_question_back() {
    let world = World::default();
    let (handle, id, mut viewer) = asking(&world, attended(), "again").await;
    let first = question(&mut viewer).await;
    let second = question(&mut viewer).await;
    let late = handle.answer(&id, &first.request_id, yes()).await.unwrap_err();
    assert!(late.to_string().contains("decided before"), "{late}");
    handle.answer(&id, &second.request_id, yes()).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    assert!(heard(&events).contains("yes"), "{}", heard(&events));
}

#[tokio::test(start_paused = true)]
async fn a_stop_settles_what_a_call_asks() {
    let world = World::default();
    let (handle, id, mut viewer) = asking(&world, attended(), "Which?").await;
    question(&mut viewer).await;
    assert!(handle.interrupt(&id, Interrupt::Running).await.unwrap());
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    let decided = resolved(&events);
    assert_eq!((decided.len(), decided[0].by), (1, DecidedBy::Interrupt));
    assert!(handle.pending(None).await.unwrap().is_empty());
    handle.close(&id, SessionEnd::Closed).await.unwrap();
}

/// A call that runs needs its process: a program that stops ends it, and its question with it.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_leave_a_call_waiting_that_runs() {
    let world = World::default();
    let (handle, id, mut viewer) = asking(&world, attended(), "Which?").await;
    question(&mut viewer).await;
    handle.shutdown().await;
    let second = world.process();
    assert!(second.pending(None).await.unwrap().is_empty());
    let kinds: Vec<EventKind> = world.disk.rows(&id).iter().map(|row| row.kind).collect();
    assert!(kinds.contains(&EventKind::Done), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_call_waits_interrupts_the_call_and_settles_its_question() {
    for carries_on in [true, false] {
        let world = World::default();
        world.model.push(Script::Call(vec![("inquire", "Which?")]));
        let owner = world.disk.process();
        let first = world.process_on(Arc::clone(&owner) as _);
        let id = session_with(&first, attended()).await;
        let mut viewer = watch(&first, &id).await;
        first.prompt(&id, Prompt::text("go")).await.unwrap();
        let asked = question(&mut viewer).await;
        owner.kill();
        drop((viewer, first));
        let second = world.process();
        // Nobody has it: nobody can decide it.
        assert!(second.answer(&id, &asked.request_id, yes()).await.is_err());
        world.model.push(Script::Say("I see"));
        let mut watching = second.watch();
        second.open(&id, AgentSettings { carries_on, ..attended() }).await.unwrap();
        assert!(second.pending(None).await.unwrap().is_empty());
        let (done, events) = until_done(&mut watching).await;
        let reason = if carries_on { TurnEnd::Completed } else { TurnEnd::Interrupted };
        assert_eq!(done.result.reason, reason);
        let decided = resolved(&events);
        assert_eq!((decided.len(), decided[0].by), (1, DecidedBy::Interrupt));
        assert!(heard(&events).contains("outcome unknown"), "{}", heard(&events));
        assert_eq!(world.effect_count("Which?"), 1, "it is not run again");
        let late = second.answer(&id, &asked.request_id, yes()).await.unwrap_err();
        assert!(late.to_string().contains("decided before"), "{late}");
    }
}

/// Time in which a person is asked does not count.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_answer_is_not_the_turns_time() {
    let world = World::default();
    let mut agent = attended();
    agent.limits.turn_ms = 60_000;
    let (handle, id, mut viewer) = asking(&world, agent, "Which?").await;
    let asked = question(&mut viewer).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    handle.answer(&id, &asked.request_id, yes()).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}
