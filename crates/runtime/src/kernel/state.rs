//! What a session is after its log was folded. Small: it holds positions, not texts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::event::{InteractionKind, PauseKind, PromptStarted};
use protocol::{
    CheckpointId, Effect, MessageId, Mode, NeuronId, PromptId, RequestId, Seq, SessionSandbox,
    StopReason, Timestamp, ToolCallId, TreeId, Usage,
};
use serde::{Deserialize, Serialize};

use super::marks::Marks;
use super::repeats::Repeats;
use super::view::View;

/// How many files a session remembers as seen; the oldest is forgotten first, and a forgotten
/// file has to be read again before it is edited.
pub(crate) const FILES_MAX: usize = 2_000;

/// The version of the encoding in snapshots. It grows with every change of [`State`].
pub(crate) const SNAPSHOT_VERSION: u32 = 6;

/// How many tools a session is offered at most: more than any provider takes, and few enough for
/// their names to be held in every state.
pub(crate) const TOOLS_MAX: usize = 512;

/// How many points a session remembers; the oldest can be gone back to no more.
pub(crate) const POINTS_MAX: usize = 200;

/// A folded session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The last folded event.
    pub(crate) seq: Seq,
    /// The working folder.
    pub(crate) cwd: String,
    /// The neuron that the folder is in; none for a folder of the machine.
    pub(crate) neuron: Option<NeuronId>,
    /// What keeps it apart, where that neuron is its own.
    pub(crate) sandbox: Option<SessionSandbox>,
    /// The names of the tools that it is offered, in the order in which models see them. It only
    /// grows, at its end, so that requests keep their beginning.
    pub(crate) tools: Vec<String>,
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
    /// Whether `context_tokens` is what a provider counted, not an estimate.
    pub(crate) is_counted: bool,
    /// Hashes of the call ids that were used, so that ids stay unique.
    pub(crate) call_ids: BTreeSet<u64>,
    /// Files that were seen: path to the hash of their contents and when they were seen.
    pub(crate) files: BTreeMap<String, SeenFile>,
    /// Rules that people added with "always".
    pub(crate) rules: Vec<String>,
    /// Rules that the session was created with.
    pub(crate) own: OwnRules,
    /// Effects that are asked for whatever lets them run.
    pub(crate) asks_for: Vec<Effect>,
    /// The most steps of a prompt that says nothing of it.
    pub(crate) max_turns: Option<u32>,
    /// Whether its first event holds a text of its own for the system prompt.
    pub(crate) has_own_words: bool,
    /// Steps that were begun.
    pub(crate) steps: u64,
    /// What each model used, in the order of first use.
    pub(crate) used: Vec<ModelUse>,
    /// Interactions that were decided, newest last, at most 256: a second answer is told apart
    /// from an unknown one.
    pub(crate) resolved: VecDeque<RequestId>,
    /// Which part of the log the model reads.
    pub(crate) view: View,
    /// Which of its events doors show.
    pub(crate) marks: Marks,
    /// The points that one can go back to, oldest first.
    pub(crate) points: VecDeque<Point>,
}

/// Rules that are part of a session, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnRules {
    /// They let calls run.
    pub(crate) allow: Vec<String>,
    /// They refuse calls.
    pub(crate) deny: Vec<String>,
}

/// What one model used in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelUse {
    /// Its full name.
    pub(crate) model: String,
    /// The tokens.
    pub(crate) usage: Usage,
    /// The price; absent as soon as that of one call was not known.
    pub(crate) cost_usd: Option<f64>,
}

/// A point that one can go back to: before a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Its id: the prompt's.
    pub(crate) id: CheckpointId,
    /// Where the prompt began.
    pub(crate) seq: Seq,
    /// The message that the prompt became.
    pub(crate) message_id: MessageId,
    /// When.
    pub(crate) at: Timestamp,
    /// Tokens of the transcript before it.
    pub(crate) context_tokens: u64,
    /// What its turn did to the files, once it was about to change some.
    pub(crate) changes: Option<Changes>,
    /// Whether the model reads of it no more.
    pub(crate) is_cut: bool,
}

/// What a turn did to the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// The tree before.
    pub(crate) before: TreeId,
    /// Whether what the turn left was recorded, or given up.
    pub(crate) is_recorded: bool,
    /// The tree after, where it is known.
    pub(crate) after: Option<TreeId>,
    /// How many paths differ.
    pub(crate) paths: u64,
    /// Whether they were taken back.
    pub(crate) is_undone: bool,
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
    /// The model of this turn alone, where its prompt names one.
    pub(crate) model: Option<String>,
    /// Where the format that its last answer has to fit was recorded.
    pub(crate) output: Option<Seq>,
    /// How often the model was told that its last answer does not fit.
    pub(crate) output_asks: u32,
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
    /// The slash command that it is, with its argument.
    pub(crate) command: Option<String>,
    /// A question of the runtime's that the whole turn waits for.
    pub(crate) pause: Option<(Wait, PauseKind)>,
    /// Whether it was about to end and goes on all the same.
    pub(crate) goes_on: bool,
    /// How often it went on because a hook wanted it.
    pub(crate) hook_goes: u32,
    /// Calls that brought the same again and again.
    pub(crate) repeats: Repeats,
    /// How often a person let it go on beyond its budget.
    pub(crate) raises: u32,
    /// How long it waited for people, in milliseconds.
    pub(crate) waited_ms: u64,
    /// Since when it waits for a person.
    pub(crate) waiting_since: Option<Timestamp>,
    /// How often its conversation was summarised.
    pub(crate) compactions: u32,
    /// How many compactions in a row, the newest of them, freed next to nothing.
    pub(crate) vain_compactions: u32,
}

