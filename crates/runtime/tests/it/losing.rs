//! Sessions whose log is lost, whose tasks break, whose askers go away half-way, or that are
//! stopped in part.

use std::future::{Future, poll_fn};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use protocol::event::{Answer, SessionEnd};
use protocol::{
    Event, EventBody, EventKind, FrameId, PromptId, RefusalCode, RequestId, SessionId, TurnEnd,
};
use runtime_api::{
    AgentSettings, Error, ForkPoint, Handle, Interrupt, Overflow, Position, Prompt, SessionState,
};

use crate::house::*;

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> RefusalCode {
    match answer {
        Err(Error::Refusal(refusal)) => refusal.code,
        other => panic!("a refusal is expected: {other:?}"),
    }
}

async fn short_while() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Waits less than any real wait of the runtime: what must answer at once has to.
async fn at_once<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_millis(100), answer).await.expect(what)
}

/// Drops a future after so many polls; true when it had ended before.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> bool {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready()));
        if once.await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// Begins a turn whose tool needs a second to stop.
async fn slow_turn(world: &World, handle: &Handle, id: &SessionId) {
    let before = world.effect_count("slow");
    world.model.push(Script::Call(vec![("wait", "slow")]));
    handle.prompt(id, Prompt::text("go")).await.unwrap();
    while world.effect_count("slow") == before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_log_failed_for_a_moment_is_opened_again() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.disk.fail_appends(&id, true);
    handle.prompt(&id, Prompt::text("go")).await.unwrap_err();
    short_while().await;
    world.disk.fail_appends(&id, false);
    let info = handle.info(&id).await.unwrap();
    assert_eq!((info.is_open, info.owner_pid), (false, None));
    handle.open(&id, AgentSettings::default()).await.unwrap();
    world.model.push(Script::Say("here"));
    assert_eq!(turn(&handle, &id, "and now?").await.0.result.text, "here");
    // Nobody here holds on to one that was lost: another process may have it as well.
    world.disk.fail_appends(&id, true);
    handle.prompt(&id, Prompt::text("go")).await.unwrap_err();
    short_while().await;
    world.disk.fail_appends(&id, false);
    world.process().open(&id, AgentSettings::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_closed_is_nowhere_else() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    slow_turn(&world, &handle, &id).await;
    let looking = async {
        short_while().await;
        let info = handle.info(&id).await.unwrap();
        assert_eq!((info.is_open, info.owner_pid), (false, None));
        let listed = handle.list(Default::default()).await.unwrap();
        assert_eq!(listed[0].owner_pid, None);
        let none = RequestId::new("none");
        let answer = handle.answer(&id, &none, Answer::AllowOnce);
        let answered = tokio::time::timeout(Duration::from_secs(2), answer).await;
        assert_eq!(code(answered.expect("nobody is written to")), RefusalCode::SessionNotFound);
    };
    let (closed, ()) = tokio::join!(handle.close(&id, SessionEnd::Deleted), looking);
    closed.unwrap();
    let other = world.process();
    assert_eq!(other.info(&id).await.unwrap().owner_pid, None);
}

/// Notes the last frame that was shown without being recorded.
#[derive(Debug, Default)]
struct LastLive(Mutex<FrameId>);

impl driver_api::Observer for LastLive {
    fn saw(&self, event: &Event) {
        if event.seq.is_none() {
            *self.0.lock().unwrap() = event.frame;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_life_that_recorded_nothing_are_not_handed_out_again() {
    let world = World::default();
    let live = Arc::new(LastLive::default());
    world.around.observers.lock().unwrap().push(Arc::clone(&live) as _);
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let id = session(&first).await;
    world.model.push(Script::Stall("half"));
    first.prompt(&id, Prompt::text("go")).await.unwrap();
    short_while().await;
    store.kill();
    let mut seen = *live.0.lock().unwrap();
    for _ in 0..3 {
        let store = world.disk.process();
        let next = world.process_on(Arc::clone(&store) as _);
        world.model.push(Script::Stall("half an answer"));
        let carried = AgentSettings { carries_on: true, ..AgentSettings::default() };
        next.open(&id, carried).await.unwrap();
        short_while().await;
        store.kill();
        let last = *live.0.lock().unwrap();
        assert!(last > seen, "{last:?} after {seen:?}");
        seen = last;
    }
    let last = world.process();
    last.open(&id, AgentSettings::default()).await.unwrap();
    let mut viewer = last.subscribe(&id, Position::AfterFrame(seen), Overflow::Ring).await.unwrap();
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_closing_goes_on_when_nobody_waits_for_it() {
    for times in 1..6 {
        let world = World::default();
        *world.around.sessions_max.lock().unwrap() = Some(1);
        let handle = world.process();
        let id = session(&handle).await;
        slow_turn(&world, &handle, &id).await;
        assert!(!polled(times, handle.close(&id, SessionEnd::Deleted)).await);
        // Its place is taken until it is closed.
        let early = handle.create(new_session(AgentSettings::default())).await;
        assert_eq!(code(early), RefusalCode::TooManySessions, "after {times}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let last = world.disk.rows(&id).last().unwrap().clone();
        assert_eq!(last.kind, EventKind::SessionClosed, "after {times}");
        assert!(last.body.contains("deleted"), "after {times}: {}", last.body);
        assert!(handle.opened().await.unwrap().is_empty());
        handle.open(&id, AgentSettings::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_erasing_or_a_creating_goes_on_when_nobody_waits_for_it() {
    for times in 1..6 {
        let world = World::default();
        let handle = world.process();
        let id = session(&handle).await;
        slow_turn(&world, &handle, &id).await;
        assert!(!polled(times, handle.remove(&id)).await);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(world.disk.sessions().is_empty(), "after {times}");
        *world.around.open_ms.lock().unwrap() = 5;
        assert!(!polled(times, handle.create(new_session(AgentSettings::default()))).await);
        short_while().await;
        let opened = handle.opened().await.unwrap();
        let ids: Vec<SessionId> = opened.into_iter().map(|info| info.id).collect();
        assert_eq!(ids, world.disk.sessions(), "after {times}: what is stored is open");
        assert_eq!(ids.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_closing_whose_log_fails_does_not_hold_up_a_shutdown() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    slow_turn(&world, &handle, &id).await;
    let opening = async {
        short_while().await;
        handle.open(&id, AgentSettings::default()).await
    };
    let stopping = async {
        short_while().await;
        short_while().await;
        world.disk.fail_appends(&id, true);
        handle.shutdown().await;
    };
    let all = async { tokio::join!(handle.close(&id, SessionEnd::Closed), opening, stopping) };
    let all = tokio::time::timeout(Duration::from_secs(60), all).await;
    assert!(all.expect("it stops").0.is_err(), "the log could not be written");
}

#[tokio::test(start_paused = true)]
async fn what_is_open_is_told_though_a_session_is_busy() {
    let world = World::default();
    let handle = world.process();
    let (busy, idle) = (session(&handle).await, session(&handle).await);
    // A viewer that the session waits for, and that does not read.
    let _viewer = handle.subscribe(&busy, Position::Live, Overflow::Pace(1)).await.unwrap();
    world.model.push(Script::Say("much to tell"));
    let prompting = handle.prompt(&busy, Prompt::text("go"));
    tokio::time::timeout(Duration::from_millis(50), prompting).await.expect_err("it is held up");
    let opened = at_once("a list waits for nobody", handle.opened()).await.unwrap();
    assert_eq!(opened.len(), 2);
    let state = |id: &SessionId| opened.iter().find(|info| info.id == *id).unwrap().state;
    assert_eq!((state(&busy), state(&idle)), (SessionState::Running, SessionState::Idle));
    let info = at_once("nor does a look", handle.info(&busy)).await.unwrap();
    assert_eq!((info.state, info.last_seq > 1), (SessionState::Running, true));
}

#[tokio::test(start_paused = true)]
async fn an_imported_log_has_frames_of_its_own() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("one"));
    turn(&handle, &id, "go").await;
    for wrong in [None, Some(0), Some(u64::MAX)] {
        let mut file = handle.export(&id).await.unwrap();
        for row in &mut file.rows {
            row.frame = wrong.map_or(row.frame, FrameId);
        }
        assert!(file.rows.iter().any(|row| row.kind == EventKind::ContextSet));
        let copy = handle.import(file).await.unwrap();
        let fork = handle.fork(&id, ForkPoint::End).await.unwrap();
        for copy in [copy, fork] {
            let rows = world.disk.rows(&copy.id);
            let is_shown = |kind: EventKind| kind.class() != protocol::event::EventClass::Internal;
            let frames = rows.iter().filter(|row| is_shown(row.kind)).map(|row| row.frame.0);
            let frames: Vec<u64> = frames.collect();
            assert_eq!(frames, (1..=frames.len() as u64).collect::<Vec<_>>());
            assert!(rows.is_sorted_by_key(|row| row.frame));
            assert_eq!(copy.last_frame, rows.last().unwrap().frame);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_asked_of_a_program_that_stopped_is_told_so() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let file = handle.export(&id).await.unwrap();
    handle.shutdown().await;
    let stopped = RefusalCode::ShuttingDown;
    assert_eq!(code(handle.prompt(&id, Prompt::text("hi")).await), stopped);
    assert_eq!(code(handle.interrupt(&id, Interrupt::Running).await), stopped);
    assert_eq!(code(handle.close(&id, SessionEnd::Closed).await), stopped);
    assert_eq!(code(handle.fork(&id, ForkPoint::End).await), stopped);
    assert_eq!(code(handle.import(file).await), stopped);
    assert_eq!(code(handle.remove(&id).await), stopped);
    assert_eq!(code(handle.open(&id, AgentSettings::default()).await), stopped);
    let watched = handle.subscribe(&id, Position::Live, Overflow::Ring).await;
    assert_eq!(code(watched.map(drop)), stopped);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_task_breaks_each_time_stays_closed() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Stall("the first"));
    for _ in 0..9 {
        handle.prompt(&id, Prompt::text("go")).await.unwrap();
    }
    world.around.hooks_break.store(true, Ordering::Relaxed);
    handle.interrupt(&id, Interrupt::Running).await.ok();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(handle.opened().await.unwrap().is_empty(), "it is given up");
    let begun = |rows: &[driver_api::LogRow]| {
        rows.iter().filter(|row| row.kind == EventKind::PromptStarted).count()
    };
    assert!(begun(&world.disk.rows(&id)) < 9, "not every prompt was tried");
    // By hand it is opened again, here or elsewhere.
    world.around.hooks_break.store(false, Ordering::Relaxed);
    let other = world.process();
    other.open(&id, AgentSettings::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(other.info(&id).await.unwrap().state, SessionState::Idle);
    assert_eq!(begun(&world.disk.rows(&id)), 9, "what waited has run");
}

#[tokio::test(start_paused = true)]
async fn new_flags_hold_after_sleep_though_nobody_waited_for_them() {
    for times in 1..6 {
        let world = World::default();
        let handle = world.process();
        let id = session(&handle).await;
        let strict = AgentSettings { deny: vec!["touch".to_owned()], ..AgentSettings::default() };
        polled(times, handle.open(&id, strict)).await;
        let mut had = Vec::new();
        for _ in 0..2 {
            let before = world.effect_count("x");
            world.model.push(Script::Call(vec![("touch", "x")]));
            world.model.push(Script::Say("tried"));
            turn(&handle, &id, "touch it").await;
            had.push(world.effect_count("x") > before);
            tokio::time::sleep(Duration::from_secs(200)).await;
        }
        assert_eq!(had[0], had[1], "after {times}: sleep changes no flags");
    }
}

#[tokio::test(start_paused = true)]
async fn one_prompt_is_stopped_whether_it_runs_or_waits() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Stall("the first"));
    world.model.push(Script::Say("the third"));
    let mut viewer = watch(&handle, &id).await;
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        ids.push(handle.prompt(&id, Prompt::text(text)).await.unwrap().prompt_id);
    }
    let stop = |prompt: &PromptId| handle.interrupt(&id, Interrupt::Prompt(prompt.clone()));
    assert!(!stop(&PromptId::new("nobody")).await.unwrap());
    assert!(stop(&ids[1]).await.unwrap(), "it waited");
    assert!(!stop(&ids[1]).await.unwrap(), "it is gone");
    let info = handle.info(&id).await.unwrap();
    assert_eq!((info.state, info.queued), (SessionState::Running, 1));
    assert!(stop(&ids[0]).await.unwrap(), "it ran");
    let mut ends = Vec::new();
    while ends.len() < 3 {
        if let EventBody::PromptFinished(end) = &viewer.next_event().await.unwrap().body {
            ends.push((end.prompt_id.clone(), end.result.reason));
        }
    }
    assert_eq!(
        ends,
        [
            (ids[1].clone(), TurnEnd::Interrupted),
            (ids[0].clone(), TurnEnd::Interrupted),
            (ids[2].clone(), TurnEnd::Completed),
        ]
    );
    assert!(!stop(&ids[2]).await.unwrap(), "it is over");
}
