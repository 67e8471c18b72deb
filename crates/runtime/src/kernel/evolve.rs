//! The fold: how one recorded event changes the state.

use protocol::event::{
    AssistantMessage, ChangesRecorded, CheckpointMade, Compacted, ContextAdded, DecidedBy, Done,
    InteractionKind, Outcome, PauseKind, PermissionRequest, PlanRequest, PromptStarted,
    QuestionRequest, RequestResolved, RewindScope, Rewound, SessionStart, ToolCall, ToolDenied,
    ToolResult, ToolsActivated, TurnStart,
};
use protocol::{
    Block, CheckpointId, Effect, EventBody, RequestId, Seq, StopReason, Timestamp, ToolCallId,
};

use super::decide::GO_ON;
use super::state::{
    Call, CallStage, Changes, FILES_MAX, ModelUse, OwnRules, POINTS_MAX, Point, SeenFile, State,
    Turn, Wait, id_hash,
};
use super::transcript::is_withdrawn;

/// What a compaction has to free at least, in percent; two in a row that free less end the turn.
pub(crate) const FREED_PERCENT_MIN: u128 = 5;

/// The source of what the model is told when its last answer does not fit the format that was asked
/// for.
pub(crate) const OUTPUT_FORMAT: &str = "output format";

/// How many decided interactions are remembered.
const RESOLVED_MAX: usize = 256;

/// Folds one recorded event. Never fails: a log that says something odd is still folded, and the
/// normaliser keeps the transcript sound.
pub(crate) fn evolve(state: &mut State, seq: Seq, at: Timestamp, body: &EventBody) {
    state.seq = seq;
    state.is_closed = false;
    state.marks.note(seq, body.kind());
    match body {
        EventBody::SessionStart(start) => session_start(state, start),
        EventBody::ContextSet(_) => state.context = Some(seq),
        EventBody::PromptQueued(queued) => state.queue.push_back((queued.prompt_id.clone(), seq)),
        EventBody::PromptStarted(started) => prompt_started(state, seq, at, started),
        EventBody::TurnStart(start) => turn_start(state, seq, start),
        EventBody::AssistantMessage(message) => assistant_message(state, message),
        EventBody::Usage(event) => usage(state, event),
        EventBody::ToolCall(call) => tool_call(state, call),
        EventBody::ToolStarted(start) => {
            stage(state, &start.tool_call_id, CallStage::Started(start.effect));
        }
        EventBody::ToolResult(result) => tool_result(state, seq, result),
        EventBody::ToolsActivated(activated) => tools_activated(state, activated),
        EventBody::ToolDenied(denied) => tool_denied(state, denied),
        EventBody::PermissionRequest(request) => permission_request(state, seq, at, request),
        EventBody::QuestionRequest(request) => question_request(state, seq, at, request),
        EventBody::PlanRequest(request) => plan_request(state, seq, at, request),
        EventBody::RequestResolved(resolved) => {
            request_resolved(state, resolved);
            end_waiting(state, at);
        }
        EventBody::ContextAdded(added) => context_added(state, added),
        EventBody::CheckpointMade(made) => checkpoint_made(state, made),
        EventBody::ChangesRecorded(recorded) => changes_recorded(state, recorded),
        EventBody::Rewound(rewound) => rewind(state, seq, rewound),
        EventBody::ModeChanged(changed) => state.mode = changed.mode,
        EventBody::ModelChanged(changed) => state.model.clone_from(&changed.model),
        EventBody::SessionUpdated(updated) => {
            if updated.title.is_some() {
                state.title.clone_from(&updated.title);
            }
        }
        EventBody::Done(done) => turn_done(state, done),
        EventBody::PromptFinished(finished) => {
            state.queue.retain(|(id, _)| *id != finished.prompt_id);
            if state.turn.as_ref().is_some_and(|turn| turn.prompt == finished.prompt_id) {
                state.turn = None;
            }
        }
        EventBody::SessionClosed(_) => state.is_closed = true,
        EventBody::Compacted(compacted) => conversation_compacted(state, seq, compacted),
        EventBody::CompactionUndone(undone) => {
            state.view.uncompacted(seq, undone.compaction);
            estimated(state, undone.after);
        }
        // These change nothing that a later decision rests on.
        EventBody::Retry(_)
        | EventBody::Notice(_)
        | EventBody::TextDelta(_)
        | EventBody::ThinkingDelta(_)
        | EventBody::ToolProgress(_) => {}
    }
}

