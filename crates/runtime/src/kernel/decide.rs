//! Which events a command adds, or why not. Reads the state, changes nothing.

use protocol::event::{
    Answer, AssistantMessage, CompactionUndone, ContextSet, DecidedBy, DeniedBy, Done,
    InteractionKind, ModeChanged, ModelChanged, Outcome, PauseKind, PromptFinished, PromptQueued,
    PromptStarted, RequestResolved, Retry, SessionClosed, SessionUpdated, ToolDenied, ToolResult,
    ToolStarted, ToolsActivated, TurnResult, TurnStart, UsageEvent,
};
use protocol::{
    Block, Effect, EventBody, PromptId, Refusal, RefusalCode, RequestId, StopReason, Timestamp,
    ToolCallId, TurnEnd, Usage,
};

use super::command::{Command, Decided, Ending, ModelAnswer, NewPrompt, denial_by};
use super::pending::MALFORMED_STEPS_MAX;
use super::state::{CallStage, State, TOOLS_MAX, Turn, Wait};
use super::transcript::{NOT_RUN, OUTCOME_UNKNOWN};

/// How many prompts may wait.
pub(crate) const QUEUE_MAX: usize = 16;

/// How many characters of the first prompt become the title.
const TITLE_CHARS: usize = 80;

/// Decides. The events are not folded yet.
pub(crate) fn decide(
    state: &State,
    command: Command,
    now: Timestamp,
) -> Result<Vec<EventBody>, Refusal> {
    match command {
        Command::SetContext { system } => Ok(vec![ContextSet { system }.into()]),
        Command::Prompt(new) => prompt(state, new),
        Command::TakeNext(new) => {
            let Some((prompt_id, _)) = state.queue.front().cloned() else { return Ok(Vec::new()) };
            Ok(vec![started(NewPrompt { prompt_id, ..new }).into()])
        }
        Command::Advance => Ok(advance(state, now)),
        Command::Answered(answer) => Ok(answered(state, answer)),
        Command::Retry { attempt, delay_ms, reason, partial_text } => {
            // Time is the limit, so there is no limit of attempts to show.
            let retry = Retry { attempt, max_attempts: 0, delay_ms, reason, partial_text };
            Ok(vec![retry.into()])
        }
        Command::Describe(call) => Ok(vec![call.into()]),
        Command::Ask(request) => Ok(vec![request]),
        Command::Pause(question) => Ok(vec![question.into()]),
        Command::Resolve(decided) => resolve(state, decided, now),
        Command::Deny(denied) => Ok(vec![denied.into()]),
        Command::Start { call } => Ok(start(state, &call)),
        Command::Finish(result) => Ok(finish(state, result)),
        Command::Activate { names } => Ok(activate(state, names)),
        Command::End(ending) => Ok(end(state, ending, now)),
        Command::ClearQueue => Ok(unqueue(state, |_| true)),
        Command::Unqueue(prompt) => Ok(unqueue(state, |waiting| *waiting == prompt)),
        Command::SetMode(mode) if mode == state.mode => Ok(Vec::new()),
        Command::SetMode(mode) => Ok(vec![ModeChanged { mode }.into()]),
        Command::SetModel(model) if model == state.model => Ok(Vec::new()),
        Command::SetModel(model) => Ok(vec![ModelChanged { model }.into()]),
        Command::AddContext(added) => Ok(vec![added.into()]),
        Command::Spent { usage, cost_usd, model, purpose } => {
            let (model, purpose) = (Some(model), Some(purpose));
            Ok(vec![UsageEvent { usage, cost_usd, model, purpose }.into()])
        }
        Command::Compact(compacted) => Ok(vec![compacted.into()]),
        Command::Uncompact { after } => {
            let newest = state.view.compaction();
            let undone = newest.map(|it| CompactionUndone { compaction: it.at, after }.into());
            Ok(undone.into_iter().collect())
        }
        Command::Checkpoint(made) => Ok(vec![made.into()]),
        Command::RecordChanges(changes) => Ok(vec![changes.into()]),
        Command::Rewind(rewound) => Ok(vec![rewound.into()]),
        Command::Notify(notice) => Ok(vec![notice.into()]),
        Command::Close(reason) if !state.is_closed => Ok(vec![SessionClosed { reason }.into()]),
        Command::Close(_) => Ok(Vec::new()),
    }
}

