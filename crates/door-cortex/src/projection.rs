//! The record of this door: core events become frames with numbers of their own.
//!
//! A pure fold of the log. Whatever part of a log was folded before, the next event gets the same
//! frames under the same numbers: viewers, restarts and replays all count alike. A frame that was
//! ever numbered keeps its number, so a change of what is recorded may only follow a change of
//! what the core records.

mod stop_reason;

use std::collections::BTreeSet;

use protocol::event::{
    AssistantMessage, DecidedBy, InteractionKind, Outcome, PauseKind, PermissionRequest,
    PromptStarted, RequestResolved, ToolCall, TurnResult,
};
use protocol::{
    Block, Event, EventBody, PromptId, RequestId, Seq, SessionId, Timestamp, ToolCallId, Usage,
};
use runtime_api::{Language, Shown};
use serde_json::{Map, Value, json};

use crate::frame::{Frame, approval_id, run_id};
use crate::preset::{cut, effect_class, shown};

pub(crate) use stop_reason::StopReason;

/// Bytes of a tool's output in a frame; the transcript has more of it.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of what a run had said before it failed or was stopped: more than any model writes in
/// many steps, and an error frame stays readable.
const SAID_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a run that is remembered in its middle: some paragraphs and calls.
const SMALL_BYTES_MAX: usize = 4 * 1024;

/// Bytes that a call takes, about.
const CALL_BYTES: usize = 64;

/// What stands between the texts of two steps where they are told together.
const BETWEEN_TEXTS: &str = "\n\n";

/// A session as the events up to a position have made it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Projection {
    /// The last event that was folded.
    pub(crate) at: Seq,
    /// When that one happened: with its place it says which log this is.
    pub(crate) when: Timestamp,
    /// How many frames it has recorded.
    pub(crate) count: u64,
    /// The name that it was created with.
    pub(crate) name: Option<String>,
    /// What all its model calls have used.
    pub(crate) usage: Usage,
    /// How many steps it has taken.
    pub(crate) turns: u64,
    /// How many runs it has begun.
    pub(crate) runs: u64,
    /// The model of runs that name none.
    pub(crate) model: String,
    run: Option<Run>,
}

/// A run that is not over.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    id: PromptId,
    request: Option<String>,
    turn: u32,
    /// What the model has said so far.
    said: String,
    /// Calls whose start was told.
    started: BTreeSet<ToolCallId>,
    /// What came of it, where that is known and the end is not recorded yet.
    result: Option<TurnResult>,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finished {
    /// The run.
    pub(crate) prompt: PromptId,
    /// What came of it.
    pub(crate) result: TurnResult,
    /// All that the model said.
    pub(crate) said: String,
}

/// What one event became.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Became {
    /// Its frames, in order.
    pub(crate) frames: Vec<Frame>,
    /// The run that ended with it.
    pub(crate) finished: Option<Finished>,
    /// A question that the run waits with.
    pub(crate) question: Option<Question>,
}

impl Became {
    /// Tells whether the event became nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.frames.is_empty() && self.finished.is_none() && self.question.is_none()
    }
}

/// A question that a run waits with. This door has no words for questions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    /// Its id.
    pub(crate) request: RequestId,
    /// What the runtime asks about; none where a tool asks.
    pub(crate) about: Option<PauseKind>,
}

impl Projection {
    /// Returns the run that goes on.
    pub(crate) fn run(&self) -> Option<&PromptId> {
        self.run.as_ref().map(|run| &run.id)
    }

    /// Tells whether it takes little room.
    pub(crate) fn is_small(&self) -> bool {
        let run = self.run.as_ref();
        run.is_none_or(|run| run.said.len() + run.started.len() * CALL_BYTES <= SMALL_BYTES_MAX)
    }

    /// Folds an event and returns what it becomes. One that was folded before becomes nothing.
    pub(crate) fn fold(&mut self, event: &Event) -> Became {
        self.fold_into(event, true)
    }

