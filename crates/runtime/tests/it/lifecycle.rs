//! Opening, owning, sleeping, damage, copies.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Snapshot, Store};
use protocol::{Block, EventBody, RefusalCode, Seq, TurnEnd};
use runtime_api::{
    AgentSettings, Error, ForkPoint, MessagesAfter, Overflow, Position, Prompt, SessionFilter,
};

use crate::house::{Script, World, session, turn, until_done, watch};

fn code<T>(answer: Result<T, Error>) -> RefusalCode {
    match answer {
        Err(Error::Refusal(refusal)) => refusal.code,
        Err(Error::Fault(fault)) => panic!("a fault: {fault}"),
        Ok(_) => panic!("no refusal"),
    }
}

#[tokio::test(start_paused = true)]
async fn h6_a_second_process_is_refused_at_once_and_may_take_over_after_death() {
    let world = World::default();
    let first_store = world.disk.process();
    let first = world.process_on(Arc::clone(&first_store) as _);
    let id = session(&first).await;
    world.model.push(Script::Say("one"));
    turn(&first, &id, "hi").await;
    let second = world.process();
    let agent = AgentSettings::default();
    assert_eq!(code(second.open(&id, agent.clone()).await), RefusalCode::OwnedElsewhere);
    assert_eq!(code(second.remove(&id).await), RefusalCode::OwnedElsewhere);
    first_store.kill();
    second.open(&id, agent).await.unwrap();
    world.model.push(Script::Say("two"));
    let (done, _) = turn(&second, &id, "and now?").await;
    assert_eq!(done.result.text, "two");
}

#[tokio::test(start_paused = true)]
async fn h6_a_stale_owner_is_fenced_and_writes_nothing() {
    let world = World::default();
    let owner = world.disk.process();
    let first = world.process_on(Arc::clone(&owner) as _);
    let id = session(&first).await;
    let thief = world.disk.process();
    // The owner's process is taken for dead while it lives: the generation decides.
    owner.presume_dead();
    let lease = thief.claim(&id).await.unwrap();
    let before = world.disk.rows(&id).len();
    world.model.push(Script::Say("too late"));
    let answer = first.prompt(&id, Prompt::text("hi")).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(world.disk.rows(&id).len(), before);
    thief.release(&lease).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_sleeps_and_wakes_with_everything_it_knew() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("Noted."));
    turn(&handle, &id, "remember the word quince").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let slept = world.disk.process().snapshot(&id).await.unwrap();
    assert!(slept.is_some(), "a sleeping session leaves a snapshot");
    world.model.push(Script::Say("Quince."));
    let (done, _) = turn(&handle, &id, "which word?").await;
    assert_eq!(done.result.text, "Quince.");
    let requests = world.model.requests.lock().unwrap();
    let last = format!("{:?}", requests.last().unwrap().messages);
    assert!(last.contains("quince") && last.contains("did x"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn h5_a_damaged_tail_is_cut_and_told() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("one"));
    turn(&handle, &id, "first").await;
    handle.shutdown().await;
    world.disk.damage(&id, |rows| rows.retain(|row| row.seq != Seq(6)));
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    let mut viewer =
        handle.subscribe(&id, Position::From(Seq(1)), Overflow::Pace(64)).await.unwrap();
    let mut told = false;
    while !told {
        let event = viewer.next_event().await.unwrap();
        told = matches!(&event.body, EventBody::Notice(notice)
            if notice.code.as_deref() == Some("log_damaged"));
    }
    world.model.push(Script::Say("two"));
    handle.prompt(&id, Prompt::text("second")).await.unwrap();
    loop {
        let (done, _) = until_done(&mut viewer).await;
        if done.result.reason == TurnEnd::Completed {
            assert_eq!(done.result.text, "two");
            break;
        }
    }
}

/// H7: what a newer program wrote is refused, never cut.
#[tokio::test(start_paused = true)]
async fn h7_an_event_of_a_newer_program_is_refused_and_kept() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("one"));
    turn(&handle, &id, "first").await;
    handle.shutdown().await;
    world.disk.damage(&id, |rows| {
        if let Some(row) = rows.iter_mut().find(|row| row.seq == Seq(6)) {
            row.body = "{\"fields\":\"of a later version\"}".into();
        }
    });
    let count = world.disk.rows(&id).len();
    let handle = world.process();
    let opened = handle.open(&id, AgentSettings::default()).await;
    assert!(matches!(opened, Err(Error::Fault(_))), "{opened:?}");
    assert_eq!(world.disk.rows(&id).len(), count, "nothing was cut");
}

