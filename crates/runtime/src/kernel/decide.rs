//! Which events a command adds, or why not. Reads the state, changes nothing.

use protocol::event::{
    AssistantMessage, ContextSet, DeniedBy, Done, InteractionKind, ModeChanged, ModelChanged,
    Outcome, PromptFinished, PromptQueued, PromptStarted, RequestResolved, Retry, SessionClosed,
    SessionUpdated, ToolDenied, ToolResult, ToolStarted, TurnResult, TurnStart, UsageEvent,
};
use protocol::{
    Block, Effect, EventBody, Refusal, RefusalCode, StopReason, Timestamp, ToolCallId, TurnEnd,
    Usage,
};

use super::command::{Command, Ending, ModelAnswer, denial_by};
use super::evolve::text_of;
use super::pending::MALFORMED_STEPS_MAX;
use super::state::{CallStage, State, Turn};
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
        Command::Prompt { prompt_id, message_id, content, steps_max } => {
            let started =
                PromptStarted { prompt_id, message_id, content, max_turns: Some(steps_max) };
            prompt(state, started)
        }
        Command::TakeNext { message_id, content, steps_max } => {
            let Some((prompt_id, _)) = state.queue.front().cloned() else { return Ok(Vec::new()) };
            let started =
                PromptStarted { prompt_id, message_id, content, max_turns: Some(steps_max) };
            Ok(vec![started.into()])
        }
        Command::Advance => Ok(advance(state, now)),
        Command::Answered(answer) => Ok(answered(state, answer)),
        Command::Retry { attempt, delay_ms, reason, partial_text } => {
            // Time is the limit, so there is no limit of attempts to show.
            let retry = Retry { attempt, max_attempts: 0, delay_ms, reason, partial_text };
            Ok(vec![retry.into()])
        }
        Command::Describe(call) => Ok(vec![call.into()]),
        Command::Ask(request) => Ok(vec![request.into()]),
        Command::Resolve { request, answer, by, rule } => {
            use protocol::event::Answer;
            let outcome = match answer {
                Answer::AllowOnce => Outcome::AllowOnce,
                Answer::AllowAlways { .. } => Outcome::AllowAlways,
                Answer::Deny { .. } => Outcome::Deny,
            };
            let feedback = match answer {
                Answer::Deny { feedback } => feedback,
                Answer::AllowOnce | Answer::AllowAlways { .. } => None,
            };
            let kind = InteractionKind::Permission;
            let resolved = RequestResolved { request_id: request, kind, outcome, by, rule };
            resolve(state, resolved, feedback)
        }
        Command::Deny(denied) => Ok(vec![denied.into()]),
        Command::Start { call } => Ok(start(state, &call)),
        Command::Finish(result) => Ok(vec![result.into()]),
        Command::End(ending) => Ok(end(state, ending, now)),
        Command::ClearQueue => Ok(clear_queue(state)),
        Command::SetMode(mode) if mode == state.mode => Ok(Vec::new()),
        Command::SetMode(mode) => Ok(vec![ModeChanged { mode }.into()]),
        Command::SetModel(model) if model == state.model => Ok(Vec::new()),
        Command::SetModel(model) => Ok(vec![ModelChanged { model }.into()]),
        Command::Notify(notice) => Ok(vec![notice.into()]),
        Command::Close(reason) if !state.is_closed => Ok(vec![SessionClosed { reason }.into()]),
        Command::Close(_) => Ok(Vec::new()),
    }
}

fn prompt(state: &State, started: PromptStarted) -> Result<Vec<EventBody>, Refusal> {
    let mut events = Vec::new();
    if state.title.is_none()
        && let Some(title) = title_of(&started.content)
    {
        events.push(SessionUpdated { title: Some(title) }.into());
    }
    if state.turn.is_none() && state.queue.is_empty() {
        events.push(started.into());
        return Ok(events);
    }
    if state.queue.len() >= QUEUE_MAX {
        let message = format!("{QUEUE_MAX} prompts wait already: stop the turn or wait for it");
        return Err(Refusal::new(RefusalCode::QueueFull, message));
    }
    let position = u32::try_from(state.queue.len() + 1).unwrap_or(u32::MAX);
    let PromptStarted { prompt_id, content, .. } = started;
    events.push(PromptQueued { prompt_id, position, content }.into());
    Ok(events)
}