/// An interaction that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// Its id.
    pub(crate) request: RequestId,
    /// Where it was recorded.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: InteractionKind,
    /// When it is decided by the clock.
    pub(crate) expires_at: Option<Timestamp>,
}

/// A call of the running step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its id.
    pub(crate) id: ToolCallId,
    /// The tool: as the model named it, and once it is described as it is offered.
    pub(crate) tool: String,
    /// The hash of tool and arguments.
    pub(crate) hash: u64,
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
    Waiting(Wait, Effect),
    /// A person let it run.
    Allowed(Effect),
    /// It may have had its effect.
    Started(Effect),
    /// It may have had its effect, and asks a person while it runs.
    Asking(Wait, Effect),
    /// Its result or denial is recorded.
    Over,
}

impl State {
    /// Returns the running turn's call of that id.
    pub(crate) fn call(&self, id: &ToolCallId) -> Option<&Call> {
        self.turn.as_ref()?.calls.iter().find(|call| call.id == *id)
    }

    /// Returns the interaction of that id, if it waits.
    pub(crate) fn wait(&self, request: &RequestId) -> Option<&Wait> {
        self.waits().find(|wait| wait.request == *request)
    }

    /// Returns the call that waits for an interaction before it runs; a pause belongs to none.
    pub(crate) fn waiting_call(&self, request: &RequestId) -> Option<&Call> {
        let calls = &self.turn.as_ref()?.calls;
        calls.iter().find(
            |call| matches!(&call.stage, CallStage::Waiting(wait, _) if wait.request == *request),
        )
    }

    /// Returns the call that runs and asks for an interaction.
    pub(crate) fn asking_call(&self, request: &RequestId) -> Option<&Call> {
        let calls = &self.turn.as_ref()?.calls;
        calls.iter().find(
            |call| matches!(&call.stage, CallStage::Asking(wait, _) if wait.request == *request),
        )
    }

    /// Returns the model that the running turn asks, or the next one would.
    pub(crate) fn model_now(&self) -> &str {
        let of_turn = self.turn.as_ref().and_then(|turn| turn.model.as_deref());
        of_turn.unwrap_or(&self.model)
    }

    /// Returns every interaction that waits.
    pub(crate) fn waits(&self) -> impl Iterator<Item = &Wait> {
        let turn = self.turn.as_ref();
        let calls =
            turn.into_iter().flat_map(|turn| &turn.calls).filter_map(|call| match &call.stage {
                CallStage::Waiting(wait, _) | CallStage::Asking(wait, _) => Some(wait),
                _ => None,
            });
        let pause = turn.and_then(|turn| turn.pause.as_ref()).map(|(wait, _)| wait);
        calls.chain(pause)
    }

    /// Tells whether anything waits for a person.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits().next().is_some()
    }

    /// Tells whether anything waits for a person that needs no process to do so. A call that runs
    /// and asks does.
    pub(crate) fn may_wait_without_us(&self) -> bool {
        self.waits().any(|wait| self.asking_call(&wait.request).is_none())
    }

    /// Returns the size of the transcript in tokens, what came since it was counted estimated.
    pub(crate) fn tokens(&self) -> u64 {
        self.context_tokens.saturating_add(self.context_grown / BYTES_PER_TOKEN)
    }

    /// Returns the point of the running or newest turn.
    pub(crate) fn newest_point(&self) -> Option<&Point> {
        self.points.back()
    }
}

impl Turn {
    /// Begins the turn of a prompt that added so many bytes to the transcript.
    pub(crate) fn begun(
        started: &PromptStarted,
        seq: Seq,
        at: Timestamp,
        prompt_bytes: u64,
    ) -> Self {
        Self {
            prompt: started.prompt_id.clone(),
            started_at: at,
            steps_max: started.max_turns.unwrap_or(u32::MAX),
            model: started.options.model.clone(),
            output: started.options.output.as_ref().map(|_| seq),
            output_asks: 0,
            step: 0,
            step_seq: seq,
            is_answered: false,
            stop: None,
            calls: Vec::new(),
            text: String::new(),
            usage: Usage::default(),
            cost_usd: Some(0.0),
            unanswered: 0,
            malformed_steps: 0,
            prompt_bytes,
            is_done: false,
            command: started.command.clone(),
            pause: None,
            goes_on: false,
            hook_goes: 0,
            repeats: Repeats::default(),
            raises: 0,
            waited_ms: 0,
            waiting_since: None,
            compactions: 0,
            vain_compactions: 0,
        }
    }
}

/// Bytes of text per token, about.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Hashes a call id for [`State::call_ids`] (FNV-1a, 64 bits: stable over versions and machines).
pub(crate) fn id_hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
