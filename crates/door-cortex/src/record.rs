//! Reading the record: the projection of a session's log, from the nearest known place on.

mod book;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{Seq, SessionId};
use runtime_api::{Error, Handle, Shown};
use tokio::sync::OnceCell;

pub use book::PlaceBook;

use crate::frame::Frame;
use crate::projection::Projection;

/// Events that are read at a time: the runtime gives as many at most.
const PAGE: usize = 1_000;

/// Sessions whose place is remembered. Each takes some hundred bytes; one that is forgotten is
/// counted anew from the begin of its log.
const PLACES_MAX: usize = 16_384;

/// How far sessions have been counted.
#[derive(Debug, Default)]
pub(crate) struct Records {
    places: Mutex<Places>,
    /// Where places outlive the program, if they do.
    book: Option<Arc<dyn PlaceBook>>,
    /// Set once the book was read.
    is_read: OnceCell<()>,
}

/// How far a session has been counted.
#[derive(Debug, Default)]
struct Place {
    /// Before the run that goes on.
    between: Arc<Projection>,
    /// In the middle of it, where that takes little room: whoever asks how it stands asks often.
    within: Option<Arc<Projection>>,
    /// Whether it is of another life of the program, and not held against the log yet.
    is_hearsay: bool,
}

#[derive(Debug, Default)]
struct Places {
    by_session: HashMap<SessionId, Place>,
    /// In the order in which they came.
    order: VecDeque<SessionId>,
    /// Whether there is something that the book does not have.
    is_news: bool,
}

impl Records {
    /// Counts from the places in a book, where there is one.
    pub(crate) fn with(book: Option<Arc<dyn PlaceBook>>) -> Self {
        Self { book, ..Self::default() }
    }

    /// Counts a session to the end of its log.
    ///
    /// # Errors
    /// `session_not_found`, and faults.
    pub(crate) async fn at_end(
        &self,
        handle: &Handle,
        id: &SessionId,
    ) -> Result<Projection, Error> {
        self.read_book().await;
        self.hold_against_the_log(handle, id).await?;
        let known = self.known(id, u64::MAX);
        let mut projection = known.as_deref().cloned().unwrap_or_default();
        let mut between: Option<Projection> = None;
        loop {
            let page = handle.recorded(id, projection.at, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for event in &page {
                projection.pass(event);
            }
            if projection.run().is_none() {
                between = Some(projection.clone());
            }
        }
        let is_within = projection.run().is_some() && projection.is_small();
        self.note(id, between, is_within.then(|| projection.clone()));
        Ok(projection)
    }

    /// Returns the last known place whose count is at most `count`.
    fn known(&self, id: &SessionId, count: u64) -> Option<Arc<Projection>> {
        let places = self.places();
        let place = places.by_session.get(id)?;
        let known = place.within.iter().chain([&place.between]);
        known.into_iter().find(|known| known.count <= count).cloned()
    }

    /// Remembers places, unless better ones are known.
    fn note(&self, id: &SessionId, between: Option<Projection>, within: Option<Projection>) {
        let mut places = self.places();
        let Places { by_session, order, is_news } = &mut *places;
        let place = by_session.entry(id.clone()).or_insert_with(|| {
            order.push_back(id.clone());
            Place::default()
        });
        if let Some(between) = between.filter(|new| new.at > place.between.at) {
            place.between = Arc::new(between);
            *is_news = true;
        }
        let last = place.within.as_ref().map_or(place.between.at, |old| old.at);
        if let Some(within) = within.filter(|new| new.at > last) {
            place.within = Some(Arc::new(within));
        }
        // A run that is over needs no place within.
        place.within.take_if(|within| within.at <= place.between.at);
        while places.by_session.len() > PLACES_MAX {
            let Some(oldest) = places.order.pop_front() else { break };
            places.by_session.remove(&oldest);
        }
    }

    /// Forgets a session that is no more.
    pub(crate) fn forget(&self, id: &SessionId) {
        let mut places = self.places();
        if places.by_session.remove(id).is_some() {
            places.order.retain(|other| other != id);
            places.is_news = true;
        }
    }

    /// Begins a replay of the frames after a number, of events up to `until`.
    pub(crate) fn replay(&self, id: &SessionId, after: u64, until: Seq) -> Replay {
        let known = self.known(id, after).filter(|known| known.at <= until);
        let projection = known.as_deref().cloned().unwrap_or_default();
        let (id, is_over) = (id.clone(), false);
        Replay { id, projection, after, until, is_over, ready: VecDeque::new() }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Recorded frames that are read again, page by page, as fast as somebody takes them.
#[derive(Debug)]
pub(crate) struct Replay {
    id: SessionId,
    projection: Projection,
    after: u64,
    until: Seq,
    is_over: bool,
    /// Events of the page that was read.
    ready: VecDeque<Arc<Shown>>,
}

impl Replay {
    /// Returns the next frames; none where all was replayed.
    ///
    /// # Errors
    /// `session_not_found`, and faults.
    pub(crate) async fn next(&mut self, handle: &Handle) -> Result<Option<Vec<Frame>>, Error> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if event.seq.is_none_or(|seq| seq > self.until) {
                    self.is_over = true;
                    self.ready.clear();
                    break;
                }
                let mut frames = self.projection.fold(&event).frames;
                frames.retain(|frame| frame.seq.is_some_and(|seq| seq > self.after));
                if !frames.is_empty() {
                    return Ok(Some(frames));
                }
            }
            if self.is_over || self.projection.at >= self.until {
                return Ok(None);
            }
            let page = handle.recorded(&self.id, self.projection.at, PAGE).await?;
            self.is_over = page.is_empty();
            self.ready.extend(page);
        }
    }
}
