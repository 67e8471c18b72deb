//! What a session is after its log was folded. Small: it holds positions, not texts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::{Effect, Mode, PromptId, RequestId, Seq, StopReason, Timestamp, ToolCallId, Usage};
use serde::{Deserialize, Serialize};

/// How many files a session remembers as seen; the oldest is forgotten first, and a forgotten
/// file has to be read again before it is edited.
pub(crate) const FILES_MAX: usize = 2_000;

/// The version of the encoding in snapshots. It grows with every change of [`State`].
pub(crate) const SNAPSHOT_VERSION: u32 = 2;

/// A folded session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The last folded event.
    pub(crate) seq: Seq,
    /// The working folder.
    pub(crate) cwd: String,
    /// The model.
    pub(crate) model: String,
    /// The mode.
    pub(crate) mode: Mode,
    /// The title.
    pub(crate) title: Option<String>,
    /// Whether the last event said that the session was closed.
    pub(crate) is_closed: bool,
    /// Where the system prompt was recorded.
    pub(crate) context: Option<Seq>,
    /// Prompts that wait: id and where their content was recorded.
    pub(crate) queue: VecDeque<(PromptId, Seq)>,
    /// The running turn.
    pub(crate) turn: Option<Turn>,
    /// Sums over the session.
    pub(crate) usage: Usage,
    /// What it has cost; absent as soon as one price was not known.
    pub(crate) cost_usd: f64,
    /// Prompts that were started.
    pub(crate) prompts: u64,
    /// Tokens of the newest request and its answer: the size of the transcript as the provider
    /// counts it.
    pub(crate) context_tokens: u64,
    /// Bytes that the transcript has grown by since `context_tokens` was counted.
    pub(crate) context_grown: u64,
    /// Hashes of the call ids that were used, so that ids stay unique.
    pub(crate) call_ids: BTreeSet<u64>,
    /// Files that were seen: path to the hash of their contents and when they were seen.
    pub(crate) files: BTreeMap<String, SeenFile>,
    /// Rules that people added with "always".
    pub(crate) rules: Vec<String>,
    /// Interactions that were decided, newest last, at most 256: a second answer is told apart
    /// from an unknown one.
    pub(crate) resolved: VecDeque<RequestId>,
}

/// A file as the session last saw or left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenFile {
    /// The hash of its contents; absent when the session removed it.
    pub(crate) hash: Option<String>,
    /// When.
    pub(crate) seq: Seq,
}

/// A running turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The prompt.
    pub(crate) prompt: PromptId,
    /// When it began.
    pub(crate) started_at: Timestamp,
    /// The limit of steps.
    pub(crate) steps_max: u32,
    /// The step that is under way, from 1; 0 before the first.
    pub(crate) step: u32,
    /// Where the step began.
    pub(crate) step_seq: Seq,
    /// Whether the model has answered this step.
    pub(crate) is_answered: bool,
    /// Why the model stopped, once it has answered.
    pub(crate) stop: Option<StopReason>,
    /// The calls of this step, in the order of the answer.
    pub(crate) calls: Vec<Call>,
    /// The text of the last answer.
    pub(crate) text: String,
    /// The tokens of all steps.
    pub(crate) usage: Usage,
    /// The price of all steps; absent as soon as one is not known.
    pub(crate) cost_usd: Option<f64>,
    /// Calls that were refused because nobody could be asked.
    pub(crate) unanswered: u32,
    /// Steps in a row whose calls were all malformed.
    pub(crate) malformed_steps: u32,
    /// Bytes that its prompt added to the transcript.
    pub(crate) prompt_bytes: u64,
    /// Whether `done` was recorded; only `prompt_finished` is missing.
    pub(crate) is_done: bool,
}

/// A call of the running step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its id.
    pub(crate) id: ToolCallId,
    /// The tool as the model named it.
    pub(crate) tool: String,
    /// How far it is.
    pub(crate) stage: CallStage,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallStage {
    /// The model asked for it.
    Requested,
    /// It passed the schema and the gate's verdict came in the same commit: unless it waits or is
    /// over, it may run.
    Described(Effect),
    /// It waits for a person.
    Waiting(RequestId, Effect),
    /// A person let it run.
    Allowed(Effect),
    /// It may have had its effect.
    Started(Effect),
    /// Its result or denial is recorded.
    Over,
}

impl State {
    /// Returns the running turn's call of that id.
    pub(crate) fn call(&self, id: &ToolCallId) -> Option<&Call> {
        self.turn.as_ref()?.calls.iter().find(|call| call.id == *id)
    }

    /// Returns the call that waits for an interaction.
    pub(crate) fn waiting(&self, request: &RequestId) -> Option<&Call> {
        let calls = &self.turn.as_ref()?.calls;
        calls.iter().find(|call| matches!(&call.stage, CallStage::Waiting(id, _) if id == request))
    }

    /// Tells whether any call waits for a person.
    pub(crate) fn is_waiting(&self) -> bool {
        let calls = self.turn.iter().flat_map(|turn| &turn.calls);
        calls.into_iter().any(|call| matches!(call.stage, CallStage::Waiting(..)))
    }
}

/// Hashes a call id for [`State::call_ids`] (FNV-1a, 64 bits: stable over versions and machines).
pub(crate) fn id_hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