fn started(new: NewPrompt) -> PromptStarted {
    let NewPrompt { prompt_id, message_id, content, steps_max, command, options, .. } = new;
    PromptStarted { prompt_id, message_id, content, max_turns: Some(steps_max), command, options }
}

fn prompt(state: &State, new: NewPrompt) -> Result<Vec<EventBody>, Refusal> {
    let mut events = Vec::new();
    if state.title.is_none()
        && new.command.is_none()
        && let Some(title) = title_of(&new.content)
    {
        events.push(SessionUpdated { title: Some(title) }.into());
    }
    if state.turn.is_none() && state.queue.is_empty() {
        events.push(started(new).into());
        return Ok(events);
    }
    if state.queue.len() >= QUEUE_MAX {
        let message = format!("{QUEUE_MAX} prompts wait already: stop the turn or wait for it");
        return Err(Refusal::new(RefusalCode::QueueFull, message));
    }
    let position = u32::try_from(state.queue.len() + 1).unwrap_or(u32::MAX);
    let NewPrompt { prompt_id, content, max_turns, options, .. } = new;
    events.push(PromptQueued { prompt_id, position, content, max_turns, options }.into());
    Ok(events)
}

/// Makes a title of the first line that says something. What is attached begins a block of its
/// own, and is no part of that line.
pub(crate) fn title_of(content: &[Block]) -> Option<String> {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let line = texts.flat_map(str::lines).map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if line.chars().count() > TITLE_CHARS {
        title.push('…');
    }
    Some(title)
}

fn advance(state: &State, now: Timestamp) -> Vec<EventBody> {
    let Some(turn) = &state.turn else { return Vec::new() };
    if turn.is_done {
        let plain = Ending::of(TurnEnd::Interrupted);
        return vec![finished(turn, result(turn, plain, now))];
    }
    let is_over = turn.calls.iter().all(|call| call.stage == CallStage::Over);
    if turn.step > 0 && (!turn.is_answered || !is_over) {
        return Vec::new();
    }
    if turn.pause.is_some() || turn.command.is_some() {
        return Vec::new();
    }
    if would_finish(turn) {
        return ends(turn, Ending::of(TurnEnd::Completed), now);
    }
    if turn.malformed_steps >= MALFORMED_STEPS_MAX {
        let message = format!(
            "the model wrote tool calls that could not be read {MALFORMED_STEPS_MAX} times in a row"
        );
        return ends(turn, Ending::error("malformed_calls", message), now);
    }
    if turn.step >= turn.steps_max {
        let message = format!("the limit of {} was reached", steps(turn.steps_max));
        let ending = Ending { message: Some(message), ..Ending::of(TurnEnd::MaxTurns) };
        return ends(turn, ending, now);
    }
    let prompt_id = turn.prompt.clone();
    vec![TurnStart { turn: turn.step + 1, prompt_id, model: state.model_now().to_owned() }.into()]
}

/// Tells whether a turn is about to end by the model's wish. A paused answer is carried on by the
/// next step, as the provider asks.
pub(crate) fn would_finish(turn: &Turn) -> bool {
    let is_paused = turn.stop == Some(StopReason::PauseTurn);
    turn.step > 0
        && turn.is_answered
        && turn.calls.is_empty()
        && !is_paused
        && !turn.goes_on
        && !turn.is_done
}

fn steps(count: u32) -> String {
    stdx::plural(u64::from(count), "step")
}

