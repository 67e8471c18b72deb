//! What of a session is only known while its task lives.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use driver_api::{CallFacts, Delta, Model};
use protocol::{CheckpointId, Timestamp, ToolCallId};
use runtime_api::SharedTools;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::queue::Queue;
use super::viewing::Recent;
use super::{Asked, LIVE, Outcome, Piece, compact, fitting, inquire, telling};
use crate::engine::asking::Attempts;
use crate::engine::calls::Seen;
use crate::engine::options::Services;
use crate::engine::place;
use crate::engine::purse::Reservation;
use crate::engine::toolbox::Offer;
use crate::kernel::{Ending, State, Transcript};

/// What is only known while the task lives.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) transcript: Option<Transcript>,
    /// The tools as they are now.
    pub(super) offer: Arc<Offer>,
    pub(super) model: Option<Arc<dyn Model>>,
    pub(super) effects: JoinSet<Outcome>,
    /// The model call under way, or its pause.
    pub(super) asking: Option<AbortHandle>,
    pub(super) attempts: Attempts,
    /// What the turn has done about its length.
    pub(super) compacting: compact::Compacting,
    pub(super) deltas: Option<mpsc::Receiver<Delta>>,
    /// The text of the answer so far.
    pub(super) partial: String,
    pub(super) progress: Queue<Piece>,
    pub(super) asked: HashMap<ToolCallId, Asked>,
    pub(super) facts: HashMap<ToolCallId, CallFacts>,
    pub(super) running: BTreeSet<ToolCallId>,
    pub(super) seen: Arc<Seen>,
    pub(super) cancel: CancellationToken,
    /// When the turn was told to stop.
    pub(super) stopping_since: Option<Duration>,
    /// How a stopping turn ends; interrupted where nothing is said.
    pub(super) stop_as: Option<Ending>,
    /// What the model call under way has set aside.
    pub(super) reservation: Option<Reservation>,
    /// Calls that hooks and checks are looking at.
    pub(super) vetting: BTreeSet<ToolCallId>,
    /// Calls that wait because a hook wants it so, or may: no rule and no mode answers for them.
    pub(super) held: BTreeSet<ToolCallId>,
    /// What the turn's hooks were told.
    pub(super) hooks: telling::Telling,
    /// Whether hooks were told that the session is open.
    pub(super) is_start_told: bool,
    /// How far the capture before the turn's first change is.
    pub(super) capture: Capture,
    /// The point of the turn whose leavings are being captured.
    pub(super) recording: Option<CheckpointId>,
    /// When letters are looked for next.
    pub(super) attend_due: Option<Duration>,
    /// The step whose repetition the model was told of.
    pub(super) repetition_told: Option<u32>,
    pub(super) updated_at: Timestamp,
    /// Whether the workspace should get ready for commands.
    pub(super) is_prepare_due: bool,
    /// When folded facts must be on their way to the log.
    pub(super) flush_due: Option<Duration>,
    /// What the turn's last answer has to fit.
    pub(super) fitting: fitting::Fitting,
    /// Questions of calls that run.
    pub(super) inquiries: inquire::Inquiries,
    /// The newest recorded events.
    pub(super) recent: Recent,
    /// Whether the session is on its way to be closed: no further prompt begins.
    pub(super) is_closing: bool,
    /// The window of the model of this name, so that it need not be made to be asked.
    pub(super) window: (String, Option<u64>),
}

impl Live {
    /// Begins the life of a folded session.
    pub(super) fn new(services: &Services, state: &State, own: Option<&SharedTools>) -> Self {
        let seen = Arc::new(Seen::default());
        for (path, file) in &state.files {
            seen.note(path.clone(), file.hash.clone());
        }
        Self {
            transcript: None,
            offer: services.toolbox.offer(&state.tools, (place::of(state), own), None),
            model: None,
            effects: JoinSet::new(),
            asking: None,
            attempts: Attempts::default(),
            compacting: compact::Compacting::default(),
            deltas: None,
            partial: String::new(),
            progress: Queue::new(LIVE),
            asked: HashMap::new(),
            facts: HashMap::new(),
            running: BTreeSet::new(),
            seen,
            cancel: CancellationToken::new(),
            stopping_since: None,
            stop_as: None,
            reservation: None,
            vetting: BTreeSet::new(),
            held: BTreeSet::new(),
            hooks: telling::Telling::default(),
            is_start_told: false,
            capture: Capture::default(),
            recording: None,
            attend_due: None,
            repetition_told: None,
            updated_at: services.options.clock.now(),
            is_prepare_due: false,
            flush_due: None,
            fitting: fitting::Fitting::default(),
            inquiries: inquire::Inquiries::default(),
            recent: Recent::new(state.seq.next()),
            is_closing: false,
            window: Default::default(),
        }
    }
}