/// Makes a title of the first line that says something.
fn title_of(content: &[Block]) -> Option<String> {
    let text = text_of(content);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
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
    // A paused answer is carried on by the next step, as the provider asks.
    let is_finished =
        turn.step > 0 && turn.calls.is_empty() && turn.stop != Some(StopReason::PauseTurn);
    if is_finished {
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
    vec![TurnStart { turn: turn.step + 1, prompt_id, model: state.model.clone() }.into()]
}

fn steps(count: u32) -> String {
    stdx::plural(u64::from(count), "step")
}

fn answered(state: &State, answer: ModelAnswer) -> Vec<EventBody> {
    if state.turn.is_none() {
        return Vec::new();
    }
    let ModelAnswer { message_id, content, stop, usage, cost_usd } = answer;
    vec![
        AssistantMessage { message_id, content, stop_reason: stop }.into(),
        UsageEvent { usage, cost_usd }.into(),
    ]
}

fn start(state: &State, id: &ToolCallId) -> Vec<EventBody> {
    let Some(call) = state.call(id) else { return Vec::new() };
    let effect = match call.stage {
        CallStage::Described(effect) | CallStage::Allowed(effect) => effect,
        CallStage::Requested | CallStage::Waiting(..) | CallStage::Started(_) | CallStage::Over => {
            return Vec::new();
        }
    };
    vec![ToolStarted { tool_call_id: id.clone(), effect }.into()]
}

fn resolve(
    state: &State,
    resolved: RequestResolved,
    feedback: Option<String>,
) -> Result<Vec<EventBody>, Refusal> {
    let request = resolved.request_id.clone();
    let Some(call) = state.waiting(&request) else {
        return Err(if state.resolved.contains(&request) {
            let message = format!("request {request} was decided before");
            Refusal::new(RefusalCode::RequestResolved, message)
        } else {
            Refusal::new(RefusalCode::RequestNotFound, format!("no request {request} waits"))
        });
    };
    let (outcome, by) = (resolved.outcome, resolved.by);
    let mut events: Vec<EventBody> = vec![resolved.into()];
    if outcome == Outcome::Deny {
        let reason = match feedback {
            Some(words) if !words.trim().is_empty() => format!("denied by the user: {words}"),
            _ => match by {
                protocol::event::DecidedBy::Timeout => "denied: nobody answered in time".into(),
                _ => "denied by the user".to_owned(),
            },
        };
        let (tool_call_id, tool_name) = (call.id.clone(), call.tool.clone());
        events.push(ToolDenied { tool_call_id, tool_name, reason, by: denial_by(by) }.into());
    }
    Ok(events)
}

impl Ending {
    pub(crate) fn of(reason: TurnEnd) -> Self {
        Self { reason, code: None, message: None, partial: None }
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
            CallStage::Waiting(request, _) => {
                events.push(interrupted_request(request.clone()));
                NOT_RUN
            }
            CallStage::Requested
            | CallStage::Described(_)
            | CallStage::Allowed(_)
            | CallStage::Started(_) => NOT_RUN,
        };
        events.push(unfinished(call.id.clone(), call.tool.clone(), text));
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

fn interrupted_request(request_id: protocol::RequestId) -> EventBody {
    let (kind, outcome) = (InteractionKind::Permission, Outcome::Deny);
    let by = protocol::event::DecidedBy::Interrupt;
    RequestResolved { request_id, kind, outcome, by, rule: None }.into()
}

/// The result of a call that brought none.
fn unfinished(tool_call_id: ToolCallId, tool_name: String, text: &str) -> EventBody {
    ToolResult {
        tool_call_id,
        tool_name,
        is_error: true,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 0,
        display: None,
        files: Vec::new(),
    }
    .into()
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
        text: turn.text.clone(),
        unanswered: turn.unanswered,
    }
}

fn clear_queue(state: &State) -> Vec<EventBody> {
    let dropped = state.queue.iter().map(|(prompt_id, _)| {
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
