//! Where logs are kept.

use std::fmt::Debug;

use async_trait::async_trait;
use protocol::{EventKind, FrameId, Mode, Seq, SessionId, Timestamp};

use crate::Fault;

/// What a store may answer instead of doing as told.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such session.
    #[error("no session {0}")]
    NotFound(SessionId),
    /// A session of that id exists already.
    #[error("session {0} exists already")]
    Exists(SessionId),
    /// Another living process owns the session.
    #[error("session is owned by {0}")]
    OwnedElsewhere(Owner),
    /// The lease is stale: somebody took the session over. Nothing was written.
    #[error("lease of session {0} is stale")]
    Stale(SessionId),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The process that may append to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// The instance: one per process start.
    pub instance: String,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// The right to append to one session. The generation grows with every claim, and an append with
/// an older one is refused by the store itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The fencing token.
    pub generation: u64,
}

/// One row of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Its position.
    pub seq: Seq,
    /// The frame under which it was first sent.
    pub frame: FrameId,
    /// When it happened.
    pub at: Timestamp,
    /// What kind of event.
    pub kind: EventKind,
    /// The fields as JSON ([`protocol::EventBody::encode`]). A body over 1 MiB is kept in a file
    /// by its hash, without the caller noticing.
    pub body: String,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionState {
    /// Waits for a prompt.
    #[default]
    Idle,
    /// Works.
    Running,
    /// Waits for a person.
    Waiting,
}

impl SessionState {
    /// Returns the state as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Idle => "idle",
            SessionState::Running => "running",
            SessionState::Waiting => "waiting",
        }
    }
}

/// The facts of a session that lists show without reading its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionHead {
    /// The title: given, or the first line of the first prompt.
    pub title: Option<String>,
    /// The model.
    pub model: String,
    /// The mode.
    pub mode: Mode,
    /// What it is doing.
    pub state: SessionState,
    /// How many prompts it has had.
    pub prompts: u64,
    /// What it has cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Its working folder.
    pub cwd: String,
    /// When.
    pub at: Timestamp,
    /// The facts for lists.
    pub head: SessionHead,
    /// The first events, from seq 1 on; may be empty.
    pub rows: Vec<LogRow>,
}

/// A session as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Its working folder.
    pub cwd: String,
    /// The facts for lists.
    pub head: SessionHead,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log last grew.
    pub updated_at: Timestamp,
    /// The last position of its log.
    pub last_seq: Seq,
    /// The living process that owns it, if one does.
    pub owner: Option<Owner>,
}

/// Which sessions to list; newest first.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those of exactly this folder.
    pub cwd: Option<String>,
    /// Only those that a list shows after this session, which was last touched then (for paging).
    pub before: Option<(Timestamp, SessionId)>,
    /// At most this many; 0 means 100, the limit is 1,000.
    pub limit: usize,
    /// Only those that work or wait for a person, as their heads say.
    pub is_busy: bool,
}

/// A folded state, so that opening a session need not fold its whole log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event that is folded in.
    pub seq: Seq,
    /// The version of the encoding; a reader that does not know it folds from the start.
    pub version: u32,
    /// The state.
    pub bytes: Vec<u8>,
}

/// The most letters that wait for one session: answers and wishes of people, who have few at a
/// time.
pub const LETTERS_MAX: usize = 64;
/// The most bytes of one letter's body.
pub const LETTER_BYTES_MAX: usize = 64 << 10;
/// The most bytes of one letter's id.
pub const LETTER_ID_BYTES_MAX: usize = 200;

/// Words for the owner of a session from a process that does not own it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its id, unique within the session; at most 200 bytes.
    pub id: String,
    /// What it says, as JSON; at most 64 KiB.
    pub body: String,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The last position of the log.
    pub last_seq: Seq,
}

