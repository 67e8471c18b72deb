//! Subscriptions: their backlog, and how they heal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use protocol::event::{Notice, NoticeLevel, TextDelta};
use protocol::{Event, EventBody, SessionId, Timestamp};

use super::*;
use crate::Ring;

/// A session as a list: recorded events, of which doors do not show every fifth.
#[derive(Debug, Default)]
struct FakeLog {
    rows: Mutex<Vec<Arc<Shown>>>,
    window: usize,
    page: usize,
    reads: AtomicUsize,
    fails: std::sync::atomic::AtomicBool,
}

fn is_hidden(seq: Seq) -> bool {
    seq.0.is_multiple_of(5)
}

impl FakeLog {
    fn shown(&self, from: Seq, until: Seq) -> Vec<Arc<Shown>> {
        let rows = self.rows.lock().unwrap();
        let wanted = |event: &&Arc<Shown>| {
            let seq = event.seq.unwrap();
            from <= seq && seq <= until && !is_hidden(seq)
        };
        rows.iter().filter(wanted).cloned().collect()
    }
}

#[async_trait]
impl Log for FakeLog {
    async fn find(&self, position: Position, until: Seq) -> Result<Start, Fault> {
        tokio::task::yield_now().await;
        let all = self.shown(Seq(1), Seq(u64::MAX));
        let window = all.iter().rev().nth(self.window - 1).and_then(|event| event.seq);
        let from = match position {
            Position::Live => until.next(),
            Position::After(seq) => seq.next(),
            Position::From(seq) => seq,
            Position::AfterFrame(frame) => {
                let rows = self.rows.lock().unwrap();
                let first = rows.iter().find(|event| event.frame > frame);
                first.map_or(until.next(), |event| event.seq.unwrap())
            }
        };
        let start = from.max(window.unwrap_or(Seq(1)).min(until.next()));
        let dropped = self.shown(from, Seq(start.0 - 1)).len() as u64;
        Ok(Start { from: start, dropped })
    }

    async fn page(&self, from: Seq, until: Seq) -> Result<Arc<LogPage>, Fault> {
        tokio::task::yield_now().await;
        if self.fails.load(Ordering::Relaxed) {
            return Err(Fault::new("the disk is gone"));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        // Pages begin earlier and end later than they were asked for: they are shared.
        let first = Seq(from.0 - (from.0 - 1) % 3);
        let last = self.rows.lock().unwrap().len() as u64;
        let through = Seq((from.0 + self.page as u64).min(last));
        assert!(from <= until && from <= through, "{from:?} {until:?}");
        let events = self.shown(first, through);
        Ok(Arc::new(LogPage { from: first, through, events, lost: 0 }))
    }
}

/// A session that records and shows.
struct Session {
    log: Arc<FakeLog>,
    ring: Ring,
    frame: u64,
}

impl Session {
    fn new(window: usize, page: usize) -> Self {
        let log = Arc::new(FakeLog { window, page, ..FakeLog::default() });
        Self { log, ring: Ring::bounded(4, 1 << 20), frame: 0 }
    }

    fn event(&self, body: EventBody, seq: Option<Seq>) -> Arc<Shown> {
        let (session_id, frame) = (SessionId::new("s"), FrameId(self.frame));
        Arc::new(Event { body, session_id, seq, frame, ts: Timestamp(0) }.into())
    }

    fn record(&mut self) {
        let seq = Seq(self.last().0 + 1);
        self.frame += u64::from(!is_hidden(seq));
        let message = format!("event {}", seq.0);
        let body = Notice { level: NoticeLevel::Info, code: None, message }.into();
        let event = self.event(body, Some(seq));
        self.log.rows.lock().unwrap().push(Arc::clone(&event));
        if !is_hidden(seq) {
            self.ring.push(event);
        }
    }

    fn say(&mut self) {
        self.frame += 1;
        self.ring.push(self.event(TextDelta { text: "word".into() }.into(), None));
    }

    fn last(&self) -> Seq {
        Seq(self.log.rows.lock().unwrap().len() as u64)
    }

    fn subscribe(&self, position: Position) -> Subscription {
        let source = Subscription::ring(VecDeque::new(), self.ring.reader());
        let subscription = source.with_log(Arc::clone(&self.log) as _, self.last());
        match position {
            Position::Live => subscription,
            position => subscription.replaying(position),
        }
    }
}

/// What a viewer has seen.
#[derive(Default)]
struct Seen {
    recorded: Vec<Seq>,
    frames: Vec<FrameId>,
    dropped: u64,
}

impl Seen {
    fn take(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Gap { dropped } => self.dropped += dropped,
            Delivery::Event(event) => {
                self.frames.push(event.frame);
                self.recorded.extend(event.seq);
            }
        }
    }

