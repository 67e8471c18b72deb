//! The writer: one task that owns the one connection that writes, and groups what waits.
//!
//! While a commit is on its way to the disk, further work gathers in the queue; the next commit
//! takes all of it. So many sessions share the price of one sync, and a lone one waits for nobody.

mod batch;
mod cut;
mod letters;
mod redo;
mod transaction;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Fault, StoreError};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

pub(super) use batch::Batch;
use transaction::{Answer, Known, Transaction};
pub(super) use work::{Job, Work};

use super::connect;
use super::fault::{Damage, fault, is_busy};
use crate::blob::{BlobHash, Blobs};
use crate::ownership::Ownership;

/// Works that may wait. Each belongs to a session, and a session waits for its answer before it
/// sends the next, so this is a limit on sessions that write at the same moment.
pub(super) const QUEUE_LEN: usize = 1024;
/// Works of one commit: its statements stay well below the time of the sync.
const GROUP_LEN: usize = 256;
/// Bytes of one commit: about a checkpoint's worth.
const GROUP_BYTES: usize = 4 << 20;
/// How often a commit is tried while other processes hold the lock, each time for the busy
/// timeout.
const TRIES: u32 = 4;
/// Written bytes after which the WAL is copied into the database: small enough that the copy takes
/// some ten milliseconds and that the next start reads it in few, large enough that its syncs are
/// rare.
const CHECKPOINT_BYTES: usize = 4 << 20;
/// Pages that a commit changes beside its rows: the sessions' and one to spare.
const PAGES_BESIDE: usize = 3 * 4096;
/// WAL pages after which a checkpoint waits for readers until it is whole: 64 MiB.
const WAL_PAGES_MAX: i64 = 16_384;

/// What the writer and the rest of the store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) ownership: Ownership,
    pub(super) blobs: Blobs,
    pub(super) damage: Damage,
}

/// Sessions of which the writer remembers the facts; beyond that it forgets all and looks again.
const KNOWN_MAX: usize = 4096;

/// How often the works of a commit were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    First,
    /// An earlier commit failed, or only its answer was lost: what it wrote may be there.
    Again,
}

/// A piece of work within its group.
type Waiting = (Work, oneshot::Sender<Answer>);

/// The task's state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    connection: SqliteConnection,
    /// Whether the connection syncs every commit.
    is_synced: bool,
    unchecked_bytes: usize,
    /// This process's sessions as the last commit left them, so that an append need not ask first.
    known: Known,
    /// How many of the next commits lose their answer.
    #[cfg(test)]
    lost_answers: u32,
}

impl Writer {
    /// Makes the writer from a connection that syncs.
    pub(super) fn new(shared: Arc<Shared>, connection: SqliteConnection) -> Self {
        Self {
            shared,
            connection,
            is_synced: true,
            unchecked_bytes: 0,
            known: Known::new(),
            #[cfg(test)]
            lost_answers: 0,
        }
    }