fn session_start(state: &mut State, start: &SessionStart) {
    state.cwd.clone_from(&start.cwd);
    state.model.clone_from(&start.model);
    state.mode = start.mode;
    state.title.clone_from(&start.title);
    state.neuron.clone_from(&start.neuron);
    state.sandbox = start.sandbox;
    state.tools.clone_from(&start.tools);
    state.asks_for.clone_from(&start.asks_for);
    state.max_turns = start.max_turns;
    state.own = OwnRules { allow: start.allow.clone(), deny: start.deny.clone() };
    state.has_own_words = start.append_system_prompt.is_some();
}

fn tool_call(state: &mut State, described: &ToolCall) {
    let calls = state.turn.iter_mut().flat_map(|turn| &mut turn.calls);
    for call in calls.filter(|call| call.id == described.tool_call_id) {
        // From here on it has the name that the tool is offered under.
        call.tool.clone_from(&described.tool_name);
    }
    stage(state, &described.tool_call_id, CallStage::Described(described.target.effect));
}

fn tools_activated(state: &mut State, activated: &ToolsActivated) {
    for name in &activated.names {
        if !state.tools.contains(name) {
            state.tools.push(name.clone());
        }
    }
}

fn prompt_started(state: &mut State, seq: Seq, at: Timestamp, started: &PromptStarted) {
    state.queue.retain(|(id, _)| *id != started.prompt_id);
    let mut prompt_bytes = 0;
    if started.command.is_none() {
        state.prompts += 1;
        state.points.push_back(Point {
            id: CheckpointId::new(started.prompt_id.as_str()),
            seq,
            message_id: started.message_id.clone(),
            at,
            context_tokens: state.tokens(),
            changes: None,
            is_cut: false,
        });
        if state.points.len() > POINTS_MAX {
            state.points.pop_front();
        }
        prompt_bytes = text_bytes(&started.content);
        state.context_grown += prompt_bytes;
    }
    state.turn = Some(Turn::begun(started, seq, at, prompt_bytes));
}

fn context_added(state: &mut State, added: &ContextAdded) {
    state.context_grown += added.text.len() as u64;
    if let Some(turn) = &mut state.turn
        && added.goes_on
    {
        turn.goes_on = true;
        match added.source == OUTPUT_FORMAT {
            true => turn.output_asks += 1,
            false => turn.hook_goes += 1,
        }
    }
}

fn turn_done(state: &mut State, done: &Done) {
    let Some(turn) = &mut state.turn else { return };
    turn.is_done = true;
    if is_withdrawn(&done.result) {
        state.context_grown = state.context_grown.saturating_sub(turn.prompt_bytes);
        let prompt = turn.prompt.as_str();
        for point in state.points.iter_mut().filter(|it| it.id.as_str() == prompt) {
            point.is_cut = true;
        }
    }
}

fn conversation_compacted(state: &mut State, seq: Seq, compacted: &Compacted) {
    state.view.compacted(seq, compacted);
    estimated(state, compacted.after);
    if let Some(turn) = &mut state.turn {
        turn.compactions += 1;
        let is_vain = is_vain(compacted.before, compacted.after);
        turn.vain_compactions = if is_vain { turn.vain_compactions + 1 } else { 0 };
    }
}

/// Sets the size of the transcript to one that no provider has counted.
fn estimated(state: &mut State, tokens: u64) {
    state.context_tokens = tokens;
    state.context_grown = 0;
    state.is_counted = false;
}

/// Tells whether a compaction freed so little that another one of its kind helps nobody.
fn is_vain(before: u64, after: u64) -> bool {
    let freed = u128::from(before.saturating_sub(after));
    freed * 100 < u128::from(before) * FREED_PERCENT_MIN
}

fn wait(
    seq: Seq,
    request: &RequestId,
    kind: InteractionKind,
    expires_at: Option<Timestamp>,
) -> Wait {
    Wait { request: request.clone(), seq, kind, expires_at }
}

fn permission_request(state: &mut State, seq: Seq, at: Timestamp, request: &PermissionRequest) {
    let wait = wait(seq, &request.request_id, InteractionKind::Permission, request.expires_at);
    stage(state, &request.tool_call_id, CallStage::Waiting(wait, request.effect));
    begin_waiting(state, at);
}

fn plan_request(state: &mut State, seq: Seq, at: Timestamp, request: &PlanRequest) {
    let wait = wait(seq, &request.request_id, InteractionKind::Plan, request.expires_at);
    stage(state, &request.tool_call_id, CallStage::Waiting(wait, Effect::Interact));
    begin_waiting(state, at);
}

