//! A session's events, as updates for an editor: a pure fold.

mod calls;

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, CurrentModeUpdate,
    ImageContent, MessageId, Notice, NoticeSeverity, SessionInfoUpdate, SessionUpdate,
    StopReason as Stop,
};
use protocol::event::{
    AssistantMessage, Compacted, NoticeLevel, PermissionRequest, PlanRequest, PromptStarted,
    QuestionRequest, Retry, SessionUpdated, TurnResult,
};
use protocol::{
    Block, Event, EventBody, Mode, PromptId, RequestId, StopReason, Timestamp, TurnEnd,
};

use self::calls::Calls;

/// What the client understands beyond the core of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Understands {
    pub(crate) notices: bool,
    pub(crate) compaction: bool,
}

/// An interaction that the client is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Permission(Box<PermissionRequest>),
    Question(QuestionRequest),
    Plan(PlanRequest),
}

impl Request {
    /// Reads the request of an event.
    pub(crate) fn of(body: &EventBody) -> Option<Self> {
        match body {
            EventBody::PermissionRequest(it) => Some(Self::Permission(Box::new(it.clone()))),
            EventBody::QuestionRequest(it) => Some(Self::Question(it.clone())),
            EventBody::PlanRequest(it) => Some(Self::Plan(it.clone())),
            _ => None,
        }
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> &RequestId {
        match self {
            Self::Permission(it) => &it.request_id,
            Self::Question(it) => &it.request_id,
            Self::Plan(it) => &it.request_id,
        }
    }
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// In one of the ways that the protocol knows.
    Well(Stop),
    /// The provider or the program failed; words for people.
    Failed(String),
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Show(Box<SessionUpdate>),
    Ask(Request),
    /// Whatever the client may still be asked, it is decided.
    Settled(RequestId),
    Mode(Mode),
    Model(String),
    /// A prompt is over.
    Over(PromptId, Ended),
}

/// The fold.
#[derive(Debug)]
pub(crate) struct Projection {
    cwd: PathBuf,
    understands: Understands,
    /// Whether prompts are shown: the client that sends them knows them.
    shows_prompts: bool,
    calls: Calls,
    /// The message that is being written.
    message: String,
    /// How often its step was begun anew.
    attempt: u32,
    text: String,
    thought: String,
    /// Whether anything was said in this turn.
    has_spoken: bool,
    stop: Option<StopReason>,
    steps: Vec<Step>,
}

impl Projection {
    pub(crate) fn new(cwd: &str, understands: Understands, shows_prompts: bool) -> Self {
        Self {
            cwd: PathBuf::from(cwd),
            understands,
            shows_prompts,
            calls: Calls::default(),
            message: String::new(),
            attempt: 0,
            text: String::new(),
            thought: String::new(),
            has_spoken: false,
            stop: None,
            steps: Vec::new(),
        }
    }

    /// Shows prompts no more: what comes now was sent by the client.
    pub(crate) fn goes_live(&mut self) {
        self.shows_prompts = false;
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(crate) fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    /// Takes an event and returns what follows from it, in order.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<Step> {
        match &event.body {
            EventBody::PromptStarted(started) => self.begin(started),
            EventBody::TurnStart(start) => {
                self.attempt = 0;
                self.start_message(format!("{}-{}", start.prompt_id, start.turn));
            }
            EventBody::TextDelta(delta) => {
                self.text.push_str(&delta.text);
                self.say(&delta.text);
            }
            EventBody::ThinkingDelta(delta) => {
                self.thought.push_str(&delta.text);
                self.think(&delta.text);
            }
            EventBody::Retry(retry) => self.retry(retry),
            EventBody::AssistantMessage(message) => self.answered(message),
            EventBody::ToolCall(_)
            | EventBody::ToolProgress(_)
            | EventBody::ToolResult(_)
            | EventBody::ToolDenied(_) => self.call(&event.body),
            EventBody::PermissionRequest(_)
            | EventBody::QuestionRequest(_)
            | EventBody::PlanRequest(_)
            | EventBody::RequestResolved(_) => self.interaction(&event.body),
            EventBody::PromptFinished(it) => self.finish(&it.prompt_id, &it.result),
            EventBody::ModeChanged(changed) => {
                let update = CurrentModeUpdate::new(changed.mode.as_str());
                self.show(SessionUpdate::CurrentModeUpdate(update));
                self.steps.push(Step::Mode(changed.mode));
            }
            EventBody::ModelChanged(it) => self.steps.push(Step::Model(it.model.clone())),
            EventBody::SessionUpdated(it) => self.titled(it, event.ts),
            EventBody::Notice(notice) => self.notice(notice.level, &notice.message),
            EventBody::Compacted(compacted) => self.compacted(compacted),
            // Of no use to an editor, or contained in what comes with it.
            EventBody::SessionStart(_)
            | EventBody::ContextSet(_)
            | EventBody::ContextAdded(_)
            | EventBody::ToolStarted(_)
            | EventBody::ToolsActivated(_)
            | EventBody::CompactionUndone(_)
            | EventBody::CheckpointMade(_)
            | EventBody::ChangesRecorded(_)
            | EventBody::Rewound(_)
            | EventBody::Usage(_)
            | EventBody::PromptQueued(_)
            | EventBody::SessionClosed(_)
            | EventBody::Done(_) => {}
        }
        std::mem::take(&mut self.steps)
    }

