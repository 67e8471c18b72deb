//! Reading recorded events again, for viewers that come late or fall behind: beside the session's
//! task, page by page, each page once for all who are at the same place.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use driver_api::{Fault, LogRow, Store, StoreError};
use protocol::{Event, EventBody, EventKind, FrameId, Seq, SessionId};
use runtime_api::{Log, LogPage, Position, Shown, Start};

use crate::kernel::{Marks, is_shown};

/// Events of one page: a few socket writes.
const PAGE_EVENTS: usize = 64;

/// Bytes after which a page ends, so that a viewer of large events holds few of them.
const PAGE_BYTES: usize = 256 * 1024;

/// How many times as many rows are read as before, as long as they are small: the first row is read
/// alone, since a few queued prompts with images would fill memory.
const MORE_ROWS: usize = 4;

/// The log of one session as its viewers read it.
#[derive(Debug)]
pub(crate) struct Replay {
    store: Arc<dyn Store>,
    session: SessionId,
    marks: Mutex<Marks>,
    /// Pages that viewers are reading. The log is read by one of them at a time, and others who
    /// want the same page wait for it: a storm of viewers costs what one does.
    pages: tokio::sync::Mutex<Vec<Weak<LogPage>>>,
}

impl Replay {
    pub(crate) fn new(store: Arc<dyn Store>, session: SessionId, marks: Marks) -> Self {
        let (marks, pages) = (Mutex::new(marks), tokio::sync::Mutex::default());
        Self { store, session, marks, pages }
    }

    /// Takes note of an event that was recorded.
    pub(crate) fn note(&self, seq: Seq, kind: EventKind) {
        self.marks().note(seq, kind);
    }

