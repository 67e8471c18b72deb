//! One write transaction: the works of many sessions, each checked against its own lease.

use std::collections::HashMap;

use driver_api::{Fault, Lease, Letter, NewSession, Owner, SessionHead, Snapshot, StoreError};
use protocol::{Seq, SessionId};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::batch::{Batch, Guard};
use super::work::Work;
use super::{Attempt, Shared, cut, letters, redo};
use crate::blob::BlobHash;
use crate::row::{KEY_MAX, SEQ_MAX, StoredRow, event_id, snapshot_sum};
use crate::sqlite::fault::fault;
use crate::sqlite::schema::SCHEMA;

/// What a piece of work answers: the generation, or the last seq, or nothing (0).
pub(super) type Answer = Result<u64, StoreError>;

/// Begins and finds the sessions by their ids, in one hand-over to the connection's thread.
const BEGIN: &str = "BEGIN IMMEDIATE; \
    SELECT id, key, generation, last_seq, owner_instance, owner_pid FROM sessions \
    WHERE id IN (SELECT value FROM json_each(?))";

/// What is known of sessions.
pub(super) type Known = HashMap<SessionId, Facts>;

/// What the transaction knows of a session. It is kept up to date, so that works of the same
/// session see each other.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    key: i64,
    generation: u64,
    last_seq: u64,
    owner: Option<Owner>,
}

/// An open transaction.
pub(super) struct Transaction<'w> {
    connection: &'w mut SqliteConnection,
    shared: &'w Shared,
    facts: Known,
    batch: Batch,
    orphans: Vec<BlobHash>,
    attempt: Attempt,
}

impl<'w> Transaction<'w> {
    /// Begins, waiting for other processes at most the busy timeout.
    pub(super) async fn begin(
        connection: &'w mut SqliteConnection,
        shared: &'w Shared,
        sessions: &[&SessionId],
        attempt: Attempt,
    ) -> sqlx::Result<Self> {
        let ids =
            serde_json::to_string(sessions).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let found = sqlx::query(BEGIN).bind(ids).fetch_all(&mut *connection).await?;
        let facts = found.iter().map(read_facts).collect::<sqlx::Result<_>>()?;
        let (batch, orphans) = (Batch::default(), Vec::new());
        Ok(Self { connection, shared, facts, batch, orphans, attempt })
    }

    /// Foresees a transaction from what is known of its sessions. It begins with its own commit,
    /// all in one hand-over to the connection's thread, and fails there when the database says
    /// otherwise. Only for appends.
    pub(super) fn foresee(
        connection: &'w mut SqliteConnection,
        shared: &'w Shared,
        facts: Known,
    ) -> Self {
        let instance = &shared.ownership.me().instance;
        let guard = |(id, facts): (&SessionId, &Facts)| Guard {
            key: facts.key,
            id: id.clone(),
            generation: facts.generation,
            last_seq: facts.last_seq,
            instance: instance.clone(),
        };
        let batch = Batch::guarded(facts.iter().map(guard).collect());
        let (orphans, attempt) = (Vec::new(), Attempt::First);
        Self { connection, shared, facts, batch, orphans, attempt }
    }

    /// Does one piece of work. The outer error breaks the transaction; the inner one is this
    /// work's own, and nothing of it was written then.
    pub(super) async fn apply(&mut self, work: &Work) -> sqlx::Result<Answer> {
        match work {
            Work::Create(session, rows) => self.create(session, rows).await,
            Work::Claim(session) => self.claim(session).await,
            Work::Release(lease) => self.release(lease).await,
            Work::Append(lease, rows, head) => self.append(lease, rows, head.as_deref()).await,
            Work::Truncate(lease, last) => self.truncate(lease, *last).await,
            Work::PutSnapshot(lease, snapshot) => self.put_snapshot(lease, snapshot).await,
            Work::Post(session, letter) => self.post(session, letter).await,
            Work::DropLetter(lease, id) => self.drop_letter(lease, id).await,
            Work::Remove(lease) => self.remove(lease).await,
            Work::Probe(_) => self.probe().await,
        }
    }

    /// Commits. Returns what is now known of this process's sessions, and the files that no row
    /// names any more.
    pub(super) async fn commit(mut self) -> sqlx::Result<(Known, Vec<BlobHash>)> {
        self.batch.flush(self.connection, Some("COMMIT")).await?;
        let me = self.shared.ownership.me();
        self.facts.retain(|_, facts| facts.owner.as_ref() == Some(me));
        Ok((self.facts, self.orphans))
    }