/// Keeps sessions and their logs.
///
/// Every implementation passes `testkit::store_suite`.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Creates a session that this process owns, with its first events, durably.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the id is taken.
    async fn create(&self, session: NewSession) -> Result<Lease, StoreError>;

    /// Takes ownership. A claim of what this process owns already renews the lease with a higher
    /// generation; an owner that has died is replaced.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::OwnedElsewhere`] at once, without waiting.
    async fn claim(&self, session: &SessionId) -> Result<Lease, StoreError>;

    /// Gives ownership up. A stale lease is ignored.
    ///
    /// # Errors
    /// [`StoreError::Fault`].
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Appends rows whose seqs follow the last one without a gap. When this returns `Ok` the rows
    /// are durable; when it returns an error none of them is there. Appends of several sessions
    /// may share one commit, but a stale lease fails its own session's part alone. `head`, where
    /// given, replaces the facts for lists in the same commit.
    ///
    /// # Errors
    /// [`StoreError::Stale`] when another generation owns the session; [`StoreError::NotFound`].
    async fn append(
        &self,
        lease: &Lease,
        rows: Vec<LogRow>,
        head: Option<SessionHead>,
    ) -> Result<Appended, StoreError>;

    /// Reads rows from `from` (inclusive) on, in order, at most `limit`.
    ///
    /// A damaged row ends the answer before it: what is before the damage is always readable.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<LogRow>, StoreError>;

    /// Cuts a damaged tail: removes every row after `last`. Only the owner may. A store that keeps
    /// files keeps what could still be read of the rows in one, at most 64 MiB, before it removes
    /// them.
    ///
    /// # Errors
    /// [`StoreError::Stale`]; [`StoreError::Fault`] when they cannot be kept: then nothing is
    /// removed.
    async fn truncate(&self, lease: &Lease, last: Seq) -> Result<(), StoreError>;

    /// Returns the newest snapshot, or none; a damaged one counts as none.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn snapshot(&self, session: &SessionId) -> Result<Option<Snapshot>, StoreError>;

    /// Keeps a snapshot in place of the older one. Need not be durable at once.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    async fn put_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), StoreError>;

    /// Tells whether an owner is this process itself.
    fn is_mine(&self, owner: &Owner) -> bool;

    /// Returns one session's facts.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn get(&self, session: &SessionId) -> Result<SessionRow, StoreError>;

    /// Lists sessions, newest first.
    ///
    /// # Errors
    /// [`StoreError::Fault`].
    async fn list(&self, filter: ListFilter) -> Result<Vec<SessionRow>, StoreError>;

    /// Reads the rows of one kind over all sessions, recorded at or after `since`, oldest first;
    /// at most `limit`. To read on, ask again from the last row's instant and leave out what was
    /// read.
    ///
    /// # Errors
    /// [`StoreError::Fault`].
    async fn rows_of(
        &self,
        kind: EventKind,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionId, LogRow)>, StoreError>;

    /// Leaves a letter for whoever owns a session, durably. At most [`LETTERS_MAX`] wait for one
    /// session. A letter that waits already may be left once more, which changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Fault`] when too many wait, when it is too large,
    /// or when another of its id waits.
    async fn post(&self, session: &SessionId, letter: Letter) -> Result<(), StoreError>;

    /// Returns the letters that wait for a session, oldest first. Only the owner may.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    async fn letters(&self, lease: &Lease) -> Result<Vec<Letter>, StoreError>;

    /// Throws a letter away that was read and acted on; one that is not there is fine. Only the
    /// owner may.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    async fn drop_letter(&self, lease: &Lease, id: &str) -> Result<(), StoreError>;

    /// Erases a session, its log, snapshots and files. Only the owner may.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    async fn remove(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Writes something that changes nothing, durably: tells whether the store takes writes.
    ///
    /// # Errors
    /// [`StoreError::Fault`] when it does not.
    async fn probe(&self) -> Result<(), StoreError>;

    /// Waits until everything is written and closes.
    ///
    /// # Errors
    /// [`StoreError::Fault`].
    async fn close(&self) -> Result<(), StoreError>;
}