    /// Takes what the log is found to be.
    pub(crate) fn found(&self, marks: &Marks) {
        self.marks().clone_from(marks);
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn rows(&self, from: Seq, limit: usize) -> Result<Vec<LogRow>, Fault> {
        self.store.read(&self.session, from, limit).await.map_err(|error| match error {
            StoreError::Fault(fault) => fault,
            other => Fault::with("read the log of a session", other),
        })
    }

    /// Finds the first event whose frame is greater: frames never fall along a log.
    async fn first_after(&self, frame: FrameId, until: Seq) -> Result<Seq, Fault> {
        let newest = self.rows(until, 1).await?;
        if newest.first().is_some_and(|row| row.frame <= frame) {
            return Ok(until.next());
        }
        let (mut from, mut to) = (1, until.0);
        while from < to {
            let middle = from.midpoint(to);
            let rows = self.rows(Seq(middle), 1).await?;
            // One that cannot be read hides nothing: the viewer passes over what it has seen.
            let is_seen = rows.first().is_some_and(|row| row.frame <= frame);
            (from, to) = if is_seen { (middle + 1, to) } else { (from, middle) };
        }
        Ok(Seq(from))
    }

    /// Counts the events before a position that doors show.
    async fn shown_before(&self, position: Seq) -> Result<u64, Fault> {
        let through = Seq(position.0.saturating_sub(1));
        let (at, mut count) = self.marks().up_to(through);
        let mut from = at.next();
        while from <= through {
            let left = usize::try_from(through.0 - at.0).unwrap_or(usize::MAX);
            let rows = self.rows(from, left.min(PAGE_EVENTS)).await?;
            count +=
                rows.iter().filter(|row| row.seq <= through && is_shown(row.kind)).count() as u64;
            // A row that cannot be read is passed over.
            from = rows.last().map_or(from.next(), |row| row.seq.next());
        }
        Ok(count)
    }

    async fn read(&self, from: Seq, until: Seq) -> Result<LogPage, Fault> {
        let mut page = LogPage { from, through: from, events: Vec::new(), lost: 0 };
        let (mut next, mut rows_read, mut bytes) = (from, 0, 0);
        while next <= until && page.events.len() < PAGE_EVENTS && bytes < PAGE_BYTES {
            let limit = room(rows_read, bytes).min(PAGE_EVENTS - page.events.len());
            let left = usize::try_from(until.0 - next.0 + 1).unwrap_or(usize::MAX);
            let rows = self.rows(next, limit.min(left)).await?;
            if rows.is_empty() {
                // The store ends before a damaged row; what is behind it can be read.
                (page.lost, page.through) = (page.lost + 1, next);
                next = next.next();
                continue;
            }
            for row in rows {
                rows_read += 1;
                bytes += row.body.len();
                (page.through, next) = (row.seq, row.seq.next());
                if is_shown(row.kind) {
                    match self.event(&row) {
                        Some(event) => page.events.push(Arc::new(event)),
                        None => page.lost += 1,
                    }
                }
                if bytes >= PAGE_BYTES {
                    // What else came of large rows is read again: a viewer may hold this for long.
                    break;
                }
            }
        }
        Ok(page)
    }

    fn event(&self, row: &LogRow) -> Option<Shown> {
        let body = EventBody::decode(row.kind, &row.body).ok()?;
        let (session_id, seq) = (self.session.clone(), Some(row.seq));
        let event = Event { body, session_id, seq, frame: row.frame, ts: row.at };
        Some(Shown::sized(event, row.body.len()))
    }
}

/// Returns how many rows to read next, so that a page stays within its bytes.
fn room(rows_read: usize, bytes: usize) -> usize {
    match bytes.checked_div(rows_read) {
        Some(each) => {
            let fit = PAGE_BYTES.saturating_sub(bytes) / each.max(1);
            fit.min(rows_read * MORE_ROWS).max(1)
        }
        None => 1,
    }
}

#[async_trait]
impl Log for Replay {
    async fn find(&self, position: Position, until: Seq) -> Result<Start, Fault> {
        let _one_at_a_time = self.pages.lock().await;
        let from = match position {
            Position::Live => until.next(),
            Position::After(seq) => seq.next(),
            Position::From(seq) => seq.max(Seq(1)),
            Position::AfterFrame(frame) => self.first_after(frame, until).await?,
        };
        let window = self.marks().window();
        if from > until || from >= window.from {
            return Ok(Start { from, dropped: 0 });
        }
        // A viewer of the ring may be behind by more than the window: what the ring has, it gets.
        let (start, before) = if window.from > until {
            (until.next(), self.shown_before(until.next()).await?)
        } else {
            (window.from, window.before)
        };
        let seen = self.shown_before(from).await?;
        Ok(Start { from: start, dropped: before.saturating_sub(seen) })
    }

