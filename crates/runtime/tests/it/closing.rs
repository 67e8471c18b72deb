//! The program's end: what runs is stopped in time, what waits for a person goes on waiting.

use std::time::Duration;

use protocol::event::{Answer, PermissionRequest, SessionEnd};
use protocol::*;
use runtime_api::{AgentSettings, Prompt, Subscription};
use tokio::time::Instant;

use crate::house::*;

/// Less than what doors give their viewers for their farewell (10 s).
const SESSIONS_END_WITHIN: Duration = Duration::from_secs(9);

fn attended() -> AgentSettings {
    AgentSettings { is_attended: true, carries_on: true, ..AgentSettings::default() }
}

async fn permission(viewer: &mut Subscription) -> PermissionRequest {
    loop {
        let event = viewer.next_event().await.expect("the stream goes on");
        if let EventBody::PermissionRequest(request) = &event.body {
            return request.clone();
        }
    }
}

async fn rest(viewer: &mut Subscription) -> Vec<EventBody> {
    let mut bodies = Vec::new();
    while let Some(event) = viewer.next_event().await {
        bodies.push(event.body.clone());
        if matches!(bodies.last(), Some(EventBody::SessionClosed(_))) {
            break;
        }
    }
    bodies
}

async fn had(world: &World, effect: &str) {
    while world.effect_count(effect) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hears_no_stop_does_not_keep_the_program() {
    let world = World::default();
    world.around.has_checkpoints.store(true, std::sync::atomic::Ordering::Relaxed);
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    world.model.push(Script::Call(vec![("wait", "stubborn")]));
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    had(&world, "stubborn").await;
    // What the turn leaves is captured slowly as well.
    *world.around.capture_ms.lock().unwrap() = 60_000;
    let begun = Instant::now();
    handle.shutdown().await;
    assert!(begun.elapsed() < SESSIONS_END_WITHIN, "{:?}", begun.elapsed());
    let seen = rest(&mut viewer).await;
    let is_end = |body: &EventBody| match body {
        EventBody::Done(done) => done.result.reason == TurnEnd::Interrupted,
        _ => false,
    };
    assert!(seen.iter().any(is_end), "{seen:?}");
    let Some(EventBody::SessionClosed(closed)) = seen.last() else { panic!("{seen:?}") };
    assert_eq!(closed.reason, SessionEnd::Shutdown);
    assert_eq!(world.disk.rows(&id).last().unwrap().kind, EventKind::SessionClosed);
}

/// One call waits for a person while another runs: the program's end stops the one and leaves the
/// other.
#[tokio::test(start_paused = true)]
async fn a_request_outlives_the_program_that_stops_what_runs_beside_it() {
    for (effect, told) in [("slow", "stopped by the user"), ("stubborn", "unknown")] {
        let world = World::default();
        let first = world.process_in(Mode::Ask);
        let mut new = new_session(attended());
        new.allow = vec!["wait".to_owned()];
        let id = first.create(new).await.unwrap().id;
        let mut viewer = watch(&first, &id).await;
        world.model.push(Script::Call(vec![("touch", "asked"), ("wait", effect)]));
        first.prompt(&id, Prompt::text("go")).await.unwrap();
        let asked = permission(&mut viewer).await;
        had(&world, effect).await;
        let begun = Instant::now();
        first.shutdown().await;
        assert!(begun.elapsed() < SESSIONS_END_WITHIN, "{effect}: {:?}", begun.elapsed());
        let seen = rest(&mut viewer).await;
        let decided =
            |body: &EventBody| matches!(body, EventBody::RequestResolved(_) | EventBody::Done(_));
        assert!(!seen.iter().any(decided), "{effect}: {seen:?}");
        let second = world.process_in(Mode::Ask);
        second.open(&id, attended()).await.unwrap();
        let waiting = second.pending(Some(&id)).await.unwrap();
        assert_eq!(waiting.len(), 1, "{effect}");
        world.model.push(Script::Say("both are done"));
        let mut viewer = watch(&second, &id).await;
        second.answer(&id, &asked.request_id, Answer::AllowOnce).await.unwrap();
        let (done, _) = until_done(&mut viewer).await;
        assert_eq!(done.result.text, "both are done", "{effect}");
        assert_eq!((world.effect_count("asked"), world.effect_count(effect)), (1, 1));
        let requests = world.model.requests.lock().unwrap();
        let last = format!("{:?}", requests.last().unwrap().messages.last());
        assert!(last.contains("did asked") && last.contains(told), "{effect}: {last}");
    }
}