    async fn append(
        &mut self,
        lease: &Lease,
        rows: &[StoredRow],
        head: Option<&SessionHead>,
    ) -> sqlx::Result<Answer> {
        let facts = match self.leased(lease) {
            Ok(facts) => facts,
            Err(error) => return Ok(Err(error)),
        };
        let last_seq = rows.last().map_or(facts.last_seq, |row| row.seq.0);
        if let Err(error) = check_rows(&lease.session, facts.last_seq, rows) {
            let may_be_there = self.attempt == Attempt::Again && last_seq <= facts.last_seq;
            if may_be_there && redo::has_rows(self.connection, facts.key, rows).await? {
                tracing::warn!(session = %lease.session, last_seq, "an append was there already");
                return Ok(Ok(last_seq));
            }
            return Ok(Err(error));
        }
        if let Err(error) = self.shared.ensure_files(rows) {
            return Ok(Err(error));
        }
        if !rows.is_empty() || head.is_some() {
            let at = rows.last().map(|row| row.at);
            self.batch.add_rows(facts.key, rows);
            self.batch.update(facts.key, last_seq.cast_signed(), at, head);
        }
        self.change(&lease.session, |facts| facts.last_seq = last_seq);
        Ok(Ok(last_seq))
    }

    /// Tells whether a session that exists is the one that an earlier attempt created.
    async fn was_created(
        &mut self,
        facts: &Facts,
        session: &NewSession,
        rows: &[StoredRow],
    ) -> sqlx::Result<bool> {
        let last_seq = rows.last().map_or(0, |row| row.seq.0);
        Ok(self.attempt == Attempt::Again
            && facts.owner.as_ref() == Some(self.shared.ownership.me())
            && (facts.generation, facts.last_seq) == (1, last_seq)
            && redo::has_session(self.connection, facts.key, session).await?
            && redo::has_rows(self.connection, facts.key, rows).await?)
    }

    async fn create(&mut self, session: &NewSession, rows: &[StoredRow]) -> sqlx::Result<Answer> {
        if let Some(facts) = self.facts.get(&session.id).cloned() {
            if self.was_created(&facts, session, rows).await? {
                return Ok(Ok(facts.generation));
            }
            return Ok(Err(StoreError::Exists(session.id.clone())));
        }
        let checked = check_rows(&session.id, 0, rows)
            .and_then(|()| self.shared.hold())
            .and_then(|()| self.shared.ensure_files(rows));
        if let Err(error) = checked {
            return Ok(Err(error));
        }
        let sql = "INSERT INTO sessions (id, cwd, title, model, mode, state, prompts, cost_usd, \
            created_at, updated_at, last_seq, generation, owner_instance, owner_pid) \
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)";
        let (head, me) = (&session.head, self.shared.ownership.me());
        let last_seq = rows.last().map_or(0, |row| row.seq.0);
        let at = rows.last().map_or(session.at, |row| row.at);
        let inserted = sqlx::query(sql)
            .bind(session.id.as_str())
            .bind(&session.cwd)
            .bind(&head.title)
            .bind(&head.model)
            .bind(head.mode.as_str())
            .bind(head.state.as_str())
            .bind(head.prompts.cast_signed())
            .bind(head.cost_usd)
            .bind(session.at.0)
            .bind(at.0)
            .bind(last_seq.cast_signed())
            .bind(&me.instance)
            .bind(i64::from(me.pid))
            .execute(&mut *self.connection)
            .await?;
        let key = inserted.last_insert_rowid();
        if key > KEY_MAX {
            return Err(sqlx::Error::Protocol("the database is full of sessions".to_owned()));
        }
        self.batch.add_rows(key, rows);
        let facts = Facts { key, generation: 1, last_seq, owner: Some(me.clone()) };
        self.facts.insert(session.id.clone(), facts);
        Ok(Ok(1))
    }

