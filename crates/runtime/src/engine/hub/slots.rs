//! The sessions that are open here: their places, their tasks, and how they come and go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use driver_api::Fault;
use futures_util::{FutureExt, StreamExt, stream};
use protocol::event::SessionEnd;
use protocol::{NeuronId, Refusal, RefusalCode, SessionId, SessionSandbox};
use runtime_api::{Error, SessionInfo};
use tokio::sync::{OwnedMutexGuard, RwLockReadGuard, mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::engine::face::Face;
use crate::engine::mailbox::{MAILBOX, Message};
use crate::engine::opening::{self, Why};
use crate::engine::options::Services;
use crate::engine::own;
use crate::engine::session::{Ended, Session};
use crate::engine::stored::refused;
use crate::engine::viewers::Viewers;

/// How many sessions are closed at a time when the program stops: enough to share commits, few
/// enough that none waits long for its own.
const CLOSING_MAX: usize = 64;

/// How often the task of a session may break within [`BREAKS_WITHIN`] and be started again: what
/// broke it may have been passing, but not each time.
const BREAKS_MAX: usize = 3;

/// The time within which the breaks of a session's task are counted.
const BREAKS_WITHIN: Duration = Duration::from_secs(60);

/// The neuron that a session acts in, and what keeps the session apart where it is its own.
pub(super) type Neuron = (NeuronId, Option<SessionSandbox>);

/// A session that was opened here and not closed.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The way to its task; closed while it sleeps, and then the one of all that sleep.
    pub(super) mailbox: mpsc::Sender<Message>,
    pub(super) viewers: Arc<Viewers>,
    /// What its task shows of it. A task that ended without falling asleep broke.
    face: Arc<Face>,
    /// Prompts take their turn here, so that one that reads files is not overtaken.
    pub(super) line: Arc<tokio::sync::Mutex<()>>,
    /// When its tasks broke, of late.
    breaks: Arc<Mutex<Vec<Duration>>>,
}

impl Slot {
    pub(super) fn is_awake(&self) -> bool {
        !self.mailbox.is_closed()
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.face.is_asleep()
    }

    /// Tells whether its task is the one that reads this mailbox.
    fn is_served_by(&self, mailbox: &mpsc::WeakSender<Message>) -> bool {
        mailbox.upgrade().is_some_and(|mailbox| mailbox.same_channel(&self.mailbox))
    }

    /// Returns what is durable of the session, without asking its task, and the last frame that
    /// was shown.
    pub(super) fn info(&self) -> Option<SessionInfo> {
        let info = SessionInfo::clone(&*self.face.info()?);
        let last_frame = info.last_frame.max(self.viewers.last_frame());
        Some(SessionInfo { last_frame, ..info })
    }

    /// Says why a session without a task is opened again.
    fn why(&self) -> Why {
        if self.is_asleep() { Why::Woken } else { Why::Broken }
    }

    /// Notes that its task broke; tells whether that has happened too often.
    fn broke(&self, now: Duration) -> bool {
        let mut breaks = self.breaks.lock().unwrap_or_else(PoisonError::into_inner);
        breaks.retain(|at| now.saturating_sub(*at) < BREAKS_WITHIN);
        breaks.push(now);
        breaks.len() > BREAKS_MAX
    }
}

/// The slots, and the places that are taken without one.
#[derive(Debug, Default)]
struct Table {
    open: HashMap<SessionId, Slot>,
    /// Sessions on their way in or out: they count, but nobody finds them.
    between: usize,
}

/// A place among the sessions that may be open. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    core: Arc<Core>,
    is_held: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_held {
            self.core.table().between -= 1;
        }
    }
}

/// What the hub and the tasks of its sessions share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) services: Arc<Services>,
    table: Mutex<Table>,
    /// One opening or closing of a session at a time: two askers of a sleeping one must not both
    /// wake it, and whoever opens one that is being closed waits.
    alone: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Held for reading by whoever opens sessions, for writing when the program stops.
    gate: tokio::sync::RwLock<()>,
    tasks: TaskTracker,
    is_closing: AtomicBool,
    /// The neurons of sessions, as far as somebody asked.
    neurons: Mutex<HashMap<SessionId, Option<Neuron>>>,
    /// The mailbox of every session that sleeps, closed from the start: one of its own would keep
    /// room for the messages that a task reads next.
    closed: mpsc::Sender<Message>,
}

impl Core {
    pub(super) fn new(services: Arc<Services>) -> Self {
        Self {
            services,
            table: Mutex::default(),
            alone: Mutex::default(),
            gate: tokio::sync::RwLock::default(),
            tasks: TaskTracker::new(),
            is_closing: AtomicBool::new(false),
            neurons: Mutex::default(),
            closed: mpsc::channel(1).0,
        }
    }

