//! Opening a session: its state is folded from the newest snapshot on, and what a crash left is
//! mended in the log, before anything else happens.

use std::sync::Arc;

use driver_api::{Fault, Lease, Snapshot, Store, StoreError, Workspace};
use protocol::event::{Notice, NoticeLevel};
use protocol::{EventBody, FrameId, Life, Seq, SessionId};
use runtime_api::{AgentSettings, Error};

use super::options::Services;
use super::place::{self, Site, Unreachable};
use super::rules::session_policy;
use super::session::{Parts, Session};
use super::stored::{refused, rows};
use super::viewers::Viewers;
use crate::kernel::{Ending, SNAPSHOT_VERSION, State, evolve};

/// How many rows are read at a time.
const PAGE: usize = 1_000;

/// Why a session is opened, which decides how a cut turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody asked for it; a cut turn was interrupted.
    Asked,
    /// Its task broke; the turn failed.
    Broken,
    /// It hibernated; nothing was cut.
    Woken,
}

/// What folding brought.
struct Folded {
    state: State,
    snapshot_at: Seq,
    /// The next frame for a process that knows the log alone.
    frame: FrameId,
    /// The frame of the last event.
    last_recorded: FrameId,
    is_damaged: bool,
}

/// Opens a session that this process may own.
pub(crate) async fn open(
    services: &Arc<Services>,
    id: &SessionId,
    agent: AgentSettings,
    viewers: Arc<Viewers>,
    why: Why,
) -> Result<Session, Error> {
    let store = &services.options.store;
    let lease = store.claim(id).await.map_err(refused)?;
    match open_owned(services, &lease, agent, viewers, why).await {
        Ok(session) => Ok(session),
        Err(error) => {
            if let Err(error) = store.release(&lease).await {
                tracing::warn!(session = %id, %error, "release a session that was not opened");
            }
            Err(error)
        }
    }
}

async fn open_owned(
    services: &Arc<Services>,
    lease: &Lease,
    agent: AgentSettings,
    viewers: Arc<Viewers>,
    why: Why,
) -> Result<Session, Error> {
    let store = &services.options.store;
    let row = store.get(&lease.session).await.map_err(refused)?;
    let folded = fold_tail(&**store, lease, row.last_seq).await.map_err(refused)?;
    let mut roots = agent.roots.clone();
    roots.retain(|root| *root != row.cwd);
    let site = Site { cwd: &row.cwd, ..Site::of(&folded.state) };
    let opened = place::reopen(&services.options, site, &roots).await;
    let (workspace, refusal) = match opened {
        // What is recorded of it can be read all the same; a prompt is refused.
        Err(Error::Refusal(refusal)) if site.neuron.is_some() => {
            let nowhere: Arc<dyn Workspace> = Arc::new(Unreachable::new(&row.cwd, &refusal));
            (nowhere, Some(refusal))
        }
        opened if site.neuron.is_some() => (opened?, None),
        opened => (place::with_client(&services.options, &agent, &lease.session, opened?), None),
    };
    let above = services.options.policies.above(agent.policy.as_ref());
    let policy = session_policy(&above, &agent, &folded.state)?;
    let mut session = Session::new(Parts {
        services: Arc::clone(services),
        id: lease.session.clone(),
        state: folded.state,
        lease: lease.clone(),
        workspace,
        agent,
        above,
        policy,
        viewers,
    });
    session.created_at = row.created_at;
    session.snapshot_at = folded.snapshot_at;
    session.frame = match why {
        Why::Asked => folded.frame,
        // In this process it is known which frames were handed out.
        Why::Broken | Why::Woken => folded.last_recorded.max(session.viewers.last_frame()).next(),
    };
    session.viewers.found(session.last_frame(), &session.state.marks);
    session.outbox.knows(row.head);
    if folded.is_damaged {
        let last = session.state.seq.0;
        let message = format!(
            "the log was damaged after event {last}: the session goes on from there; what could be \
             read of the rest is kept in a file beside the store"
        );
        let (level, code) = (NoticeLevel::Error, Some("log_damaged".to_owned()));
        session.mend(crate::kernel::Command::Notify(Notice { level, code, message }));
    }
    let ending = match why {
        Why::Asked if session.agent.carries_on => {
            refusal.map(|refusal| Ending::error(refusal.code.as_str(), refusal.message))
        }
        Why::Asked => Some(Ending::of(protocol::TurnEnd::Interrupted)),
        Why::Broken => Some(Ending::error("internal", "Narthex failed inside; see its log")),
        Why::Woken => None,
    };
    if let Some(ending) = ending {
        // Prompts that wait were promised to run: they do, after the turn that was cut.
        session.mend(crate::kernel::Command::End(ending));
    } else {
        session.resume().await.map_err(refused)?;
    }
    if why == Why::Woken {
        session.was_only_asleep();
    }
    if why != Why::Woken && session.state.turn.is_none() {
        // What the files are now need not be what the cut turn left.
        session.give_up_recording();
    }
    session.flush_opened().await.map_err(refused)?;
    Ok(session)
}

