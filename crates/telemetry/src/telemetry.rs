//! The observer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver_api::Observer;
use protocol::event::{
    AssistantMessage, DecidedBy, DeniedBy, InteractionKind, Outcome, PromptFinished,
    RequestResolved, ToolDenied, ToolResult, UsageEvent,
};
use protocol::{Event, EventBody, RequestId, SessionId, Timestamp, Usage};

use crate::labels::{ByModel, ByTool, Calls, Decided, Denied, Kind, Reason, Tokens};
use crate::meter::Meter;
use crate::traces::{self, Traces};
use crate::under_way::{Affairs, Call, Step, UnderWay};

/// How many sessions are followed at once; those beyond are counted, and not timed.
const FOLLOWED_MAX: usize = 10_000;

/// The code of the notice that a session's log was lost.
const LOG_LOST: &str = "log_lost";

/// Counts and times what happens, and makes spans of it.
#[derive(Debug)]
pub struct Telemetry {
    meter: Arc<Meter>,
    traces: Option<Traces>,
    under_way: Mutex<UnderWay>,
}

impl Telemetry {
    /// Makes an observer that counts, and traces where it is given somewhere to.
    pub fn new(meter: Arc<Meter>, traces: Option<Traces>) -> Self {
        Self { meter, traces, under_way: Mutex::default() }
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether nothing is kept of any session.
    #[cfg(test)]
    pub(crate) fn rests(&self) -> bool {
        self.under_way().is_empty()
    }

    /// Does something with a session's affairs, which begin here where they must.
    fn with(&self, session: &SessionId, act: impl FnOnce(&mut Affairs)) {
        let mut under_way = self.under_way();
        if under_way.len() < FOLLOWED_MAX || under_way.contains_key(session) {
            act(under_way.entry(session.clone()).or_default());
        }
    }

    fn by_model(&self, model: &str) -> ByModel {
        ByModel { model: self.meter.models.bounded(model) }
    }

    fn piece(&self, event: &Event) {
        if let Some(affairs) = self.under_way().get_mut(&event.session_id)
            && let Some(step) = &mut affairs.step
        {
            step.first_piece.get_or_insert(event.ts);
        }
    }

    fn step_begins(&self, event: &Event, model: &str) {
        self.with(&event.session_id, |affairs| {
            model.clone_into(&mut affairs.model);
            let began = |traces: &Traces| traces.step(affairs.turn.as_ref(), event, model);
            let span = self.traces.as_ref().and_then(began);
            let (model, began) = (model.to_owned(), event.ts);
            let (first_piece, answered) = (None, None);
            affairs.step = Some(Step { model, began, first_piece, answered, span });
        });
    }

    fn answered(&self, event: &Event, message: &AssistantMessage) {
        let mut under_way = self.under_way();
        let affairs = under_way.get_mut(&event.session_id);
        let Some(step) = affairs.and_then(|affairs| affairs.step.as_mut()) else { return };
        step.answered = Some(event.ts);
        if let Some(span) = &mut step.span {
            traces::answered(span, message);
        }
        let (model, began) = (step.model.clone(), step.began);
        let first = step.first_piece.unwrap_or(event.ts);
        drop(under_way);
        let labels = self.by_model(&model);
        self.meter.steps.get_or_create(&labels).inc();
        let took = self.meter.step_seconds.get_or_create(&labels);
        took.observe(seconds(began, event.ts));
        let waited = self.meter.first_piece_seconds.get_or_create(&labels);
        waited.observe(seconds(began, first));
    }

    /// Ends the span of a step that nothing more is told of.
    fn step_ends(&self, event: &Event) {
        let mut under_way = self.under_way();
        let affairs = under_way.get_mut(&event.session_id);
        let Some(step) = affairs.and_then(|affairs| affairs.step.take()) else { return };
        drop(under_way);
        traces::end_step(step, event);
    }

    fn used(&self, event: &Event, used: &UsageEvent) {
        let mut model = used.model.clone().unwrap_or_default();
        if let Some(affairs) = self.under_way().get_mut(&event.session_id) {
            if model.is_empty() {
                model.clone_from(&affairs.model);
            }
            let span = affairs.step.as_mut().and_then(|step| step.span.as_mut());
            if let Some(span) = span.filter(|_| used.purpose.is_none()) {
                traces::used(span, used);
            }
        }
        if used.purpose.is_none() {
            self.step_ends(event);
        }
        let model = self.meter.models.bounded(&model);
        for (kind, count) in kinds(&used.usage) {
            let labels = Tokens { model: model.clone(), kind };
            self.meter.tokens.get_or_create(&labels).inc_by(count);
        }
        if let Some(cost) = used.cost_usd.filter(|cost| *cost >= 0.0) {
            self.meter.cost.get_or_create(&ByModel { model }).inc_by(cost);
        }
    }

    fn call_begins(&self, event: &Event, call: &protocol::event::ToolCall) {
        // The runtime tells of a call once it has found the tool, under its name or an alias.
        self.meter.tools.learn(&call.tool_name);
        let Some(traces) = &self.traces else { return };
        self.with(&event.session_id, |affairs| {
            let tool = self.meter.tools.known(&call.tool_name);
            let span = traces.call(affairs.turn.as_ref(), event, (&call.tool_call_id, tool));
            affairs.calls.insert(call.tool_call_id.clone(), Call { span });
        });
    }

    fn call_ends(&self, event: &Event, result: &ToolResult) {
        let tool = self.meter.tools.known(&result.tool_name);
        let outcome = if result.is_error { "error" } else { "ok" };
        self.meter.calls.get_or_create(&Calls { tool: tool.clone(), outcome }).inc();
        #[allow(clippy::cast_precision_loss, reason = "milliseconds far below 2^52")]
        let took = result.duration_ms as f64 / 1e3;
        self.meter.call_seconds.get_or_create(&ByTool { tool }).observe(took);
        self.end_call(event, &result.tool_call_id, result.is_error.then_some("tool_error"));
    }

    fn call_denied(&self, event: &Event, denied: &ToolDenied) {
        let tool = self.meter.tools.known(&denied.tool_name);
        self.meter.calls.get_or_create(&Calls { tool, outcome: "denied" }).inc();
        let by = denier(denied.by);
        self.meter.denied.get_or_create(&Denied { by }).inc();
        self.end_call(event, &denied.tool_call_id, Some("denied"));
    }

    fn end_call(&self, event: &Event, id: &protocol::ToolCallId, error: Option<&'static str>) {
        let mut under_way = self.under_way();
        let affairs = under_way.get_mut(&event.session_id);
        let Some(call) = affairs.and_then(|affairs| affairs.calls.remove(id)) else { return };
        drop(under_way);
        traces::end_call(call, event, error);
    }

    fn asked(&self, event: &Event, kind: InteractionKind, id: &RequestId) {
        self.meter.requests.get_or_create(&Kind { kind: kind.as_str() }).inc();
        self.with(&event.session_id, |affairs| {
            affairs.requests.insert(id.clone(), (kind, event.ts));
        });
    }

    fn decided(&self, event: &Event, resolved: &RequestResolved) {
        let kind = resolved.kind.as_str();
        let (outcome, by) = (outcome(resolved.outcome), decider(resolved.by));
        self.meter.decided.get_or_create(&Decided { kind, outcome, by }).inc();
        let mut under_way = self.under_way();
        let affairs = under_way.get_mut(&event.session_id);
        let asked = affairs.and_then(|affairs| affairs.requests.remove(&resolved.request_id));
        drop(under_way);
        if let Some((_, since)) = asked {
            let waited = self.meter.wait_seconds.get_or_create(&Kind { kind });
            waited.observe(seconds(since, event.ts));
        }
    }

    fn prompt_ends(&self, event: &Event, finished: &PromptFinished) {
        self.step_ends(event);
        let reason = finished.result.reason.as_str();
        self.meter.prompts.get_or_create(&Reason { reason }).inc();
        #[allow(clippy::cast_precision_loss, reason = "milliseconds far below 2^52")]
        let took = finished.result.duration_ms as f64 / 1e3;
        self.meter.prompt_seconds.get_or_create(&Reason { reason }).observe(took);
        let affairs = self.under_way().remove(&event.session_id);
        if let Some(affairs) = affairs {
            traces::end_turn(affairs, event, finished);
        }
    }
}

impl Observer for Telemetry {
    fn saw(&self, event: &Event) {
        match &event.body {
            EventBody::TextDelta(_) | EventBody::ThinkingDelta(_) => self.piece(event),
            EventBody::PromptStarted(started) => {
                if let Some(traces) = &self.traces {
                    let turn = Some(traces.turn(event, started));
                    self.with(&event.session_id, |affairs| affairs.turn = turn);
                }
            }
            EventBody::TurnStart(start) => {
                self.step_ends(event);
                self.step_begins(event, &start.model);
            }
            EventBody::AssistantMessage(message) => self.answered(event, message),
            EventBody::Usage(used) => self.used(event, used),
            EventBody::Retry(_) => {
                let under_way = self.under_way();
                let affairs = under_way.get(&event.session_id);
                let model = affairs.map(|affairs| affairs.model.clone()).unwrap_or_default();
                drop(under_way);
                self.meter.retries.get_or_create(&self.by_model(&model)).inc();
            }
            EventBody::ToolCall(call) => self.call_begins(event, call),
            EventBody::ToolResult(result) => self.call_ends(event, result),
            EventBody::ToolDenied(denied) => self.call_denied(event, denied),
            EventBody::PermissionRequest(request) => {
                self.asked(event, InteractionKind::Permission, &request.request_id);
            }
            EventBody::QuestionRequest(request) => {
                self.asked(event, InteractionKind::Question, &request.request_id);
            }
            EventBody::PlanRequest(request) => {
                self.asked(event, InteractionKind::Plan, &request.request_id);
            }
            EventBody::RequestResolved(resolved) => self.decided(event, resolved),
            EventBody::Compacted(_) => {
                self.meter.compactions.inc();
            }
            EventBody::PromptFinished(finished) => self.prompt_ends(event, finished),
            EventBody::SessionClosed(_) => {
                self.under_way().remove(&event.session_id);
            }
            // The last that is heard of a session that could not write its log.
            EventBody::Notice(notice) if notice.code.as_deref() == Some(LOG_LOST) => {
                self.under_way().remove(&event.session_id);
            }
            EventBody::SessionStart(start) => {
                start.tools.iter().for_each(|tool| self.meter.tools.learn(tool));
            }
            EventBody::ToolsActivated(activated) => {
                activated.names.iter().for_each(|tool| self.meter.tools.learn(tool));
            }
            EventBody::ContextSet(_)
            | EventBody::ContextAdded(_)
            | EventBody::ToolStarted(_)
            | EventBody::ToolProgress(_)
            | EventBody::CompactionUndone(_)
            | EventBody::CheckpointMade(_)
            | EventBody::ChangesRecorded(_)
            | EventBody::Rewound(_)
            | EventBody::Notice(_)
            | EventBody::ModeChanged(_)
            | EventBody::ModelChanged(_)
            | EventBody::PromptQueued(_)
            | EventBody::SessionUpdated(_)
            | EventBody::Done(_) => {}
        }
    }
}

fn kinds(usage: &Usage) -> [(&'static str, u64); 4] {
    [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cache_read", usage.cache_read_tokens),
        ("cache_write", usage.cache_write_tokens),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds far below 2^52")]
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    // A clock that was set back has measured nothing.
    to.0.saturating_sub(from.0).max(0) as f64 / 1e3
}

fn denier(by: DeniedBy) -> &'static str {
    match by {
        DeniedBy::Rule => "rule",
        DeniedBy::User => "user",
        DeniedBy::Policy => "policy",
        DeniedBy::Timeout => "timeout",
        DeniedBy::Mode => "mode",
        DeniedBy::Checks => "checks",
        DeniedBy::Host => "host",
        DeniedBy::Hook => "hook",
        DeniedBy::Budget => "budget",
        DeniedBy::Nobody => "nobody",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::AllowOnce => "allow_once",
        Outcome::AllowAlways => "allow_always",
        Outcome::Deny => "deny",
        Outcome::Answered => "answered",
        Outcome::Dismissed => "dismissed",
        Outcome::Approved => "approved",
        Outcome::Rejected => "rejected",
    }
}

fn decider(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Client => "client",
        DecidedBy::Timeout => "timeout",
        DecidedBy::Interrupt => "interrupt",
        DecidedBy::Policy => "policy",
    }
}
