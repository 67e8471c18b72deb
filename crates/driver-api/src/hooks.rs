//! Hooks: programs of the user's that are told of moments and may say no.

use std::fmt::Debug;

use async_trait::async_trait;
use protocol::{Mode, SessionId, ToolCallId};
use serde_json::{Map, Value};

use crate::Workspace;

/// The moments at which hooks are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// A session was opened.
    SessionStart,
    /// A prompt came, and no model has heard it yet.
    UserPromptSubmit,
    /// A call passed the deny rules.
    PreToolUse,
    /// A call would be asked for.
    PermissionRequest,
    /// A call has run.
    PostToolUse,
    /// A person is wanted.
    Notification,
    /// A turn is about to end by the model's wish.
    Stop,
    /// A child session's turn is about to end by the model's wish.
    SubagentStop,
    /// A conversation is about to be summarised.
    PreCompact,
}

impl Moment {
    /// Every moment.
    pub const ALL: [Moment; 9] = [
        Moment::SessionStart,
        Moment::UserPromptSubmit,
        Moment::PreToolUse,
        Moment::PermissionRequest,
        Moment::PostToolUse,
        Moment::Notification,
        Moment::Stop,
        Moment::SubagentStop,
        Moment::PreCompact,
    ];

    /// Returns the name as settings and hooks spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Moment::SessionStart => "SessionStart",
            Moment::UserPromptSubmit => "UserPromptSubmit",
            Moment::PreToolUse => "PreToolUse",
            Moment::PermissionRequest => "PermissionRequest",
            Moment::PostToolUse => "PostToolUse",
            Moment::Notification => "Notification",
            Moment::Stop => "Stop",
            Moment::SubagentStop => "SubagentStop",
            Moment::PreCompact => "PreCompact",
        }
    }
}

/// What happened, with what a hook is told of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// [`Moment::SessionStart`]; `source` is `startup`, `resume` or `compact`.
    SessionStart {
        /// How it was opened.
        source: &'static str,
    },
    /// [`Moment::UserPromptSubmit`].
    UserPromptSubmit {
        /// The text.
        prompt: String,
    },
    /// [`Moment::PreToolUse`].
    PreToolUse(HookedCall),
    /// [`Moment::PermissionRequest`].
    PermissionRequest {
        /// The call.
        call: HookedCall,
        /// Rules that would allow it.
        suggestions: Vec<String>,
    },
    /// [`Moment::PostToolUse`].
    PostToolUse {
        /// The call.
        call: HookedCall,
        /// What the model reads of its result.
        response: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// [`Moment::Notification`].
    Notification {
        /// One sentence for a person.
        message: String,
        /// `permission_prompt`, `idle_prompt` or `question`.
        kind: &'static str,
    },
    /// [`Moment::Stop`], or [`Moment::SubagentStop`] for a child.
    Stop {
        /// Whether the turn goes on because a hook wanted it before.
        is_repeated: bool,
        /// The last answer.
        text: String,
        /// Whether the session is a child.
        is_child: bool,
    },
    /// [`Moment::PreCompact`].
    PreCompact {
        /// Whether Narthex decided it, not a person.
        automatic: bool,
        /// What the person wants kept.
        focus: Option<String>,
    },
}

impl Happening {
    /// Returns the moment.
    pub fn moment(&self) -> Moment {
        match self {
            Happening::SessionStart { .. } => Moment::SessionStart,
            Happening::UserPromptSubmit { .. } => Moment::UserPromptSubmit,
            Happening::PreToolUse(_) => Moment::PreToolUse,
            Happening::PermissionRequest { .. } => Moment::PermissionRequest,
            Happening::PostToolUse { .. } => Moment::PostToolUse,
            Happening::Notification { .. } => Moment::Notification,
            Happening::Stop { is_child: false, .. } => Moment::Stop,
            Happening::Stop { is_child: true, .. } => Moment::SubagentStop,
            Happening::PreCompact { .. } => Moment::PreCompact,
        }
    }
}

/// A call as hooks see it.
#[derive(Clone, Debug, PartialEq)]
pub struct HookedCall {
    /// The call.
    pub id: ToolCallId,
    /// The tool's native name.
    pub tool: String,
    /// The arguments.
    pub input: Map<String, Value>,
    /// The real paths that it touches.
    pub paths: Vec<String>,
}

/// What a hook says about a call. The order is from weakest to strictest; the strictest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookVote {
    /// It need not be asked for. Deny and ask rules, plan mode and governing layers still bind.
    Allow,
    /// It is to be asked for.
    Ask,
    /// It does not run, whatever anybody else says. At other moments: block what is about to
    /// happen.
    Deny,
}

/// What all hooks of a moment said together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    /// The strictest vote; none where nobody voted. A hook that failed or took too long votes
    /// [`HookVote::Ask`] before a call.
    pub vote: Option<HookVote>,
    /// The reason that came with it, for the model and for people.
    pub reason: Option<String>,
    /// Arguments in place of the call's own, where a hook changed them. They pass the gate anew.
    pub input: Option<Map<String, Value>>,
    /// What the model is told in addition, in the order of the hooks; bounded.
    pub context: Vec<String>,
    /// What people are told.
    pub notices: Vec<String>,
    /// Why the turn ends here, where a hook wants that.
    pub stop: Option<String>,
    /// Hooks that failed or took too long, one sentence each.
    pub failures: Vec<String>,
}

/// Where and when something happened.
#[derive(Clone, Copy, Debug)]
pub struct HookPlace<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// Its mode.
    pub mode: Mode,
    /// Where hooks run, under the same file policy as the tools.
    pub workspace: &'a dyn Workspace,
}

/// The hooks that are set up.
#[async_trait]
pub trait Hooks: Send + Sync + Debug {
    /// Tells whether any hook wants to hear of a moment; `tool` is the native name of the tool,
    /// empty at moments without one. Cheap: asked for each call.
    fn wants(&self, moment: Moment, tool: &str) -> bool;

    /// Tells all hooks that want to hear of it, side by side, each within its time limit, and
    /// returns what they said together. Never fails: what goes wrong is in
    /// [`HookAnswer::failures`]. Dropping the future ends the hooks' processes.
    async fn tell(&self, happening: &Happening, place: HookPlace<'_>) -> HookAnswer;
}

/// No hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

#[async_trait]
impl Hooks for NoHooks {
    fn wants(&self, _moment: Moment, _tool: &str) -> bool {
        false
    }

    async fn tell(&self, _happening: &Happening, _place: HookPlace<'_>) -> HookAnswer {
        HookAnswer::default()
    }
}
