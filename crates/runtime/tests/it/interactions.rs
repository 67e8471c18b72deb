//! Interactions: permissions, questions, plans, and pauses that a person decides.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::{
    Answer, DecidedBy, DeniedBy, InteractionKind, Outcome, PermissionRequest, Persist, PlanRequest,
    QuestionRequest, RequestResolved,
};
use protocol::*;
use runtime_api::{AgentSettings, Error, Handle, Interrupt, Pending, Prompt, Subscription};

use crate::house::*;

/// An agent whose interactions somebody answers.
fn attended() -> AgentSettings {
    AgentSettings { is_attended: true, ..AgentSettings::default() }
}

/// An agent whose interactions wait that long.
fn within(timeout_ms: u64) -> AgentSettings {
    AgentSettings { interaction_timeout_ms: timeout_ms, ..attended() }
}

/// Reads on to the next event that is wanted.
async fn next<T>(viewer: &mut Subscription, want: impl Fn(EventBody) -> Option<T>) -> T {
    loop {
        let event = viewer.next_event().await.expect("the stream goes on");
        if let Some(found) = want(event.body.clone()) {
            return found;
        }
    }
}

async fn permission(viewer: &mut Subscription) -> PermissionRequest {
    next(viewer, |body| match body {
        EventBody::PermissionRequest(request) => Some(request),
        _ => None,
    })
    .await
}

async fn question(viewer: &mut Subscription) -> QuestionRequest {
    next(viewer, |body| match body {
        EventBody::QuestionRequest(request) => Some(request),
        _ => None,
    })
    .await
}

async fn plan(viewer: &mut Subscription) -> PlanRequest {
    next(viewer, |body| match body {
        EventBody::PlanRequest(request) => Some(request),
        _ => None,
    })
    .await
}

fn resolved(events: &[EventBody]) -> Vec<RequestResolved> {
    let resolved = events.iter().filter_map(|body| match body {
        EventBody::RequestResolved(resolved) => Some(resolved.clone()),
        _ => None,
    });
    resolved.collect()
}

fn denials(events: &[EventBody]) -> Vec<DeniedBy> {
    let denied = events.iter().filter_map(|body| match body {
        EventBody::ToolDenied(denied) => Some(denied.by),
        _ => None,
    });
    denied.collect()
}

/// What the model read as the result of its only call.
fn told(world: &World) -> String {
    let requests = world.model.requests.lock().unwrap();
    let last = requests.last().expect("a request").messages.last().cloned().expect("a message");
    let results = last.content.iter().filter_map(|block| match block {
        Block::ToolResult { content, .. } => Some(content.clone()),
        _ => None,
    });
    let texts = results.flatten().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    });
    texts.collect()
}

fn code(error: &Error) -> RefusalCode {
    match error {
        Error::Refusal(refusal) => refusal.code,
        Error::Fault(fault) => panic!("{fault}"),
    }
}

