//! H1: the process dies at every append, once before it is durable and once after; each time the
//! session opens again, nothing acknowledged is lost, nothing runs twice, and a strict provider
//! accepts the next prompt. The same sweep against the built program and SQLite is in `app`.

use std::future::Future;
use std::sync::{Arc, Mutex};

use protocol::{EventBody, SessionId, TurnEnd};
use runtime_api::{AgentSettings, Handle, Prompt, Shown};
use testkit::memory_store::Crash;

use crate::house::{Script, World, session, turn, watch};

/// Runs a process's whole life on a runtime of its own; dropping that is its death.
fn life<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

/// What the first life saw before it died.
#[derive(Clone, Default)]
struct Witness {
    session: Arc<Mutex<Option<SessionId>>>,
    shown: Arc<Mutex<Vec<Arc<Shown>>>>,
    accepted: Arc<Mutex<bool>>,
}

fn world() -> World {
    let world = World::default();
    world.model.push(Script::Call(vec![("look", "a"), ("touch", "b"), ("touch", "c")]));
    world.model.push(Script::Call(vec![("touch", "d")]));
    world.model.push(Script::Say("All done."));
    world
}

async fn first_life(handle: Handle, witness: &Witness) {
    let id = session(&handle).await;
    *witness.session.lock().unwrap() = Some(id.clone());
    let mut viewer = watch(&handle, &id).await;
    let shown = Arc::clone(&witness.shown);
    let seeing = async move {
        while let Some(event) = viewer.next_event().await {
            let is_last = matches!(event.body, EventBody::PromptFinished(_));
            shown.lock().unwrap().push(event);
            if is_last {
                break;
            }
        }
    };
    let asking = async {
        handle.prompt(&id, Prompt::text("do three things")).await.unwrap();
        *witness.accepted.lock().unwrap() = true;
    };
    tokio::join!(seeing, asking);
    handle.shutdown().await;
}

fn second_life(world: &World, witness: &Witness, label: &str) {
    let Some(id) = witness.session.lock().unwrap().clone() else { return };
    world.model.script.lock().unwrap().clear();
    world.model.push(Script::Say("I see what happened."));
    life(async {
        let handle = world.process();
        handle.open(&id, AgentSettings::default()).await.expect(label);
        let (done, _) = turn(&handle, &id, "what happened?").await;
        assert_eq!(done.result.reason, TurnEnd::Completed, "{label}: {:?}", done.result.message);
        assert_eq!(done.result.text, "I see what happened.", "{label}");
        handle.shutdown().await;
    });
    let rows = world.disk.rows(&id);
    for event in witness.shown.lock().unwrap().iter() {
        let Some(seq) = event.seq else { continue };
        let row = rows.iter().find(|row| row.seq == seq).expect(label);
        assert_eq!(row.body, event.body.encode().unwrap(), "{label}: shown and kept differ");
    }
    if *witness.accepted.lock().unwrap() {
        let is_kept = rows.iter().any(|row| row.body.contains("do three things"));
        assert!(is_kept, "{label}: an accepted prompt is lost");
    }
    let log: Vec<EventBody> =
        rows.iter().map(|row| EventBody::decode(row.kind, &row.body).unwrap()).collect();
    let count = |is: fn(&EventBody) -> bool| log.iter().filter(|body| is(body)).count();
    let started = count(|body| matches!(body, EventBody::PromptStarted(_)));
    let done = count(|body| matches!(body, EventBody::Done(_)));
    assert_eq!(started, done, "{label}: one terminal event per turn");
    for name in ["b", "c", "d"] {
        assert!(world.effect_count(name) <= 1, "{label}: {name} was had twice");
    }
}

#[test]
fn h1_death_at_every_append() {
    for crash in [Crash::Lost, Crash::Unanswered] {
        for n in 1.. {
            let label = format!("death at append {n}, {crash:?}");
            let (world, witness) = (world(), Witness::default());
            world.disk.crash_at(n, crash);
            life(async {
                let handle = world.process();
                tokio::select! {
                    () = world.disk.crashed() => {}
                    () = first_life(handle, &witness) => {}
                }
            });
            if !world.disk.has_crashed() {
                assert!(n > 5, "the turn has many appends, got {n}");
                break;
            }
            second_life(&world, &witness, &label);
        }
    }
}

/// Dies after that many turns of the scheduler: at every await between model, tools and log.
#[test]
fn h1_death_at_every_await() {
    for n in 0.. {
        let label = format!("death at await {n}");
        let (world, witness) = (world(), Witness::default());
        let store = world.disk.process();
        let is_over = life(async {
            let handle = world.process_on(Arc::clone(&store) as _);
            let mut living = std::pin::pin!(first_life(handle, &witness));
            let mut polls = 0;
            let ended = std::future::poll_fn(|context| {
                if living.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(true);
                }
                polls += 1;
                if polls > n {
                    return std::task::Poll::Ready(false);
                }
                // Time only flies when everybody waits, so the tasks are given every turn.
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            });
            // Nobody ever waits while the turns are counted, so the clock is moved by hand.
            let flying = async {
                loop {
                    tokio::time::advance(std::time::Duration::from_millis(1)).await;
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! { ended = ended => ended, () = flying => unreachable!() }
        });
        if is_over {
            assert!(n > 20, "the turn has many awaits, got {n}");
            break;
        }
        store.kill();
        second_life(&world, &witness, &label);
        assert!(n < 5_000, "the first life never ends");
    }
}