    async fn claim(&mut self, session: &SessionId) -> sqlx::Result<Answer> {
        let Some(facts) = self.facts.get(session).cloned() else {
            return Ok(Err(StoreError::NotFound(session.clone())));
        };
        if let Some(owner) = facts.owner
            && self.shared.ownership.is_alive(&owner.instance)
            && owner != *self.shared.ownership.me()
        {
            return Ok(Err(StoreError::OwnedElsewhere(owner)));
        }
        if let Err(error) = self.shared.hold() {
            return Ok(Err(error));
        }
        self.batch.flush(self.connection, None).await?;
        let generation = facts.generation + 1;
        let me = self.shared.ownership.me().clone();
        // A damaged count of events must not let an append overwrite what is there.
        let sql = "UPDATE sessions SET generation = ?, owner_instance = ?, owner_pid = ?, \
            last_seq = max(last_seq, coalesce( \
                (SELECT max(id) FROM events WHERE id BETWEEN ? AND ?) & ?, 0)) \
            WHERE key = ? RETURNING last_seq";
        let row = sqlx::query(sql)
            .bind(generation.cast_signed())
            .bind(&me.instance)
            .bind(i64::from(me.pid))
            .bind(event_id(facts.key, 1))
            .bind(event_id(facts.key, SEQ_MAX))
            .bind(SEQ_MAX)
            .bind(facts.key)
            .fetch_one(&mut *self.connection)
            .await?;
        let last_seq = row.try_get::<i64, _>(0)?.cast_unsigned();
        if last_seq != facts.last_seq {
            let was = facts.last_seq;
            tracing::warn!(%session, was, last_seq, "the count of events was wrong");
        }
        self.change(session, |facts| {
            facts.generation = generation;
            facts.last_seq = last_seq;
            facts.owner = Some(me);
        });
        Ok(Ok(generation))
    }

    async fn release(&mut self, lease: &Lease) -> sqlx::Result<Answer> {
        let Ok(facts) = self.leased(lease) else { return Ok(Ok(0)) };
        self.batch.flush(self.connection, None).await?;
        let sql = "UPDATE sessions SET owner_instance = NULL, owner_pid = NULL WHERE key = ?";
        sqlx::query(sql).bind(facts.key).execute(&mut *self.connection).await?;
        self.change(&lease.session, |facts| facts.owner = None);
        Ok(Ok(0))
    }

    async fn truncate(&mut self, lease: &Lease, last: Seq) -> sqlx::Result<Answer> {
        let facts = match self.leased(lease) {
            Ok(facts) => facts,
            Err(error) => return Ok(Err(error)),
        };
        if last.0 >= facts.last_seq {
            return Ok(Ok(facts.last_seq));
        }
        self.batch.flush(self.connection, None).await?;
        let last_seq = last.0.cast_signed();
        let place = cut::Place { session: &lease.session, key: facts.key, after: last_seq };
        if let Err(error) = cut::keep(self.connection, self.shared, &place).await? {
            return Ok(Err(error));
        }
        self.delete_rows(facts.key, last_seq + 1).await?;
        sqlx::query("UPDATE sessions SET last_seq = ? WHERE key = ?")
            .bind(last_seq)
            .bind(facts.key)
            .execute(&mut *self.connection)
            .await?;
        sqlx::query("DELETE FROM snapshots WHERE session = ? AND seq > ?")
            .bind(facts.key)
            .bind(last_seq)
            .execute(&mut *self.connection)
            .await?;
        self.change(&lease.session, |facts| facts.last_seq = last.0);
        Ok(Ok(last.0))
    }

    async fn put_snapshot(&mut self, lease: &Lease, snapshot: &Snapshot) -> sqlx::Result<Answer> {
        let facts = match self.leased(lease) {
            Ok(facts) => facts,
            Err(error) => return Ok(Err(error)),
        };
        let (seq, version) = (snapshot.seq.0.cast_signed(), i64::from(snapshot.version));
        sqlx::query("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)")
            .bind(facts.key)
            .bind(seq)
            .bind(version)
            .bind(snapshot_sum(facts.key, seq, version, &snapshot.bytes))
            .bind(snapshot.bytes.clone())
            .execute(&mut *self.connection)
            .await?;
        Ok(Ok(0))
    }

    async fn post(&mut self, session: &SessionId, letter: &Letter) -> sqlx::Result<Answer> {
        let Some(facts) = self.facts.get(session) else {
            return Ok(Err(StoreError::NotFound(session.clone())));
        };
        letters::post(self.connection, (session, facts.key), letter).await
    }

    async fn drop_letter(&mut self, lease: &Lease, id: &str) -> sqlx::Result<Answer> {
        let facts = match self.leased(lease) {
            Ok(facts) => facts,
            Err(error) => return Ok(Err(error)),
        };
        sqlx::query("DELETE FROM letters WHERE session = ? AND id = ?")
            .bind(facts.key)
            .bind(id)
            .execute(&mut *self.connection)
            .await?;
        Ok(Ok(0))
    }