    pub(super) fn known_neurons(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Neuron>>> {
        self.neurons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot(&self, id: &SessionId) -> Option<Slot> {
        self.table().open.get(id).cloned()
    }

    pub(super) fn slots(&self) -> Vec<(SessionId, Slot)> {
        self.table().open.iter().map(|(id, slot)| (id.clone(), slot.clone())).collect()
    }

    /// Does a piece of work to its end, also when whoever asked for it goes away meanwhile: an
    /// opening or closing that stopped half-way would leave a place taken, or a lease without an
    /// owner. The program does not stop before it has ended.
    pub(super) async fn see_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        match self.tasks.spawn(work.in_current_span()).await {
            Ok(done) => done,
            Err(error) => Err(Fault::with("open or close a session", error).into()),
        }
    }

    /// Refuses what begins after the program was told to stop. What is seen through and was not
    /// refused is waited for.
    pub(super) async fn still_open(&self) -> Result<(), Refusal> {
        self.enter().await.map(drop)
    }

    /// Begins an opening. The program does not stop before it has ended. Whoever wants to be
    /// alone with a session as well enters first.
    pub(super) async fn enter(&self) -> Result<RwLockReadGuard<'_, ()>, Refusal> {
        let gate = self.gate.read().await;
        match self.is_closing.load(Ordering::Acquire) {
            true => Err(stopping()),
            false => Ok(gate),
        }
    }