fn answered(state: &State, answer: ModelAnswer) -> Vec<EventBody> {
    if state.turn.is_none() {
        return Vec::new();
    }
    let ModelAnswer { message_id, content, stop, usage, cost_usd, model } = answer;
    vec![
        AssistantMessage { message_id, content, stop_reason: stop }.into(),
        UsageEvent { usage, cost_usd, model: Some(model), purpose: None }.into(),
    ]
}

fn start(state: &State, id: &ToolCallId) -> Vec<EventBody> {
    let Some(call) = state.call(id) else { return Vec::new() };
    let effect = match call.stage {
        CallStage::Described(effect) | CallStage::Allowed(effect) => effect,
        CallStage::Requested
        | CallStage::Waiting(..)
        | CallStage::Started(_)
        | CallStage::Asking(..)
        | CallStage::Over => return Vec::new(),
    };
    vec![ToolStarted { tool_call_id: id.clone(), effect }.into()]
}

/// Records what a call brought. What it asked and nobody has answered yet need not be answered any
/// more.
fn finish(state: &State, result: ToolResult) -> Vec<EventBody> {
    let mut events = Vec::new();
    if let Some(call) = state.call(&result.tool_call_id)
        && let CallStage::Asking(wait, _) = &call.stage
    {
        events.push(interrupted_request(wait));
    }
    events.push(result.into());
    events
}

/// Offers tools that the session is not offered yet, as many as it may have.
fn activate(state: &State, names: Vec<String>) -> Vec<EventBody> {
    let mut fresh: Vec<String> = Vec::new();
    for name in names {
        let has_room = state.tools.len() + fresh.len() < TOOLS_MAX;
        if has_room && !state.tools.contains(&name) && !fresh.contains(&name) {
            fresh.push(name);
        }
    }
    if fresh.is_empty() { Vec::new() } else { vec![ToolsActivated { names: fresh }.into()] }
}

/// Records a decision and what follows from it at once: the denial or result of the call, the new
/// mode of an approved plan, the end of a turn that paused.
fn resolve(state: &State, decided: Decided, now: Timestamp) -> Result<Vec<EventBody>, Refusal> {
    let Decided { request, answer, by, rule, told, is_host } = decided;
    let Some(wait) = state.wait(&request) else {
        return Err(if state.resolved.contains(&request) {
            let message = format!("request {request} was decided before");
            Refusal::new(RefusalCode::RequestResolved, message)
        } else {
            Refusal::new(RefusalCode::RequestNotFound, format!("no request {request} waits"))
        });
    };
    if answer.kind() != wait.kind {
        let message = format!("answer: {} asks for another kind of answer", wait.kind.as_str());
        return Err(Refusal::new(RefusalCode::Invalid, message));
    }
    let mut resolved = resolution(request.clone(), wait.kind, by);
    resolved.rule = rule;
    let mut events = Vec::new();
    let call = state.waiting_call(&request).map(|call| (call.id.clone(), call.tool.clone()));
    let result = |told: String| call.clone().map(|(id, tool)| spoken(id, tool, told));
    match answer {
        Answer::AllowOnce => resolved.outcome = Outcome::AllowOnce,
        Answer::AllowSaying { feedback } => {
            resolved.outcome = Outcome::AllowOnce;
            resolved.words = Some(feedback);
        }
        Answer::AllowAlways { persist, .. } => {
            resolved.outcome = Outcome::AllowAlways;
            resolved.persist = Some(persist);
        }
        Answer::Deny { feedback } => {
            resolved.words.clone_from(&feedback);
            let reason = denial(feedback, by);
            events.extend(call.map(|(tool_call_id, tool_name)| {
                ToolDenied { tool_call_id, tool_name, reason, by: denial_by(by, is_host) }.into()
            }));
        }
        Answer::Chosen { answers, other } => {
            resolved.outcome = Outcome::Answered;
            (resolved.answers, resolved.words) = (answers, other);
            events.extend(result(told));
        }
        Answer::Dismissed => {
            resolved.outcome = Outcome::Dismissed;
            events.extend(result(told));
        }
        Answer::Approved { mode } => {
            let mode = mode.unwrap_or_default();
            resolved.outcome = Outcome::Approved;
            resolved.mode = Some(mode);
            if mode != state.mode {
                events.push(ModeChanged { mode }.into());
            }
            events.extend(result(told));
        }
        Answer::Rejected { feedback } => {
            resolved.outcome = Outcome::Rejected;
            resolved.words = feedback;
            events.extend(result(told));
        }
    }
    let goes_on = resolved.answers.iter().any(|answer| answer == GO_ON);
    events.insert(0, resolved.into());
    if let Some(turn) = &state.turn
        && let Some((pause, kind)) = &turn.pause
        && pause.request == request
        && !goes_on
    {
        events.extend(ends(turn, Ending::paused(*kind), now));
    }
    Ok(events)
}

