//! A store in memory: a disk that outlives the processes that use it.
//!
//! ```text
//! let disk = MemoryDisk::new();
//! let first = disk.process();           // a living process
//! disk.crash_at(3, Crash::Lost);        // its third append is its last
//! disk.crashed().await;                 // resolves when that has happened
//! let second = disk.process();          // finds what the first had written
//! ```

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use driver_api::{
    Appended, Fault, Lease, Letter, ListFilter, LogRow, NewSession, Owner, SessionHead, SessionRow,
    SessionState, Snapshot, Store, StoreError,
};
use protocol::{EventKind, Seq, SessionId, Timestamp};
use tokio::sync::watch;

use session::Session;

/// How many sessions a list has where the filter does not say, and how many at most.
const LIST_LEN: usize = 100;
const LIST_LEN_MAX: usize = 1000;

/// What becomes of the append at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It never reaches the disk.
    Lost,
    /// It reaches the disk, but nobody hears of it.
    Unanswered,
}

/// A function that is called for every append.
type Hook = Arc<dyn Fn(u64) + Send + Sync>;

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
    crashed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Session>,
    /// Grows with every session, to order those of the same instant.
    created: u64,
    /// How each process fares; the pid is the place plus one.
    processes: Vec<Life>,
    appends: u64,
    crash: Option<(u64, Crash)>,
    hook: Option<Hook>,
    /// The first row of a session that cannot be read just now.
    unreadable: BTreeMap<SessionId, Seq>,
    /// Sessions that nothing can be appended to just now.
    full: BTreeSet<SessionId>,
}

/// How a process fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Lives,
    /// It closed its store: calls fail.
    Closed,
    /// Others take it for dead while it goes on: calls return.
    Presumed,
    /// It was killed: calls never return.
    Dead,
}

impl std::fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryDisk").finish_non_exhaustive()
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self { state: Arc::default(), crashed: watch::Sender::new(false) }
    }
}

impl MemoryDisk {
    /// Makes an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a process that uses the disk.
    pub fn process(&self) -> Arc<MemoryStore> {
        let mut state = self.lock();
        state.processes.push(Life::Lives);
        let pid = u32::try_from(state.processes.len()).unwrap_or(u32::MAX);
        drop(state);
        Arc::new(MemoryStore { disk: self.clone(), pid })
    }

    /// Kills the process that makes the `n`-th append, counted from 1 over all processes and from
    /// the making of the disk. [`Store::append`] alone counts. From then on no call of that
    /// process returns, and it counts as dead.
    pub fn crash_at(&self, n: u64, crash: Crash) {
        self.crashed.send_replace(false);
        self.lock().crash = Some((n, crash));
    }

    /// Waits until the crash that was asked for has happened.
    pub async fn crashed(&self) {
        let mut crashed = self.crashed.subscribe();
        // The sender lives in `self`.
        let _seen = crashed.wait_for(|crashed| *crashed).await;
    }

    /// Tells whether the crash that was asked for has happened.
    pub fn has_crashed(&self) -> bool {
        *self.crashed.borrow()
    }

    /// Calls a function with the number of every append, just before it is made.
    pub fn on_append(&self, hook: impl Fn(u64) + Send + Sync + 'static) {
        self.lock().hook = Some(Arc::new(hook));
    }

    /// Returns how many appends were made, or begun.
    pub fn appends(&self) -> u64 {
        self.lock().appends
    }

    /// Returns the log of a session; empty where there is none.
    pub fn rows(&self, session: &SessionId) -> Vec<LogRow> {
        self.lock().sessions.get(session).map(|found| found.rows.clone()).unwrap_or_default()
    }

