//! Viewers: numbers of frames, replays, lagging, sleep, shutdown; observers and watchers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driver_api::{LogRow, Observer};
use protocol::event::{EventClass, SessionEnd};
use protocol::*;
use runtime_api::*;

use crate::house::{Script, World, session, session_with, turn, until_done, watch};

async fn ring(handle: &Handle, id: &SessionId, position: Position) -> Subscription {
    handle.subscribe(id, position, Overflow::Ring).await.unwrap()
}

/// Reads what is there and what comes until nothing has come for a while.
async fn rest(viewer: &mut Subscription) -> Vec<Delivery> {
    let mut all = Vec::new();
    let quiet = Duration::from_millis(200);
    while let Ok(Some(delivery)) = tokio::time::timeout(quiet, viewer.next()).await {
        all.push(delivery);
    }
    all
}

fn events(deliveries: &[Delivery]) -> Vec<Arc<Shown>> {
    let event = |delivery: &Delivery| match delivery {
        Delivery::Event(event) => Some(Arc::clone(event)),
        Delivery::Gap { .. } => None,
    };
    deliveries.iter().filter_map(event).collect()
}

fn frames(deliveries: &[Delivery]) -> Vec<u64> {
    events(deliveries).iter().map(|event| event.frame.0).collect()
}

fn dropped(deliveries: &[Delivery]) -> u64 {
    let gap = |delivery: &Delivery| match delivery {
        Delivery::Gap { dropped } => *dropped,
        Delivery::Event(_) => 0,
    };
    deliveries.iter().map(gap).sum()
}

fn shown(rows: &[LogRow]) -> Vec<&LogRow> {
    rows.iter().filter(|row| row.kind.class() != EventClass::Internal).collect()
}

/// Pushes a turn with every kind of event that one has.
fn script(world: &World) {
    world.model.push(Script::Call(vec![("look", "a"), ("touch", "b=1"), ("nothing", "c")]));
    world.model.push(Script::Call(vec![("touch", "b=2")]));
    world.model.push(Script::Say("All done."));
}

