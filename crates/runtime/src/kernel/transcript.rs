//! The normaliser: from the log to a transcript that every provider accepts.
//!
//! Whatever the log says (a crash between a call and its result, a late result, an empty answer),
//! the messages that come out are sound: roles alternate and begin with the user, every call has
//! exactly one result in the next message and results come first, no block is blank, and signed
//! blocks are the bytes that came.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use protocol::event::{AssistantMessage, PromptStarted, ToolDenied, ToolResult, TurnResult};
use protocol::{
    Block, EventBody, EventKind, Message, MessageId, Role, Timestamp, ToolCallId, Usage,
};

/// What the model reads about a call that may or may not have had its effect.
pub(crate) const OUTCOME_UNKNOWN: &str = "interrupted: outcome unknown. The call had started when \
     the turn was cut; it may have had all, some or none of its effect. Look before you repeat it.";

/// What the model reads about a call that certainly had no effect.
pub(crate) const NOT_RUN: &str = "not run: the turn was stopped before this call had any effect.";

/// What stands in for an output without a visible character.
const NO_OUTPUT: &str = "(no output)";

/// The code of a turn whose request does not fit the model's window.
pub(crate) const TOO_LONG: &str = "context_overflow";

/// The code of a turn whose prompt a hook blocked.
pub(crate) const BLOCKED: &str = "prompt_blocked";

/// What carries on a transcript that would end with the model's own words.
const CARRY_ON: &str = "Go on.";

/// A call without a result in the transcript yet.
#[derive(Clone, Debug)]
struct Open {
    /// The id in the log.
    id: ToolCallId,
    /// The id in the transcript: the same, unless an imported or damaged log repeats it.
    shown: ToolCallId,
    /// The tool as the model named it.
    name: String,
}

/// Tells whether a turn ended before a model heard its prompt: it does not fit, or was blocked.
pub(crate) fn is_withdrawn(result: &TurnResult) -> bool {
    let is_unheard = matches!(result.code.as_deref(), Some(TOO_LONG | BLOCKED));
    result.turns <= 1 && result.usage == Usage::default() && is_unheard
}

/// The transcript for the model, extended event by event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    system: Option<Arc<str>>,
    messages: Vec<Arc<Message>>,
    /// Calls of the last answer, in order, and what they brought so far.
    open: Vec<Open>,
    results: HashMap<ToolCallId, Block>,
    /// What the user says next, after the results.
    said: Vec<Block>,
    said_id: Option<(MessageId, Timestamp)>,
    /// Where in `said` the newest prompt begins, until the model has answered.
    prompt_at: Option<usize>,
    /// Call ids of the whole transcript.
    used: HashSet<ToolCallId>,
}

impl Transcript {
    /// Tells whether events of a kind say anything in here; the others need not be decoded.
    pub(crate) fn needs(kind: EventKind) -> bool {
        matches!(
            kind,
            EventKind::ContextSet
                | EventKind::PromptStarted
                | EventKind::AssistantMessage
                | EventKind::ToolResult
                | EventKind::ToolDenied
                | EventKind::ContextAdded
                | EventKind::Done
        )
    }

    /// Takes one recorded event.
    pub(crate) fn push(&mut self, at: Timestamp, body: &EventBody) {
        match body {
            EventBody::ContextSet(context) => self.system = Some(context.system.as_str().into()),
            EventBody::PromptStarted(started) if started.command.is_none() => {
                self.prompt(at, started);
            }
            EventBody::ContextAdded(added) => {
                let text = format!("[{}]\n{}", added.source, added.text);
                self.said.push(Block::text(text));
            }
            EventBody::AssistantMessage(message) => self.answer(at, message),
            EventBody::ToolResult(result) => self.result(result),
            EventBody::ToolDenied(denied) => self.denied(denied),
            EventBody::Done(done) if is_withdrawn(&done.result) => self.withdraw(),
            _ => {}
        }
    }

    /// Takes back the newest prompt and what was added to it: it was too long for any model to
    /// hear, or blocked, and would be in the way of every later prompt. What was said before it
    /// stays, a summary above all.
    fn withdraw(&mut self) {
        let Some(at) = self.prompt_at.take() else { return };
        self.said.truncate(at);
        if self.said.is_empty() {
            self.said_id = None;
        }
    }

    /// Takes the summary that stands in place of what the model reads no more.
    pub(crate) fn summary(&mut self, at: Timestamp, id: MessageId, text: String) {
        self.said.push(Block::text(text));
        self.said_id.get_or_insert((id, at));
    }

    /// Returns the recorded system prompt.
    pub(crate) fn system(&self) -> Option<Arc<str>> {
        self.system.clone()
    }

    /// Returns the messages so far.
    pub(crate) fn so_far(&self) -> Vec<Arc<Message>> {
        let mut messages = self.messages.clone();
        messages.extend(self.user_message().map(Arc::new));
        messages
    }