    /// Waits until nobody else opens or closes a session.
    pub(super) async fn alone(&self, id: &SessionId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            // Whatever nobody holds or waits for is forgotten here.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id.clone()).or_default())
        };
        lock.lock_owned().await
    }

    /// Takes a place for a session that is about to be opened.
    pub(super) fn reserve(self: &Arc<Self>) -> Result<Place, Refusal> {
        let mut table = self.table();
        let taken = table.open.len() + table.between;
        if let Some(max) = self.services.options.sessions_max
            && taken >= max
        {
            let message = format!(
                "{} open already, and {max} may be: close one that is not needed",
                match taken {
                    1 => "1 session is".to_owned(),
                    _ => format!("{taken} sessions are"),
                }
            );
            return Err(Refusal::new(RefusalCode::TooManySessions, message));
        }
        table.between += 1;
        drop(table);
        Ok(Place { core: Arc::clone(self), is_held: true })
    }

    /// Takes a session out of the table. Its place stays taken until it is closed.
    fn take_out(self: &Arc<Self>, id: &SessionId) -> Option<(Slot, Place)> {
        let mut table = self.table();
        let slot = table.open.remove(id)?;
        table.between += 1;
        drop(table);
        Some((slot, Place { core: Arc::clone(self), is_held: true }))
    }

    /// Returns an open session whose task runs; starts the task where it sleeps.
    pub(super) async fn awake(self: &Arc<Self>, id: &SessionId) -> Result<Slot, Error> {
        let slot = self.slot(id).ok_or_else(|| self.missing(id))?;
        if slot.is_awake() {
            return Ok(slot);
        }
        let (core, id) = (Arc::clone(self), id.clone());
        self.see_through(async move { core.wake(&id).await }).await
    }

    async fn wake(self: &Arc<Self>, id: &SessionId) -> Result<Slot, Error> {
        let _gate = self.enter().await?;
        let _alone = self.alone(id).await;
        let slot = self.slot(id).ok_or_else(|| self.missing(id))?;
        if slot.is_awake() {
            return Ok(slot);
        }
        let (agent, why) = (slot.face.agent(), slot.why());
        let session = opening::open(&self.services, id, agent, slot.viewers, why).await?;
        Ok(self.start(session, None))
    }

    /// Starts the task of an opened session. One that is new here brings its place.
    pub(super) fn start(self: &Arc<Self>, mut session: Session, place: Option<Place>) -> Slot {
        session.show_face();
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let id = session.id.clone();
        let own = mailbox.downgrade();
        let slot = {
            let mut table = self.table();
            let kept = table.open.get(&id);
            let kept = kept.map(|old| (Arc::clone(&old.line), Arc::clone(&old.breaks)));
            let (line, breaks) = kept.unwrap_or_default();
            let (viewers, face) = (Arc::clone(&session.viewers), Arc::clone(&session.face));
            let slot = Slot { mailbox, viewers, face, line, breaks };
            table.open.insert(id.clone(), slot.clone());
            if let Some(mut place) = place {
                // The slot counts from here on.
                place.is_held = false;
                table.between -= 1;
            }
            slot
        };
        let (core, session) = (Arc::downgrade(self), Box::new(session));
        self.tasks.spawn(async move {
            let lived = std::panic::AssertUnwindSafe(session.run(messages)).catch_unwind().await;
            let Some(core) = Weak::upgrade(&core) else { return };
            match lived {
                Ok(Ended::Hibernated) => core.lay_down(&id, &own),
                Ok(Ended::Closed | Ended::Lost) => core.forget(&id, &own),
                Err(_) => core.reopen(&id).await,
            }
        });
        slot
    }

    /// Frees the mailbox of a task that fell asleep, unless another task has its place already.
    fn lay_down(&self, id: &SessionId, own: &mpsc::WeakSender<Message>) {
        if let Some(slot) = self.table().open.get_mut(id)
            && slot.is_served_by(own)
        {
            slot.mailbox = self.closed.clone();
        }
    }

    /// Removes the slot of a task that ended, unless another task has its place already.
    fn forget(&self, id: &SessionId, own: &mpsc::WeakSender<Message>) {
        let mut table = self.table();
        if table.open.get(id).is_some_and(|slot| slot.is_served_by(own)) {
            table.open.remove(id);
        }
    }

    /// Opens a session again whose task broke: its turn ends with an error, its viewers stay.
    async fn reopen(self: &Arc<Self>, id: &SessionId) {
        tracing::error!(session = %id, "the task of a session broke");
        let now = self.services.options.clock.elapsed();
        let is_hopeless = self.slot(id).is_some_and(|slot| slot.broke(now));
        let Ok(_gate) = self.enter().await else { return };
        let _alone = self.alone(id).await;
        let Some(slot) = self.slot(id).filter(|slot| !slot.is_awake()) else { return };
        if is_hopeless {
            self.give_up(id).await;
            return;
        }
        let agent = slot.face.agent();
        match opening::open(&self.services, id, agent, slot.viewers, Why::Broken).await {
            Ok(session) => {
                let _slot = self.start(session, None);
            }
            Err(error) => {
                tracing::error!(session = %id, %error, "reopen a broken session");
                self.table().open.remove(id);
            }
        }
    }

    /// Lets go of a session whose task breaks whenever it is started. It can be opened again by
    /// hand, here or elsewhere.
    async fn give_up(&self, id: &SessionId) {
        tracing::error!(session = %id, "the task of a session breaks each time: it stays closed");
        self.table().open.remove(id);
        let store = &self.services.options.store;
        let released = async { store.release(&store.claim(id).await?).await };
        if let Err(error) = released.await {
            tracing::warn!(session = %id, %error, "release a broken session");
        }
    }

    /// Closes a session. Nobody finds it from now on; whoever opens it waits until it is closed.
    pub(super) async fn close(
        self: &Arc<Self>,
        id: &SessionId,
        reason: SessionEnd,
    ) -> Result<(), Error> {
        let (core, id) = (Arc::clone(self), id.clone());
        self.see_through(async move {
            core.still_open().await?;
            let _alone = core.alone(&id).await;
            core.close_alone(&id, reason).await
        })
        .await
    }

    /// Closes a session that nobody else opens or closes. The caller sees it through.
    pub(super) async fn close_alone(
        self: &Arc<Self>,
        id: &SessionId,
        reason: SessionEnd,
    ) -> Result<(), Error> {
        let (slot, _place) = self.take_out(id).ok_or_else(|| self.missing(id))?;
        let (reply, answer) = oneshot::channel();
        if slot.mailbox.send(Message::Close(reason, reply)).await.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        let (agent, why) = (slot.face.agent(), slot.why());
        match opening::open(&self.services, id, agent, slot.viewers, why).await {
            Ok(mut session) => {
                let closed = session.close(reason).await;
                if closed.is_err() {
                    session.let_go().await;
                }
                closed.map_err(refused)
            }
            // Its folder may be gone, or another process has taken it over: then there is nothing
            // left to close.
            Err(Error::Refusal(refusal)) => {
                tracing::warn!(session = %id, %refusal, "close a session that sleeps");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Says why a session did not answer.
    pub(super) fn unanswered(&self, id: &SessionId) -> Error {
        match self.slot(id) {
            Some(_) if !self.is_closing.load(Ordering::Acquire) => {
                Fault::new(format!("session {id} ended before it answered")).into()
            }
            _ => self.missing(id),
        }
    }

    /// Says why a session is not found among those that are open.
    pub(super) fn missing(&self, id: &SessionId) -> Error {
        if self.is_closing.load(Ordering::Acquire) {
            return stopping().into();
        }
        let message = format!("session {id} is not open here");
        Refusal::new(RefusalCode::SessionNotFound, message).into()
    }

    async fn put_sandbox_away(&self, slot: &Slot) {
        let Some(info) = slot.info() else { return };
        if let (Some(neuron), Some(sandbox)) = (&info.neuron, info.sandbox) {
            own::put_away(&self.services.options, neuron, sandbox.writes).await;
        }
    }

    /// Closes every session, a few at a time, and then the store.
    pub(super) async fn shutdown(&self) {
        self.is_closing.store(true, Ordering::Release);
        // Whoever is opening a session right now is waited for; nobody opens one after that.
        drop(self.gate.write().await);
        let open: Vec<(SessionId, Slot)> = self.table().open.drain().collect();
        stream::iter(open)
            .for_each_concurrent(CLOSING_MAX, |(id, slot)| async move {
                let (reply, answer) = oneshot::channel();
                let closing = Message::Close(SessionEnd::Shutdown, reply);
                // One that sleeps has nothing left to say.
                if slot.mailbox.send(closing).await.is_err() {
                    self.put_sandbox_away(&slot).await;
                } else if answer.await.is_err() {
                    tracing::error!(session = %id, "a session did not close");
                }
            })
            .await;
        self.tasks.close();
        self.tasks.wait().await;
        self.services.watchers.end();
        if let Err(error) = self.services.options.store.close().await {
            tracing::error!(%error, "close the store");
        }
    }
}

fn stopping() -> Refusal {
    Refusal::new(RefusalCode::ShuttingDown, "the program is about to stop")
}
