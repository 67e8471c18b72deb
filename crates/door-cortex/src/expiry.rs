//! What ends by itself: sessions that nobody used for too long, and runs that a stopped server
//! left waiting.

use std::time::Duration;

use protocol::SessionId;
use runtime_api::{SessionFilter, SessionInfo};

use crate::busy::Busy;
use crate::door::{Door, Shared, is_active};
use crate::error::{Refused, refused};

/// Sessions that are read from the store at a time.
const PAGE: usize = 500;

/// Sessions that are counted and listed: a server with more of them lists the newest.
const SESSIONS_MAX: usize = 10_000;

/// The shortest time between two looks for expired sessions.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// The longest: an expired session answers 404 at once, only what is stored of it stays so long.
const LOOK_MAX: Duration = Duration::from_secs(600);

impl Door {
    /// Returns the sessions that have not expired, the newest first.
    pub(crate) async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let filter = SessionFilter { cwd: None, before, limit: PAGE };
            let page = self.handle.list(filter).await.map_err(refused)?;
            // The newest come first: where one has expired, all after it have, but for those in
            // which a run goes on.
            let is_last = page.len() < PAGE
                || page.last().is_some_and(|info| self.expires_at(info) <= self.now());
            before = page.last().map(|info| (info.updated_at, info.id.clone()));
            found.extend(page.into_iter().filter(|info| self.is_there(info)));
            if is_last || found.len() >= SESSIONS_MAX {
                break;
            }
        }
        found.truncate(SESSIONS_MAX);
        // A run that waits may have been silent for longer than sessions live.
        for id in Busy::all(self) {
            if found.len() >= SESSIONS_MAX || found.iter().any(|info| info.id == id) {
                continue;
            }
            // One that cannot be shown is gone.
            let info = self.handle.info(&id).await.ok();
            found.extend(info.filter(|info| self.is_there(info)));
        }
        Ok(found)
    }

    /// Erases a session: its run is stopped, its viewers are told the end.
    pub(crate) async fn erase(&self, id: &SessionId) -> Result<(), runtime_api::Error> {
        self.handle.remove(id).await?;
        self.records.forget(id);
        Ok(())
    }

    /// Erases the sessions that have expired.
    async fn sweep(&self) -> Result<(), runtime_api::Error> {
        // Those that were last used when only what has expired by now was.
        let newest = self.now().plus_ms(1_i64.saturating_sub(self.ttl_ms));
        let mut before = Some((newest, SessionId::new("")));
        loop {
            let filter = SessionFilter { cwd: None, before, limit: PAGE };
            let page = self.handle.list(filter).await?;
            let is_last = page.len() < PAGE;
            before = page.last().map(|info| (info.updated_at, info.id.clone()));
            let own = page.into_iter().filter(|info| info.neuron.is_some());
            for info in own.filter(|info| !self.is_there(info) && info.owner_pid.is_none()) {
                match self.erase(&info.id).await {
                    Ok(()) => tracing::info!(session = %info.id, "a session expired"),
                    Err(error) => {
                        tracing::warn!(session = %info.id, %error, "erase an expired session");
                    }
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Ends the runs that a server which is no more left waiting for a person: their connections
    /// have gone with it. Opening such a session ends its run.
    async fn end_left_runs(&self) -> Result<(), Refused> {
        let left =
            |info: &SessionInfo| is_active(info) && !info.is_open && info.owner_pid.is_none();
        for info in self.sessions().await?.into_iter().filter(left) {
            let id = info.id.clone();
            if let Err(refused) = self.awake(info).await {
                tracing::warn!(session = %id, code = refused.code().as_str(), "end a left run");
            }
        }
        Ok(())
    }
}

/// How long after the start the first look waits for a request: a start touches nothing that its
/// first request does not need.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(5);

/// Looks after sessions until the program stops.
pub(crate) async fn watch(door: Shared) {
    let stopping = door.stopping.clone();
    let every = Duration::from_millis(u64::try_from(door.ttl_ms).unwrap_or(0) / 10);
    let every = every.clamp(LOOK_MIN, LOOK_MAX);
    let work = async {
        // Either will do.
        drop(tokio::time::timeout(FIRST_LOOK_MAX, door.asked.notified()).await);
        if let Err(refused) = door.end_left_runs().await {
            tracing::warn!(code = refused.code().as_str(), "end the runs that were left");
        }
        loop {
            if let Err(error) = door.sweep().await {
                tracing::warn!(%error, "look for expired sessions");
            }
            door.records.write_book().await;
            tokio::time::sleep(every).await;
        }
    };
    tokio::select! {
        () = stopping.cancelled() => {}
        () = work => {}
    }
    door.records.write_book().await;
}