async fn waiting(handle: &Handle, id: &SessionId) -> Vec<Pending> {
    handle.pending(Some(id)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a1_a_request_that_nobody_answers_expires_into_a_denial_and_the_turn_goes_on() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("then not"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, within(300_000)).await;
    // Nobody watches at all.
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(299)).await;
    let pending = waiting(&handle, &id).await;
    assert_eq!(pending.len(), 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(waiting(&handle, &id).await.is_empty());
    let (_, events) = turn(&handle, &id, "and now?").await;
    assert_eq!(denials(&events), []);
    assert_eq!(world.effect_count("a"), 0);
    let rows = world.disk.rows(&id);
    let denied = rows.iter().find(|row| row.kind == EventKind::ToolDenied).unwrap();
    assert!(denied.body.contains("\"by\":\"timeout\""), "{}", denied.body);
    let done = rows.iter().find(|row| row.kind == EventKind::Done).unwrap();
    assert!(done.body.contains("\"unanswered\":1"), "{}", done.body);
}

#[tokio::test(start_paused = true)]
async fn a2_a_request_is_delivered_again_and_decided_once() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut first = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut first).await;
    drop(first);
    let position = runtime_api::Position::After(Seq(0));
    let overflow = runtime_api::Overflow::Pace(64);
    let mut again = handle.subscribe(&id, position, overflow).await.unwrap();
    assert_eq!(permission(&mut again).await, asked);
    handle.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
    let second = handle.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap_err();
    assert_eq!(code(&second), RefusalCode::RequestResolved);
    let unknown = handle.answer(&id, &RequestId::new("none"), Answer::AllowOnce).await;
    assert_eq!(code(&unknown.unwrap_err()), RefusalCode::RequestNotFound);
    let (_, events) = until_done(&mut again).await;
    assert_eq!(resolved(&events).len(), 1);
    assert_eq!(world.effect_count("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a3_a_stop_and_a_deletion_clear_what_waits() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a"), ("question", "which?")]));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    question(&mut viewer).await;
    assert_eq!(waiting(&handle, &id).await.len(), 2);
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    let (done, events) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    let by: Vec<_> = resolved(&events).iter().map(|it| (it.kind, it.outcome, it.by)).collect();
    let interrupted = DecidedBy::Interrupt;
    assert_eq!(
        by,
        [
            (InteractionKind::Permission, Outcome::Deny, interrupted),
            (InteractionKind::Question, Outcome::Dismissed, interrupted),
        ]
    );
    assert!(waiting(&handle, &id).await.is_empty());
    let late = handle.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap_err();
    assert_eq!(code(&late), RefusalCode::RequestResolved);
    handle.remove(&id).await.unwrap();
    assert!(handle.pending(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a5_waiting_for_a_person_does_not_eat_the_time_of_turn_or_tool() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let mut agent = attended();
    agent.limits.turn_ms = 60_000;
    let id = session_with(&handle, agent).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    handle.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "{:?}", done.result.message);
    assert_eq!(world.effect_count("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a6_where_nobody_is_there_everything_that_asks_is_denied_at_once() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a"), ("question", "which?")]));
    world.model.push(Script::Say("then not"));
    let handle = world.process_in(Mode::Ask);
    let id = session(&handle).await;
    let (done, events) = turn(&handle, &id, "go").await;
    assert_eq!(denials(&events), [DeniedBy::Nobody, DeniedBy::Nobody]);
    assert_eq!((done.result.unanswered, done.result.reason), (2, TurnEnd::Completed));
    assert_eq!(world.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_always_covers_its_like_and_what_waits_beside_it() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a"), ("touch", "b")]));
    world.model.push(Script::Call(vec![("touch", "c")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    permission(&mut viewer).await;
    let wrong = Answer::AllowAlways { rule: Some("touch(".into()), persist: Persist::Session };
    let refused = handle.answer(&id, &asked.request_id, wrong).await.unwrap_err();
    assert_eq!(code(&refused), RefusalCode::Invalid);
    let rule = Some("touch".to_owned());
    let always = Answer::AllowAlways { rule: rule.clone(), persist: Persist::Project };
    handle.answer(&id, &asked.request_id, always).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    let by: Vec<_> = resolved(&events).iter().map(|it| (it.outcome, it.by)).collect();
    assert_eq!(
        by,
        [(Outcome::AllowAlways, DecidedBy::Client), (Outcome::AllowOnce, DecidedBy::Policy),]
    );
    for effect in ["a", "b", "c"] {
        assert_eq!(world.effect_count(effect), 1, "{effect}");
    }
    let kept = world.around.kept.lock().unwrap().clone();
    assert_eq!(kept, [(Persist::Project, "/w".into(), "touch".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_managed_policy_may_forbid_rules_that_outlive_the_session() {
    let world = World::default();
    let mut layer = policy::Layer::new(policy::LayerName::Managed);
    layer.disable_persist = true;
    *world.around.policy.lock().unwrap() = policy::Policy::default().tighten(layer);
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    let always = |persist| Answer::AllowAlways { rule: Some("touch".into()), persist };
    let refused = handle.answer(&id, &asked.request_id, always(Persist::User)).await.unwrap_err();
    assert_eq!(code(&refused), RefusalCode::LockedByPolicy);
    handle.answer(&id, &asked.request_id, always(Persist::Session)).await.unwrap();
    until_done(&mut viewer).await;
    assert!(world.around.kept.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn feedback_of_a_denial_reaches_the_model() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("as you wish"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    let deny = Answer::Deny { feedback: Some("use make instead".to_owned()) };
    handle.answer(&id, &asked.request_id, deny).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(told(&world), "denied: use make instead");
}

#[tokio::test(start_paused = true)]
async fn a_question_brings_its_answer_to_the_model() {
    let world = World::default();
    world.model.push(Script::Call(vec![("question", "Which database?")]));
    world.model.push(Script::Say("good"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = question(&mut viewer).await;
    assert_eq!((asked.question.as_str(), asked.options.len()), ("Which database?", 2));
    let chosen = |answers: &[&str], other: Option<&str>| Answer::Chosen {
        answers: answers.iter().map(|it| (*it).to_owned()).collect(),
        other: other.map(str::to_owned),
    };
    for (wrong, why) in [
        (chosen(&["mysql"], None), "no option"),
        (chosen(&["postgres", "sqlite"], None), "one option may be chosen"),
        (chosen(&[], None), "choose an option"),
        (Answer::AllowOnce, "another kind"),
    ] {
        let error = handle.answer(&id, &asked.request_id, wrong).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(code(&error), RefusalCode::Invalid);
    }
    let answer = chosen(&["Postgres"], Some("with pgvector"));
    handle.answer(&id, &asked.request_id, answer).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    let decided = resolved(&events).remove(0);
    assert_eq!((decided.kind, decided.outcome), (InteractionKind::Question, Outcome::Answered));
    assert_eq!(decided.answers, ["postgres"]);
    assert_eq!(told(&world), "The user chose: Postgres\nIn their own words: with pgvector");
}

#[tokio::test(start_paused = true)]
async fn a_dismissed_or_late_question_lets_the_model_decide() {
    for is_late in [false, true] {
        let world = World::default();
        world.model.push(Script::Call(vec![("question", "Which?")]));
        world.model.push(Script::Say("good"));
        let handle = world.process_in(Mode::Ask);
        let id = session_with(&handle, within(1_000)).await;
        let mut viewer = watch(&handle, &id).await;
        handle.prompt(&id, Prompt::text("go")).await.unwrap();
        let asked = question(&mut viewer).await;
        if !is_late {
            handle.answer(&id, &asked.request_id, Answer::Dismissed).await.unwrap();
        }
        let (done, events) = until_done(&mut viewer).await;
        let decided = resolved(&events).remove(0);
        let by = if is_late { DecidedBy::Timeout } else { DecidedBy::Client };
        assert_eq!((decided.outcome, decided.by), (Outcome::Dismissed, by));
        assert_eq!(done.result.unanswered, u32::from(is_late));
        assert!(told(&world).contains("decide yourself"), "{}", told(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn an_approved_plan_changes_the_mode_and_a_rejected_one_does_not() {
    let world = World::default();
    world.model.push(Script::Call(vec![("exit_plan", "1. touch a")]));
    world.model.push(Script::Call(vec![("exit_plan", "1. touch b")]));
    world.model.push(Script::Call(vec![("touch", "b")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Plan);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let first = plan(&mut viewer).await;
    let heard = format!("{:?}", world.model.requests.lock().unwrap()[0].messages);
    assert!(heard.contains("The mode is plan"), "{heard}");
    let no = Answer::Rejected { feedback: Some("b, not a".to_owned()) };
    handle.answer(&id, &first.request_id, no).await.unwrap();
    let second = plan(&mut viewer).await;
    assert_eq!(told(&world), "The user did not approve the plan: b, not a");
    let again = Answer::Approved { mode: Some(Mode::Plan) };
    let refused = handle.answer(&id, &second.request_id, again).await.unwrap_err();
    assert_eq!(code(&refused), RefusalCode::Invalid);
    let yes = Answer::Approved { mode: Some(Mode::FullAuto) };
    handle.answer(&id, &second.request_id, yes).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    assert!(events.iter().any(|body| matches!(body, EventBody::ModeChanged(_))));
    assert_eq!(handle.info(&id).await.unwrap().mode, Mode::FullAuto);
    assert_eq!((world.effect_count("a"), world.effect_count("b")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_only_asked_about_in_plan_mode() {
    let world = World::default();
    world.model.push(Script::Call(vec![("exit_plan", "1. touch a")]));
    world.model.push(Script::Say("going on"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    turn(&handle, &id, "go").await;
    assert!(told(&world).contains("not plan"), "{}", told(&world));
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_another_process_reaches_the_owner() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    let other = world.process_in(Mode::Ask);
    let all = other.pending(None).await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].request, EventBody::PermissionRequest(asked.clone()));
    other.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(world.effect_count("a"), 1);
    let twice = other.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap_err();
    assert_eq!(code(&twice), RefusalCode::RequestResolved);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_person_is_carried_on_after_a_crash() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    let owner = world.disk.process();
    let first = world.process_on_in(Arc::clone(&owner) as _, Mode::Ask);
    let id = session_with(&first, attended()).await;
    let mut viewer = watch(&first, &id).await;
    first.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    owner.kill();
    drop((viewer, first));
    let second = world.process_in(Mode::Ask);
    let pending = second.pending(None).await.unwrap();
    assert_eq!((pending.len(), pending[0].owner_pid), (1, None));
    let carried = AgentSettings { carries_on: true, ..attended() };
    second.open(&id, carried).await.unwrap();
    let mut viewer = watch(&second, &id).await;
    world.model.push(Script::Say("done"));
    second.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert_eq!(world.effect_count("a"), 1);
}

/// A program that stops leaves what waits for a person waiting.
#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_what_waits_waiting() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    let first = world.process_in(Mode::Ask);
    let id = session_with(&first, attended()).await;
    let mut viewer = watch(&first, &id).await;
    first.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = permission(&mut viewer).await;
    first.shutdown().await;
    let second = world.process_in(Mode::Ask);
    assert_eq!(second.pending(None).await.unwrap().len(), 1);
    second.open(&id, AgentSettings { carries_on: true, ..attended() }).await.unwrap();
    let mut viewer = watch(&second, &id).await;
    world.model.push(Script::Say("done"));
    second.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_wider_mode_settles_what_waits() {
    let world = World::default();
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    permission(&mut viewer).await;
    handle.set_mode(&id, Mode::FullAuto).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    assert_eq!(resolved(&events).remove(0).by, DecidedBy::Policy);
    assert_eq!(world.effect_count("a"), 1);
}