fn question_request(state: &mut State, seq: Seq, at: Timestamp, request: &QuestionRequest) {
    let wait = wait(seq, &request.request_id, InteractionKind::Question, request.expires_at);
    match (&request.tool_call_id, request.about) {
        (Some(id), _) => {
            let asked = match state.call(id).map(|call| &call.stage) {
                Some(CallStage::Started(effect) | CallStage::Asking(_, effect)) => {
                    CallStage::Asking(wait, *effect)
                }
                _ => CallStage::Waiting(wait, Effect::Interact),
            };
            stage(state, id, asked);
        }
        (None, about) => {
            if let Some(turn) = &mut state.turn {
                turn.pause = Some((wait, about.unwrap_or(PauseKind::Budget)));
            }
        }
    }
    begin_waiting(state, at);
}

fn begin_waiting(state: &mut State, at: Timestamp) {
    if let Some(turn) = &mut state.turn {
        turn.waiting_since.get_or_insert(at);
    }
}

fn end_waiting(state: &mut State, at: Timestamp) {
    if state.is_waiting() {
        return;
    }
    if let Some(turn) = &mut state.turn
        && let Some(since) = turn.waiting_since.take()
    {
        turn.waited_ms += u64::try_from(at.0 - since.0).unwrap_or(0);
    }
}

fn tool_denied(state: &mut State, denied: &ToolDenied) {
    use protocol::event::DeniedBy::{Nobody, Timeout};
    note_repeat(state, &denied.tool_call_id, id_hash(&denied.reason));
    stage(state, &denied.tool_call_id, CallStage::Over);
    state.context_grown += denied.reason.len() as u64;
    if let Some(turn) = &mut state.turn
        && matches!(denied.by, Nobody | Timeout)
    {
        turn.unanswered += 1;
    }
}

fn checkpoint_made(state: &mut State, made: &CheckpointMade) {
    let point = state.points.iter_mut().find(|point| point.id == made.checkpoint.id);
    if let Some(point) = point {
        let before = made.tree.clone();
        point.changes =
            Some(Changes { before, is_recorded: false, after: None, paths: 0, is_undone: false });
    }
}

fn changes_recorded(state: &mut State, recorded: &ChangesRecorded) {
    let point = state.points.iter_mut().find(|point| point.id == recorded.checkpoint_id);
    if let Some(changes) = point.and_then(|point| point.changes.as_mut()) {
        changes.is_recorded = true;
        changes.after.clone_from(&recorded.tree);
        changes.paths = recorded.paths;
    }
}

fn rewind(state: &mut State, seq: Seq, rewound: &Rewound) {
    state.view.rewound(seq, rewound);
    let Some(at) = state.points.iter().position(|point| point.id == rewound.checkpoint_id) else {
        return;
    };
    // While anything was kept there is something left to take back, by force.
    if rewound.scope != RewindScope::Conversation && rewound.files_kept.is_empty() {
        for (index, point) in state.points.iter_mut().enumerate().skip(at) {
            if let Some(changes) = &mut point.changes
                && (index == at || !rewound.undo)
            {
                changes.is_undone = true;
            }
        }
    }
    if rewound.from.is_some() {
        let tokens = state.points.get(at).map_or(0, |point| point.context_tokens);
        estimated(state, tokens);
        for point in state.points.iter_mut().skip(at) {
            point.is_cut = true;
        }
    }
}

fn turn_start(state: &mut State, seq: Seq, start: &TurnStart) {
    state.steps += 1;
    if let Some(turn) = &mut state.turn {
        turn.step = start.turn;
        turn.step_seq = seq;
        turn.is_answered = false;
        turn.stop = None;
        turn.goes_on = false;
        turn.repeats.begin_step();
        turn.calls.clear();
    }
}

fn assistant_message(state: &mut State, message: &AssistantMessage) {
    if message.stop_reason == StopReason::Interrupted {
        // What was cut comes without a count of its tokens.
        state.context_grown += text_bytes(&message.content);
    }
    let Some(turn) = &mut state.turn else { return };
    turn.is_answered = true;
    turn.stop = Some(message.stop_reason);
    turn.text = text_of(&message.content);
    turn.calls.clear();
    let mut malformed = 0;
    for block in &message.content {
        if let Block::ToolUse { id, name, input, malformed: raw, .. } = block {
            state.call_ids.insert(id_hash(id.as_str()));
            let asked = serde_json::to_string(input).unwrap_or_default();
            let hash = id_hash(&format!("{name} {asked} {}", raw.as_deref().unwrap_or_default()));
            malformed += u32::from(raw.is_some());
            let (id, tool) = (id.clone(), name.clone());
            turn.calls.push(Call { id, tool, hash, stage: CallStage::Requested });
        }
    }
    let is_all_malformed = malformed > 0 && malformed as usize == turn.calls.len();
    turn.malformed_steps = if is_all_malformed { turn.malformed_steps + 1 } else { 0 };
}

