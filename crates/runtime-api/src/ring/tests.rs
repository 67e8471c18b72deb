//! The ring against a simple model of it.

use std::time::Duration;

use proptest::prelude::*;
use protocol::event::{Notice, NoticeLevel, TextDelta};
use protocol::{Event, EventBody, FrameId, SessionId, Timestamp};

use super::*;

/// Makes an event with a number: recorded ones have it as their position too.
fn event(number: u64, is_recorded: bool, bytes: usize) -> Arc<Shown> {
    let body: EventBody = match is_recorded {
        true => Notice { level: NoticeLevel::Info, code: None, message: String::new() }.into(),
        false => TextDelta { text: String::new() }.into(),
    };
    let (session_id, ts) = (SessionId::new("s"), Timestamp(0));
    let seq = is_recorded.then_some(Seq(number));
    let event = Event { body, session_id, seq, frame: FrameId(number), ts };
    Arc::new(Shown::sized(event, bytes))
}

fn delta(number: u64) -> Arc<Shown> {
    event(number, false, 1)
}

#[derive(Clone, Debug)]
enum Step {
    Push { is_recorded: bool, bytes: usize },
    Read(usize, usize),
    Join,
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0..2_000_usize)
            .prop_map(|(is_recorded, bytes)| Step::Push { is_recorded, bytes }),
        4 => (any::<usize>(), 1..6_usize).prop_map(|(who, count)| Step::Read(who, count)),
        1 => Just(Step::Join),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

const EVENTS_MAX: usize = 8;
const BYTES_MAX: usize = 6_000;

/// What a ring is, said simply: a list of everything, and for each reader a place in it.
#[derive(Default)]
struct Simple {
    all: Vec<Arc<Shown>>,
    /// Everything before this is gone.
    first: usize,
    places: Vec<usize>,
}

impl Simple {
    fn push(&mut self, event: Arc<Shown>) {
        if self.places.is_empty() {
            return;
        }
        self.forget();
        let weight = |events: &[Arc<Shown>]| events.iter().map(|it| it.weight()).sum::<usize>();
        while self.all.len() - self.first >= EVENTS_MAX
            || (self.first < self.all.len()
                && weight(&self.all[self.first..]) + event.weight() > BYTES_MAX)
        {
            self.first += 1;
        }
        self.all.push(event);
    }

    fn forget(&mut self) {
        let least = self.places.iter().copied().min().unwrap_or(self.all.len());
        self.first = self.first.max(least);
    }
}

proptest! {
    #[test]
    fn a_ring_is_what_the_simple_one_is(steps in proptest::collection::vec(step(), 0..200)) {
        let ring = Ring::bounded(EVENTS_MAX, BYTES_MAX);
        let mut simple = Simple::default();
        let mut readers: Vec<RingReader> = Vec::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Push { is_recorded, bytes } => {
                    number += 1;
                    let event = event(number, is_recorded, bytes);
                    simple.push(Arc::clone(&event));
                    ring.push(event);
                }
                Step::Read(who, count) if !readers.is_empty() => {
                    let who = who % readers.len();
                    for _ in 0..count {
                        read(&mut readers[who], &mut simple, who)?;
                    }
                }
                Step::Join => {
                    readers.push(ring.reader());
                    simple.places.push(simple.all.len());
                }
                Step::Leave(who) if !readers.is_empty() => {
                    let who = who % readers.len();
                    drop(readers.remove(who));
                    simple.places.remove(who);
                }
                Step::Read(..) | Step::Leave(_) => {}
            }
            simple.forget();
            let entries = ring.shared.entries();
            let kept = &simple.all[simple.first..];
            prop_assert_eq!(entries.queue.len(), kept.len());
            prop_assert_eq!(entries.bytes, kept.iter().map(|it| it.weight()).sum::<usize>());
            prop_assert_eq!(ring_readers(&entries), readers.len());
        }
    }
}

fn ring_readers(entries: &Entries) -> usize {
    entries.readers as usize
}