    /// Works until the store is closed or dropped.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut taken = Vec::with_capacity(GROUP_LEN);
        while jobs.recv_many(&mut taken, GROUP_LEN).await > 0 {
            let mut group = Vec::new();
            let mut bytes = 0;
            for job in taken.drain(..) {
                match job {
                    Job::Do(work, reply) => {
                        bytes += work.bytes();
                        group.push((work, reply));
                        if bytes >= GROUP_BYTES {
                            self.commit(std::mem::take(&mut group), Attempt::First).await;
                            bytes = 0;
                        }
                    }
                    Job::Close(reply) => {
                        self.commit(group, Attempt::First).await;
                        answer(reply, self.close().await.map(|()| 0));
                        return;
                    }
                }
            }
            self.commit(group, Attempt::First).await;
            self.checkpoint_if_due().await;
        }
        if let Err(error) = self.close().await {
            tracing::warn!(%error, "the log was not closed cleanly");
        }
    }

    /// Commits a group and answers it. When the whole cannot be written, each work gets a
    /// transaction of its own, so that only the one at fault fails.
    async fn commit(&mut self, group: Vec<Waiting>, attempt: Attempt) {
        if group.is_empty() {
            return;
        }
        let (works, replies): (Vec<Work>, Vec<_>) = group.into_iter().unzip();
        match self.try_commit(&works, attempt).await {
            Ok(answers) => replies.into_iter().zip(answers).for_each(|(to, what)| answer(to, what)),
            Err(error) if works.len() == 1 => {
                self.shared.damage.note(&error);
                let error = fault(format!("write {}", self.shared.path.display()), error);
                replies
                    .into_iter()
                    .take(1)
                    .zip([Err(error)])
                    .for_each(|(to, what)| answer(to, what));
            }
            Err(error) => {
                tracing::warn!(%error, works = works.len(), "a group failed; trying one by one");
                for (work, reply) in works.into_iter().zip(replies) {
                    Box::pin(self.commit(vec![(work, reply)], Attempt::Again)).await;
                }
            }
        }
    }

    async fn try_commit(
        &mut self,
        works: &[Work],
        mut attempt: Attempt,
    ) -> sqlx::Result<Vec<Answer>> {
        let mut tries = 0;
        loop {
            // A failure of a foreseen transaction tells nothing; the next try looks first.
            let was_foreseen = attempt == Attempt::First && !self.known.is_empty();
            tries += u32::from(!was_foreseen);
            match self.try_once(works, attempt).await {
                Ok(answers) => return Ok(answers),
                Err(error) => {
                    attempt = Attempt::Again;
                    // Outside a transaction this fails, and that is fine.
                    let _undone = sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await;
                    let has_crashed = matches!(error, sqlx::Error::WorkerCrashed);
                    if has_crashed {
                        self.connection = connect::writer(&self.shared.path).await?;
                        self.is_synced = true;
                    }
                    if was_foreseen {
                        continue;
                    }
                    if !(has_crashed || is_busy(&error)) || tries == TRIES {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn try_once(&mut self, works: &[Work], attempt: Attempt) -> sqlx::Result<Vec<Answer>> {
        self.sync_commits(works.iter().any(Work::is_durable)).await?;
        // Whatever fails, what was known may be wrong.
        let mut known = std::mem::take(&mut self.known);
        let foreseen = match attempt {
            Attempt::First => foreseen(works, &mut known),
            Attempt::Again => None,
        };
        let sessions: Vec<_> = works.iter().map(Work::session).collect();
        let mut transaction = match foreseen {
            Some(facts) => Transaction::foresee(&mut self.connection, &self.shared, facts),
            None => {
                let (connection, shared) = (&mut self.connection, &self.shared);
                Transaction::begin(connection, shared, &sessions, attempt).await?
            }
        };
        let mut answers = Vec::with_capacity(works.len());
        for work in works {
            answers.push(transaction.apply(work).await?);
        }
        let (facts, orphans) = transaction.commit().await?;
        #[cfg(test)]
        if let Some(left) = self.lost_answers.checked_sub(1) {
            self.lost_answers = left;
            return Err(sqlx::Error::WorkerCrashed);
        }
        for session in sessions {
            known.remove(session);
        }
        if known.len() + facts.len() > KNOWN_MAX {
            known.clear();
        }
        known.extend(facts);
        self.known = known;
        let bytes = works.iter().map(Work::bytes).sum::<usize>();
        self.unchecked_bytes += bytes + PAGES_BESIDE;
        self.remove_orphans(&orphans).await;
        Ok(answers)
    }

    /// Sets whether commits are synced. Not part of a prepared statement: SQLite would set it when
    /// the statement is prepared, not when it runs.
    async fn sync_commits(&mut self, is_synced: bool) -> sqlx::Result<()> {
        if self.is_synced != is_synced {
            let sql =
                if is_synced { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            sqlx::raw_sql(sql).execute(&mut self.connection).await?;
            self.is_synced = is_synced;
        }
        Ok(())
    }

    /// Removes files that no row names. The lock of the transaction keeps away an append, here or
    /// in another process, that would name one of them again.
    async fn remove_orphans(&mut self, hashes: &[BlobHash]) {
        if hashes.is_empty() {
            return;
        }
        let removed = async {
            sqlx::query("BEGIN IMMEDIATE").execute(&mut self.connection).await?;
            for hash in hashes {
                let sql = "SELECT 1 FROM blobs WHERE hash = ? LIMIT 1";
                let query = sqlx::query(sql).bind(hash.as_str());
                if query.fetch_optional(&mut self.connection).await?.is_none() {
                    self.shared.blobs.remove(hash)?;
                }
            }
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, "files of removed rows are left");
        }
        // Nothing was changed; outside a transaction this fails, and that is fine.
        let _ended = sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await;
    }

    /// Copies the WAL into the database when it has grown. This comes after the answers, so that
    /// only work that arrives just then waits.
    async fn checkpoint_if_due(&mut self) {
        if self.unchecked_bytes < CHECKPOINT_BYTES {
            return;
        }
        self.unchecked_bytes = 0;
        let pages = self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)").await;
        if pages.is_some_and(|pages| pages > WAL_PAGES_MAX) {
            self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)").await;
        }
    }

    /// Returns how many pages the WAL holds.
    async fn checkpoint(&mut self, sql: &'static str) -> Option<i64> {
        match sqlx::query_as::<_, (i64, i64, i64)>(sql).fetch_one(&mut self.connection).await {
            Ok((_, pages, _)) => Some(pages),
            Err(error) => {
                self.shared.damage.note(&error);
                tracing::warn!(%error, "the log was not copied into the database");
                None
            }
        }
    }

    /// Copies the WAL into the database, so that one file is left, and closes.
    async fn close(mut self) -> Result<(), StoreError> {
        self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let path = self.shared.path.display().to_string();
        self.connection.close().await.map_err(|error| fault(format!("close {path}"), error))
    }
}

/// Takes what is known of a group's sessions, if the group is of appends and all is known.
fn foreseen(works: &[Work], known: &mut Known) -> Option<Known> {
    let is_known =
        |work: &Work| matches!(work, Work::Append(..)) && known.contains_key(work.session());
    if !works.iter().all(is_known) {
        return None;
    }
    let sessions = works.iter().map(Work::session);
    // The same session may come twice; it is taken once.
    Some(sessions.filter_map(|session| known.remove_entry(session)).collect())
}

/// Answers; nobody may be waiting any more, and the work is done all the same.
fn answer(to: oneshot::Sender<Answer>, what: Answer) {
    let _unheard = to.send(what);
}

/// Returns the fault of a store that is closed.
pub(super) fn closed() -> StoreError {
    StoreError::Fault(Fault::new("use the store: it is closed"))
}

#[cfg(test)]
mod tests;