    /// Returns the ids of all sessions, in order.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.lock().sessions.keys().cloned().collect()
    }

    /// Changes a session's rows behind everybody's back, as damage does.
    pub fn damage(&self, session: &SessionId, damage: impl FnOnce(&mut Vec<LogRow>)) {
        if let Some(session) = self.lock().sessions.get_mut(session) {
            damage(&mut session.rows);
        }
    }

    /// Makes reads fail that reach the row `from` or a later one, as a disk in trouble does whose
    /// contents are whole; `None` makes them work again.
    pub fn fail_reads(&self, session: &SessionId, from: Option<Seq>) {
        let mut state = self.lock();
        match from {
            Some(from) => state.unreadable.insert(session.clone(), from),
            None => state.unreadable.remove(session),
        };
    }

    /// Makes appends to a session fail, as a full disk does, or work again.
    pub fn fail_appends(&self, session: &SessionId, is_full: bool) {
        let mut state = self.lock();
        match is_full {
            true => state.full.insert(session.clone()),
            false => state.full.remove(session),
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process that uses a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    pid: u32,
}

impl MemoryStore {
    /// Kills the process: none of its calls returns any more, and others may take its sessions.
    pub fn kill(&self) {
        self.disk.lock().end(self.pid, Life::Dead);
    }

    /// Lets others take the sessions of this process while it goes on: a lease is what protects.
    pub fn presume_dead(&self) {
        self.disk.lock().end(self.pid, Life::Presumed);
    }

    /// Runs a step on the disk if the process lives; a dead one never goes on.
    async fn step<T>(
        &self,
        step: impl FnOnce(&mut State, u32) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = {
            let mut state = self.disk.lock();
            match state.life(self.pid) {
                Life::Lives | Life::Presumed => Some(step(&mut state, self.pid)),
                Life::Closed => Some(Err(Fault::new("use the store: it is closed").into())),
                Life::Dead => None,
            }
        };
        match done {
            Some(done) => done,
            None => never().await,
        }
    }
}

/// Waits for ever, as a dead process does.
fn never<T>() -> impl Future<Output = T> {
    std::future::pending()
}

impl State {
    fn life(&self, pid: u32) -> Life {
        let place = usize::try_from(pid).ok().and_then(|pid| pid.checked_sub(1));
        place.and_then(|place| self.processes.get(place)).copied().unwrap_or(Life::Dead)
    }

    fn is_alive(&self, pid: u32) -> bool {
        self.life(pid) == Life::Lives
    }

    fn end(&mut self, pid: u32, how: Life) {
        let place = usize::try_from(pid).ok().and_then(|pid| pid.checked_sub(1));
        if let Some(life) = place.and_then(|place| self.processes.get_mut(place)) {
            *life = how;
        }
    }

    fn find(&self, id: &SessionId) -> Result<&Session, StoreError> {
        self.sessions.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    fn leased(&mut self, lease: &Lease, pid: u32) -> Result<&mut Session, StoreError> {
        let id = &lease.session;
        let session = self.sessions.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        if session.owner == Some(pid) && session.generation == lease.generation {
            Ok(session)
        } else {
            Err(StoreError::Stale(id.clone()))
        }
    }

    fn row(&self, id: &SessionId, session: &Session) -> SessionRow {
        SessionRow {
            id: id.clone(),
            cwd: session.cwd.clone(),
            head: session.head.clone(),
            created_at: session.created_at,
            updated_at: session.updated_at,
            last_seq: session.last_seq,
            owner: session.owner.filter(|pid| self.is_alive(*pid)).map(owner),
        }
    }
}

fn owner(pid: u32) -> Owner {
    Owner { pid, instance: format!("process-{pid}") }
}

#[async_trait]
impl Store for MemoryStore {
    fn is_mine(&self, other: &Owner) -> bool {
        *other == owner(self.pid)
    }

    async fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.step(|state, pid| {
            if state.sessions.contains_key(&new.id) {
                return Err(StoreError::Exists(new.id));
            }
            state.created += 1;
            let mut session = Session {
                number: state.created,
                cwd: new.cwd,
                created_at: new.at,
                updated_at: new.at,
                head: new.head,
                rows: Vec::new(),
                last_seq: Seq(0),
                snapshot: None,
                letters: Vec::new(),
                generation: 1,
                owner: Some(pid),
            };
            session.push(&new.id, new.rows)?;
            state.sessions.insert(new.id.clone(), session);
            Ok(Lease { session: new.id, generation: 1 })
        })
        .await
    }

    async fn claim(&self, id: &SessionId) -> Result<Lease, StoreError> {
        self.step(|state, pid| {
            let other = state.find(id)?.owner.filter(|owner| *owner != pid);
            if let Some(other) = other.filter(|other| state.is_alive(*other)) {
                return Err(StoreError::OwnedElsewhere(owner(other)));
            }
            let not_found = || StoreError::NotFound(id.clone());
            let session = state.sessions.get_mut(id).ok_or_else(not_found)?;
            session.generation += 1;
            session.owner = Some(pid);
            Ok(Lease { session: id.clone(), generation: session.generation })
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.step(|state, pid| {
            if let Ok(session) = state.leased(lease, pid) {
                session.owner = None;
            }
            Ok(())
        })
        .await
    }

    async fn append(
        &self,
        lease: &Lease,
        rows: Vec<LogRow>,
        head: Option<SessionHead>,
    ) -> Result<Appended, StoreError> {
        let (number, hook) = self
            .step(|state, _| {
                state.appends += 1;
                Ok((state.appends, state.hook.clone()))
            })
            .await?;
        if let Some(hook) = hook {
            hook(number);
        }
        let appended = self
            .step(|state, pid| {
                let crash = state.crash.filter(|(at, _)| *at == number).map(|(_, crash)| crash);
                if crash == Some(Crash::Lost) {
                    state.end(pid, Life::Dead);
                    return Ok(None);
                }
                if state.full.contains(&lease.session) {
                    let what = format!("append to {}: no space is left", lease.session);
                    return Err(Fault::new(what).into());
                }
                let append = |session: &mut Session| {
                    session.push(&lease.session, rows)?;
                    session.head = head.unwrap_or_else(|| session.head.clone());
                    Ok(Appended { last_seq: session.last_seq })
                };
                let appended = state.leased(lease, pid).and_then(append);
                if crash.is_some() {
                    state.end(pid, Life::Dead);
                    return Ok(None);
                }
                appended.map(Some)
            })
            .await?;
        match appended {
            Some(appended) => Ok(appended),
            None => {
                self.disk.crashed.send_replace(true);
                never().await
            }
        }
    }

    async fn read(
        &self,
        id: &SessionId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.step(|state, _| {
            let rows = &state.find(id)?.rows;
            let dense = (1..).zip(rows).take_while(|(seq, row)| *seq == row.seq.0);
            let wanted = dense.filter(|(seq, _)| *seq >= from.0).take(limit);
            let wanted: Vec<LogRow> = wanted.map(|(_, row)| row.clone()).collect();
            let failed = state.unreadable.get(id);
            match wanted.iter().find(|row| failed.is_some_and(|failed| row.seq >= *failed)) {
                Some(row) => Err(Fault::new(format!("read row {} of {id}", row.seq.0)).into()),
                None => Ok(wanted),
            }
        })
        .await
    }

    async fn truncate(&self, lease: &Lease, last: Seq) -> Result<(), StoreError> {
        self.step(|state, pid| {
            let session = state.leased(lease, pid)?;
            session.rows.retain(|row| row.seq <= last);
            session.last_seq = session.last_seq.min(last);
            let is_kept = session.snapshot.as_ref().is_some_and(|snapshot| snapshot.seq <= last);
            session.snapshot = session.snapshot.take().filter(|_| is_kept);
            Ok(())
        })
        .await
    }

    async fn snapshot(&self, id: &SessionId) -> Result<Option<Snapshot>, StoreError> {
        self.step(|state, _| Ok(state.find(id)?.snapshot.clone())).await
    }

    async fn put_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), StoreError> {
        self.step(|state, pid| {
            state.leased(lease, pid)?.snapshot = Some(snapshot);
            Ok(())
        })
        .await
    }

    async fn get(&self, id: &SessionId) -> Result<SessionRow, StoreError> {
        self.step(|state, _| Ok(state.row(id, state.find(id)?))).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.step(|state, _| {
            let limit = if filter.limit == 0 { LIST_LEN } else { filter.limit.min(LIST_LEN_MAX) };
            // All of the instant of a session that is gone count as listed.
            let last = filter
                .before
                .as_ref()
                .map(|(at, id)| (*at, state.sessions.get(id).map_or(0, |session| session.number)));
            let is_wanted = |session: &Session| {
                filter.cwd.as_ref().is_none_or(|cwd| *cwd == session.cwd)
                    && last.is_none_or(|last| (session.updated_at, session.number) < last)
                    && (!filter.is_busy || session.head.state != SessionState::Idle)
            };
            let mut found: Vec<_> =
                state.sessions.iter().filter(|(_, session)| is_wanted(session)).collect();
            found.sort_by_key(|(_, session)| {
                std::cmp::Reverse((session.updated_at, session.number))
            });
            Ok(found.into_iter().take(limit).map(|(id, session)| state.row(id, session)).collect())
        })
        .await
    }

    async fn rows_of(
        &self,
        kind: EventKind,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionId, LogRow)>, StoreError> {
        self.step(|state, _| {
            let of_session = |(id, session): (&SessionId, &Session)| {
                let wanted = session.rows.iter().filter(|row| row.kind == kind && row.at >= since);
                let number = session.number;
                let id = id.clone();
                wanted.map(move |row| (number, id.clone(), row.clone())).collect::<Vec<_>>()
            };
            let mut found: Vec<_> = state.sessions.iter().flat_map(of_session).collect();
            found.sort_by_key(|(number, _, row)| (row.at, *number, row.seq));
            Ok(found.into_iter().take(limit).map(|(_, id, row)| (id, row)).collect())
        })
        .await
    }

    async fn post(&self, id: &SessionId, letter: Letter) -> Result<(), StoreError> {
        self.step(|state, _| {
            let Some(session) = state.sessions.get_mut(id) else {
                return Err(StoreError::NotFound(id.clone()));
            };
            session.post(letter).map_err(|why| {
                StoreError::Fault(Fault::new(format!("post a letter to {id}: {why}")))
            })
        })
        .await
    }

    async fn letters(&self, lease: &Lease) -> Result<Vec<Letter>, StoreError> {
        self.step(|state, pid| Ok(state.leased(lease, pid)?.letters.clone())).await
    }

    async fn drop_letter(&self, lease: &Lease, id: &str) -> Result<(), StoreError> {
        self.step(|state, pid| {
            state.leased(lease, pid)?.letters.retain(|letter| letter.id != id);
            Ok(())
        })
        .await
    }

    async fn remove(&self, lease: &Lease) -> Result<(), StoreError> {
        self.step(|state, pid| {
            state.leased(lease, pid)?;
            state.sessions.remove(&lease.session);
            Ok(())
        })
        .await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.step(|_, _| Ok(())).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let is_dead = {
            let mut state = self.disk.lock();
            let is_dead = state.life(self.pid) == Life::Dead;
            if !is_dead {
                state.end(self.pid, Life::Closed);
            }
            is_dead
        };
        if is_dead { never().await } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