    fn call(&mut self, body: &EventBody) {
        let updates = match body {
            EventBody::ToolCall(call) => vec![self.calls.begin(call, &self.cwd)],
            EventBody::ToolProgress(it) => self.calls.progress(it).into_iter().collect(),
            EventBody::ToolResult(result) => self.calls.end(result, &self.cwd),
            EventBody::ToolDenied(denied) => self.calls.denied(denied),
            _ => Vec::new(),
        };
        self.show_all(updates);
    }

    fn interaction(&mut self, body: &EventBody) {
        match body {
            EventBody::PermissionRequest(it) => {
                let update = self.calls.waits(&it.request_id, &it.tool_call_id);
                self.show(update);
            }
            EventBody::RequestResolved(it) => {
                self.steps.push(Step::Settled(it.request_id.clone()));
                let update = self.calls.decided(it);
                self.show_all(update);
            }
            _ => {}
        }
        self.steps.extend(Request::of(body).map(Step::Ask));
    }

    fn titled(&mut self, updated: &SessionUpdated, at: Timestamp) {
        if let Some(title) = &updated.title {
            let update = SessionInfoUpdate::new().title(title.clone()).updated_at(at.to_string());
            self.show(SessionUpdate::SessionInfoUpdate(update));
        }
    }

    fn compacted(&mut self, compacted: &Compacted) {
        if self.understands.compaction {
            let id = format!("compaction-{}", compacted.through.0);
            let summary = vec![ContentBlock::from(compacted.summary.clone())];
            let update = CompactionUpdate::new(id, CompactionStatus::Completed).summary(summary);
            self.show(SessionUpdate::CompactionUpdate(update));
        }
    }

    fn begin(&mut self, started: &PromptStarted) {
        (self.has_spoken, self.stop) = (false, None);
        self.start_message(started.prompt_id.to_string());
        if !self.shows_prompts {
            return;
        }
        for block in &started.content {
            let Some(content) = shown(block) else { continue };
            let chunk = ContentChunk::new(content).message_id(started.message_id.as_str());
            self.show(SessionUpdate::UserMessageChunk(chunk));
        }
    }

    fn start_message(&mut self, name: String) {
        self.message = name;
        self.text.clear();
        self.thought.clear();
    }

    /// The words that came so far count no more: the next ones are a message of their own.
    fn retry(&mut self, retry: &Retry) {
        let step = self.message.split('~').next().unwrap_or_default().to_owned();
        self.attempt += 1;
        self.start_message(format!("{step}~{}", self.attempt));
        if self.understands.notices {
            let words = format!("{}; asked again in {} ms", retry.reason, retry.delay_ms);
            self.notice(NoticeLevel::Info, &words);
        }
    }

    fn answered(&mut self, message: &AssistantMessage) {
        self.stop = Some(message.stop_reason);
        let (mut thought, mut text) = (String::new(), String::new());
        for block in &message.content {
            match block {
                Block::Thinking { text, .. } => thought.push_str(text),
                Block::Text { text: words, .. } => text.push_str(words),
                _ => {}
            }
        }
        let rest = rest_of(&thought, &self.thought).to_owned();
        self.think(&rest);
        let rest = rest_of(&text, &self.text).to_owned();
        self.say(&rest);
        self.start_message(message.message_id.to_string());
    }