fn usage(state: &mut State, event: &protocol::event::UsageEvent) {
    state.usage += event.usage;
    state.cost_usd += event.cost_usd.unwrap_or(0.0);
    used(state, event);
    // The size of a request that was no step says nothing about the transcript.
    if event.purpose.is_none() && event.usage.prompt_tokens() > 0 {
        state.context_tokens =
            event.usage.prompt_tokens().saturating_add(event.usage.output_tokens);
        state.context_grown = 0;
        state.is_counted = true;
    }
    if let Some(turn) = &mut state.turn {
        turn.usage += event.usage;
        turn.cost_usd = turn.cost_usd.zip(event.cost_usd).map(|(sum, cost)| sum + cost);
    }
}

/// Adds a model call to what its model used. Logs of older versions do not name it: then it is the
/// session's.
fn used(state: &mut State, event: &protocol::event::UsageEvent) {
    let model = event.model.as_ref().unwrap_or(&state.model);
    match state.used.iter_mut().find(|used| used.model == *model) {
        Some(used) => {
            used.usage += event.usage;
            used.cost_usd = used.cost_usd.zip(event.cost_usd).map(|(sum, cost)| sum + cost);
        }
        None => {
            let (model, usage, cost_usd) = (model.clone(), event.usage, event.cost_usd);
            state.used.push(ModelUse { model, usage, cost_usd });
        }
    }
}

fn tool_result(state: &mut State, seq: Seq, result: &ToolResult) {
    note_repeat(state, &result.tool_call_id, result_hash(&result.output));
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
    if let Some(turn) = &mut state.turn {
        let is_late = resolved.by == DecidedBy::Timeout;
        turn.unanswered += u32::from(is_late && resolved.kind != InteractionKind::Permission);
        if let Some((pause, kind)) = turn.pause.clone()
            && pause.request == resolved.request_id
        {
            turn.pause = None;
            let goes_on = resolved.answers.iter().any(|answer| answer == GO_ON);
            match kind {
                PauseKind::Budget => turn.raises += u32::from(goes_on),
                PauseKind::Repetition => turn.repeats.forgive(),
            }
        }
    }
    if let Some(call) = state.asking_call(&resolved.request_id) {
        // It goes on, with the answer or without one.
        let (id, effect) = (call.id.clone(), waiting_effect(call));
        return stage(state, &id, CallStage::Started(effect));
    }
    let Some(call) = state.waiting_call(&resolved.request_id) else { return };
    let (id, effect) = (call.id.clone(), waiting_effect(call));
    let next = match resolved.outcome {
        Outcome::AllowOnce | Outcome::AllowAlways => CallStage::Allowed(effect),
        // What the call comes to follows at once, as its denial or result.
        Outcome::Deny
        | Outcome::Answered
        | Outcome::Dismissed
        | Outcome::Approved
        | Outcome::Rejected => CallStage::Described(effect),
    };
    stage(state, &id, next);
}

fn waiting_effect(call: &Call) -> Effect {
    match call.stage {
        CallStage::Waiting(_, effect)
        | CallStage::Asking(_, effect)
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

/// Counts what a call brought, for the guard against circles.
fn note_repeat(state: &mut State, id: &ToolCallId, result: u64) {
    let Some(turn) = &mut state.turn else { return };
    let call = turn.calls.iter().find(|call| call.id == *id && call.stage != CallStage::Over);
    if let Some(hash) = call.map(|call| call.hash) {
        turn.repeats.note(hash, result);
    }
}

/// Hashes what a call brought.
pub(crate) fn result_hash(output: &[Block]) -> u64 {
    id_hash(&serde_json::to_string(output).unwrap_or_default())
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
pub(crate) const IMAGE_BYTES: u64 = 6_000;

/// Counts the bytes of text in blocks.
fn text_bytes(content: &[Block]) -> u64 {
    let sizes = content.iter().map(|block| match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len() as u64,
        Block::Image(_) => IMAGE_BYTES,
        Block::RedactedThinking { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => 0,
    });
    sizes.sum()
}