    /// Returns the messages of the next request. The last one is the user's.
    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages = self.so_far();
        if messages.last().is_none_or(|last| last.role == Role::Assistant) {
            let id = MessageId::new("carry-on");
            let content = vec![Block::text(CARRY_ON)];
            let (role, created_at) = (Role::User, Timestamp(0));
            messages.push(Arc::new(Message { id, role, content, created_at }));
        }
        messages
    }

    fn prompt(&mut self, at: Timestamp, started: &PromptStarted) {
        let content = started.content.iter().filter(|block| !block.is_blank());
        self.prompt_at = Some(self.said.len());
        self.said.extend(content.cloned());
        self.said_id.get_or_insert((started.message_id.clone(), at));
    }

    fn answer(&mut self, at: Timestamp, message: &AssistantMessage) {
        let mut content: Vec<Block> =
            message.content.iter().filter(|block| !block.is_blank()).cloned().collect();
        let nothing_said_before = self.messages.is_empty() && self.user_message().is_none();
        if content.is_empty() || nothing_said_before {
            return;
        }
        self.flush_user();
        for block in &mut content {
            if let Block::ToolUse { id, name, .. } = block {
                let shown = self.unused(id);
                let name = name.clone();
                self.open.push(Open { id: id.clone(), shown: shown.clone(), name });
                *id = shown;
            }
        }
        match self.messages.last_mut() {
            // Two answers in a row (a paused one that was carried on) become one message.
            Some(last) if last.role == Role::Assistant => {
                let mut joined = (**last).clone();
                joined.content.extend(content);
                *last = Arc::new(joined);
            }
            _ => {
                let (id, role) = (message.message_id.clone(), Role::Assistant);
                self.messages.push(Arc::new(Message { id, role, content, created_at: at }));
            }
        }
    }

    /// Returns an id that no call of the transcript has: the given one where that is true of it.
    fn unused(&mut self, id: &ToolCallId) -> ToolCallId {
        let mut shown = id.clone();
        let mut count = 1;
        while shown.as_str().is_empty() || self.used.contains(&shown) {
            count += 1;
            shown = ToolCallId::new(format!("{id}_{count}"));
        }
        self.used.insert(shown.clone());
        shown
    }

    fn result(&mut self, result: &ToolResult) {
        let visible = result.output.iter().filter(|block| !block.is_blank());
        let mut content: Vec<Block> = visible.cloned().collect();
        if content.is_empty() {
            content.push(Block::text(NO_OUTPUT));
        }
        self.settle(&result.tool_call_id, content, result.is_error);
    }

    fn denied(&mut self, denied: &ToolDenied) {
        let content = vec![Block::text(denied.reason.clone())];
        self.settle(&denied.tool_call_id, content, true);
    }

    /// Keeps the first result of an open call. A late or second one is in the log for people and
    /// is never sent unpaired. The name is the model's own, so that it finds its call again.
    fn settle(&mut self, id: &ToolCallId, content: Vec<Block>, is_error: bool) {
        let results = &self.results;
        let is_open = |open: &&Open| open.id == *id && !results.contains_key(&open.shown);
        if let Some(open) = self.open.iter().find(is_open) {
            let (id, name) = (open.shown.clone(), open.name.clone());
            let block = Block::ToolResult { id: id.clone(), name, content, is_error };
            self.results.insert(id, block);
        }
    }

    /// Makes the message that the user would say now, results first.
    fn user_message(&self) -> Option<Message> {
        if self.open.is_empty() && self.said.is_empty() {
            return None;
        }
        let mut content: Vec<Block> = Vec::with_capacity(self.open.len() + self.said.len());
        for open in &self.open {
            let missing = || Block::ToolResult {
                id: open.shown.clone(),
                name: open.name.clone(),
                content: vec![Block::text(OUTCOME_UNKNOWN)],
                is_error: true,
            };
            content.push(self.results.get(&open.shown).cloned().unwrap_or_else(missing));
        }
        content.extend(self.said.iter().cloned());
        let (id, created_at) =
            self.said_id.clone().unwrap_or_else(|| (MessageId::new("results"), Timestamp(0)));
        Some(Message { id, role: Role::User, content, created_at })
    }

    fn flush_user(&mut self) {
        if let Some(message) = self.user_message() {
            // An empty answer between two prompts leaves two user messages: they become one.
            match self.messages.last_mut() {
                Some(last) if last.role == Role::User => {
                    let mut joined = (**last).clone();
                    joined.content.extend(message.content);
                    *last = Arc::new(joined);
                }
                _ => self.messages.push(Arc::new(message)),
            }
        }
        self.open.clear();
        self.results.clear();
        self.said.clear();
        self.said_id = None;
        self.prompt_at = None;
    }
}
