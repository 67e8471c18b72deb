//! Places that outlive the program, so that the first list after a start reads no whole logs.
//!
//! They are a cache: what is lost is counted again. A place of another life of the program is held
//! against the log before it counts, which costs one event.

use std::fmt::Debug;
use std::sync::Arc;

use protocol::{Seq, SessionId, Timestamp, Usage};
use runtime_api::{Error, Handle};
use serde::{Deserialize, Serialize};

use super::{PLACES_MAX, Place, Records};
use crate::projection::Projection;

/// The version of what is written. It grows with every change of what a fold gives: then all is
/// counted anew.
const VERSION: u32 = 1;

/// Where the places of sessions are kept from one life of the program to the next. Called on
/// threads that may block.
pub trait PlaceBook: Send + Sync + Debug {
    /// Returns what was written last; none where there is nothing.
    fn read(&self) -> Option<Vec<u8>>;

    /// Writes in place of what was written before. A failure is the book's own to tell.
    fn write(&self, bytes: &[u8]);
}

#[derive(Debug, Deserialize, Serialize)]
struct Pages {
    version: u32,
    places: Vec<Entry>,
}

/// A session between two runs.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    session: SessionId,
    at: Seq,
    when: Timestamp,
    count: u64,
    name: Option<String>,
    usage: Usage,
    turns: u64,
    runs: u64,
    model: String,
}

impl Entry {
    fn of(session: &SessionId, known: &Projection) -> Self {
        Self {
            session: session.clone(),
            at: known.at,
            when: known.when,
            count: known.count,
            name: known.name.clone(),
            usage: known.usage,
            turns: known.turns,
            runs: known.runs,
            model: known.model.clone(),
        }
    }

    fn place(self) -> (SessionId, Place) {
        let mut between = Projection::default();
        (between.at, between.when) = (self.at, self.when);
        (between.count, between.turns, between.runs) = (self.count, self.turns, self.runs);
        (between.name, between.usage, between.model) = (self.name, self.usage, self.model);
        (self.session, Place { between: Arc::new(between), within: None, is_hearsay: true })
    }
}

impl Records {
    /// Reads the book at the first need.
    pub(super) async fn read_book(&self) {
        let read = async {
            let Some(book) = self.book.clone() else { return };
            let read = tokio::task::spawn_blocking(move || {
                let bytes = book.read()?;
                serde_json::from_slice::<Pages>(&bytes).ok()
            });
            // One that cannot be read is as good as none.
            let pages = read.await.ok().flatten().filter(|pages| pages.version == VERSION);
            let Some(pages) = pages else { return };
            let mut places = self.places();
            for entry in pages.places.into_iter().take(PLACES_MAX) {
                let (session, place) = entry.place();
                if !places.by_session.contains_key(&session) {
                    places.order.push_back(session.clone());
                    places.by_session.insert(session, place);
                }
            }
        };
        self.is_read.get_or_init(|| read).await;
    }

    /// Writes what has changed since it was written last.
    pub(crate) async fn write_book(&self) {
        let Some(book) = self.book.clone() else { return };
        // What is in the book and was not looked at yet stays in it.
        self.read_book().await;
        let pages = {
            let mut places = self.places();
            if !std::mem::take(&mut places.is_news) {
                return;
            }
            let known = places.by_session.iter().filter(|(_, place)| place.between.at > Seq(0));
            let entries = known.map(|(session, place)| Entry::of(session, &place.between));
            Pages { version: VERSION, places: entries.collect() }
        };
        let written = tokio::task::spawn_blocking(move || match serde_json::to_vec(&pages) {
            Ok(bytes) => book.write(&bytes),
            Err(error) => tracing::error!(%error, "places have no JSON form"),
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "write down the places of sessions");
        }
    }

    /// Lets a place of another life count if the log has the very event there that it ends with;
    /// else it is forgotten.
    pub(super) async fn hold_against_the_log(
        &self,
        handle: &Handle,
        id: &SessionId,
    ) -> Result<(), Error> {
        let hearsay = {
            let places = self.places();
            let place = places.by_session.get(id).filter(|place| place.is_hearsay);
            place.map(|place| Arc::clone(&place.between))
        };
        let Some(place) = hearsay else { return Ok(()) };
        let before = Seq(place.at.0.saturating_sub(1));
        let page = handle.recorded(id, before, 1).await?;
        let is_so =
            page.first().is_some_and(|event| event.seq == Some(place.at) && event.ts == place.when);
        let mut places = self.places();
        if let Some(known) = places.by_session.get_mut(id) {
            known.is_hearsay = false;
            if !is_so && Arc::ptr_eq(&known.between, &place) {
                *known = Place::default();
            }
        }
        Ok(())
    }
}
