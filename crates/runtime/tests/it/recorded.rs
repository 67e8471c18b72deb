//! Reading recorded events from a position on.

use protocol::{EventBody, RefusalCode, Seq, SessionId};
use runtime_api::{Error, Prompt};

use crate::house::*;

#[tokio::test(start_paused = true)]
async fn recorded_events_are_read_from_a_position_on_wherever_the_session_is() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "a")]));
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "go").await;
    let all = handle.recorded(&id, Seq(0), 5_000).await.unwrap();
    assert!(matches!(all[0].body, EventBody::SessionStart(_)));
    assert!(matches!(all.last().unwrap().body, EventBody::PromptFinished(_)));
    let seqs: Vec<Seq> = all.iter().map(|event| event.seq.unwrap()).collect();
    assert!(seqs.is_sorted() && all.iter().all(|event| event.session_id == id));
    let internal = world.disk.rows(&id).len() - all.len();
    assert!(internal >= 2, "what is for the core alone is left out: {internal}");
    // Page by page it is the same.
    let (mut after, mut paged) = (Seq(0), Vec::new());
    loop {
        let page = handle.recorded(&id, after, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = last.seq.unwrap();
        paged.extend(page.iter().map(|event| event.seq.unwrap()));
    }
    assert_eq!(paged, seqs);
    assert!(handle.recorded(&id, Seq(0), 0).await.unwrap().is_empty());
    assert!(handle.recorded(&id, Seq(1 << 40), 10).await.unwrap().is_empty());
    handle.shutdown().await;
    let handle = world.process();
    let stored = handle.recorded(&id, Seq(0), 5_000).await.unwrap();
    assert_eq!(stored.len(), all.len() + 1, "and that it was closed");
    for (stored, open) in stored.iter().zip(&all) {
        assert_eq!((&stored.body, stored.frame), (&open.body, open.frame));
    }
    match handle.recorded(&SessionId::new("none"), Seq(0), 1).await {
        Err(Error::Refusal(refusal)) => assert_eq!(refusal.code, RefusalCode::SessionNotFound),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn large_events_come_a_few_at_a_time_and_damaged_ones_are_passed_over() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    for _ in 0..6 {
        world.model.push(Script::Say("done"));
        let mut viewer = watch(&handle, &id).await;
        handle.prompt(&id, Prompt::text("x".repeat(4 << 20))).await.unwrap();
        until_done(&mut viewer).await;
    }
    let first = handle.recorded(&id, Seq(0), 1_000).await.unwrap();
    let prompts = |events: &[std::sync::Arc<runtime_api::Shown>]| {
        events.iter().filter(|event| matches!(event.body, EventBody::PromptStarted(_))).count()
    };
    assert_eq!(prompts(&first), 2);
    let rest = handle.recorded(&id, first.last().unwrap().seq.unwrap(), 1_000).await.unwrap();
    assert_eq!(prompts(&rest), 2);
    let count = handle.recorded(&id, Seq(0), 5).await.unwrap().len();
    world.disk.damage(&id, |rows| rows[0].body = "{".into());
    let left = handle.recorded(&id, Seq(0), 5).await.unwrap();
    assert_eq!((count, left.len()), (5, 5));
    assert!(!matches!(left[0].body, EventBody::SessionStart(_)));
}