    async fn page(&self, from: Seq, until: Seq) -> Result<Arc<LogPage>, Fault> {
        let mut pages = self.pages.lock().await;
        pages.retain(|page| page.strong_count() > 0);
        let is_there = |page: &Arc<LogPage>| page.from <= from && from <= page.through;
        if let Some(page) = pages.iter().filter_map(Weak::upgrade).find(is_there) {
            return Ok(page);
        }
        let page = Arc::new(self.read(from, until).await?);
        pages.push(Arc::downgrade(&page));
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use driver_api::{NewSession, SessionHead, SessionState};
    use protocol::event::{Notice, NoticeLevel, ToolStarted};
    use protocol::{Effect, Mode, Timestamp, ToolCallId};
    use testkit::memory_store::MemoryDisk;

    use super::*;

    /// Every fourth row is for the core alone; the others have a message of so many bytes.
    fn body(seq: u64, bytes: usize) -> EventBody {
        if seq.is_multiple_of(4) {
            let tool_call_id = ToolCallId::new("c");
            return ToolStarted { tool_call_id, effect: Effect::Write }.into();
        }
        Notice { level: NoticeLevel::Info, code: None, message: "x".repeat(bytes) }.into()
    }

    async fn replay(count: u64, bytes: usize) -> (MemoryDisk, Replay) {
        let disk = MemoryDisk::new();
        let (mut marks, mut frame) = (Marks::default(), 0);
        let rows = (1..=count).map(|seq| {
            let body = body(seq, bytes);
            marks.note(Seq(seq), body.kind());
            // Two deltas before each.
            frame += if is_shown(body.kind()) { 3 } else { 0 };
            let (kind, body) = (body.kind(), body.encode().unwrap());
            LogRow { seq: Seq(seq), frame: FrameId(frame), at: Timestamp(0), kind, body }
        });
        let id = SessionId::new("s");
        let head = SessionHead {
            title: None,
            model: "m".into(),
            mode: Mode::Ask,
            state: SessionState::Idle,
            prompts: 0,
            cost_usd: 0.0,
        };
        let rows = rows.collect();
        let (cwd, at) = ("/w".into(), Timestamp(0));
        let new = NewSession { id: id.clone(), cwd, at, head, rows };
        let store = disk.process();
        store.create(new).await.unwrap();
        (disk, Replay::new(store, id, marks))
    }

    fn shown(from: u64, to: u64) -> u64 {
        (from..=to).filter(|seq| !seq.is_multiple_of(4)).count() as u64
    }

    #[tokio::test]
    async fn every_position_is_found_and_what_is_too_old_is_counted() {
        let last = 3_000;
        let (_disk, replay) = replay(last, 1).await;
        let window = replay.marks().window().from;
        for seq in [0, 1, 2, 3, 4, 63, 64, 255, 256, 1_000, 1_665, 1_700, 2_000, 2_999, last] {
            let found = replay.find(Position::After(Seq(seq)), Seq(last)).await.unwrap();
            assert_eq!(found.from, Seq(seq + 1).max(window), "after {seq}");
            assert_eq!(found.dropped, shown(seq + 1, found.from.0 - 1), "after {seq}");
            let frame = FrameId(3 * shown(1, seq) + 1);
            let by_frame = replay.find(Position::AfterFrame(frame), Seq(last)).await.unwrap();
            assert_eq!(by_frame.dropped, found.dropped, "after frame {frame:?}");
        }
        assert!(shown(window.0, last) >= 1_000);
        let future = Position::AfterFrame(FrameId(1 << 40));
        let found = replay.find(future, Seq(last)).await.unwrap();
        assert_eq!(found, Start { from: Seq(last + 1), dropped: 0 });
    }

    #[tokio::test]
    async fn pages_follow_each_other_and_are_bounded_by_events_and_bytes() {
        for (bytes, events_max) in [(10, PAGE_EVENTS), (100_000, 3), (600_000, 1)] {
            let (_disk, replay) = replay(200, bytes).await;
            let (mut from, mut seen) = (Seq(1), Vec::new());
            while from <= Seq(200) {
                let page = replay.page(from, Seq(200)).await.unwrap();
                assert!(page.events.len() <= events_max, "{bytes}: {}", page.events.len());
                seen.extend(page.events.iter().map(|event| event.seq.unwrap().0));
                from = page.through.next();
            }
            let wanted: Vec<u64> = (1..=200_u64).filter(|seq| !seq.is_multiple_of(4)).collect();
            assert_eq!(seen, wanted, "{bytes}");
        }
    }

    #[tokio::test]
    async fn viewers_at_the_same_place_share_a_page_and_it_goes_with_the_last() {
        let (_disk, replay) = replay(200, 10).await;
        let first = replay.page(Seq(1), Seq(200)).await.unwrap();
        let inside = replay.page(Seq(10), Seq(200)).await.unwrap();
        assert!(Arc::ptr_eq(&first, &inside));
        let next = replay.page(first.through.next(), Seq(200)).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &next));
        drop((first, inside));
        drop(replay.page(Seq(1), Seq(200)).await.unwrap());
        drop(replay.page(Seq(190), Seq(200)).await.unwrap());
        let pages = replay.pages.lock().await;
        assert!(pages.len() <= 2, "those that nobody reads are forgotten: {}", pages.len());
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_passed_over_and_counted() {
        let (disk, replay) = replay(20, 10).await;
        disk.damage(&SessionId::new("s"), |rows| rows[5].body = "{".into());
        let page = replay.page(Seq(1), Seq(20)).await.unwrap();
        assert_eq!((page.through, page.lost), (Seq(20), 1));
        assert_eq!(page.events.len() as u64, shown(1, 20) - 1);
    }
}
