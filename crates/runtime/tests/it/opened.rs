//! Which sessions are open: their places, closing them, taking them up again.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::{Answer, DecidedBy, SessionEnd};
use protocol::{EventBody, EventKind, Mode, RefusalCode, SessionId, TurnEnd};
use runtime_api::{
    AgentSettings, CreateSession, Error, ForkPoint, Handle, Interrupt, Prompt, SessionInfo,
    SessionState, TakeUp,
};

use testkit::memory_store::Crash;

use policy::{Layer, LayerName, Policy};

use crate::house::*;

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> RefusalCode {
    match answer {
        Err(Error::Refusal(refusal)) => refusal.code,
        other => panic!("a refusal is expected: {other:?}"),
    }
}

fn attended() -> AgentSettings {
    AgentSettings { is_attended: true, ..AgentSettings::default() }
}

fn take_up(limit: usize) -> TakeUp {
    TakeUp { roots: vec!["/w".to_owned()], agent: attended(), limit }
}

fn ids(infos: &[SessionInfo]) -> Vec<&SessionId> {
    infos.iter().map(|info| &info.id).collect()
}

async fn until_waiting(handle: &Handle, id: &SessionId) {
    while handle.info(id).await.unwrap().pending == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn until_finished(handle: &Handle, id: &SessionId) {
    while handle.info(id).await.unwrap().state != SessionState::Idle {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Creates a session that asks before it touches, with a model that touches.
async fn waiting(world: &World, handle: &Handle, cwd: &str) -> SessionId {
    world.model.push(Script::Call(vec![("touch", "x")]));
    let new = CreateSession { mode: Some(Mode::Ask), ..new_session(attended()) };
    let id = handle.create(CreateSession { cwd: cwd.to_owned(), ..new }).await.unwrap().id;
    handle.prompt(&id, Prompt::text("touch it")).await.unwrap();
    until_waiting(handle, &id).await;
    id
}

#[tokio::test(start_paused = true)]
async fn open_sessions_are_listed_with_what_they_do_awake_and_asleep() {
    let world = World::default();
    let handle = world.process();
    let sleeper = session(&handle).await;
    world.model.push(Script::Say("one"));
    turn(&handle, &sleeper, "go").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let closed = session(&handle).await;
    handle.close(&closed, SessionEnd::Closed).await.unwrap();
    let waiter = waiting(&world, &handle, "/w").await;
    handle.prompt(&waiter, Prompt::text("and then")).await.unwrap();
    let opened = handle.opened().await.unwrap();
    assert_eq!(ids(&opened), [&waiter, &sleeper]);
    let facts = |info: &SessionInfo| (info.is_open, info.state, info.queued, info.pending);
    assert_eq!(facts(&opened[0]), (true, SessionState::Waiting, 1, 1));
    assert_eq!(facts(&opened[1]), (true, SessionState::Idle, 0, 0));
    // What it was is known without waking it.
    let last = world.disk.rows(&sleeper).last().unwrap().clone();
    assert_eq!((opened[1].last_seq, opened[1].last_frame), (last.seq.0, last.frame));
    assert_eq!((opened[1].prompts, opened[1].usage.input_tokens), (1, 100));
    let stored = handle.info(&closed).await.unwrap();
    assert_eq!(facts(&stored), (false, SessionState::Idle, 0, 0));
    assert_eq!(stored.last_frame, world.disk.rows(&closed).last().unwrap().frame);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_process_tells_what_waits_there() {
    let world = World::default();
    let (first, second) = (world.process(), world.process());
    let id = waiting(&world, &first, "/w").await;
    first.prompt(&id, Prompt::text("and then")).await.unwrap();
    let info = second.info(&id).await.unwrap();
    assert_eq!((info.is_open, info.queued, info.pending), (false, 1, 1));
    assert!(info.owner_pid.is_some() && info.last_frame.0 > 0);
}

#[tokio::test(start_paused = true)]
async fn no_session_is_opened_beyond_the_limit_whoever_asks_at_once() {
    let world = World::default();
    let other = world.process();
    let stored = session(&other).await;
    other.shutdown().await;
    *world.around.sessions_max.lock().unwrap() = Some(3);
    let handle = world.process();
    let creating = (0..20).map(|_| handle.create(new_session(AgentSettings::default())));
    let created = futures_util::future::join_all(creating).await;
    let (open, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!((open.len(), refused.len()), (3, 17));
    for refusal in refused {
        let refusal = refusal.unwrap_err();
        assert!(refusal.to_string().contains("3 may be"), "{refusal}");
        assert_eq!(code::<()>(Err(refusal)), RefusalCode::TooManySessions);
    }
    let agent = AgentSettings::default;
    // Asleep they count as well.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(code(handle.open(&stored, agent()).await), RefusalCode::TooManySessions);
    let nobody = SessionId::new("nobody");
    assert_eq!(code(handle.open(&nobody, agent()).await), RefusalCode::SessionNotFound);
    let ids: Vec<SessionId> = open.into_iter().map(|info| info.unwrap().id).collect();
    // One that is open already takes no second place, and a copy is not opened.
    handle.open(&ids[0], agent()).await.unwrap();
    handle.fork(&ids[0], ForkPoint::End).await.unwrap();
    handle.close(&ids[0], SessionEnd::Closed).await.unwrap();
    // What fails gives its place back.
    let wrong = CreateSession { deny: vec!["run_shell(".to_owned()], ..new_session(agent()) };
    assert_eq!(code(handle.create(wrong).await), RefusalCode::Invalid);
    let missing = CreateSession { cwd: "/missing".to_owned(), ..new_session(agent()) };
    assert_eq!(code(handle.create(missing).await), RefusalCode::Invalid);
    assert_eq!(code(handle.open(&nobody, agent()).await), RefusalCode::SessionNotFound);
    handle.open(&stored, agent()).await.unwrap();
    assert_eq!(code(handle.open(&ids[0], agent()).await), RefusalCode::TooManySessions);
    assert_eq!(handle.opened().await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn closing_settles_what_waits_and_ends_the_streams_with_its_reason() {
    for reason in [SessionEnd::Deleted, SessionEnd::Closed] {
        let world = World::default();
        let handle = world.process();
        let id = waiting(&world, &handle, "/w").await;
        let queued = handle.prompt(&id, Prompt::text("and then")).await.unwrap();
        let mut viewer = watch(&handle, &id).await;
        handle.close(&id, reason).await.unwrap();
        let mut bodies = Vec::new();
        while let Some(event) = viewer.next_event().await {
            bodies.push(event.body.clone());
        }
        let is_settled = |body: &EventBody| {
            matches!(body, EventBody::RequestResolved(resolved)
                if resolved.by == DecidedBy::Interrupt)
        };
        let is_dropped = |body: &EventBody| {
            matches!(body, EventBody::PromptFinished(finished)
                if finished.prompt_id == queued.prompt_id
                    && finished.result.reason == TurnEnd::Interrupted)
        };
        assert!(bodies.iter().any(is_settled) && bodies.iter().any(is_dropped), "{bodies:?}");
        let last = bodies.last().unwrap();
        assert!(matches!(last, EventBody::SessionClosed(closed) if closed.reason == reason));
        assert_eq!(
            code(handle.prompt(&id, Prompt::text("hi")).await),
            RefusalCode::SessionNotFound
        );
        assert_eq!(code(handle.close(&id, reason).await), RefusalCode::SessionNotFound);
        // Nothing of it is left to do for whoever opens it next.
        let info = handle.open(&id, AgentSettings::default()).await.unwrap();
        assert_eq!((info.state, info.queued, info.pending), (SessionState::Idle, 0, 0));
        assert_eq!(world.effect_count("x"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_sleeps_is_closed_with_its_reason() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    handle.close(&id, SessionEnd::Deleted).await.unwrap();
    let last = world.disk.rows(&id).last().unwrap().clone();
    assert_eq!(last.kind, EventKind::SessionClosed);
    assert!(last.body.contains("deleted"), "{}", last.body);
    assert!(handle.opened().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_opens_a_session_that_is_being_closed_waits_for_its_end() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("wait", "w")]));
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    while world.effect_count("w") == 0 {
        tokio::task::yield_now().await;
    }
    let closing = handle.close(&id, SessionEnd::Closed);
    let opening = handle.open(&id, AgentSettings::default());
    let (closed, opened) = tokio::join!(closing, opening);
    closed.unwrap();
    assert_eq!(opened.unwrap().state, SessionState::Idle);
    world.model.push(Script::Say("again"));
    let (done, _) = turn(&handle, &id, "and now?").await;
    assert_eq!(done.result.text, "again");
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_cut_or_left_waiting_is_taken_up() {
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let waiter = waiting(&world, &first, "/w/deep").await;
    let idle = session(&first).await;
    let elsewhere = waiting(&world, &first, "/wide").await;
    let cut = session(&first).await;
    world.model.push(Script::Stall("half an ans"));
    first.prompt(&cut, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.kill();
    let second = world.process();
    world.model.push(Script::Say("whole"));
    let taken = second.take_up(take_up(10)).await.unwrap();
    assert_eq!(ids(&taken), [&cut, &waiter]);
    until_finished(&second, &cut).await;
    let rows = world.disk.rows(&cut);
    let done = rows.iter().find(|row| row.kind == EventKind::Done).unwrap();
    assert!(done.body.contains("whole") && done.body.contains("completed"), "{}", done.body);
    // The request of the other one is the one that was asked before the crash.
    let pending = second.pending(Some(&waiter)).await.unwrap();
    let EventBody::PermissionRequest(request) = &pending[0].request else { panic!("a request") };
    world.model.push(Script::Say("touched"));
    second.answer(&waiter, &request.request_id, Answer::AllowOnce).await.unwrap();
    until_finished(&second, &waiter).await;
    assert_eq!(world.effect_count("x"), 1);
    let opened = second.opened().await.unwrap();
    assert!(!ids(&opened).contains(&&idle) && !ids(&opened).contains(&&elsewhere));
    assert!(second.take_up(take_up(10)).await.unwrap().is_empty(), "all is owned now");
}

#[tokio::test(start_paused = true)]
async fn at_most_so_many_are_taken_up_and_failures_are_passed_over() {
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(waiting(&world, &first, "/w").await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.kill();
    // The newest cannot be read by this program.
    world.disk.damage(&all[3], |rows| {
        if let Some(row) = rows.last_mut() {
            row.body = "{}".to_owned();
        }
    });
    let second = world.process();
    let taken = second.take_up(take_up(2)).await.unwrap();
    assert_eq!(ids(&taken), [&all[2], &all[1]]);
    *world.around.sessions_max.lock().unwrap() = Some(0);
    let full = world.process();
    assert!(full.take_up(take_up(5)).await.unwrap().is_empty(), "no place is left");
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_start_at_once_share_what_is_left() {
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    for _ in 0..10 {
        waiting(&world, &first, "/w").await;
    }
    store.kill();
    let (second, third) = (world.process(), world.process());
    let (mine, yours) = tokio::join!(second.take_up(take_up(10)), third.take_up(take_up(10)));
    let (mine, yours) = (mine.unwrap(), yours.unwrap());
    assert_eq!(mine.len() + yours.len(), 10);
    assert!(!mine.iter().any(|info| ids(&yours).contains(&&info.id)));
}

/// A prompt that was accepted runs, whenever the process dies.
#[tokio::test(start_paused = true)]
async fn prompts_that_waited_when_the_process_died_run_after_it() {
    for crash in [Crash::Lost, Crash::Unanswered] {
        for n in 1.. {
            let world = World::default();
            let first = world.process();
            let id = session(&first).await;
            world.model.push(Script::Stall("the first"));
            let one = first.prompt(&id, Prompt::text("one")).await.unwrap().prompt_id;
            let two = first.prompt(&id, Prompt::text("two")).await.unwrap().prompt_id;
            tokio::time::sleep(Duration::from_millis(50)).await;
            world.disk.crash_at(world.disk.appends() + n, crash);
            let living = async {
                first.interrupt(&id, Interrupt::Running).await.unwrap();
                until_finished(&first, &id).await;
            };
            tokio::select! { () = world.disk.crashed() => {}, () = living => {} }
            if !world.disk.has_crashed() {
                assert!(n > 3, "two turns have many appends, got {n}");
                break;
            }
            let second = world.process();
            second.take_up(take_up(5)).await.unwrap();
            until_finished(&second, &id).await;
            let rows = world.disk.rows(&id);
            for prompt in [&one, &two] {
                let of = |kind: EventKind| {
                    let is_its = |body: &str| body.contains(prompt.as_str());
                    rows.iter().filter(|row| row.kind == kind && is_its(&row.body)).count()
                };
                let label = format!("{prompt:?}, death at append {n}, {crash:?}");
                assert_eq!(of(EventKind::PromptStarted), 1, "{label}");
                assert_eq!(of(EventKind::PromptFinished), 1, "{label}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_sessions_are_closed_side_by_side() {
    let world = World::default();
    let handle = world.process();
    for index in 0..200 {
        let id = session(&handle).await;
        if index % 2 == 0 {
            world.model.push(Script::Call(vec![("wait", "slow")]));
            handle.prompt(&id, Prompt::text("go")).await.unwrap();
        }
    }
    while world.effect_count("slow") < 100 {
        tokio::task::yield_now().await;
    }
    let begun = tokio::time::Instant::now();
    handle.shutdown().await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1), "each of the hundred takes a second: {took:?}");
    assert!(took < Duration::from_secs(10), "they are closed one after the other: {took:?}");
    for id in world.disk.sessions() {
        assert_eq!(world.disk.rows(&id).last().unwrap().kind, EventKind::SessionClosed);
    }
    let late = handle.create(new_session(AgentSettings::default())).await;
    assert_eq!(code(late), RefusalCode::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_created_while_the_program_stops_is_closed_or_refused() {
    let world = World::default();
    let handle = world.process();
    *world.around.open_ms.lock().unwrap() = 10;
    let creating = (0..10).map(|index| {
        let handle = &handle;
        async move {
            tokio::time::sleep(Duration::from_millis(index)).await;
            handle.create(new_session(AgentSettings::default())).await
        }
    });
    let stopping = async {
        // In the midst of some of them, before others.
        tokio::time::sleep(Duration::from_micros(4_500)).await;
        handle.shutdown().await;
    };
    let (created, ()) = tokio::join!(futures_util::future::join_all(creating), stopping);
    let (created, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert!(!created.is_empty() && !refused.is_empty());
    for refused in refused {
        assert_eq!(code(refused), RefusalCode::ShuttingDown);
    }
    for created in created {
        let last = world.disk.rows(&created.unwrap().id).last().unwrap().kind;
        assert_eq!(last, EventKind::SessionClosed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_folder_was_replaced_by_a_link_is_not_taken_up() {
    let place = tempfile::tempdir().unwrap();
    let base = place.path().canonicalize().unwrap();
    let (folder, other) = (base.join("root/in"), base.join("root/other"));
    for folder in [&folder, &other, &base.join("outside")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let moved = waiting(&world, &first, folder.to_str().unwrap()).await;
    let stayed = waiting(&world, &first, other.to_str().unwrap()).await;
    store.kill();
    std::fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink(base.join("outside"), &folder).unwrap();
    let root = base.join("root").to_str().unwrap().to_owned();
    let second = world.process();
    let taken = second.take_up(TakeUp { roots: vec![root], ..take_up(10) }).await.unwrap();
    assert_eq!(ids(&taken), [&stayed]);
    assert!(!second.info(&moved).await.unwrap().is_open);
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_all_hears_of_the_end() {
    let world = World::default();
    let handle = world.process();
    let mut early = handle.watch();
    session(&handle).await;
    handle.shutdown().await;
    let mut names = Vec::new();
    while let Some(event) = early.next_event().await {
        names.push(event.body.kind());
    }
    assert_eq!(names, [EventKind::SessionStart, EventKind::SessionClosed]);
    assert!(handle.watch().next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_look_at_settings_changes_nothing() {
    let world = World::default();
    let (handle, policies) = world.process_with_policies();
    let id = session(&handle).await;
    let before = handle.info(&id).await.unwrap();
    handle.check_settings(None, None).unwrap();
    handle.check_settings(Some(Mode::Ask), Some("fake/model")).unwrap();
    assert_eq!(
        code(handle.check_settings(None, Some("nobody/nothing"))),
        RefusalCode::InvalidModel
    );
    let layer =
        Layer { models: Some(vec!["other/*".to_owned()]), ..Layer::new(LayerName::Managed) };
    policies.replace(Policy::default().tighten(layer));
    let refused = handle.check_settings(Some(Mode::Ask), Some("fake/model"));
    assert_eq!(code(refused), RefusalCode::ModelNotAllowed);
    assert_eq!(handle.info(&id).await.unwrap(), before);
}