    fn finish(&mut self, prompt: &PromptId, result: &TurnResult) {
        let open = self.calls.close_all();
        self.show_all(open);
        // What a slash command has to say is nobody's message.
        if !self.has_spoken && result.reason == TurnEnd::Completed {
            self.say(&result.text);
        }
        let ended = ended(result, self.stop);
        if let (Ended::Well(stop), Some(words)) = (&ended, &result.message)
            && *stop != Stop::Cancelled
        {
            self.notice(NoticeLevel::Warn, words);
        }
        self.steps.push(Step::Over(prompt.clone(), ended));
    }

    /// Tells something that is no part of the conversation; a client that knows no notices gets
    /// what matters as a message.
    fn notice(&mut self, level: NoticeLevel, words: &str) {
        let severity = match level {
            NoticeLevel::Info => NoticeSeverity::Info,
            NoticeLevel::Warn => NoticeSeverity::Warning,
            NoticeLevel::Error => NoticeSeverity::Error,
        };
        if self.understands.notices {
            self.show(SessionUpdate::Notice(Notice::new(severity, words)));
        } else if level != NoticeLevel::Info {
            let chunk = ContentChunk::new(ContentBlock::from(format!("\n\n_{words}_\n\n")));
            self.show(SessionUpdate::AgentMessageChunk(chunk));
        }
    }

    fn say(&mut self, text: &str) {
        if !text.is_empty() {
            self.has_spoken = true;
            let chunk = self.chunk(text, "");
            self.show(SessionUpdate::AgentMessageChunk(chunk));
        }
    }

    fn think(&mut self, text: &str) {
        if !text.is_empty() {
            let chunk = self.chunk(text, "-thought");
            self.show(SessionUpdate::AgentThoughtChunk(chunk));
        }
    }

    fn chunk(&self, text: &str, suffix: &str) -> ContentChunk {
        let id = MessageId::new(format!("{}{suffix}", self.message));
        ContentChunk::new(ContentBlock::from(text.to_owned())).message_id(id)
    }

    fn show_all(&mut self, updates: impl IntoIterator<Item = SessionUpdate>) {
        for update in updates {
            self.show(update);
        }
    }

    fn show(&mut self, update: SessionUpdate) {
        self.steps.push(Step::Show(Box::new(update)));
    }
}

/// Returns what of a text is still to be shown after what was streamed of it.
fn rest_of<'a>(whole: &'a str, streamed: &str) -> &'a str {
    // A viewer that came late saw the end of it, or nothing.
    whole.strip_prefix(streamed).unwrap_or_default()
}

/// Returns a piece of a prompt as people see it.
fn shown(block: &Block) -> Option<ContentBlock> {
    match block {
        Block::Text { text, .. } if text.is_empty() => None,
        Block::Text { text, .. } => Some(ContentBlock::from(text.clone())),
        Block::Image(image) => {
            let image = ImageContent::new(image.data.clone(), image.mime_type.clone());
            Some(ContentBlock::Image(image))
        }
        _ => None,
    }
}

/// Finds the protocol's word for the end of a turn.
fn ended(result: &TurnResult, stop: Option<StopReason>) -> Ended {
    match result.reason {
        TurnEnd::Completed => Ended::Well(match stop {
            Some(StopReason::MaxTokens) => Stop::MaxTokens,
            Some(StopReason::Refusal) => Stop::Refusal,
            _ => Stop::EndTurn,
        }),
        TurnEnd::Interrupted => Ended::Well(Stop::Cancelled),
        // All of them are limits of a turn; the message says which.
        TurnEnd::MaxTurns | TurnEnd::Budget | TurnEnd::Time | TurnEnd::Repetition => {
            Ended::Well(Stop::MaxTurnRequests)
        }
        TurnEnd::Denied => Ended::Well(Stop::Refusal),
        TurnEnd::Error => match result.code.as_deref() {
            Some("max_tokens") => Ended::Well(Stop::MaxTokens),
            Some("refusal") => Ended::Well(Stop::Refusal),
            code => {
                let words = result.message.clone().or_else(|| code.map(str::to_owned));
                Ended::Failed(words.unwrap_or_else(|| "the turn failed".to_owned()))
            }
        },
    }
}

#[cfg(test)]
mod tests;