    /// Folds an event that others see as well: its frames are made once for all of them. That they
    /// are the same for all is what being a pure fold means.
    pub(crate) fn fold_shared(&mut self, event: &Shown) -> Became {
        if event.seq.is_some_and(|seq| seq <= self.at) {
            return Became::default();
        }
        let (count, mut made) = (self.count, None);
        let joined = event.encoded(Language::Cortex, |event| {
            Frame::joined(&made.insert(self.fold(event)).frames)
        });
        match made {
            Some(became) => became,
            None => {
                let passed = self.fold_into(event, false);
                Became { frames: Frame::split(joined, count), ..passed }
            }
        }
    }

    /// Folds an event that nobody wants to see.
    pub(crate) fn pass(&mut self, event: &Event) {
        self.fold_into(event, false);
    }

    fn fold_into(&mut self, event: &Event, is_shown: bool) -> Became {
        match event.seq {
            Some(seq) if seq <= self.at => return Became::default(),
            Some(seq) => (self.at, self.when) = (seq, event.ts),
            None => {}
        }
        let session = &event.session_id;
        let mut out = Out { session, is_shown, frames: Vec::new(), question: None };
        let finished = self.take(&event.body, &mut out);
        Became { frames: out.frames, finished, question: out.question }
    }

    fn take(&mut self, body: &EventBody, out: &mut Out<'_>) -> Option<Finished> {
        match body {
            EventBody::SessionStart(start) => {
                self.name.clone_from(&start.title);
                self.model.clone_from(&start.model);
            }
            EventBody::ModelChanged(changed) => self.model.clone_from(&changed.model),
            EventBody::Usage(used) => self.usage += used.usage,
            EventBody::PromptStarted(started) => self.start(started, out),
            EventBody::TurnStart(start) => self.step(start.turn, out),
            EventBody::TextDelta(delta) => self.live(out, "text_delta", &delta.text),
            EventBody::ThinkingDelta(delta) => self.live(out, "thinking_delta", &delta.text),
            EventBody::AssistantMessage(message) => self.said(message, out),
            EventBody::ToolCall(call) => self.called(call, out),
            EventBody::PermissionRequest(request) => self.asked(request, out),
            EventBody::RequestResolved(resolved) => self.decided(resolved, out),
            EventBody::ToolResult(result) => {
                let end = End {
                    name: &result.tool_name,
                    duration_ms: result.duration_ms,
                    is_error: result.is_error,
                    output: text_of(&result.output, OUTPUT_BYTES_MAX),
                };
                self.ended(&result.tool_call_id, &end, out);
            }
            EventBody::ToolDenied(denied) => {
                let end = End {
                    name: &denied.tool_name,
                    duration_ms: 0,
                    is_error: true,
                    output: cut(&denied.reason, OUTPUT_BYTES_MAX).to_owned(),
                };
                self.ended(&denied.tool_call_id, &end, out);
            }
            EventBody::Done(done) => {
                if let Some(run) = &mut self.run {
                    run.result = Some(done.result.clone());
                }
            }
            EventBody::PromptFinished(finished) => {
                return Some(self.finish(&finished.prompt_id, &finished.result, out));
            }
            EventBody::QuestionRequest(asked) => {
                let (request, about) = (asked.request_id.clone(), asked.about);
                out.question = self.run.is_some().then_some(Question { request, about });
            }
            // What this door has no word for.
            EventBody::ContextSet(_)
            | EventBody::ContextAdded(_)
            | EventBody::ToolStarted(_)
            | EventBody::ToolsActivated(_)
            | EventBody::ToolProgress(_)
            | EventBody::Retry(_)
            | EventBody::Compacted(_)
            | EventBody::CompactionUndone(_)
            | EventBody::CheckpointMade(_)
            | EventBody::ChangesRecorded(_)
            | EventBody::Rewound(_)
            | EventBody::Notice(_)
            | EventBody::ModeChanged(_)
            | EventBody::PlanRequest(_)
            | EventBody::PromptQueued(_)
            | EventBody::SessionUpdated(_)
            | EventBody::SessionClosed(_) => {}
        }
        None
    }