    /// Checks that everything after a position was seen once, in order, but for what was told.
    fn check(&self, session: &Session, from: Seq) {
        let frames_rise = self.frames.is_sorted_by(|a, b| a < b);
        assert!(frames_rise, "frames rise: {:?}", self.frames);
        let wanted = session.log.shown(from, Seq(u64::MAX)).len() as u64;
        let seen = self.recorded.len() as u64;
        assert_eq!(seen + self.dropped, wanted, "from {from:?}: {:?}", self.recorded);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Record,
    Say,
    /// Reads so often, and gives the waiting up when nothing is there.
    Read(usize),
    /// Reads what is there.
    ReadNow(usize),
    GiveUp,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Record),
        3 => Just(Step::Say),
        2 => (1..5_usize).prop_map(Step::Read),
        1 => (1..5_usize).prop_map(Step::ReadNow),
        1 => Just(Step::GiveUp),
    ]
}

async fn poll_once(viewer: &mut Subscription) -> Option<Delivery> {
    let mut next = std::pin::pin!(viewer.next());
    std::future::poll_fn(|context| {
        use std::task::Poll;
        match next.as_mut().poll(context) {
            Poll::Ready(delivery) => Poll::Ready(delivery),
            Poll::Pending => Poll::Ready(None),
        }
    })
    .await
}

proptest! {
    #[test]
    fn whatever_a_viewer_does_it_sees_everything_once(
        before in 0..40_usize,
        start in 0..50_u64,
        (window, page) in (3..30_usize, 1..9_usize),
        by_frame in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut session = Session::new(window, page);
            for _ in 0..before {
                session.record();
            }
            let rows = session.log.rows.lock().unwrap().clone();
            let (position, from) = match rows.get(usize::try_from(start).unwrap()) {
                Some(event) if by_frame => {
                    let later = rows.iter().find(|it| it.frame > event.frame);
                    let from = later.map_or(session.last().next(), |it| it.seq.unwrap());
                    (Position::AfterFrame(event.frame), from)
                }
                Some(event) => (Position::After(event.seq.unwrap()), event.seq.unwrap().next()),
                // It is in the future.
                None => (Position::AfterFrame(FrameId(start + 1_000)), session.last().next()),
            };
            let mut viewer = session.subscribe(position);
            let mut seen = Seen::default();
            for step in steps {
                match step {
                    Step::Record => session.record(),
                    Step::Say => session.say(),
                    Step::Read(count) => {
                        for _ in 0..count {
                            let wait = std::time::Duration::from_millis(1);
                            let next = tokio::time::timeout(wait, viewer.next()).await;
                            let Ok(Some(delivery)) = next else { break };
                            seen.take(delivery);
                        }
                    }
                    Step::ReadNow(count) => {
                        for delivery in std::iter::from_fn(|| viewer.try_next()).take(count) {
                            seen.take(delivery);
                        }
                    }
                    Step::GiveUp => {
                        if let Some(delivery) = poll_once(&mut viewer).await {
                            seen.take(delivery);
                        }
                    }
                }
            }
            let log = Arc::clone(&session.log);
            session.ring = Ring::new();
            while let Some(delivery) = viewer.next().await {
                seen.take(delivery);
            }
            session.log = log;
            seen.check(&session, from);
        });
    }
}

#[tokio::test]
async fn a_viewer_that_fell_behind_loses_only_deltas() {
    let mut session = Session::new(1_000, 8);
    let mut viewer = session.subscribe(Position::Live);
    for _ in 0..50 {
        session.say();
        session.record();
    }
    let mut seen = Seen::default();
    while seen.recorded.len() < 40 {
        seen.take(viewer.next().await.unwrap());
    }
    seen.check(&session, Seq(1));
    assert_eq!(seen.dropped, 0, "nothing recorded is missing");
    assert!(seen.frames.len() < 50, "deltas are: {}", seen.frames.len());
}

#[tokio::test]
async fn a_replay_is_read_page_by_page_as_fast_as_it_is_taken() {
    let mut session = Session::new(1_000, 8);
    for _ in 0..100 {
        session.record();
    }
    let mut viewer = session.subscribe(Position::From(Seq(1)));
    assert_eq!(session.log.reads.load(Ordering::Relaxed), 0, "nothing is read before it is wanted");
    assert!(viewer.try_next().is_none(), "it is not there yet");
    for _ in 0..3 {
        viewer.next().await.unwrap();
    }
    assert_eq!(session.log.reads.load(Ordering::Relaxed), 1);
    assert!(viewer.try_next().is_some(), "the page is there");
}

#[tokio::test]
async fn a_stream_ends_when_its_log_cannot_be_read() {
    let mut session = Session::new(1_000, 8);
    session.record();
    session.log.fails.store(true, Ordering::Relaxed);
    let mut viewer = session.subscribe(Position::From(Seq(1)));
    assert!(viewer.next().await.is_none());
    session.record();
    assert!(viewer.next().await.is_none() && viewer.try_next().is_none(), "no hole is hidden");
}

#[tokio::test]
async fn without_a_log_a_gap_is_told() {
    let session = Session::new(1_000, 8);
    let mut viewer = Subscription::ring(VecDeque::new(), session.ring.reader());
    let mut session = session;
    for _ in 0..10 {
        session.say();
    }
    let Some(Delivery::Gap { dropped }) = viewer.next().await else { panic!("a gap") };
    assert_eq!(dropped, 6);
    assert!(viewer.try_next().is_some());
}