    async fn remove(&mut self, lease: &Lease) -> sqlx::Result<Answer> {
        let facts = match self.leased(lease) {
            Ok(facts) => facts,
            Err(StoreError::NotFound(_)) if self.attempt == Attempt::Again => return Ok(Ok(0)),
            Err(error) => return Ok(Err(error)),
        };
        // These go before the rows do: when they cannot, the session is still there to say so.
        if let Err(error) = cut::forget(self.shared, &lease.session) {
            return Ok(Err(error));
        }
        self.batch.flush(self.connection, None).await?;
        self.delete_rows(facts.key, 1).await?;
        for sql in [
            "DELETE FROM snapshots WHERE session = ?",
            "DELETE FROM letters WHERE session = ?",
            "DELETE FROM sessions WHERE key = ?",
        ] {
            sqlx::query(sql).bind(facts.key).execute(&mut *self.connection).await?;
        }
        self.facts.remove(&lease.session);
        Ok(Ok(0))
    }

    /// Writes the version into the header once more. SQLite writes the page though nothing in it
    /// changes, so that a disk that is full or read-only says so.
    async fn probe(&mut self) -> sqlx::Result<Answer> {
        let sql = format!("PRAGMA user_version = {}", SCHEMA.version());
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *self.connection).await?;
        Ok(Ok(0))
    }

    /// Deletes rows from a seq on and notes the files that they named.
    async fn delete_rows(&mut self, key: i64, from: i64) -> sqlx::Result<()> {
        let (first, last) = (event_id(key, from), event_id(key, SEQ_MAX));
        let sql = "DELETE FROM blobs WHERE event BETWEEN ? AND ? RETURNING hash";
        let named =
            sqlx::query(sql).bind(first).bind(last).fetch_all(&mut *self.connection).await?;
        for row in named {
            let hash = BlobHash::from_hex(row.try_get(0)?);
            self.orphans.extend(hash.filter(|hash| !self.orphans.contains(hash)));
        }
        sqlx::query("DELETE FROM events WHERE id BETWEEN ? AND ?")
            .bind(first)
            .bind(last)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Returns a session's facts when the lease is this process's and the newest.
    fn leased(&self, lease: &Lease) -> Result<Facts, StoreError> {
        let facts = self
            .facts
            .get(&lease.session)
            .ok_or_else(|| StoreError::NotFound(lease.session.clone()))?;
        let is_mine = facts.owner.as_ref() == Some(self.shared.ownership.me());
        if is_mine && facts.generation == lease.generation {
            Ok(facts.clone())
        } else {
            Err(StoreError::Stale(lease.session.clone()))
        }
    }

    fn change(&mut self, session: &SessionId, change: impl FnOnce(&mut Facts)) {
        if let Some(facts) = self.facts.get_mut(session) {
            change(facts);
        }
    }
}

fn read_facts(row: &SqliteRow) -> sqlx::Result<(SessionId, Facts)> {
    let instance: Option<String> = row.try_get(4)?;
    let pid: Option<i64> = row.try_get(5)?;
    let owner = instance.map(|instance| Owner {
        instance,
        pid: pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
    });
    let facts = Facts {
        key: row.try_get(1)?,
        generation: row.try_get::<i64, _>(2)?.cast_unsigned(),
        last_seq: row.try_get::<i64, _>(3)?.cast_unsigned(),
        owner,
    };
    Ok((SessionId::new(row.try_get::<String, _>(0)?), facts))
}

/// Checks that rows follow `last_seq` without a gap.
fn check_rows(session: &SessionId, last_seq: u64, rows: &[StoredRow]) -> Result<(), StoreError> {
    let mut expected = last_seq;
    for row in rows {
        expected += 1;
        if row.seq.0 != expected || expected > SEQ_MAX.cast_unsigned() {
            return Err(StoreError::Fault(Fault::new(format!(
                "append to {session} after {last_seq}: row {} stands where {expected} is due",
                row.seq.0
            ))));
        }
    }
    Ok(())
}

impl Shared {
    fn hold(&self) -> Result<(), StoreError> {
        self.ownership.hold().map_err(|error| fault("take the lock of this process", error))
    }

    /// Writes large bodies whose files a removal took away between their writing and this
    /// transaction; none can do so while it is open.
    fn ensure_files(&self, rows: &[StoredRow]) -> Result<(), StoreError> {
        for (hash, contents) in rows.iter().filter_map(|row| row.file.as_ref()) {
            if !self.blobs.contains(hash) {
                let written = self.blobs.write(hash, contents.as_bytes());
                written.map_err(|error| fault(format!("write body {}", hash.as_str()), error))?;
            }
        }
        Ok(())
    }
}
