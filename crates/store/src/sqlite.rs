//! The store in one SQLite file.
//!
//! One connection writes ([`writer`]), a few read. A commit is synced before it is answered. How
//! a damaged file is dealt with stands in [`salvage`].

mod connect;
mod fault;
mod read;
mod salvage;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Appended, Fault, LETTER_BYTES_MAX, LETTER_ID_BYTES_MAX, Lease, Letter, ListFilter, LogRow,
    NewSession, Owner, SessionHead, SessionRow, Snapshot, Store, StoreError,
};
use protocol::{EventKind, Seq, SessionId, Timestamp};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use crate::Options;
use crate::blob::{BlobHash, Blobs, create_folder};
use crate::kind::KindCode;
use crate::ownership::Ownership;
use crate::row::{INLINE_BYTES_MAX, StoredRow};
use fault::{Damage, fault};
use read::Readers;
use schema::{SCHEMA, State};
use writer::{Job, QUEUE_LEN, Shared, Work, Writer};

/// A snapshot of more bytes is refused: a state is an index of a log, not its texts.
const SNAPSHOT_BYTES_MAX: usize = 16 << 20;

/// Opens the store, creating what is missing.
///
/// A damaged file is moved aside and what can be read of it is carried over into a new one;
/// [`SqliteStore::notices`] tells. The store runs a task of its own on the current runtime.
///
/// # Errors
/// A fault when the file cannot be opened, was written by a newer program, or is damaged while
/// another process uses it.
pub async fn open(options: Options) -> Result<Arc<SqliteStore>, StoreError> {
    let path = options.path;
    if let Some(folder) = path.parent() {
        let created = create_folder(folder);
        created.map_err(|error| fault(format!("create {}", folder.display()), error))?;
    }
    let shared = Arc::new(Shared {
        ownership: Ownership::new(options.run),
        blobs: Blobs::new(options.blobs),
        damage: Damage::new(&path),
        path,
    });
    let (connection, notices) = open_writer(&shared).await?;
    let readers = connect::readers(&shared.path);
    let (jobs, queue) = mpsc::channel(QUEUE_LEN);
    #[allow(
        clippy::disallowed_methods,
        reason = "the writer belongs to no session: it ends with the store, which waits for it"
    )]
    drop(tokio::spawn(Writer::new(Arc::clone(&shared), connection).run(queue)));
    Ok(Arc::new(SqliteStore { jobs, readers, shared, notices }))
}

/// Opens the connection that writes, after whatever the file needs first.
async fn open_writer(shared: &Shared) -> Result<(SqliteConnection, Vec<String>), StoreError> {
    let path = shared.path.as_path();
    let mut notices = salvage::before_open(shared).await?;
    let mut is_repaired = false;
    loop {
        // A store on a read-only disk, or of another owner, says so itself when it is opened.
        if let Err(error) = connect::keep_private(path) {
            tracing::debug!(path = %path.display(), %error, "keep the store private");
        }
        let opened = connect::writer(path).await;
        let why = match opened {
            Ok(mut connection) => match SCHEMA.inspect(&mut connection, path).await? {
                State::Current => return Ok((connection, notices)),
                State::Old(_) => {
                    SCHEMA.migrate(&mut connection, path).await?;
                    return Ok((connection, notices));
                }
                State::Damaged(why) => {
                    // It is moved aside next; how it closes does not matter.
                    let _closed = connection.close().await;
                    why
                }
            },
            Err(error) if fault::is_damage(&error) => error.to_string(),
            Err(error) => return Err(fault(format!("open {}", path.display()), error)),
        };
        if is_repaired {
            let what = format!("open {}: it is damaged again after its repair", path.display());
            return Err(StoreError::Fault(Fault::with(what, why)));
        }
        notices.extend(salvage::repair(shared).await?);
        is_repaired = true;
    }
}

/// Returns the path of a file that stands beside the database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    jobs: mpsc::Sender<Job>,
    readers: SqlitePool,
    shared: Arc<Shared>,
    notices: Vec<String>,
}

impl SqliteStore {
    /// Returns what a person should know about the opening: one sentence for each damaged file
    /// that was moved aside.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    async fn ask(&self, work: Work) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job::Do(work, reply)).await.map_err(|_| writer::closed())?;
        answer.await.map_err(|_| writer::closed())?
    }

    fn readers(&self) -> Readers<'_> {
        Readers { pool: &self.readers, shared: &self.shared }
    }

    /// Makes rows ready; large bodies are on disk when this returns.
    async fn prepare(&self, rows: Vec<LogRow>) -> Result<Vec<StoredRow>, StoreError> {
        let is_large = |row: &LogRow| row.body.len() > INLINE_BYTES_MAX;
        if !rows.iter().any(is_large) {
            return Ok(rows.into_iter().map(inline_row).collect());
        }
        let shared = Arc::clone(&self.shared);
        let store_all = move || {
            let store_one = |row: LogRow| {
                if !is_large(&row) {
                    return Ok(inline_row(row));
                }
                let hash = BlobHash::of(row.body.as_bytes());
                let written = shared.blobs.write(&hash, row.body.as_bytes());
                written.map_err(|error| fault(format!("write body {}", hash.as_str()), error))?;
                Ok(StoredRow {
                    seq: row.seq,
                    frame: row.frame,
                    at: row.at,
                    kind: KindCode::new(row.kind, true),
                    body: hash.reference().into(),
                    file: Some((hash, row.body.into())),
                })
            };
            rows.into_iter().map(store_one).collect()
        };
        let stored = tokio::task::spawn_blocking(store_all).await;
        stored.map_err(|error| fault("write large bodies", error))?
    }
}