fn read(reader: &mut RingReader, simple: &mut Simple, who: usize) -> Result<(), TestCaseError> {
    let place = simple.places[who];
    let found = reader.try_next();
    if place < simple.first {
        let gone = simple.all[..simple.first].iter().filter_map(|event| event.seq).max();
        let Some(Found::Lagged { dropped, through }) = found else {
            return Err(TestCaseError::fail(format!("expected a gap, got {found:?}")));
        };
        prop_assert_eq!(dropped, (simple.first - place) as u64);
        prop_assert_eq!(through, gone.unwrap_or_default());
        simple.places[who] = simple.first;
    } else if let Some(event) = simple.all.get(place) {
        let Some(Found::Event(found)) = found else {
            return Err(TestCaseError::fail(format!("expected an event, got {found:?}")));
        };
        prop_assert_eq!(found.frame, event.frame);
        simple.places[who] += 1;
    } else {
        prop_assert!(found.is_none(), "nothing is there, got {:?}", found);
    }
    Ok(())
}

#[test]
fn what_all_have_read_is_let_go_of_at_once() {
    let ring = Ring::new();
    let mut readers = [ring.reader(), ring.reader()];
    let event = delta(1);
    ring.push(Arc::clone(&event));
    for reader in &mut readers {
        assert!(matches!(reader.try_next(), Some(Found::Event(_))));
    }
    assert_eq!(Arc::strong_count(&event), 1, "the ring has let go of it");
}

#[test]
fn a_ring_that_is_read_is_small_again() {
    let ring = Ring::new();
    let mut reader = ring.reader();
    assert_eq!(ring.shared.entries().queue.capacity(), 0, "it begins with nothing");
    for number in 0..1_000 {
        ring.push(delta(number));
    }
    while let Some(found) = reader.try_next() {
        assert!(matches!(found, Found::Event(_)));
    }
    assert!(ring.shared.entries().queue.capacity() <= PLACES_KEPT);
    assert!(std::mem::size_of::<Shared>() <= 256, "{}", std::mem::size_of::<Shared>());
}

#[test]
fn large_events_are_bounded_by_their_bytes() {
    let ring = Ring::new();
    let mut reader = ring.reader();
    for number in 1..=64 {
        ring.push(event(number, true, 256 * 1024));
        assert!(ring.shared.entries().bytes <= RING_BYTES_MAX);
    }
    let Some(Found::Lagged { dropped, through }) = reader.try_next() else { panic!("a gap") };
    assert!(dropped > 40, "{dropped}");
    assert_eq!(through, Seq(dropped));
    ring.push(event(65, true, 2 * RING_BYTES_MAX));
    let Some(Found::Lagged { dropped, .. }) = reader.try_next() else { panic!("a gap") };
    assert!(dropped > 0);
    let Some(Found::Event(large)) = reader.try_next() else { panic!("the large one alone") };
    assert_eq!(large.frame, FrameId(65));
}

#[test]
fn nothing_is_kept_when_nobody_reads() {
    let ring = Ring::new();
    ring.push(delta(1));
    drop(ring.reader());
    ring.push(delta(2));
    assert_eq!((ring.readers(), ring.shared.entries().queue.len()), (0, 0));
    let mut late = ring.reader();
    assert!(late.try_next().is_none());
}

#[test]
fn the_end_comes_after_what_was_pushed() {
    let ring = Ring::new();
    let mut reader = ring.reader();
    ring.push(delta(1));
    drop(ring);
    assert!(matches!(reader.try_next(), Some(Found::Event(_))));
    assert!(matches!(reader.try_next(), Some(Found::Closed)));
}

#[tokio::test(start_paused = true)]
async fn waiting_may_be_given_up_and_taken_up_again() {
    let ring = Ring::new();
    let mut reader = ring.reader();
    for number in 1..=3 {
        let waited = tokio::time::timeout(Duration::from_millis(1), reader.next()).await;
        assert!(waited.is_err(), "nothing is there");
        ring.push(delta(number));
        let Found::Event(event) = reader.next().await else { panic!("an event") };
        assert_eq!(event.frame, FrameId(number));
    }
}

/// Readers on other threads get everything, in order, and are woken for the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_readers_get_everything() {
    const EVENTS: u64 = 500;
    let ring = Ring::new();
    let mut reading = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let mut reader = ring.reader();
        reading.spawn(async move {
            for number in 1..=EVENTS {
                let Found::Event(event) = reader.next().await else { panic!("event {number}") };
                assert_eq!(event.frame, FrameId(number));
            }
            assert!(matches!(reader.next().await, Found::Closed));
        });
    }
    for number in 1..=EVENTS {
        ring.push(delta(number));
        tokio::task::yield_now().await;
    }
    drop(ring);
    reading.join_all().await;
}
