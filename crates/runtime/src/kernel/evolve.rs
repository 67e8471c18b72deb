//! The fold: how one recorded event changes the state.

use protocol::event::{
    AssistantMessage, Outcome, PromptStarted, RequestResolved, ToolResult, TurnStart,
};
use protocol::{Block, Effect, EventBody, Seq, Timestamp, ToolCallId};

use super::state::{Call, CallStage, FILES_MAX, SeenFile, State, Turn, id_hash};
use super::transcript::is_withdrawn;

/// How many decided interactions are remembered.
const RESOLVED_MAX: usize = 256;

/// Folds one recorded event. Never fails: a log that says something odd is still folded, and the
/// normaliser keeps the transcript sound.
pub(crate) fn evolve(state: &mut State, seq: Seq, at: Timestamp, body: &EventBody) {
    state.seq = seq;
    state.is_closed = false;
    match body {
        EventBody::SessionStart(start) => {
            state.cwd.clone_from(&start.cwd);
            state.model.clone_from(&start.model);
            state.mode = start.mode;
            state.title.clone_from(&start.title);
        }
        EventBody::ContextSet(_) => state.context = Some(seq),
        EventBody::PromptQueued(queued) => state.queue.push_back((queued.prompt_id.clone(), seq)),
        EventBody::PromptStarted(started) => prompt_started(state, seq, at, started),
        EventBody::TurnStart(start) => turn_start(state, seq, start),
        EventBody::AssistantMessage(message) => assistant_message(state, message),
        EventBody::Usage(event) => usage(state, event),
        EventBody::ToolCall(call) => {
            stage(state, &call.tool_call_id, CallStage::Described(call.target.effect));
        }
        EventBody::ToolStarted(start) => {
            stage(state, &start.tool_call_id, CallStage::Started(start.effect));
        }
        EventBody::ToolResult(result) => tool_result(state, seq, result),
        EventBody::ToolDenied(denied) => {
            use protocol::event::DeniedBy::{Nobody, Timeout};
            stage(state, &denied.tool_call_id, CallStage::Over);
            state.context_grown += denied.reason.len() as u64;
            if let Some(turn) = &mut state.turn
                && matches!(denied.by, Nobody | Timeout)
            {
                turn.unanswered += 1;
            }
        }
        EventBody::PermissionRequest(request) => {
            let waiting = CallStage::Waiting(request.request_id.clone(), request.effect);
            stage(state, &request.tool_call_id, waiting);
        }
        EventBody::RequestResolved(resolved) => request_resolved(state, resolved),
        EventBody::ModeChanged(changed) => state.mode = changed.mode,
        EventBody::ModelChanged(changed) => state.model.clone_from(&changed.model),
        EventBody::SessionUpdated(updated) => {
            if updated.title.is_some() {
                state.title.clone_from(&updated.title);
            }
        }
        EventBody::Done(done) => {
            if let Some(turn) = &mut state.turn {
                turn.is_done = true;
                if is_withdrawn(&done.result) {
                    let left = state.context_grown.saturating_sub(turn.prompt_bytes);
                    state.context_grown = left;
                }
            }
        }
        EventBody::PromptFinished(finished) => {
            state.queue.retain(|(id, _)| *id != finished.prompt_id);
            if state.turn.as_ref().is_some_and(|turn| turn.prompt == finished.prompt_id) {
                state.turn = None;
            }
        }
        EventBody::SessionClosed(_) => state.is_closed = true,
        EventBody::Compacted(compacted) => {
            state.context_tokens = compacted.after;
            state.context_grown = 0;
        }
        // These change nothing that a later decision rests on.
        EventBody::Retry(_)
        | EventBody::Notice(_)
        | EventBody::TextDelta(_)
        | EventBody::ThinkingDelta(_)
        | EventBody::ToolProgress(_) => {}
    }
}

fn prompt_started(state: &mut State, seq: Seq, at: Timestamp, started: &PromptStarted) {
    state.queue.retain(|(id, _)| *id != started.prompt_id);
    state.prompts += 1;
    let prompt_bytes = text_bytes(&started.content);
    state.context_grown += prompt_bytes;
    state.turn = Some(Turn {
        prompt: started.prompt_id.clone(),
        started_at: at,
        steps_max: started.max_turns.unwrap_or(u32::MAX),
        step: 0,
        step_seq: seq,
        is_answered: false,
        stop: None,
        calls: Vec::new(),
        text: String::new(),
        usage: protocol::Usage::default(),
        cost_usd: Some(0.0),
        unanswered: 0,
        malformed_steps: 0,
        prompt_bytes,
        is_done: false,
    });
}