fn inline_row(row: LogRow) -> StoredRow {
    StoredRow {
        seq: row.seq,
        frame: row.frame,
        at: row.at,
        kind: KindCode::new(row.kind, false),
        body: row.body.into(),
        file: None,
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn is_mine(&self, owner: &Owner) -> bool {
        owner == self.shared.ownership.me()
    }

    async fn create(&self, mut session: NewSession) -> Result<Lease, StoreError> {
        let id = session.id.clone();
        let rows = self.prepare(std::mem::take(&mut session.rows)).await?;
        let generation = self.ask(Work::Create(Box::new(session), rows)).await?;
        Ok(Lease { session: id, generation })
    }

    async fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        let generation = self.ask(Work::Claim(session.clone())).await?;
        Ok(Lease { session: session.clone(), generation })
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.ask(Work::Release(lease.clone())).await.map(|_| ())
    }

    async fn append(
        &self,
        lease: &Lease,
        rows: Vec<LogRow>,
        head: Option<SessionHead>,
    ) -> Result<Appended, StoreError> {
        let rows = self.prepare(rows).await?;
        let last = self.ask(Work::Append(lease.clone(), rows, head.map(Box::new))).await?;
        Ok(Appended { last_seq: Seq(last) })
    }

    async fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.readers().read(session, from, limit).await
    }

    async fn truncate(&self, lease: &Lease, last: Seq) -> Result<(), StoreError> {
        self.ask(Work::Truncate(lease.clone(), last)).await.map(|_| ())
    }

    async fn snapshot(&self, session: &SessionId) -> Result<Option<Snapshot>, StoreError> {
        self.readers().snapshot(session).await
    }

    async fn put_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), StoreError> {
        let size = snapshot.bytes.len();
        if size > SNAPSHOT_BYTES_MAX {
            return Err(StoreError::Fault(Fault::new(format!(
                "keep a snapshot of {}: it has {size} bytes, more than {SNAPSHOT_BYTES_MAX}",
                lease.session
            ))));
        }
        self.ask(Work::PutSnapshot(lease.clone(), snapshot)).await.map(|_| ())
    }

    async fn get(&self, session: &SessionId) -> Result<SessionRow, StoreError> {
        self.readers().get(session).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.readers().list(filter).await
    }

    async fn rows_of(
        &self,
        kind: EventKind,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionId, LogRow)>, StoreError> {
        self.readers().rows_of(kind, since, limit).await
    }

    async fn post(&self, session: &SessionId, letter: Letter) -> Result<(), StoreError> {
        let size = letter.body.len();
        if size > LETTER_BYTES_MAX || letter.id.len() > LETTER_ID_BYTES_MAX {
            return Err(StoreError::Fault(Fault::new(format!(
                "post a letter to {session}: its body has {size} bytes and its id {}, at most \
                 {LETTER_BYTES_MAX} and {LETTER_ID_BYTES_MAX} are taken",
                letter.id.len()
            ))));
        }
        self.ask(Work::Post(session.clone(), letter)).await.map(|_| ())
    }

    async fn letters(&self, lease: &Lease) -> Result<Vec<Letter>, StoreError> {
        self.readers().letters(lease).await
    }

    async fn drop_letter(&self, lease: &Lease, id: &str) -> Result<(), StoreError> {
        self.ask(Work::DropLetter(lease.clone(), id.to_owned())).await.map(|_| ())
    }

    async fn remove(&self, lease: &Lease) -> Result<(), StoreError> {
        self.ask(Work::Remove(lease.clone())).await.map(|_| ())
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.ask(Work::Probe(SessionId::new(""))).await.map(|_| ())
    }

    async fn close(&self) -> Result<(), StoreError> {
        // The readers go first: the writer can then fold the WAL into the database and remove it.
        self.readers.close().await;
        let (reply, answer) = oneshot::channel();
        // A second close finds the writer gone, and that is fine.
        let closed = match self.jobs.send(Job::Close(reply)).await {
            Ok(()) => answer.await.unwrap_or(Ok(0)).map(|_| ()),
            Err(_) => Ok(()),
        };
        self.shared.ownership.end();
        closed
    }
}
