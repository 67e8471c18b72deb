//! A viewer of a session: the record from a number on, then what happens, as long as the client
//! stays. It never slows a run: what it does not take in time is left out, and told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use protocol::event::SessionEnd;
use protocol::{Refusal, RefusalCode, SessionId};
use runtime_api::Error;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};

use crate::door::Shared;
use crate::error::{Code, Refused, refused};
use crate::follower::Follower;
use crate::frame::Frame;
use crate::projection::Projection;
use crate::record::Replay;

/// Frames that wait for a viewer: what the description promises.
const FRAMES_MAX: usize = 1_000;

/// Bytes that wait for a viewer: a thousand usual frames, and some large ones. Beyond it frames are
/// left out as if there were too many.
const BYTES_MAX: usize = 8 << 20;

/// Frames of the record that are read on at a time, of a session that is not open here.
const PAGE: usize = 1_000;

/// How often the record is looked at of a session that is not open here.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The frames of one viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    door: Shared,
    /// What is read of the record first.
    replay: Option<Replay>,
    /// Bytes of it that were read.
    ready: VecDeque<Bytes>,
    live: mpsc::Receiver<Bytes>,
    /// What waits in `live`.
    waiting: Arc<Waiting>,
    #[expect(dead_code, reason = "held until the stream is dropped")]
    seat: OwnedSemaphorePermit,
}

impl Viewer {
    /// Begins to watch a session: from the frame after `after` on, else from now on.
    ///
    /// # Errors
    /// 404, and 503 when too many watch.
    pub(crate) async fn begin(
        door: &Shared,
        id: &SessionId,
        after: Option<u64>,
    ) -> Result<Self, Refused> {
        let seat = Arc::clone(&door.seats).try_acquire_owned();
        let seat = seat.map_err(|_| Refused::from(Code::Capacity))?;
        let now = door.records.at_end(&door.handle, id).await.map_err(refused)?;
        // All that is live comes after this place, and all that is replayed before it.
        let replay = after
            .filter(|after| *after < now.count)
            .map(|after| door.records.replay(id, after, now.at));
        let follower = Follower::from(&door.handle, id, now.clone()).await;
        let follower = match follower {
            Ok(follower) => Some(follower),
            Err(error) if is_away(&error) => None,
            Err(error) => return Err(refused(error)),
        };
        let (sender, live) = mpsc::channel(FRAMES_MAX);
        let waiting = Arc::<Waiting>::default();
        let pump = Pump {
            door: Shared::clone(door),
            session: id.clone(),
            queue: Queue { sender, dropped: 0, waiting: Arc::clone(&waiting) },
            projection: now,
        };
        door.tasks.spawn(pump.run(follower));
        let door = Shared::clone(door);
        Ok(Self { door, replay, ready: VecDeque::new(), live, waiting, seat })
    }

    /// Waits for the next frame; none where the session is deleted, or the program stops.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            let Some(replay) = &mut self.replay else {
                let frame = self.live.recv().await?;
                self.waiting.took(frame.len());
                return Some(frame);
            };
            match replay.next(&self.door.handle).await {
                Ok(Some(frames)) => self.ready.extend(frames.iter().map(Frame::to_bytes)),
                Ok(None) => self.replay = None,
                // A session that was deleted meanwhile says its end.
                Err(error) if is_gone(&error) => self.replay = None,
                Err(error) => {
                    tracing::error!(%error, "a record cannot be replayed");
                    return None;
                }
            }
        }
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refusal(Refusal { code: RefusalCode::SessionNotFound, .. }))
}

/// Tells whether a session cannot be watched where it is: it is not open here.
fn is_away(error: &Error) -> bool {
    is_gone(error)
        || matches!(error, Error::Refusal(Refusal { code: RefusalCode::OwnedElsewhere, .. }))
}

/// Takes what happens in a session and puts it where its viewer takes it.
struct Pump {
    door: Shared,
    session: SessionId,
    queue: Queue,
    projection: Projection,
}

/// How a part of the watching ended.
enum Part {
    /// The session is not open here any more.
    Away,
    /// Nothing more comes, or nobody wants it.
    Over,
}

impl Pump {
    async fn run(mut self, mut follower: Option<Follower>) {
        loop {
            let part = match follower.take() {
                Some(open) => self.follow(open).await,
                None => self.look(&mut follower).await,
            };
            if matches!(part, Part::Over) {
                return;
            }
        }
    }