#[tokio::test(start_paused = true)]
async fn a_useless_snapshot_is_ignored() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("one"));
    turn(&handle, &id, "remember mango").await;
    handle.shutdown().await;
    for (version, bytes) in [(1, b"garbage".to_vec()), (999, b"{}".to_vec())] {
        let store = world.disk.process();
        let lease = store.claim(&id).await.unwrap();
        let snapshot = Snapshot { seq: Seq(3), version, bytes };
        store.put_snapshot(&lease, snapshot).await.unwrap();
        let handle = world.process_on(Arc::clone(&store) as _);
        handle.open(&id, AgentSettings::default()).await.unwrap();
        world.model.push(Script::Say("mango"));
        let (done, _) = turn(&handle, &id, "which?").await;
        assert_eq!(done.result.text, "mango");
        handle.shutdown().await;
    }
}

/// What a snapshot holds is not read again: damage before it does not even show.
#[tokio::test(start_paused = true)]
async fn opening_folds_only_the_tail_behind_the_newest_snapshot() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    while world.disk.rows(&id).len() < 1_500 {
        world.model.push(Script::Call(vec![("look", "x"); 20]));
        world.model.push(Script::Say("Seen."));
        turn(&handle, &id, "look").await;
    }
    let before = handle.info(&id).await.unwrap();
    handle.shutdown().await;
    world.disk.damage(&id, |rows| {
        if let Some(row) = rows.iter_mut().find(|row| row.seq == Seq(40)) {
            row.body = "{\"no".into();
        }
    });
    let count = world.disk.rows(&id).len();
    let handle = world.process();
    let opened = handle.open(&id, AgentSettings::default()).await.unwrap();
    assert_eq!((opened.prompts, opened.usage), (before.prompts, before.usage));
    assert_eq!(world.disk.rows(&id).len(), count, "nothing was cut");
    // The model hears all but the damaged event, and people hear of the damage.
    world.model.push(Script::Say("Still here."));
    let (done, events) = turn(&handle, &id, "last words: papaya").await;
    assert_eq!(done.result.text, "Still here.");
    let told = events.iter().any(|body| {
        matches!(body, EventBody::Notice(notice)
        if notice.code.as_deref() == Some("log_damaged") && notice.message.contains("1 event"))
    });
    assert!(told, "{events:?}");
    let requests = world.model.requests.lock().unwrap();
    assert!(requests.last().unwrap().messages.len() > 80);
}

/// An imported session brings words, not rights.
#[tokio::test(start_paused = true)]
async fn an_imported_session_has_no_rights_of_its_own() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("Noted."));
    turn(&handle, &id, "remember papaya").await;
    let mut file = handle.export(&id).await.unwrap();
    for row in &mut file.rows {
        row.body = row.body.replace("\"ask\"", "\"full-auto\"").replace("You are", "Obey");
    }
    file.info.cwd = "/elsewhere".into();
    let (disk, ids) = (world.disk.clone(), Arc::clone(&world.ids));
    let careful = World { disk, ids, ..World::default() };
    let other = careful.process_in(protocol::Mode::Ask);
    let copy = other.import(file).await.unwrap();
    assert_eq!((copy.mode, copy.cwd.as_str()), (protocol::Mode::Ask, "/elsewhere"));
    other.open(&copy.id, AgentSettings::default()).await.unwrap();
    careful.model.push(Script::Call(vec![("touch", "x")]));
    careful.model.push(Script::Say("I may not."));
    turn(&other, &copy.id, "go").await;
    assert_eq!(careful.effect_count("x"), 0);
    let requests = careful.model.requests.lock().unwrap();
    assert!(requests[0].system.contains("You are Narthex"), "{}", requests[0].system);
    assert!(format!("{:?}", requests[0].messages).contains("papaya"));
}

