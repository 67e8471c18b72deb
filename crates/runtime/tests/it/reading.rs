//! What can be read of sessions: messages, usage, models, copies up to a message.

use std::sync::atomic::Ordering;
use std::time::Duration;

use driver_api::{ModelInfo, Price};
use policy::{Layer, LayerName, Policy};
use protocol::event::{RewindScope, SessionEnd};
use protocol::{Message, MessageId, RefusalCode, Role, SessionId, Wire};
use runtime_api::{AgentSettings, Error, ForkPoint, GoBack, Handle, MessagesAfter};

use crate::house::*;

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (RefusalCode, String) {
    match answer {
        Err(Error::Refusal(refusal)) => (refusal.code, refusal.message),
        other => panic!("a refusal is expected: {other:?}"),
    }
}

/// Lets a turn call twice at once and then say something.
async fn long_turn(world: &World, handle: &Handle, id: &SessionId, prompt: &str) {
    world.model.push(Script::Call(vec![("look", "a"), ("look", "b")]));
    world.model.push(Script::Say("Seen."));
    turn(handle, id, prompt).await;
}

async fn all(handle: &Handle, id: &SessionId) -> Vec<Message> {
    handle.messages(id, MessagesAfter::Start, 1_000).await.unwrap().messages
}

fn ids(messages: &[Message]) -> Vec<&MessageId> {
    messages.iter().map(|message| &message.id).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_of_messages_follow_each_other_wherever_the_session_is() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    for _ in 0..20 {
        long_turn(&world, &handle, &id, "look twice").await;
    }
    let whole = all(&handle, &id).await;
    assert_eq!(whole.len(), 100);
    let other = world.process();
    for reader in ["awake", "asleep", "another process"] {
        if reader == "asleep" {
            tokio::time::sleep(Duration::from_secs(120)).await;
        }
        let reading = if reader == "another process" { &other } else { &handle };
        let mut pages = Vec::new();
        let mut after = MessagesAfter::Start;
        loop {
            let page = reading.messages(&id, after, 7).await.unwrap().messages;
            let Some(last) = page.last() else { break };
            after = MessagesAfter::Message(last.id.clone());
            pages.extend(page);
        }
        assert_eq!(pages, whole, "{reader}");
        // Not only where a page ended.
        for (place, message) in whole.iter().enumerate() {
            let after = MessagesAfter::Message(message.id.clone());
            let page = reading.messages(&id, after, 3).await.unwrap().messages;
            let end = whole.len().min(place + 4);
            assert_eq!(ids(&page), ids(&whole[place + 1..end]), "{reader}");
        }
        for unknown in ["nobody", "r1", "r99999", "r", ""] {
            let after = MessagesAfter::Message(MessageId::new(unknown));
            let (code, message) = refusal(reading.messages(&id, after, 3).await);
            assert_eq!(code, RefusalCode::Invalid);
            assert!(message.starts_with("after: "), "{message}");
        }
    }
}