fn turn_start(state: &mut State, seq: Seq, start: &TurnStart) {
    if let Some(turn) = &mut state.turn {
        turn.step = start.turn;
        turn.step_seq = seq;
        turn.is_answered = false;
        turn.stop = None;
        turn.calls.clear();
    }
}

fn assistant_message(state: &mut State, message: &AssistantMessage) {
    let Some(turn) = &mut state.turn else { return };
    turn.is_answered = true;
    turn.stop = Some(message.stop_reason);
    turn.text = text_of(&message.content);
    turn.calls.clear();
    let mut malformed = 0;
    for block in &message.content {
        if let Block::ToolUse { id, name, malformed: raw, .. } = block {
            state.call_ids.insert(id_hash(id.as_str()));
            malformed += u32::from(raw.is_some());
            let (id, tool) = (id.clone(), name.clone());
            turn.calls.push(Call { id, tool, stage: CallStage::Requested });
        }
    }
    let is_all_malformed = malformed > 0 && malformed as usize == turn.calls.len();
    turn.malformed_steps = if is_all_malformed { turn.malformed_steps + 1 } else { 0 };
}

fn usage(state: &mut State, event: &protocol::event::UsageEvent) {
    state.usage += event.usage;
    state.cost_usd += event.cost_usd.unwrap_or(0.0);
    if event.usage.prompt_tokens() > 0 {
        state.context_tokens = event.usage.prompt_tokens() + event.usage.output_tokens;
        state.context_grown = 0;
    }
    if let Some(turn) = &mut state.turn {
        turn.usage += event.usage;
        turn.cost_usd = turn.cost_usd.zip(event.cost_usd).map(|(sum, cost)| sum + cost);
    }
}

fn tool_result(state: &mut State, seq: Seq, result: &ToolResult) {
    stage(state, &result.tool_call_id, CallStage::Over);
    state.context_grown += text_bytes(&result.output);
    for file in &result.files {
        let seen = SeenFile { hash: file.hash.clone(), seq };
        state.files.insert(file.path.clone(), seen);
    }
    while state.files.len() > FILES_MAX {
        let oldest = state.files.iter().min_by_key(|(_, seen)| seen.seq);
        let Some(path) = oldest.map(|(path, _)| path.clone()) else { break };
        state.files.remove(&path);
    }
}

fn request_resolved(state: &mut State, resolved: &RequestResolved) {
    state.resolved.push_back(resolved.request_id.clone());
    if state.resolved.len() > RESOLVED_MAX {
        state.resolved.pop_front();
    }
    state.rules.extend(resolved.rule.clone());
    let Some(call) = state.waiting(&resolved.request_id) else { return };
    let (id, effect) = (call.id.clone(), waiting_effect(call));
    let next = match resolved.outcome {
        Outcome::AllowOnce | Outcome::AllowAlways => CallStage::Allowed(effect),
        // The denial itself follows as `tool_denied`.
        Outcome::Deny => CallStage::Described(effect),
    };
    stage(state, &id, next);
}

fn waiting_effect(call: &Call) -> Effect {
    match call.stage {
        CallStage::Waiting(_, effect)
        | CallStage::Described(effect)
        | CallStage::Allowed(effect)
        | CallStage::Started(effect) => effect,
        CallStage::Requested | CallStage::Over => Effect::Destructive,
    }
}

fn stage(state: &mut State, id: &ToolCallId, stage: CallStage) {
    let calls = state.turn.iter_mut().flat_map(|turn| &mut turn.calls);
    if let Some(call) = calls.into_iter().find(|call| call.id == *id)
        && call.stage != CallStage::Over
    {
        call.stage = stage;
    }
}

/// Joins the text blocks of an answer.
pub(crate) fn text_of(content: &[Block]) -> String {
    let mut text = String::new();
    for block in content {
        if let Block::Text { text: piece, .. } = block {
            text.push_str(piece);
        }
    }
    text
}

/// What an image counts for, in bytes of text: about as many tokens as providers charge for one.
const IMAGE_BYTES: u64 = 6_000;

/// Counts the bytes of text in blocks.
fn text_bytes(content: &[Block]) -> u64 {
    let sizes = content.iter().map(|block| match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len() as u64,
        Block::Image(_) => IMAGE_BYTES,
        Block::RedactedThinking { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => 0,
    });
    sizes.sum()
}