/// Folds a log from its newest usable snapshot on. A tail that cannot be read is cut off.
async fn fold_tail(store: &dyn Store, lease: &Lease, last: Seq) -> Result<Folded, StoreError> {
    let id = &lease.session;
    let usable = store.snapshot(id).await?.and_then(|snapshot| read_snapshot(&snapshot, last));
    let (mut state, snapshot_at) = usable.unwrap_or_default();
    let mut frame = FrameId(0);
    if state.seq > Seq(0)
        && let Some(row) = store.read(id, state.seq, 1).await?.first()
    {
        frame = row.frame;
    }
    let mut is_readable = true;
    'pages: while is_readable {
        let page = store.read(id, state.seq.next(), PAGE).await?;
        is_readable = page.len() == PAGE;
        for row in &page {
            if row.seq != state.seq.next() {
                break 'pages;
            }
            // The store has checked the row, so it is not damage that is not understood here.
            let body = EventBody::decode(row.kind, &row.body).map_err(|error| {
                let (seq, kind) = (row.seq.0, row.kind.as_str());
                let what = format!(
                    "read {id}: event {seq} is a {kind} that this program cannot \
                                    read; was it written by a newer one?"
                );
                Fault::with(what, error)
            })?;
            evolve(&mut state, row.seq, row.at, &body);
            frame = row.frame;
        }
    }
    let is_damaged = state.seq < last;
    if is_damaged {
        store.truncate(lease, state.seq).await?;
    }
    let next = if state.is_closed { frame.next() } else { FrameId::first_of(life(frame, lease)) };
    Ok(Folded { state, snapshot_at, frame: next, last_recorded: frame, is_damaged })
}

/// Returns the life that begins after an unclean end. A clean close is the last event of a life;
/// after anything else frames may have been handed out that no log tells of, in this process or
/// in one that recorded nothing. The lease's number is durable and grows with every claim, so that
/// none of theirs is handed out again.
fn life(last: FrameId, lease: &Lease) -> Life {
    let recorded = u32::try_from(last.0 >> 32).unwrap_or(u32::MAX).saturating_add(1);
    let claimed = u32::try_from(lease.generation).unwrap_or(u32::MAX);
    Life(recorded.saturating_add(1).max(claimed))
}

/// Folds a log as far as it can be read, for a look: nothing is mended.
pub(crate) async fn fold_now(
    store: &dyn Store,
    id: &SessionId,
    last: Seq,
) -> Result<State, StoreError> {
    let usable = store.snapshot(id).await?.and_then(|snapshot| read_snapshot(&snapshot, last));
    let mut state = usable.map(|(state, _)| state).unwrap_or_default();
    loop {
        let page = store.read(id, state.seq.next(), PAGE).await?;
        for row in &page {
            let Ok(body) = EventBody::decode(row.kind, &row.body) else { return Ok(state) };
            if row.seq != state.seq.next() {
                return Ok(state);
            }
            evolve(&mut state, row.seq, row.at, &body);
        }
        if page.len() < PAGE {
            return Ok(state);
        }
    }
}

fn read_snapshot(snapshot: &Snapshot, last: Seq) -> Option<(State, Seq)> {
    if snapshot.version != SNAPSHOT_VERSION || snapshot.seq > last {
        return None;
    }
    let state: State = serde_json::from_slice(&snapshot.bytes).ok()?;
    (state.seq == snapshot.seq).then_some((state, snapshot.seq))
}

/// Reads and folds a whole log, for copies.
pub(crate) async fn fold_whole(
    store: &dyn Store,
    id: &SessionId,
) -> Result<(State, Vec<driver_api::LogRow>), Error> {
    let rows = rows(store, id).await?;
    let state = super::stored::fold(&rows)?;
    Ok((state, rows))
}