    fn start(&mut self, started: &PromptStarted, out: &mut Out<'_>) {
        self.runs += 1;
        let options = &started.options;
        let model = options.model.as_ref().unwrap_or(&self.model);
        out.tell(&mut self.count, &started.prompt_id, "run_start", || json!({"model": model}));
        self.run = Some(Run {
            id: started.prompt_id.clone(),
            request: options.request_id.clone(),
            turn: 0,
            said: String::new(),
            started: BTreeSet::new(),
            result: None,
        });
    }

    fn step(&mut self, turn: u32, out: &mut Out<'_>) {
        self.turns += 1;
        if let Some(run) = &mut self.run {
            run.turn = turn;
            out.tell(&mut self.count, &run.id, "turn_start", || json!({"turnNumber": turn}));
        }
    }

    fn live(&self, out: &mut Out<'_>, kind: &'static str, text: &str) {
        if let Some(run) = &self.run
            && out.is_shown
        {
            out.frames.push(Frame::delta(kind, (out.session, &run.id), text));
        }
    }

    fn said(&mut self, message: &AssistantMessage, out: &mut Out<'_>) {
        let Some(run) = &mut self.run else { return };
        let turn = run.turn;
        let (mut thinking, mut text) = (String::new(), String::new());
        for block in &message.content {
            match block {
                Block::Text { text: piece, .. } => text.push_str(piece),
                Block::Thinking { text: piece, .. } => thinking.push_str(piece),
                _ => {}
            }
        }
        for (kind, text) in [("thinking", &thinking), ("text", &text)] {
            if !text.is_empty() {
                out.tell(
                    &mut self.count,
                    &run.id,
                    kind,
                    || json!({"turnNumber": turn, "text": text}),
                );
            }
        }
        if !text.trim().is_empty() {
            if !run.said.is_empty() {
                run.said.push_str(BETWEEN_TEXTS);
            }
            let room = SAID_BYTES_MAX.saturating_sub(run.said.len());
            run.said.push_str(cut(&text, room));
        }
    }

    fn called(&mut self, call: &ToolCall, out: &mut Out<'_>) {
        let Some(run) = &mut self.run else { return };
        if run.started.insert(call.tool_call_id.clone()) {
            out.tell(&mut self.count, &run.id, "tool_call_start", || {
                started(&call.tool_call_id, &call.tool_name, &call.input)
            });
        }
    }

    fn asked(&mut self, request: &PermissionRequest, out: &mut Out<'_>) {
        let Some(run) = &self.run else { return };
        out.tell(&mut self.count, &run.id, "approval_required", || {
            json!({
                "approvalId": approval_id(&request.request_id),
                "toolCallId": request.tool_call_id,
                "toolName": shown(&request.tool_name),
                "toolInput": request.input,
                "effectClass": effect_class(request.effect),
                "expiresAt": request.expires_at,
            })
        });
    }

    fn decided(&mut self, resolved: &RequestResolved, out: &mut Out<'_>) {
        let Some(run) = &self.run else { return };
        if resolved.kind != InteractionKind::Permission {
            return;
        }
        out.tell(&mut self.count, &run.id, "approval_decided", || {
            let decision = match resolved.outcome {
                Outcome::AllowOnce | Outcome::AllowAlways => "allow",
                _ => "deny",
            };
            json!({
                "approvalId": approval_id(&resolved.request_id),
                "decision": decision,
                "reason": reason(resolved.words.as_deref(), resolved.by),
                "decidedBy": decided_by(resolved.by),
            })
        });
    }

    fn ended(&mut self, call: &ToolCallId, end: &End<'_>, out: &mut Out<'_>) {
        let Some(run) = &mut self.run else { return };
        // A call that never passed its schema has an end all the same, so it has a start.
        if run.started.insert(call.clone()) {
            out.tell(&mut self.count, &run.id, "tool_call_start", || {
                started(call, end.name, &Map::new())
            });
        }
        out.tell(&mut self.count, &run.id, "tool_call_end", || {
            json!({
                "toolCallId": call,
                "toolName": shown(end.name),
                "durationMs": end.duration_ms,
                "isError": end.is_error,
                "output": end.output,
            })
        });
    }