    /// Follows a session that is open here.
    async fn follow(&mut self, mut follower: Follower) -> Part {
        let sender = self.queue.sender.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = sender.closed() => return Part::Over,
                () = self.queue.told() => continue,
                next = follower.next() => next,
            };
            match next {
                Ok(Some(became)) => {
                    for frame in &became.frames {
                        self.queue.offer(frame);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(session = %self.session, %error, "a session is not followed");
                    break;
                }
            }
        }
        self.projection = follower.projection().clone();
        match follower.closed() {
            Some(SessionEnd::Deleted) => self.end().await,
            Some(SessionEnd::Shutdown) => Part::Over,
            Some(SessionEnd::Closed) | None => Part::Away,
        }
    }

    /// Looks at the record of a session that is not open here, until it is.
    async fn look(&mut self, follower: &mut Option<Follower>) -> Part {
        tokio::select! {
            biased;
            () = self.queue.sender.closed() => return Part::Over,
            () = self.door.stopping.cancelled() => return Part::Over,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let (handle, id) = (&self.door.handle, &self.session);
        match Follower::from(handle, id, self.projection.clone()).await {
            Ok(open) => {
                *follower = Some(open);
                return Part::Away;
            }
            Err(error) if is_away(&error) => {}
            Err(_) => return Part::Over,
        }
        let info = match handle.info(id).await {
            Err(error) if is_gone(&error) => return self.end().await,
            info => info,
        };
        if !info.is_ok_and(|info| info.last_seq > self.projection.at.0) {
            return Part::Away;
        }
        match handle.recorded(id, self.projection.at, PAGE).await {
            Ok(page) => {
                for event in &page {
                    for frame in &self.projection.fold(event).frames {
                        self.queue.offer(frame);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(session = %id, %error, "a record is not read on");
            }
        }
        Part::Away
    }

    /// Says that the session is deleted. Nothing happens in it any more that would have to wait.
    async fn end(&mut self) -> Part {
        let sender = self.queue.sender.clone();
        let end = Frame::end(&self.session);
        tokio::select! {
            () = sender.closed() => {}
            () = self.queue.send(&end) => {}
        }
        Part::Over
    }
}

/// Bytes that wait in a queue.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// Told when some were taken.
    less: Notify,
}

impl Waiting {
    /// Counts bytes that are put in; false where they would be too many. What is alone fits,
    /// however large it is.
    fn put(&self, length: usize) -> bool {
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        let fits = before == 0 || before.saturating_add(length) <= BYTES_MAX;
        if !fits {
            self.took(length);
        }
        fits
    }

    /// Counts bytes that are put in whatever waits there.
    fn add(&self, length: usize) {
        self.bytes.fetch_add(length, Ordering::Relaxed);
    }

    /// Counts bytes that were taken, or not put in.
    fn took(&self, length: usize) {
        self.bytes.fetch_sub(length, Ordering::Relaxed);
        self.less.notify_one();
    }

    /// Tells whether there is room for more than a word about what is missing: else there would be
    /// one after each frame that is left out.
    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) <= BYTES_MAX / 2
    }

    async fn room(&self) {
        while !self.has_room() {
            self.less.notified().await;
        }
    }
}

/// The queue of a viewer: the newest frames are dropped when it is full, and where they are
/// missing their number is told.
struct Queue {
    sender: mpsc::Sender<Bytes>,
    /// How many frames are missing at its end.
    dropped: u64,
    waiting: Arc<Waiting>,
}

impl Queue {
    /// Puts a frame in, or drops it.
    fn offer(&mut self, frame: &Frame) {
        if self.dropped > 0 && !self.tell() {
            self.dropped += 1;
            return;
        }
        if !self.put(frame.to_bytes()) {
            self.dropped += 1;
        }
    }

    /// Tells what is missing, where there is room for it.
    fn tell(&mut self) -> bool {
        let is_told = self.waiting.has_room() && self.put(Frame::lagged(self.dropped).to_bytes());
        if is_told {
            self.dropped = 0;
        }
        is_told
    }

    fn put(&self, bytes: Bytes) -> bool {
        let length = bytes.len();
        if !self.waiting.put(length) {
            return false;
        }
        let is_in = self.sender.try_send(bytes).is_ok();
        if !is_in {
            self.waiting.took(length);
        }
        is_in
    }

    /// Tells what is missing as soon as there is room; never ends where nothing is missing.
    async fn told(&mut self) {
        if self.dropped == 0 {
            return std::future::pending().await;
        }
        self.waiting.room().await;
        match self.sender.reserve().await {
            Ok(room) => {
                let told = Frame::lagged(self.dropped).to_bytes();
                self.waiting.add(told.len());
                room.send(told);
                self.dropped = 0;
            }
            // Nobody reads: that is seen beside.
            Err(_) => std::future::pending().await,
        }
    }

    /// Puts a frame in and waits for room.
    async fn send(&mut self, frame: &Frame) {
        if self.dropped > 0 {
            self.told().await;
        }
        let bytes = frame.to_bytes();
        self.waiting.add(bytes.len());
        // A viewer that left needs no end.
        drop(self.sender.send(bytes).await);
    }
}

#[cfg(test)]
mod tests;