async fn flip(handle: &Handle, id: &SessionId, count: usize) {
    for number in 0..count {
        let mode = if number % 2 == 0 { Mode::Ask } else { Mode::FullAuto };
        handle.set_mode(id, mode).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn frames_count_without_a_hole_and_what_is_internal_takes_none() {
    let world = World::default();
    world.around.has_checkpoints.store(true, Ordering::Relaxed);
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = ring(&handle, &id, Position::AfterFrame(FrameId(0))).await;
    let mut paced =
        handle.subscribe(&id, Position::AfterFrame(FrameId(0)), Overflow::Pace(512)).await.unwrap();
    for _ in 0..3 {
        script(&world);
        turn(&handle, &id, "go").await;
    }
    let seen = rest(&mut viewer).await;
    let last = frames(&seen).len() as u64;
    assert_eq!(frames(&seen), (1..=last).collect::<Vec<u64>>());
    assert_eq!(frames(&rest(&mut paced).await), frames(&seen));
    let seen = events(&seen);
    assert!(seen.iter().any(|event| event.seq.is_none()), "deltas are among them");
    assert!(seen.iter().all(|event| event.body.kind().class() != EventClass::Internal));
    let rows = world.disk.rows(&id);
    let internal: Vec<_> =
        rows.iter().filter(|row| row.kind.class() == EventClass::Internal).collect();
    assert!(internal.len() >= 8, "there are internal events: {internal:?}");
    for pair in rows.windows(2) {
        let is_internal = pair[1].kind.class() == EventClass::Internal;
        assert!(pair[0].frame < pair[1].frame || (is_internal && pair[0].frame <= pair[1].frame));
    }
    assert_eq!(handle.info(&id).await.unwrap().last_frame, FrameId(last));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watches_takes_no_frame() {
    let world = World::default();
    script(&world);
    let handle = world.process();
    let id = session(&handle).await;
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let rows = world.disk.rows(&id);
    let frames: Vec<u64> = shown(&rows).iter().map(|row| row.frame.0).collect();
    assert_eq!(frames, (1..=frames.len() as u64).collect::<Vec<u64>>());
    assert!(rows.iter().any(|row| row.kind == EventKind::Done));
}

/// E1: whatever was seen before the line was cut, what comes afterwards completes it.
#[tokio::test(start_paused = true)]
async fn e1_a_replay_from_every_frame_completes_what_was_seen() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut witness = ring(&handle, &id, Position::AfterFrame(FrameId(0))).await;
    for _ in 0..12 {
        script(&world);
        turn(&handle, &id, "go").await;
    }
    let before = rest(&mut witness).await;
    let last = frames(&before).last().copied().unwrap();
    let mut late = Vec::new();
    for frame in 0..=last + 3 {
        late.push((frame, ring(&handle, &id, Position::AfterFrame(FrameId(frame))).await));
    }
    let rows = world.disk.rows(&id).len() as u64;
    for seq in [1, 2, 7, rows - 40, rows - 1, rows, rows + 1, rows + 100] {
        let frame = world.disk.rows(&id).iter().rfind(|row| row.seq.0 <= seq).unwrap().frame.0;
        let from = Position::From(Seq(seq + 1));
        late.push((frame, ring(&handle, &id, from).await));
        late.push((frame, ring(&handle, &id, Position::After(Seq(seq))).await));
    }
    late.push((last, ring(&handle, &id, Position::Live).await));
    script(&world);
    turn(&handle, &id, "more").await;
    let after = rest(&mut witness).await;
    let rows = world.disk.rows(&id);
    for (frame, mut viewer) in late {
        let seen = rest(&mut viewer).await;
        assert_eq!(dropped(&seen), 0);
        let old = shown(&rows).into_iter().filter(|row| row.frame.0 > frame && row.frame.0 <= last);
        let mut wanted: Vec<u64> = old.map(|row| row.frame.0).collect();
        wanted.extend(frames(&after));
        assert_eq!(frames(&seen), wanted, "after frame {frame}");
        for event in events(&seen) {
            let Some(seq) = event.seq else { continue };
            let row = rows.iter().find(|row| row.seq == seq).unwrap();
            assert_eq!((event.frame, event.ts), (row.frame, row.at));
            assert_eq!(event.body.encode().unwrap(), row.body);
        }
    }
}

/// A few numbers without order.
fn numbers() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x2545_F491_4F6C_DD1D_u64), |number| {
        Some(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|number| number >> 33)
}

/// E1, in the middle of turns: viewers come, read for a while, are cut and come again.
#[tokio::test(start_paused = true)]
async fn e1_viewers_that_are_cut_again_and_again_miss_nothing() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewers = tokio::task::JoinSet::new();
    for start in 0..40_u64 {
        let (handle, id) = (handle.clone(), id.clone());
        viewers.spawn(async move {
            let mut numbers = numbers().skip(usize::try_from(start * 50).unwrap());
            let mut next = move |below: u64| numbers.next().unwrap() % below;
            let (mut seen, mut last) = (Vec::new(), 0);
            loop {
                let mut viewer = ring(&handle, &id, Position::AfterFrame(FrameId(last))).await;
                for _ in 0..next(60) {
                    let wait = Duration::from_secs(60);
                    let Ok(delivery) = tokio::time::timeout(wait, viewer.next()).await else {
                        return seen;
                    };
                    let Some(Delivery::Event(event)) = delivery else { panic!("{delivery:?}") };
                    assert!(event.frame.0 > last, "frames rise");
                    last = event.frame.0;
                    seen.extend(event.seq);
                    if next(8) == 0 {
                        tokio::time::sleep(Duration::from_millis(next(30))).await;
                    }
                }
            }
        });
    }
    for _ in 0..60 {
        script(&world);
        turn(&handle, &id, "go").await;
    }
    let rows = world.disk.rows(&id);
    let wanted: Vec<Seq> = shown(&rows).iter().map(|row| row.seq).collect();
    assert!(wanted.len() > 500, "{}", wanted.len());
    for seen in viewers.join_all().await {
        assert!(seen == wanted, "every recorded event once");
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_is_exact_about_what_it_leaves_out() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    script(&world);
    turn(&handle, &id, "go").await;
    flip(&handle, &id, 1_300).await;
    let rows = world.disk.rows(&id);
    let shown = shown(&rows);
    for (position, wanted) in [
        (Position::AfterFrame(FrameId(1)), 1),
        (Position::From(Seq(1)), 0),
        (Position::After(Seq(1)), 1),
        (Position::AfterFrame(shown[5].frame), 6),
        (Position::AfterFrame(shown[99].frame), 100),
    ] {
        let deliveries = rest(&mut ring(&handle, &id, position).await).await;
        let Delivery::Gap { dropped } = deliveries[0] else { panic!("the gap comes first") };
        let kept = events(&deliveries);
        assert!((1_000..1_064).contains(&kept.len()), "{}", kept.len());
        let oldest = shown.iter().position(|row| Some(row.seq) == kept[0].seq).unwrap();
        assert_eq!(dropped, (oldest - wanted) as u64, "{position:?}");
        assert_eq!(kept.len() + oldest, shown.len(), "the rest is whole");
    }
    let newest = Position::AfterFrame(shown[shown.len() - 1_000].frame);
    let deliveries = rest(&mut ring(&handle, &id, newest).await).await;
    assert_eq!((deliveries.len(), dropped(&deliveries)), (999, 0));
}

/// E4: a viewer that does not read costs the session nothing, and loses deltas at most.
#[tokio::test(start_paused = true)]
async fn e4_a_viewer_that_stalls_goes_on_without_a_hole() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut lazy = ring(&handle, &id, Position::Live).await;
    let long = "word ".repeat(30_000);
    let long: &'static str = Box::leak(long.into_boxed_str());
    for _ in 0..60 {
        world.model.push(Script::Say(long));
        turn(&handle, &id, "go").await;
    }
    let deliveries = rest(&mut lazy).await;
    assert_eq!(dropped(&deliveries), 0);
    let rows = world.disk.rows(&id);
    let wanted: Vec<Seq> = shown(&rows).iter().skip(1).map(|row| row.seq).collect();
    let seen = events(&deliveries);
    assert_eq!(seen.iter().filter_map(|event| event.seq).collect::<Vec<_>>(), wanted);
    let deltas = seen.iter().filter(|event| event.seq.is_none()).count();
    assert!((1..60).contains(&deltas), "some deltas are lost: {deltas} are left");
    assert!(frames(&deliveries).is_sorted_by(|a, b| a < b));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_viewers_see_the_same_and_encode_it_once() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewers = Vec::new();
    for _ in 0..1_000 {
        viewers.push(ring(&handle, &id, Position::From(Seq(1))).await);
    }
    script(&world);
    turn(&handle, &id, "go").await;
    let first = rest(&mut viewers[0]).await;
    for viewer in &mut viewers[1..] {
        let mut seen = Vec::new();
        while seen.len() < first.len() {
            seen.push(viewer.next().await.unwrap());
        }
        for (one, other) in events(&first).iter().zip(events(&seen)) {
            assert!(Arc::ptr_eq(one, &other), "one event, one encoding");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn viewers_that_come_back_at_once_share_what_is_read() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    flip(&handle, &id, 600).await;
    let mut viewers = Vec::new();
    for _ in 0..200 {
        viewers.push(ring(&handle, &id, Position::AfterFrame(FrameId(3))).await);
    }
    let mut first = Vec::new();
    for place in 0..598 {
        for (number, viewer) in viewers.iter_mut().enumerate() {
            let event = viewer.next_event().await.unwrap();
            assert_eq!(event.frame.0, place + 4);
            match number {
                0 => first.push(event),
                _ => assert!(Arc::ptr_eq(first.last().unwrap(), &event)),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn frames_go_on_over_sleep_and_begin_a_new_life_after_a_crash_only() {
    let world = World::default();
    let store = world.disk.process();
    let handle = world.process_on(Arc::clone(&store) as _);
    let id = session(&handle).await;
    let mut last = 0;
    for _ in 0..3 {
        script(&world);
        let mut viewer = ring(&handle, &id, Position::Live).await;
        turn(&handle, &id, "go").await;
        let seen = frames(&rest(&mut viewer).await);
        assert_eq!(seen, (seen[0]..seen[0] + seen.len() as u64).collect::<Vec<u64>>());
        assert_eq!(seen[0], if last == 0 { 2 } else { last + 1 }, "no frame is left out");
        last = *seen.last().unwrap();
        drop(viewer);
        tokio::time::sleep(Duration::from_secs(200)).await;
    }
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    let mut viewer = ring(&handle, &id, Position::AfterFrame(FrameId(last))).await;
    assert!(rest(&mut viewer).await.is_empty(), "it slept when it was closed");
}

#[tokio::test(start_paused = true)]
async fn a_new_life_is_kept_over_sleep_though_nothing_was_recorded_in_it() {
    let world = World::default();
    let store = world.disk.process();
    let first = world.process_on(Arc::clone(&store) as _);
    let id = session(&first).await;
    script(&world);
    turn(&first, &id, "go").await;
    store.kill();
    let second = world.process();
    second.open(&id, AgentSettings::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let mut viewer = ring(&second, &id, Position::Live).await;
    flip(&second, &id, 1).await;
    assert_eq!(frames(&rest(&mut viewer).await), [(1 << 32) + 1]);
    second.shutdown().await;
    let third = world.process();
    third.open(&id, AgentSettings::default()).await.unwrap();
    let mut viewer = ring(&third, &id, Position::AfterFrame(FrameId(1 << 32))).await;
    third.set_mode(&id, Mode::Plan).await.unwrap();
    assert_eq!(frames(&rest(&mut viewer).await), [1, 2, 3].map(|frame| (1 << 32) + frame));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_viewers_of_a_waiting_session_and_keeps_its_request() {
    let world = World::default();
    let handle = world.process_in(Mode::Ask);
    let agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    let id = session_with(&handle, agent.clone()).await;
    let mut viewer = ring(&handle, &id, Position::Live).await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    let asked = rest(&mut viewer).await;
    let mut last = *frames(&asked).last().unwrap();
    handle.shutdown().await;
    let told = rest(&mut viewer).await;
    assert!(viewer.next().await.is_none(), "the stream ends");
    let told = events(&told);
    let EventBody::SessionClosed(closed) = &told[0].body else { panic!("{told:?}") };
    assert_eq!((closed.reason, told[0].seq, told.len()), (SessionEnd::Shutdown, None, 1));
    assert_eq!(told[0].frame.0, last + 1);
    last += 1;
    assert!(world.disk.rows(&id).iter().all(|row| row.kind != EventKind::SessionClosed));
    // Twice: a life in which nothing is recorded leaves no trace in the log.
    for _ in 0..2 {
        let handle = world.process_in(Mode::Ask);
        let carried = AgentSettings { carries_on: true, ..agent.clone() };
        handle.open(&id, carried).await.unwrap();
        assert_eq!(handle.pending(Some(&id)).await.unwrap().len(), 1, "it still waits");
        let mut viewer = ring(&handle, &id, Position::Live).await;
        handle.shutdown().await;
        let told = events(&rest(&mut viewer).await);
        assert_eq!(told.len(), 1);
        assert!(told[0].frame.0 > last, "no life gives the frames of another");
        last = told[0].frame.0;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_a_turn_is_recorded_and_shown_to_the_end() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = ring(&handle, &id, Position::Live).await;
    world.model.push(Script::Call(vec![("wait", "w")]));
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    while world.effect_count("w") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    handle.shutdown().await;
    let seen = events(&rest(&mut viewer).await);
    let kinds: Vec<EventKind> = seen.iter().map(|event| event.body.kind()).collect();
    let end = [EventKind::Done, EventKind::PromptFinished, EventKind::SessionClosed];
    assert_eq!(kinds[kinds.len() - 3..], end);
    assert!(viewer.next().await.is_none());
    let is_kept = |event: &Arc<Shown>| event.seq.is_some();
    assert!(seen[seen.len() - 3..].iter().all(is_kept));
}

#[tokio::test(start_paused = true)]
async fn viewers_stay_when_the_task_breaks_and_frames_go_on() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let mut viewer = ring(&handle, &id, Position::Live).await;
    let mut paced = watch(&handle, &id).await;
    world.model.push(Script::Stall("half a"));
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let agent = AgentSettings { roots: vec!["/breaks".into()], ..AgentSettings::default() };
    assert!(handle.open(&id, agent).await.is_err());
    let (done, _) = until_done(&mut paced).await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    world.model.push(Script::Say("Here I am."));
    handle.prompt(&id, Prompt::text("are you there?")).await.unwrap();
    let (done, _) = until_done(&mut paced).await;
    assert_eq!(done.result.text, "Here I am.");
    let seen = rest(&mut viewer).await;
    let last = 1 + seen.len() as u64;
    assert_eq!(frames(&seen), (2..=last).collect::<Vec<u64>>());
    let rows = world.disk.rows(&id);
    let recorded: Vec<Seq> = events(&seen).iter().filter_map(|event| event.seq).collect();
    assert_eq!(recorded, shown(&rows).iter().skip(1).map(|row| row.seq).collect::<Vec<_>>());
}

/// Notes what it is told, and breaks at every third event.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Event>>);

impl Observer for Notes {
    fn saw(&self, event: &Event) {
        let count = {
            let mut seen = self.0.lock().unwrap();
            seen.push(event.clone());
            seen.len()
        };
        assert!(!count.is_multiple_of(3), "the observer breaks");
    }
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_of_everything_and_cannot_break_a_session() {
    let world = World::default();
    let notes = Arc::new(Notes::default());
    world.around.observers.lock().unwrap().push(Arc::clone(&notes) as _);
    let handle = world.process();
    let id = session(&handle).await;
    script(&world);
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seen = notes.0.lock().unwrap().clone();
    let recorded: Vec<_> = seen.iter().filter_map(|event| event.seq).collect();
    let rows = world.disk.rows(&id);
    assert_eq!(recorded, rows.iter().map(|row| row.seq).collect::<Vec<_>>());
    assert!(seen.iter().any(|event| matches!(event.body, EventBody::TextDelta(_))));
    assert!(rows.iter().any(|row| row.kind == EventKind::Done));
}

#[tokio::test(start_paused = true)]
async fn watchers_see_what_is_recorded_in_every_session_from_its_first_event_on() {
    let world = World::default();
    let handle = world.process();
    let unseen = session(&handle).await;
    let mut watcher = handle.watch();
    let ids = [session(&handle).await, session(&handle).await, unseen];
    for id in &ids {
        script(&world);
        turn(&handle, id, "go").await;
    }
    let seen = events(&rest(&mut watcher).await);
    for (number, id) in ids.iter().enumerate() {
        let rows = world.disk.rows(id);
        let wanted: Vec<Seq> =
            shown(&rows).iter().skip(usize::from(number == 2)).map(|row| row.seq).collect();
        let own = seen.iter().filter(|event| event.session_id == *id);
        assert_eq!(own.map(|event| event.seq.unwrap()).collect::<Vec<_>>(), wanted);
    }
}

/// The reader lends credit: without it the turn goes no further, and nothing piles up.
#[tokio::test(start_paused = true)]
async fn a_paced_reader_holds_the_turn_until_it_reads() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    for number in ["1", "2", "3", "4", "5", "6"] {
        world.model.push(Script::Call(vec![("look", number)]));
    }
    world.model.push(Script::Say("seen"));
    let mut paced = handle.subscribe(&id, Position::Live, Overflow::Pace(1)).await.unwrap();
    let reading = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let held = world.request_count();
        assert!(held <= 1, "{held} steps without a reader");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(world.request_count(), held);
        until_done(&mut paced).await.0
    };
    // Whoever prompts waits as well: the session shows nothing that nobody takes.
    let both = async { tokio::join!(handle.prompt(&id, Prompt::text("look")), reading) };
    let (accepted, done) = tokio::time::timeout(Duration::from_secs(600), both).await.unwrap();
    assert_eq!(accepted.unwrap().position, 0);
    assert_eq!((done.result.reason, world.request_count()), (TurnEnd::Completed, 7));
}
