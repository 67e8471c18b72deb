//! Spans of turns, steps and tool calls, under the names of OpenTelemetry's conventions for
//! generative AI (in development there, so that names may follow them). No content is in them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Array, Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use protocol::event::{AssistantMessage, PromptFinished, PromptStarted, UsageEvent};
use protocol::{Event, StopReason, Timestamp, ToolCallId, TurnEnd};

use crate::under_way::{Affairs, Call, Step};

/// What spans say of the agent: the product, since agents have no names of their own yet.
const AGENT: &str = "narthex";

/// A place where spans go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    pub(crate) fn new(provider: SdkTracerProvider) -> Self {
        let tracer = provider.tracer("narthex");
        Self { provider, tracer }
    }

    /// Sends what is still here. Blocks for at most `limit`: call it where that is allowed.
    pub fn finish(&self, limit: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(limit) {
            tracing::warn!(%error, "send the last spans");
        }
    }

    pub(crate) fn turn(&self, event: &Event, started: &PromptStarted) -> Span {
        let name = format!("invoke_agent {AGENT}");
        let builder = self.tracer.span_builder(name);
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "invoke_agent"),
            KeyValue::new("gen_ai.agent.name", AGENT),
            conversation(event),
            KeyValue::new("narthex.prompt.id", started.prompt_id.as_str().to_owned()),
        ];
        builder
            .with_kind(SpanKind::Internal)
            .with_start_time(instant(event.ts))
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &Context::new())
    }

    pub(crate) fn step(&self, turn: Option<&Span>, event: &Event, model: &str) -> Option<Span> {
        let builder = self.tracer.span_builder(format!("chat {}", bare(model)));
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", provider(model)),
            KeyValue::new("gen_ai.request.model", bare(model)),
            conversation(event),
        ];
        let builder = builder
            .with_kind(SpanKind::Client)
            .with_start_time(instant(event.ts))
            .with_attributes(attributes);
        Some(builder.start_with_context(&self.tracer, &beneath(turn?)))
    }

    pub(crate) fn call(
        &self,
        turn: Option<&Span>,
        event: &Event,
        (id, tool): (&ToolCallId, String),
    ) -> Option<Span> {
        let builder = self.tracer.span_builder(format!("execute_tool {tool}"));
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool),
            KeyValue::new("gen_ai.tool.call.id", id.as_str().to_owned()),
            KeyValue::new("gen_ai.tool.type", "function"),
            conversation(event),
        ];
        let builder = builder
            .with_kind(SpanKind::Internal)
            .with_start_time(instant(event.ts))
            .with_attributes(attributes);
        Some(builder.start_with_context(&self.tracer, &beneath(turn?)))
    }
}

/// Ends the span of a turn, and those of calls that nothing more is told of.
pub(crate) fn end_turn(affairs: Affairs, event: &Event, finished: &PromptFinished) {
    for call in affairs.calls.into_values() {
        end_call(call, event, Some("cut"));
    }
    let Some(mut span) = affairs.turn else { return };
    let result = &finished.result;
    span.set_attribute(KeyValue::new("narthex.reason", result.reason.as_str()));
    span.set_attribute(KeyValue::new("narthex.steps", i64::from(result.turns)));
    if !affairs.model.is_empty() {
        span.set_attribute(KeyValue::new("gen_ai.request.model", bare(&affairs.model)));
        span.set_attribute(KeyValue::new("gen_ai.provider.name", provider(&affairs.model)));
    }
    span.set_attribute(tokens("gen_ai.usage.input_tokens", result.usage.prompt_tokens()));
    span.set_attribute(tokens("gen_ai.usage.output_tokens", result.usage.output_tokens));
    if result.reason == TurnEnd::Error {
        let code = result.code.clone().unwrap_or_else(|| "error".to_owned());
        span.set_attribute(KeyValue::new("error.type", code));
        // The message may quote a provider that quotes the prompt.
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(instant(event.ts));
}

/// Says on a span why the model stopped.
pub(crate) fn answered(span: &mut Span, message: &AssistantMessage) {
    let reasons = Array::String(vec![stop(message.stop_reason).into()]);
    let key = "gen_ai.response.finish_reasons";
    span.set_attribute(KeyValue::new(key, Value::Array(reasons)));
}

/// Ends the span of a model call; one without an answer was stopped, or failed for good.
pub(crate) fn end_step(step: Step, event: &Event) {
    let Some(mut span) = step.span else { return };
    if let Some(first) = step.first_piece {
        let waited = first.0.saturating_sub(step.began.0).unsigned_abs();
        let waited = Duration::from_millis(waited).as_secs_f64();
        span.set_attribute(KeyValue::new("gen_ai.response.time_to_first_chunk", waited));
    }
    if step.answered.is_none() {
        span.set_attribute(KeyValue::new("error.type", "cut"));
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(instant(step.answered.unwrap_or(event.ts)));
}

/// Ends the span of a tool call.
pub(crate) fn end_call(call: Call, event: &Event, error: Option<&'static str>) {
    let Some(mut span) = call.span else { return };
    if let Some(error) = error {
        span.set_attribute(KeyValue::new("error.type", error));
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(instant(event.ts));
}

/// Says on a span what the call used.
pub(crate) fn used(span: &mut Span, used: &UsageEvent) {
    span.set_attribute(tokens("gen_ai.usage.input_tokens", used.usage.prompt_tokens()));
    span.set_attribute(tokens("gen_ai.usage.output_tokens", used.usage.output_tokens));
    let key = "gen_ai.usage.cache_read.input_tokens";
    span.set_attribute(tokens(key, used.usage.cache_read_tokens));
    let key = "gen_ai.usage.cache_creation.input_tokens";
    span.set_attribute(tokens(key, used.usage.cache_write_tokens));
}

fn tokens(key: &'static str, count: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(count).unwrap_or(i64::MAX))
}

fn conversation(event: &Event) -> KeyValue {
    KeyValue::new("gen_ai.conversation.id", event.session_id.as_str().to_owned())
}

fn beneath(turn: &Span) -> Context {
    Context::new().with_remote_span_context(turn.span_context().clone())
}

fn instant(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

/// Returns the provider of `provider/model`.
fn provider(model: &str) -> String {
    model.split_once('/').map_or(model, |(provider, _)| provider).to_owned()
}

fn bare(model: &str) -> String {
    model.split_once('/').map_or(model, |(_, name)| name).to_owned()
}

fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "stop",
        StopReason::MaxTokens => "length",
        StopReason::ToolUse => "tool_call",
        StopReason::Refusal => "content_filter",
        _ => "other",
    }
}
