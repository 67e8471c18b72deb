//! Going back: undo, rewind, and what a copy shares.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::event::{RewindScope, SessionEnd};
use protocol::*;
use runtime_api::{AgentSettings, GoBack, Handle, Interrupt, MessagesAfter};

use crate::house::*;

fn world() -> World {
    let world = World::default();
    world.around.has_checkpoints.store(true, Ordering::Relaxed);
    world.around.files.lock().unwrap().insert("a.txt".to_owned(), "one".to_owned());
    world
}

fn file(world: &World, path: &str) -> Option<String> {
    world.around.files.lock().unwrap().get(path).cloned()
}

/// A turn whose calls change files.
async fn change(world: &World, handle: &Handle, id: &SessionId, calls: &[&'static str]) {
    world.model.push(Script::Call(calls.iter().map(|call| ("touch", *call)).collect()));
    world.model.push(Script::Say("done"));
    turn(handle, id, &format!("do {}", calls.join(" "))).await;
}

/// What the last request said, as text.
fn heard(world: &World) -> String {
    format!("{:?}", world.model.requests.lock().unwrap().last().unwrap().messages)
}

#[tokio::test(start_paused = true)]
async fn undo_takes_back_turn_by_turn() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two", "b.txt=new"]).await;
    change(&world, &handle, &id, &["a.txt="]).await;
    let back = handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(back.changed, [('+', "a.txt".to_owned())]);
    assert_eq!(file(&world, "a.txt").as_deref(), Some("two"));
    let back = handle.undo(&id, GoBack { is_dry: true, ..GoBack::default() }).await.unwrap();
    assert_eq!(back.changed, [('~', "a.txt".to_owned()), ('-', "b.txt".to_owned())]);
    assert_eq!(file(&world, "b.txt").as_deref(), Some("new"), "a dry run changes nothing");
    handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!((file(&world, "a.txt").as_deref(), file(&world, "b.txt")), (Some("one"), None));
    let back = handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!((back.point, back.changed.len()), (None, 0), "nothing is left to undo");
}

#[tokio::test(start_paused = true)]
async fn undo_leaves_what_somebody_changed_since_and_names_it() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two", "b.txt=new"]).await;
    world.around.files.lock().unwrap().insert("a.txt".into(), "mine".into());
    let back = handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(back.kept, [("a.txt".to_owned(), "changed since the turn left it".to_owned())]);
    assert_eq!(file(&world, "a.txt").as_deref(), Some("mine"));
    assert_eq!(file(&world, "b.txt"), None);
}

#[tokio::test(start_paused = true)]
async fn rewind_brings_conversation_and_files_back() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two"]).await;
    change(&world, &handle, &id, &["a.txt=three", "b.txt=new"]).await;
    turn(&handle, &id, "just talk").await;
    let points = handle.points(&id).await.unwrap();
    let labels: Vec<(&str, u64)> = points.iter().map(|it| (it.label.as_str(), it.files)).collect();
    assert_eq!(labels, [("do a.txt=two", 1), ("do a.txt=three b.txt=new", 2), ("just talk", 0)]);
    let how = GoBack::default();
    let back = handle.rewind(&id, &points[1].id, RewindScope::Both, how).await.unwrap();
    assert_eq!(back.changed, [('~', "a.txt".to_owned()), ('-', "b.txt".to_owned())]);
    // Two prompts, three answers, two results.
    assert_eq!(back.messages_removed, 7);
    assert_eq!(file(&world, "a.txt").as_deref(), Some("two"));
    turn(&handle, &id, "now something else").await;
    let heard = heard(&world);
    assert!(heard.contains("do a.txt=two") && heard.contains("now something else"), "{heard}");
    assert!(!heard.contains("three") && !heard.contains("just talk"), "{heard}");
    let said = handle.messages(&id, MessagesAfter::Start, 100).await.unwrap().messages;
    let said = format!("{said:?}");
    assert!(!said.contains("just talk"), "{said}");
    // Another process reads the same.
    handle.close(&id, SessionEnd::Closed).await.unwrap();
    let second = world.process();
    second.open(&id, AgentSettings::default()).await.unwrap();
    turn(&second, &id, "and more").await;
    assert!(!self::heard(&world).contains("just talk"));
}

