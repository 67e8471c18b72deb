//! Effects that a session asks for whatever would let them run.

use driver_api::{HookVote, Moment};
use policy::{Layer, LayerName, Policy};
use protocol::event::{Answer, DeniedBy, PermissionRequest, Persist};
use protocol::{Effect, EventBody, Mode, RefusalCode, SessionId};
use runtime_api::{AgentSettings, CreateSession, Error, ForkPoint, Handle, Prompt, Subscription};

use crate::fakes::vote;
use crate::house::*;

fn asking_for(effects: &[Effect], is_attended: bool) -> CreateSession {
    let allow = vec!["destroy".to_owned()];
    let agent = AgentSettings { is_attended, allow, ..AgentSettings::default() };
    CreateSession { asks_for: effects.to_vec(), ..new_session(agent) }
}

async fn permission(viewer: &mut Subscription) -> PermissionRequest {
    loop {
        let event = viewer.next_event().await.expect("the stream goes on");
        if let EventBody::PermissionRequest(request) = &event.body {
            return request.clone();
        }
    }
}

/// Lets the model destroy something, and returns what people are asked and the way to the rest.
async fn asked(
    world: &World,
    handle: &Handle,
    id: &SessionId,
) -> (PermissionRequest, Subscription) {
    world.model.push(Script::Call(vec![("destroy", "x"), ("touch", "y")]));
    world.model.push(Script::Say("done"));
    let mut viewer = watch(handle, id).await;
    handle.prompt(id, Prompt::text("go")).await.unwrap();
    (permission(&mut viewer).await, viewer)
}

#[tokio::test(start_paused = true)]
async fn an_effect_is_asked_for_although_the_mode_a_rule_and_a_hook_would_let_it_run() {
    let world = World::default();
    world.around.hook(Moment::PreToolUse, vote(HookVote::Allow, "go ahead"));
    let handle = world.process_in(Mode::FullAuto);
    let id = handle.create(asking_for(&[Effect::Destructive], true)).await.unwrap().id;
    let (request, mut viewer) = asked(&world, &handle, &id).await;
    assert_eq!((request.effect, request.tool_name.as_str()), (Effect::Destructive, "destroy"));
    assert!(request.reason.unwrap().contains("'destructive' is asked for"));
    assert_eq!(request.suggested_rules, Vec::<String>::new(), "none would spare the question");
    // Neither a rule for good nor a mode answers it.
    handle.set_mode(&id, Mode::Ask).await.unwrap();
    handle.set_mode(&id, Mode::FullAuto).await.unwrap();
    assert_eq!((world.effect_count("x"), world.effect_count("y")), (0, 1));
    let rule = Some("destroy".to_owned());
    let always = Answer::AllowAlways { rule, persist: Persist::Session };
    handle.answer(&id, &request.request_id, always).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(world.effect_count("x"), 1);
    // And the next time it is asked for again.
    let (request, mut viewer) = asked(&world, &handle, &id).await;
    handle.answer(&id, &request.request_id, Answer::Deny { feedback: None }).await.unwrap();
    until_done(&mut viewer).await;
    assert_eq!(world.effect_count("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn it_holds_wherever_the_session_is_opened_and_in_its_copies() {
    let world = World::default();
    let handle = world.process_in(Mode::FullAuto);
    let wanted = asking_for(&[Effect::Destructive], false);
    let agent = wanted.agent.clone();
    let id = handle.create(wanted).await.unwrap().id;
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    let imported = handle.import(handle.export(&id).await.unwrap()).await.unwrap().id;
    handle.shutdown().await;
    let handle = world.process_in(Mode::FullAuto);
    for id in [id, fork, imported] {
        handle.open(&id, agent.clone()).await.unwrap();
        world.model.push(Script::Call(vec![("destroy", "x")]));
        world.model.push(Script::Say("done"));
        let (done, events) = turn(&handle, &id, "go").await;
        let denied = events.iter().find_map(|body| match body {
            EventBody::ToolDenied(denied) => Some(denied.by),
            _ => None,
        });
        assert_eq!(denied, Some(DeniedBy::Nobody), "nobody can be asked");
        assert_eq!((done.result.unanswered, world.effect_count("x")), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stronger_layer_still_denies() {
    let world = World::default();
    let layer = Layer { deny: vec!["destroy".parse().unwrap()], ..Layer::new(LayerName::User) };
    *world.around.policy.lock().unwrap() = Policy::default().tighten(layer);
    let handle = world.process_in(Mode::FullAuto);
    let id = handle.create(asking_for(&[Effect::Destructive], true)).await.unwrap().id;
    world.model.push(Script::Call(vec![("destroy", "x")]));
    world.model.push(Script::Say("done"));
    let (_, events) = turn(&handle, &id, "go").await;
    let denied = events.iter().find_map(|body| match body {
        EventBody::ToolDenied(denied) => Some(denied.by),
        _ => None,
    });
    assert_eq!(denied, Some(DeniedBy::Rule));
}

#[tokio::test(start_paused = true)]
async fn questions_to_a_person_cannot_be_asked_for() {
    let world = World::default();
    let handle = world.process();
    let wanted = asking_for(&[Effect::Write, Effect::Interact], true);
    match handle.create(wanted).await {
        Err(Error::Refusal(refusal)) => {
            assert_eq!(refusal.code, RefusalCode::Invalid);
            assert!(refusal.message.starts_with("asks_for: "), "{}", refusal.message);
        }
        other => panic!("{other:?}"),
    }
}