/// What was promised to run runs, after a crash too.
#[tokio::test(start_paused = true)]
async fn prompts_that_wait_survive_a_crash() {
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let id = session(&first).await;
    world.model.push(Script::Call(vec![("wait", "w")]));
    first.prompt(&id, Prompt::text("one")).await.unwrap();
    first.prompt(&id, Prompt::text("two: quince")).await.unwrap();
    store.kill();
    let second = world.process();
    world.model.push(Script::Say("I heard quince."));
    second.open(&id, AgentSettings::default()).await.unwrap();
    let mut viewer =
        second.subscribe(&id, Position::From(Seq(1)), Overflow::Pace(64)).await.unwrap();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let (done, _) = until_done(&mut viewer).await;
        ends.push((done.result.reason, done.result.text));
    }
    assert_eq!(ends[0].0, TurnEnd::Interrupted);
    assert_eq!(ends[1], (TurnEnd::Completed, "I heard quince.".to_owned()));
}

/// A sleeping session wakes with the flags that it was last opened with.
#[tokio::test(start_paused = true)]
async fn new_flags_outlive_the_sleep() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let agent = AgentSettings { deny: vec!["touch".into()], ..AgentSettings::default() };
    handle.open(&id, agent).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("I may not."));
    turn(&handle, &id, "go").await;
    assert_eq!(world.effect_count("x"), 0);
}

#[tokio::test(start_paused = true)]
async fn e4_a_viewer_of_the_ring_that_does_not_read_holds_nobody_up() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut lazy = handle.subscribe(&id, Position::Live, Overflow::Ring).await.unwrap();
    for _ in 0..300 {
        world.model.push(Script::Say("word"));
        turn(&handle, &id, "go").await;
    }
    let first = lazy.next().await.unwrap();
    assert!(matches!(first, runtime_api::Delivery::Gap { dropped } if dropped > 0), "{first:?}");
    assert!(lazy.next_event().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn copies_carry_the_conversation_and_leave_the_original_alone() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("Noted."));
    turn(&handle, &id, "remember papaya").await;
    let before = world.disk.rows(&id);
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap();
    let imported = handle.import(handle.export(&id).await.unwrap()).await.unwrap();
    for copy in [fork.id, imported.id] {
        handle.open(&copy, AgentSettings::default()).await.unwrap();
        world.model.push(Script::Say("papaya"));
        turn(&handle, &copy, "which?").await;
        let requests = world.model.requests.lock().unwrap();
        let last = format!("{:?}", requests.last().unwrap().messages);
        assert!(last.contains("remember papaya"), "{last}");
    }
    assert_eq!(world.disk.rows(&id), before);
    let listed = handle.list(SessionFilter::default()).await.unwrap();
    assert_eq!(listed.len(), 3);
    handle.remove(&id).await.unwrap();
    assert_eq!(code(handle.info(&id).await), RefusalCode::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn transcripts_for_people_have_prompts_answers_and_results() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("look", "x")]));
    world.model.push(Script::Say("Seen."));
    turn(&handle, &id, "look").await;
    let messages = handle.messages(&id, MessagesAfter::Start, 100).await.unwrap().messages;
    let roles: Vec<_> = messages.iter().map(|message| format!("{:?}", message.role)).collect();
    assert_eq!(roles, ["User", "Assistant", "Tool", "Assistant"]);
    assert_eq!(messages[3].content, vec![Block::text("Seen.")]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_session_is_a_refusal_everywhere() {
    let world = World::default();
    let handle = world.process();
    let id = protocol::SessionId::new("nobody");
    assert_eq!(code(handle.info(&id).await), RefusalCode::SessionNotFound);
    assert_eq!(code(handle.export(&id).await), RefusalCode::SessionNotFound);
    let opened = handle.open(&id, AgentSettings::default()).await;
    assert_eq!(code(opened), RefusalCode::SessionNotFound);
    let prompted = handle.prompt(&id, Prompt::text("hi")).await;
    assert_eq!(code(prompted), RefusalCode::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_what_runs_and_says_so_in_the_log() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("wait", "w")]));
    let _viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    while world.effect_count("w") == 0 {
        tokio::task::yield_now().await;
    }
    drop(_viewer);
    handle.shutdown().await;
    let rows = world.disk.rows(&id);
    let last = rows.last().unwrap();
    assert_eq!(last.kind, protocol::EventKind::SessionClosed);
    let done = rows.iter().filter(|row| row.kind == protocol::EventKind::Done).count();
    assert_eq!(done, 1);
}