#[tokio::test(start_paused = true)]
async fn conversation_and_files_go_back_apart() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two"]).await;
    let point = handle.points(&id).await.unwrap().remove(0).id;
    let how = GoBack::default();
    let back = handle.rewind(&id, &point, RewindScope::Files, how).await.unwrap();
    assert_eq!((back.changed.len(), back.messages_removed), (1, 0));
    assert_eq!(file(&world, "a.txt").as_deref(), Some("one"));
    turn(&handle, &id, "still here?").await;
    assert!(heard(&world).contains("do a.txt=two"));
    let back = handle.rewind(&id, &point, RewindScope::Conversation, how).await.unwrap();
    assert!(back.changed.is_empty() && back.messages_removed > 0);
    turn(&handle, &id, "a new beginning").await;
    assert!(!heard(&world).contains("do a.txt=two"));
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_back_in_the_middle_of_a_turn_or_to_nowhere() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("wait", "x")]));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, runtime_api::Prompt::text("go")).await.unwrap();
    while world.effect_count("x") == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let busy = handle.undo(&id, GoBack::default()).await.unwrap_err().to_string();
    assert!(busy.contains("in the middle of a turn"), "{busy}");
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    let how = GoBack::default();
    let nowhere = CheckpointId::new("nowhere");
    let error = handle.rewind(&id, &nowhere, RewindScope::Both, how).await.unwrap_err();
    assert!(error.to_string().contains("no point nowhere"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_an_interrupted_turn_changed_is_undone_as_well() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "a.txt=two")]));
    world.model.push(Script::Call(vec![("wait", "x")]));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, runtime_api::Prompt::text("go")).await.unwrap();
    while world.effect_count("x") == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(file(&world, "a.txt").as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_only_a_forced_undo_restores() {
    let world = world();
    let owner = world.disk.process();
    let first = world.process_on(Arc::clone(&owner) as _);
    let id = session(&first).await;
    world.model.push(Script::Call(vec![("touch", "a.txt=two")]));
    world.model.push(Script::Stall("thinking"));
    first.prompt(&id, runtime_api::Prompt::text("go")).await.unwrap();
    while world.request_count() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    owner.kill();
    let second = world.process();
    second.open(&id, AgentSettings::default()).await.unwrap();
    let back = second.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!((back.changed.len(), back.kept.len()), (0, 1));
    assert_eq!(file(&world, "a.txt").as_deref(), Some("two"));
    let back = second.undo(&id, GoBack { is_forced: true, ..GoBack::default() }).await.unwrap();
    assert_eq!(back.changed.len(), 1);
    assert_eq!(file(&world, "a.txt").as_deref(), Some("one"));
}

/// What an undo kept can still be taken back by force, and nothing older is in its place.
#[tokio::test(start_paused = true)]
async fn a_forced_undo_takes_back_what_the_one_before_kept() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two"]).await;
    change(&world, &handle, &id, &["b.txt=new"]).await;
    world.around.files.lock().unwrap().insert("b.txt".into(), "mine".into());
    let back = handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!((back.changed.len(), back.kept.len()), (0, 1));
    handle.undo(&id, GoBack { is_forced: true, ..GoBack::default() }).await.unwrap();
    assert_eq!((file(&world, "a.txt").as_deref(), file(&world, "b.txt")), (Some("two"), None));
}

/// A capture that takes long is waited for when the session is closed, and is not begun anew.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_the_turn_left() {
    let world = world();
    *world.around.capture_ms.lock().unwrap() = 3_000;
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two"]).await;
    handle.close(&id, SessionEnd::Closed).await.unwrap();
    assert_eq!(*world.around.captures.lock().unwrap(), 2);
    let second = world.process();
    second.open(&id, AgentSettings::default()).await.unwrap();
    let back = second.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(back.changed.len(), 1, "{back:?}");
}

/// A prompt that comes at once does not change files while what the last one left is captured.
#[tokio::test(start_paused = true)]
async fn the_next_turn_waits_until_it_is_captured_what_the_last_one_left() {
    let world = world();
    *world.around.capture_ms.lock().unwrap() = 2_000;
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two"]).await;
    change(&world, &handle, &id, &["a.txt=three"]).await;
    handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(file(&world, "a.txt").as_deref(), Some("two"));
}

/// A capture of a turn that was stopped is not taken for the next one's.
#[tokio::test(start_paused = true)]
async fn a_late_capture_of_a_stopped_turn_counts_for_nobody() {
    let world = world();
    *world.around.capture_ms.lock().unwrap() = 60_000;
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "a.txt=two")]));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, runtime_api::Prompt::text("go")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    world.around.files.lock().unwrap().insert("mine.txt".into(), "mine".into());
    *world.around.capture_ms.lock().unwrap() = 0;
    change(&world, &handle, &id, &["a.txt=three"]).await;
    let back = handle.undo(&id, GoBack::default()).await.unwrap();
    assert_eq!(back.changed, [('~', "a.txt".to_owned())]);
    assert_eq!(file(&world, "mine.txt").as_deref(), Some("mine"));
}

#[tokio::test(start_paused = true)]
async fn a_point_that_was_cut_is_no_way_back_for_the_conversation() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    turn(&handle, &id, "one").await;
    turn(&handle, &id, "two").await;
    let points = handle.points(&id).await.unwrap();
    let (scope, how) = (RewindScope::Conversation, GoBack::default());
    handle.rewind(&id, &points[0].id, scope, how).await.unwrap();
    let again = handle.rewind(&id, &points[1].id, scope, how).await.unwrap_err();
    assert!(again.to_string().contains("went back to before"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_only_looks_captures_nothing() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("look", "x")]));
    world.model.push(Script::Say("seen"));
    let (_, events) = turn(&handle, &id, "look").await;
    assert!(!events.iter().any(|body| matches!(body, EventBody::CheckpointMade(_))));
    let points = handle.points(&id).await.unwrap();
    assert!(!points[0].has_files);
}

#[tokio::test(start_paused = true)]
async fn the_checkpoint_is_durable_before_the_first_change() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    change(&world, &handle, &id, &["a.txt=two", "a.txt=three"]).await;
    let rows = world.disk.rows(&id);
    let at = |kind| rows.iter().position(|row| row.kind == kind).unwrap();
    assert!(at(EventKind::CheckpointMade) < at(EventKind::ToolStarted));
    let made = rows.iter().filter(|row| row.kind == EventKind::CheckpointMade).count();
    assert_eq!(made, 1, "once per turn");
    assert!(at(EventKind::ChangesRecorded) > at(EventKind::PromptFinished));
}