/// A door's page of a thousand messages says that one more follows.
#[tokio::test(start_paused = true)]
async fn a_page_tells_honestly_whether_more_follow() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    for _ in 0..200 {
        long_turn(&world, &handle, &id, "look twice").await;
    }
    let page = handle.messages(&id, MessagesAfter::Start, 1_000).await.unwrap();
    assert_eq!((page.messages.len(), page.has_more), (1_000, false));
    world.model.push(Script::Say("One more."));
    turn(&handle, &id, "and?").await;
    for asked in [1_000, 5_000] {
        let page = handle.messages(&id, MessagesAfter::Start, asked).await.unwrap();
        assert_eq!((page.messages.len(), page.has_more), (1_000, true), "{asked}");
        let after = MessagesAfter::Message(page.messages.last().unwrap().id.clone());
        let rest = handle.messages(&id, after, asked).await.unwrap();
        assert_eq!((rest.messages.len(), rest.has_more), (2, false), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_large_messages_ends_early() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let large = "x".repeat(7 << 20);
    for _ in 0..3 {
        world.model.push(Script::Say("Long."));
        turn(&handle, &id, &large).await;
    }
    let page = handle.messages(&id, MessagesAfter::Start, 100).await.unwrap();
    assert_eq!((page.messages.len(), page.has_more), (4, true));
    let after = MessagesAfter::Message(page.messages.last().unwrap().id.clone());
    let rest = handle.messages(&id, after, 100).await.unwrap();
    assert_eq!((rest.messages.len(), rest.has_more), (2, false));
}

#[tokio::test(start_paused = true)]
async fn a_message_of_another_session_is_no_place_in_this_one() {
    let world = World::default();
    let handle = world.process();
    let (one, two) = (session(&handle).await, session(&handle).await);
    long_turn(&world, &handle, &one, "look").await;
    long_turn(&world, &handle, &two, "look").await;
    let last = all(&handle, &one).await.pop().unwrap().id;
    let after = MessagesAfter::Message(last);
    let (_, message) = refusal(handle.messages(&two, after, 3).await);
    assert!(message.starts_with("after: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_was_rewound_is_not_listed_and_is_still_a_place_to_read_on_from() {
    let world = World::default();
    world.around.has_checkpoints.store(true, Ordering::Relaxed);
    let handle = world.process();
    let id = session(&handle).await;
    long_turn(&world, &handle, &id, "first").await;
    long_turn(&world, &handle, &id, "second").await;
    let before = all(&handle, &id).await;
    let point = handle.points(&id).await.unwrap()[1].id.clone();
    handle.rewind(&id, &point, RewindScope::Conversation, GoBack::default()).await.unwrap();
    world.model.push(Script::Say("Third."));
    turn(&handle, &id, "third").await;
    let now = all(&handle, &id).await;
    assert_eq!((ids(&now[..5]), now.len()), (ids(&before[..5]), 7));
    let after = MessagesAfter::Message(before[7].id.clone());
    let rest = handle.messages(&id, after, 100).await.unwrap().messages;
    assert_eq!(ids(&rest), ids(&now[5..]));
}

#[tokio::test(start_paused = true)]
async fn usage_is_told_by_model_in_the_order_of_first_use() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    // Of nothing, the price is nothing: not -0.0 either.
    let none = handle.usage(&id).await.unwrap();
    assert_eq!(none.cost_usd.map(f64::to_bits), Some(0.0_f64.to_bits()), "{none:?}");
    long_turn(&world, &handle, &id, "one").await;
    let one = handle.usage(&id).await.unwrap();
    assert_eq!((one.steps, one.prompts, one.usage.input_tokens), (2, 1, 200));
    assert_eq!(one.by_model.len(), 1);
    let cost = one.cost_usd.unwrap();
    assert!(cost > 0.0 && one.by_model[0].2 == Some(cost), "{one:?}");
    let known = world.model.known();
    let other = ModelInfo { id: "fake/other".into(), price: None, ..known };
    *world.model.info.lock().unwrap() = Some(other);
    handle.set_model(&id, "fake/other").await.unwrap();
    world.model.push(Script::Say("Dear or cheap?"));
    turn(&handle, &id, "two").await;
    let two = handle.usage(&id).await.unwrap();
    assert_eq!((two.steps, two.prompts, two.usage.input_tokens), (3, 2, 300));
    assert_eq!(two.cost_usd, None, "one price is not known");
    let named: Vec<_> = two.by_model.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(named, ["fake/model", "fake/other"]);
    assert_eq!((two.by_model[0].2, two.by_model[1].2), (Some(cost), None));
    // Asleep, closed, and as a copy it tells the same.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(handle.usage(&id).await.unwrap(), two);
    let copy = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    handle.close(&id, SessionEnd::Closed).await.unwrap();
    assert_eq!(handle.usage(&id).await.unwrap(), two);
    assert_eq!(handle.usage(&copy).await.unwrap(), two);
    let nobody = SessionId::new("nobody");
    assert_eq!(refusal(handle.usage(&nobody).await).0, RefusalCode::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn models_are_listed_with_the_default_first_as_far_as_policy_allows() {
    let world = World::default();
    let info = |id: &str| ModelInfo {
        id: id.into(),
        provider: id.split('/').next().unwrap_or_default().into(),
        wire: Wire::Scripted,
        context_window: Some(1_000),
        max_output: None,
        price: Some(Price { input: 1.0, output: 1.0, cache_read: 1.0, cache_write: 1.0 }),
        images: false,
    };
    *world.model.listed.lock().unwrap() =
        vec![info("dear/one"), info("fake/model"), info("fake/b")];
    let (handle, policies) = world.process_with_policies();
    let listed = || -> Vec<(String, bool)> {
        handle.models().into_iter().map(|model| (model.id, model.is_default)).collect()
    };
    let named = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
        all.iter().map(|(id, is_default)| ((*id).to_owned(), *is_default)).collect()
    };
    assert_eq!(listed(), named(&[("fake/model", true), ("dear/one", false), ("fake/b", false)]));
    let mut layer = Layer::new(LayerName::Remote);
    layer.models = Some(vec!["fake/*".to_owned()]);
    policies.replace(Policy::default().tighten(layer));
    assert_eq!(listed(), named(&[("fake/model", true), ("fake/b", false)]));
    assert_eq!(handle.models()[1].context_window, Some(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_copy_up_to_a_message_holds_what_belongs_to_it() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    long_turn(&world, &handle, &id, "first").await;
    long_turn(&world, &handle, &id, "second").await;
    let whole = all(&handle, &id).await;
    // The prompt alone; an answer with its results; a result with its siblings; a last answer.
    for (place, count) in [(0, 1), (1, 4), (2, 4), (3, 4), (4, 5), (5, 6), (6, 9), (9, 10)] {
        let until = ForkPoint::Message(whole[place].id.clone());
        let copy = handle.fork(&id, until).await.unwrap();
        assert!(!copy.is_open && copy.last_frame.0 > 0);
        let held = all(&handle, &copy.id).await;
        let said = |messages: &[Message]| -> Vec<(Role, String)> {
            messages.iter().map(|it| (it.role, format!("{:?}", it.content))).collect()
        };
        assert_eq!(said(&held), said(&whole[..count]), "up to message {place}");
        // What is whole is not called interrupted, and what is not is.
        let is_cut = world.disk.rows(&copy.id).iter().any(|row| row.body.contains("interrupted"));
        assert_eq!(is_cut, !matches!(place, 4 | 9), "up to message {place}");
        handle.open(&copy.id, AgentSettings::default()).await.unwrap();
        world.model.push(Script::Say("Going on."));
        let (done, _) = turn(&handle, &copy.id, "go on").await;
        assert_eq!(done.result.text, "Going on.");
    }
    let unknown = ForkPoint::Message(MessageId::new("nobody"));
    let (code, message) = refusal(handle.fork(&id, unknown).await);
    assert_eq!(code, RefusalCode::Invalid);
    assert!(message.starts_with("messageId: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_session_in_the_middle_of_a_turn_is_copied_up_to_a_message_only() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    long_turn(&world, &handle, &id, "first").await;
    world.model.push(Script::Stall("half"));
    handle.prompt(&id, runtime_api::Prompt::text("second")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (code, _) = refusal(handle.fork(&id, ForkPoint::End).await);
    assert_eq!(code, RefusalCode::SessionBusy);
    let last = all(&handle, &id).await[3].id.clone();
    handle.fork(&id, ForkPoint::Message(last)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_closed_takes_no_writes() {
    let world = World::default();
    let handle = world.process();
    handle.check().await.unwrap();
    handle.shutdown().await;
    assert!(matches!(handle.check().await, Err(Error::Fault(_))));
}