/// The option of a pause that lets the turn go on.
pub(crate) const GO_ON: &str = "go_on";

/// A decision that says no, to be filled in.
fn resolution(request_id: RequestId, kind: InteractionKind, by: DecidedBy) -> RequestResolved {
    RequestResolved {
        request_id,
        kind,
        outcome: Outcome::Deny,
        by,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    }
}

fn denial(feedback: Option<String>, by: DecidedBy) -> String {
    match feedback {
        Some(words) if !words.trim().is_empty() => format!("denied: {words}"),
        _ => match by {
            DecidedBy::Timeout => "denied: nobody answered in time".to_owned(),
            DecidedBy::Policy => {
                "not run: what this call touches has changed since it was asked".to_owned()
            }
            DecidedBy::Client | DecidedBy::Interrupt => "denied: no reason given".to_owned(),
        },
    }
}

impl Ending {
    pub(crate) fn of(reason: TurnEnd) -> Self {
        let (code, message, partial, text, structured) = Default::default();
        Self { reason, code, message, partial, text, structured }
    }

    /// The end of a turn that nobody let go on.
    pub(crate) fn paused(kind: PauseKind) -> Self {
        let (reason, message) = match kind {
            PauseKind::Budget => (TurnEnd::Budget, "the budget is used up"),
            PauseKind::Repetition => {
                (TurnEnd::Repetition, "the model repeated a call that brings the same every time")
            }
        };
        Self { message: Some(message.to_owned()), ..Self::of(reason) }
    }

    pub(crate) fn error(code: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, message) = (Some(code.into()), Some(message.into()));
        Self { code, message, ..Self::of(TurnEnd::Error) }
    }
}

/// Ends the running turn whatever it is doing: what the model had said is kept, waiting
/// interactions are decided, and every call that is not over gets a truthful result.
fn end(state: &State, ending: Ending, now: Timestamp) -> Vec<EventBody> {
    let Some(turn) = &state.turn else { return Vec::new() };
    let mut events = Vec::new();
    if turn.is_done {
        let ended = result(turn, ending, now);
        return vec![finished(turn, ended)];
    }
    if let Some((message_id, text)) = &ending.partial
        && !turn.is_answered
        && !text.trim().is_empty()
    {
        let content = vec![Block::text(text.clone())];
        let stop_reason = StopReason::Interrupted;
        let message_id = message_id.clone();
        events.push(AssistantMessage { message_id, content, stop_reason }.into());
    }
    for call in &turn.calls {
        let text = match &call.stage {
            CallStage::Over => continue,
            CallStage::Started(effect) if *effect > Effect::Interact => OUTCOME_UNKNOWN,
            CallStage::Asking(wait, effect) => {
                events.push(interrupted_request(wait));
                if *effect > Effect::Interact { OUTCOME_UNKNOWN } else { NOT_RUN }
            }
            CallStage::Waiting(wait, _) => {
                events.push(interrupted_request(wait));
                NOT_RUN
            }
            CallStage::Requested
            | CallStage::Described(_)
            | CallStage::Allowed(_)
            | CallStage::Started(_) => NOT_RUN,
        };
        events.push(unfinished(call.id.clone(), call.tool.clone(), text));
    }
    if let Some((wait, _)) = &turn.pause {
        events.push(interrupted_request(wait));
    }
    let mut turn = turn.clone();
    if let Some((_, text)) = &ending.partial
        && !turn.is_answered
    {
        turn.text.clone_from(text);
    }
    events.extend(ends(&turn, ending, now));
    events
}