    fn finish(&mut self, prompt: &PromptId, result: &TurnResult, out: &mut Out<'_>) -> Finished {
        let own = self.run.take_if(|run| run.id == *prompt);
        let (request, said, known) = match own {
            Some(run) => (run.request, run.said, run.result),
            // It was taken out of the queue before it began.
            None => (None, String::new(), None),
        };
        let result = known.unwrap_or_else(|| result.clone());
        let stop = StopReason::of(result.reason);
        match stop {
            StopReason::MaxTurns => {
                out.tell(&mut self.count, prompt, "max_turns", || json!({"turns": result.turns}))
            }
            StopReason::Error => out.tell(&mut self.count, prompt, "error", || {
                // A run that no request of this door began has no id but its own.
                let request = request.unwrap_or_else(|| run_id(prompt));
                let mut fields = json!({"code": "RUN_ERROR", "requestId": request});
                if !said.is_empty()
                    && let Some(fields) = fields.as_object_mut()
                {
                    fields.insert("partialResponse".to_owned(), said.clone().into());
                }
                fields
            }),
            StopReason::EndTurn | StopReason::Aborted => {}
        }
        out.tell(&mut self.count, prompt, "run_complete", || {
            json!({
                "totalTurns": result.turns,
                "totalUsage": usage_of(&result.usage),
                "stopReason": stop.as_str(),
            })
        });
        Finished { prompt: prompt.clone(), result, said }
    }
}

/// Where frames go.
struct Out<'a> {
    session: &'a SessionId,
    is_shown: bool,
    frames: Vec<Frame>,
    question: Option<Question>,
}

impl Out<'_> {
    /// Counts a recorded frame, and makes it where somebody wants to see it.
    fn tell(
        &mut self,
        count: &mut u64,
        run: &PromptId,
        kind: &'static str,
        fields: impl FnOnce() -> Value,
    ) {
        *count += 1;
        if self.is_shown {
            self.frames.push(Frame::recorded(*count, kind, (self.session, run), fields()));
        }
    }
}

/// How a call ended.
struct End<'a> {
    name: &'a str,
    duration_ms: u64,
    is_error: bool,
    output: String,
}

fn started(call: &ToolCallId, name: &str, input: &Map<String, Value>) -> Value {
    json!({"toolCallId": call, "toolName": shown(name), "toolInput": input})
}

/// Returns why a permission was decided as it was.
fn reason(words: Option<&str>, by: DecidedBy) -> &str {
    match (words.filter(|words| !words.trim().is_empty()), by) {
        (Some(words), _) => words,
        (None, DecidedBy::Client) => "no reason given",
        (None, DecidedBy::Timeout) => "approval timed out",
        (None, DecidedBy::Interrupt) => "the run was aborted",
        (None, DecidedBy::Policy) => "a policy decided",
    }
}

fn decided_by(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Client => "api",
        DecidedBy::Timeout => "timeout",
        DecidedBy::Interrupt => "abort",
        DecidedBy::Policy => "policy",
    }
}

/// Returns tokens in the words of this door; what was thought only where a provider says so.
pub(crate) fn usage_of(usage: &Usage) -> Value {
    let mut fields = json!({
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheCreationTokens": usage.cache_write_tokens,
    });
    if usage.reasoning_tokens > 0
        && let Some(fields) = fields.as_object_mut()
    {
        fields.insert("reasoningTokens".to_owned(), usage.reasoning_tokens.into());
    }
    fields
}

/// Joins the text of what a tool brought, cut to so many bytes.
pub(crate) fn text_of(blocks: &[Block], bytes_max: usize) -> String {
    let mut all = String::new();
    for block in blocks {
        let Block::Text { text, .. } = block else { continue };
        if !all.is_empty() {
            all.push('\n');
        }
        all.push_str(cut(text, bytes_max.saturating_sub(all.len())));
    }
    all.truncate(cut(&all, bytes_max).len());
    all
}

#[cfg(test)]
mod tests;
