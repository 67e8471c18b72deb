//! The gate: policy, hooks and checks in one order, the same for every loop.

use std::time::Duration;

use driver_api::{Fault, Happening, HookAnswer, HookVote, Moment};
use policy::{Layer, LayerName, Policy};
use protocol::event::{Answer, DeniedBy, SessionEnd};
use protocol::*;
use runtime_api::{AgentSettings, Interrupt, Prompt};
use serde_json::json;

use crate::fakes::{finding, vote};
use crate::house::*;

fn attended() -> AgentSettings {
    AgentSettings { is_attended: true, ..AgentSettings::default() }
}

fn denied(events: &[EventBody]) -> Vec<(DeniedBy, String)> {
    let denied = events.iter().filter_map(|body| match body {
        EventBody::ToolDenied(denied) => Some((denied.by, denied.reason.clone())),
        _ => None,
    });
    denied.collect()
}

fn notices(events: &[EventBody]) -> Vec<String> {
    let notices = events.iter().filter_map(|body| match body {
        EventBody::Notice(notice) => Some(notice.message.clone()),
        _ => None,
    });
    notices.collect()
}

/// One call of `touch`, then the end.
fn one_call(world: &World) {
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_denies_in_every_mode_and_loop() {
    for mode in [Mode::Ask, Mode::AutoEdit, Mode::FullAuto] {
        let world = World::default();
        world.around.hook(Moment::PreToolUse, vote(HookVote::Deny, "no touching"));
        world.model.push(Script::Call(vec![("touch", "a"), ("touch", "b"), ("look", "c")]));
        world.model.push(Script::Say("done"));
        let handle = world.process_in(mode);
        let mut agent = attended();
        agent.allow = vec!["touch".to_owned()];
        let id = session_with(&handle, agent).await;
        let (_, events) = turn(&handle, &id, "go").await;
        let by: Vec<DeniedBy> = denied(&events).into_iter().map(|(by, _)| by).collect();
        assert_eq!(by, [DeniedBy::Hook; 3], "{mode}");
        assert_eq!(world.effect_count("a") + world.effect_count("b"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_allows_what_only_the_mode_asks() {
    let world = World::default();
    world.around.hook(Moment::PreToolUse, vote(HookVote::Allow, "fine"));
    one_call(&world);
    let handle = world.process_in(Mode::Ask);
    let id = session(&handle).await;
    turn(&handle, &id, "go").await;
    assert_eq!(world.effect_count("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_allows_nothing_that_a_rule_a_mode_or_a_list_withholds() {
    let layer = |name, change: fn(&mut Layer)| {
        let mut layer = Layer::new(name);
        change(&mut layer);
        Policy::default().tighten(layer)
    };
    let table = [
        (Mode::Ask, layer(LayerName::User, |it| it.deny = vec!["touch".parse().unwrap()])),
        (Mode::Ask, layer(LayerName::User, |it| it.ask = vec!["touch".parse().unwrap()])),
        (Mode::Ask, layer(LayerName::Managed, |it| it.ask = vec!["touch".parse().unwrap()])),
        (Mode::Ask, layer(LayerName::Managed, |it| it.allow = vec!["look".parse().unwrap()])),
        (Mode::Plan, Policy::default()),
    ];
    for (index, (mode, policy)) in table.into_iter().enumerate() {
        let world = World::default();
        *world.around.policy.lock().unwrap() = policy;
        world.around.hook(Moment::PreToolUse, vote(HookVote::Allow, "fine"));
        world.around.hook(Moment::PermissionRequest, vote(HookVote::Allow, "fine"));
        one_call(&world);
        let handle = world.process_in(mode);
        let id = session(&handle).await;
        turn(&handle, &id, "go").await;
        assert_eq!(world.effect_count("a"), 0, "row {index}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_not_told_to_hooks() {
    let world = World::default();
    world.around.hook(Moment::PreToolUse, HookAnswer::default());
    one_call(&world);
    let handle = world.process();
    let agent = AgentSettings { deny: vec!["touch".to_owned()], ..attended() };
    let id = session_with(&handle, agent).await;
    turn(&handle, &id, "go").await;
    assert!(world.around.told_of(Moment::PreToolUse).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_never_allows() {
    let world = World::default();
    let failed = HookAnswer {
        failures: vec!["the hook guard.sh took longer than 60 s".to_owned()],
        ..vote(HookVote::Ask, "a hook failed")
    };
    world.around.hook(Moment::PreToolUse, failed);
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let (_, events) = turn(&handle, &id, "go").await;
    assert_eq!(denied(&events)[0].0, DeniedBy::Nobody);
    assert!(notices(&events)[0].contains("guard.sh"), "{:?}", notices(&events));
    assert_eq!(world.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn neither_a_rule_nor_a_mode_answers_for_a_hook_that_wants_it_asked() {
    let world = World::default();
    world.around.hook(Moment::PreToolUse, vote(HookVote::Ask, "a hook failed"));
    one_call(&world);
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let request = loop {
        let event = viewer.next_event().await.unwrap();
        if let EventBody::PermissionRequest(request) = &event.body {
            break request.request_id.clone();
        }
    };
    handle.set_mode(&id, Mode::FullAuto).await.unwrap();
    assert_eq!(handle.pending(Some(&id)).await.unwrap().len(), 1);
    handle.answer(&id, &request, Answer::Deny { feedback: None }).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(world.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn changed_arguments_pass_the_gate_anew() {
    let world = World::default();
    let input = json!({"effect": "b"}).as_object().cloned();
    world.around.hook(Moment::PreToolUse, HookAnswer { input, ..HookAnswer::default() });
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let (_, events) = turn(&handle, &id, "go").await;
    let call = events.iter().find_map(|body| match body {
        EventBody::ToolCall(call) => Some(call.clone()),
        _ => None,
    });
    assert_eq!(call.unwrap().input["effect"], "b");
    assert_eq!((world.effect_count("a"), world.effect_count("b")), (0, 1));
    let wrong = World::default();
    let input = json!({"something": "else"}).as_object().cloned();
    wrong.around.hook(Moment::PreToolUse, HookAnswer { input, ..HookAnswer::default() });
    one_call(&wrong);
    let handle = wrong.process();
    let id = session(&handle).await;
    turn(&handle, &id, "go").await;
    assert_eq!(wrong.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_finding_refuses_whatever_anybody_says() {
    let world = World::default();
    world.around.check(Ok(vec![finding("a key in the file", true)]));
    world.around.hook(Moment::PreToolUse, vote(HookVote::Allow, "fine"));
    one_call(&world);
    let handle = world.process();
    let agent = AgentSettings { allow: vec!["touch".to_owned()], ..attended() };
    let id = session_with(&handle, agent).await;
    let (_, events) = turn(&handle, &id, "go").await;
    let expected = "denied by a check: secret: a key in the file".to_owned();
    assert_eq!(denied(&events), [(DeniedBy::Checks, expected)]);
    assert_eq!(world.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_refuses() {
    let world = World::default();
    world.around.check(Err(Fault::new("lint.sh ended with 3")));
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let (_, events) = turn(&handle, &id, "go").await;
    assert_eq!(denied(&events)[0].0, DeniedBy::Checks);
    assert!(denied(&events)[0].1.contains("lint.sh ended with 3"));
    assert_eq!(world.effect_count("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn findings_that_do_not_block_are_on_the_card_with_the_diff() {
    let world = World::default();
    world.around.check(Ok(vec![finding("looks odd", false)]));
    world.model.push(Script::Call(vec![("touch", "a.txt=1")]));
    world.model.push(Script::Say("done"));
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let request = loop {
        let event = viewer.next_event().await.unwrap();
        if let EventBody::PermissionRequest(request) = &event.body {
            break request.clone();
        }
    };
    assert_eq!(request.checks, [finding("looks odd", false)]);
    assert_eq!(request.diff.as_deref(), Some("+a.txt=1"));
    assert_eq!(world.around.checked.lock().unwrap()[0].diff.as_deref(), Some("+a.txt=1"));
    handle.answer(&id, &request.request_id, Answer::AllowOnce).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(world.effect_count("a.txt=1"), 1);
}

#[tokio::test(start_paused = true)]
async fn looks_are_not_checked() {
    let world = World::default();
    world.around.check(Ok(vec![finding("never", true)]));
    world.model.push(Script::Call(vec![("look", "a")]));
    world.model.push(Script::Say("done"));
    let handle = world.process();
    let id = session(&handle).await;
    turn(&handle, &id, "go").await;
    assert!(world.around.checked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_permission_hook_answers_in_a_persons_place() {
    for (said, count) in [(HookVote::Allow, 1), (HookVote::Deny, 0)] {
        let world = World::default();
        world.around.hook(Moment::PermissionRequest, vote(said, "as I say"));
        one_call(&world);
        let handle = world.process_in(Mode::Ask);
        let id = session(&handle).await;
        turn(&handle, &id, "go").await;
        assert_eq!(world.effect_count("a"), count, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_are_told_of_every_moment_of_a_turn() {
    let world = World::default();
    let moments = [
        Moment::SessionStart,
        Moment::UserPromptSubmit,
        Moment::PreToolUse,
        Moment::PostToolUse,
        Moment::Notification,
        Moment::Stop,
    ];
    for moment in moments {
        world.around.hook(moment, HookAnswer::default());
    }
    one_call(&world);
    let handle = world.process_in(Mode::Ask);
    let id = session_with(&handle, attended()).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("touch it")).await.unwrap();
    let request = loop {
        let event = viewer.next_event().await.unwrap();
        if let EventBody::PermissionRequest(request) = &event.body {
            break request.request_id.clone();
        }
    };
    handle.answer(&id, &request, Answer::AllowOnce).await.unwrap();
    until_done(&mut viewer).await;
    let told = world.around.told.lock().unwrap().clone();
    let order: Vec<Moment> = told.iter().map(Happening::moment).collect();
    assert_eq!(
        order,
        [
            Moment::SessionStart,
            Moment::UserPromptSubmit,
            Moment::PreToolUse,
            Moment::Notification,
            Moment::PostToolUse,
            Moment::Stop,
        ]
    );
    assert_eq!(told[0], Happening::SessionStart { source: "startup" });
    assert_eq!(told[1], Happening::UserPromptSubmit { prompt: "touch it".to_owned() });
    let Happening::PostToolUse { call, response, is_error } = &told[4] else { panic!("{told:?}") };
    assert_eq!((call.tool.as_str(), response.as_str(), *is_error), ("touch", "did a", false));
}

#[tokio::test(start_paused = true)]
async fn what_hooks_add_reaches_the_model() {
    let world = World::default();
    let context = |text: &str| HookAnswer { context: vec![text.into()], ..HookAnswer::default() };
    world.around.hook(Moment::SessionStart, context("the build is red"));
    world.around.hook(Moment::UserPromptSubmit, context("it is Friday"));
    world.around.hook(Moment::PostToolUse, vote(HookVote::Deny, "format the file"));
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    turn(&handle, &id, "go").await;
    let requests = world.model.requests.lock().unwrap();
    let first = format!("{:?}", requests[0].messages);
    assert!(first.contains("the build is red") && first.contains("it is Friday"), "{first}");
    let second = format!("{:?}", requests[1].messages.last());
    assert!(second.contains("[hook PostToolUse]\\nformat the file"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_prompt_is_heard_by_no_model() {
    let world = World::default();
    world.around.hook(Moment::UserPromptSubmit, vote(HookVote::Deny, "no secrets please"));
    world.around.hook(Moment::UserPromptSubmit, HookAnswer::default());
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "my password is rosebud").await;
    assert_eq!(done.result.reason, TurnEnd::Denied);
    assert!(done.result.message.unwrap().contains("no secrets please"));
    turn(&handle, &id, "something else").await;
    let requests = world.model.requests.lock().unwrap();
    assert_eq!(requests.len(), 1);
    assert!(!format!("{:?}", requests[0].messages).contains("rosebud"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_hook_makes_the_turn_go_on_but_not_for_ever() {
    let world = World::default();
    world.around.hook(Moment::Stop, vote(HookVote::Deny, "the tests are red"));
    let handle = world.process();
    let id = session(&handle).await;
    let (done, events) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    assert_eq!(world.request_count(), 9, "the first answer, and eight times more");
    assert!(notices(&events).iter().any(|it| it.contains("it ends")), "{:?}", notices(&events));
    let requests = world.model.requests.lock().unwrap();
    assert!(format!("{:?}", requests[1].messages.last()).contains("the tests are red"));
    let repeated: Vec<bool> = world
        .around
        .told_of(Moment::Stop)
        .iter()
        .map(|it| matches!(it, Happening::Stop { is_repeated: true, .. }))
        .collect();
    assert_eq!(repeated[..2], [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_end_the_turn() {
    let world = World::default();
    let stop = HookAnswer { stop: Some("enough".to_owned()), ..HookAnswer::default() };
    world.around.hook(Moment::PostToolUse, stop);
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let (done, _) = turn(&handle, &id, "go").await;
    assert_eq!(done.result.reason, TurnEnd::Denied);
    assert_eq!(done.result.message.as_deref(), Some("a hook ended the turn: enough"));
    assert_eq!(world.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_hooks() {
    let world = World::default();
    *world.around.hook_ms.lock().unwrap() = 3_600_000;
    world.around.hook(Moment::PreToolUse, HookAnswer::default());
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    while world.around.told.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = tokio::time::Instant::now();
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(world.effect_count("a"), 0);
}

/// B3: the same call gets the same verdict from the main loop, a parallel call, a resumed session
/// and a headless run.
#[tokio::test(start_paused = true)]
async fn b3_the_same_call_gets_the_same_verdict_in_every_loop() {
    let deny = || AgentSettings { deny: vec!["touch".to_owned()], ..AgentSettings::default() };
    let mut verdicts = Vec::new();
    for (is_attended, calls) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
        let world = World::default();
        world.model.push(Script::Call(vec![("touch", "a"); calls]));
        world.model.push(Script::Say("done"));
        let handle = world.process();
        let id = session_with(&handle, AgentSettings { is_attended, ..deny() }).await;
        let (_, events) = turn(&handle, &id, "go").await;
        verdicts.extend(denied(&events));
        // Resumed by another process.
        handle.close(&id, SessionEnd::Closed).await.unwrap();
        let second = world.process();
        second.open(&id, AgentSettings { is_attended, ..deny() }).await.unwrap();
        world.model.push(Script::Call(vec![("touch", "a")]));
        world.model.push(Script::Say("done"));
        let (_, events) = turn(&second, &id, "again").await;
        verdicts.extend(denied(&events));
        assert_eq!(world.effect_count("a"), 0);
    }
    assert_eq!(verdicts.len(), 14);
    assert!(verdicts.iter().all(|it| *it == verdicts[0]), "{verdicts:?}");
    assert_eq!(verdicts[0].0, DeniedBy::Rule);
}

/// A stop that hangs up a hook is not taken for the end of the next turn's model call.
#[tokio::test(start_paused = true)]
async fn a_hook_that_a_stop_hangs_up_costs_the_next_turn_nothing() {
    let world = World::default();
    *world.around.hook_ms.lock().unwrap() = 3_600_000;
    world.around.hook(Moment::PreToolUse, HookAnswer::default());
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("the second"));
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("one")).await.unwrap();
    while world.around.told.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    handle.prompt(&id, Prompt::text("two")).await.unwrap();
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.text, "the second");
    assert_eq!(world.request_count(), 2, "one for each prompt");
}

/// What was allowed and has not begun is judged once more: the mode may be tighter by now.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_place_is_judged_again() {
    let world = World::default();
    world.around.has_checkpoints.store(true, std::sync::atomic::Ordering::Relaxed);
    *world.around.capture_ms.lock().unwrap() = 60_000;
    one_call(&world);
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.set_mode(&id, Mode::Plan).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    assert_eq!(denied(&events)[0].0, DeniedBy::Mode);
    assert_eq!(world.effect_count("a"), 0);
}