fn interrupted_request(wait: &Wait) -> EventBody {
    let mut resolved = resolution(wait.request.clone(), wait.kind, DecidedBy::Interrupt);
    resolved.outcome = match wait.kind {
        InteractionKind::Permission => Outcome::Deny,
        InteractionKind::Question => Outcome::Dismissed,
        InteractionKind::Plan => Outcome::Rejected,
    };
    resolved.into()
}

/// The result of a call that brought none.
fn unfinished(tool_call_id: ToolCallId, tool_name: String, text: &str) -> EventBody {
    said(tool_call_id, tool_name, text, true).into()
}

/// The result of a call that a person answered.
fn spoken(tool_call_id: ToolCallId, tool_name: String, text: String) -> EventBody {
    said(tool_call_id, tool_name, text, false).into()
}

/// A result of text alone.
pub(crate) fn said(
    tool_call_id: ToolCallId,
    tool_name: String,
    text: impl Into<String>,
    is_error: bool,
) -> ToolResult {
    ToolResult {
        tool_call_id,
        tool_name,
        is_error,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 0,
        display: None,
        files: Vec::new(),
    }
}

fn ends(turn: &Turn, ending: Ending, now: Timestamp) -> Vec<EventBody> {
    let result = result(turn, ending, now);
    vec![Done { result: result.clone() }.into(), finished(turn, result)]
}

fn finished(turn: &Turn, result: TurnResult) -> EventBody {
    PromptFinished { prompt_id: turn.prompt.clone(), result }.into()
}

fn result(turn: &Turn, ending: Ending, now: Timestamp) -> TurnResult {
    TurnResult {
        reason: ending.reason,
        code: ending.code,
        message: ending.message,
        usage: turn.usage,
        cost_usd: turn.cost_usd,
        turns: turn.step,
        duration_ms: u64::try_from(now.0 - turn.started_at.0).unwrap_or(0),
        text: ending.text.unwrap_or_else(|| turn.text.clone()),
        unanswered: turn.unanswered,
        structured: ending.structured,
    }
}

/// Takes waiting prompts out of the queue.
fn unqueue(state: &State, is_meant: impl Fn(&PromptId) -> bool) -> Vec<EventBody> {
    let meant = state.queue.iter().filter(|(prompt_id, _)| is_meant(prompt_id));
    let dropped = meant.map(|(prompt_id, _)| {
        let result = TurnResult {
            reason: TurnEnd::Interrupted,
            code: None,
            message: Some("the prompt was taken out of the queue before it began".to_owned()),
            usage: Usage::default(),
            cost_usd: Some(0.0),
            turns: 0,
            duration_ms: 0,
            text: String::new(),
            unanswered: 0,
            structured: None,
        };
        PromptFinished { prompt_id: prompt_id.clone(), result }.into()
    });
    dropped.collect()
}

/// Makes the denial of a call that had to be asked for while nobody could be asked.
pub(crate) fn nobody(id: ToolCallId, tool: String, why: &str) -> ToolDenied {
    let reason = format!(
        "denied: this call has to be asked for ({why}) and nobody can be asked here; do without \
         it, or say what should be allowed"
    );
    ToolDenied { tool_call_id: id, tool_name: tool, reason, by: DeniedBy::Nobody }
}
