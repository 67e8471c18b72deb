//! A turn as it comes, and what is counted and traced of it.

use std::collections::HashMap;
use std::sync::Arc;

use driver_api::Observer as _;
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use protocol::event::{
    AssistantMessage, DecidedBy, DeniedBy, Done, InteractionKind, Notice, NoticeLevel, Outcome,
    PermissionRequest, PromptFinished, PromptStarted, RequestResolved, TextDelta, ToolCall,
    ToolDenied, ToolResult, TurnResult, TurnStart, UsageEvent,
};
use protocol::{
    Block, Effect, Event, EventBody, FrameId, MessageId, PromptId, RequestId, Risk, SessionId,
    StopReason, Target, Timestamp, ToolCallId, TurnEnd, Usage,
};
use serde_json::Map;

use crate::{Gauges, Meter, Telemetry, Traces};

const SECRET: &str = "the words of a person";

struct Stand {
    telemetry: Telemetry,
    meter: Arc<Meter>,
    provider: SdkTracerProvider,
    spans: InMemorySpanExporter,
}

impl Stand {
    fn new() -> Self {
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let meter = Arc::new(Meter::new("1.2.3"));
        let traces = Some(Traces::new(provider.clone()));
        Self { telemetry: Telemetry::new(Arc::clone(&meter), traces), meter, provider, spans }
    }

    fn tell(&self, at_ms: i64, body: impl Into<EventBody>) {
        let event = Event {
            body: body.into(),
            session_id: SessionId::new("s1"),
            seq: None,
            frame: FrameId(1),
            ts: Timestamp(1_796_000_000_000 + at_ms),
        };
        self.telemetry.saw(&event);
    }

    fn text(&self) -> String {
        self.meter.render(Gauges { waiting: 2, pending: 3, ..Gauges::default() })
    }

    fn finished(&self) -> Vec<SpanData> {
        self.provider.force_flush().unwrap();
        self.spans.get_finished_spans().unwrap()
    }
}

fn said() -> Vec<Block> {
    vec![Block::text(SECRET)]
}

fn usage(purpose: Option<&str>) -> UsageEvent {
    UsageEvent {
        usage: Usage {
            input_tokens: 10,
            output_tokens: 4,
            cache_read_tokens: 6,
            ..Usage::default()
        },
        cost_usd: Some(0.25),
        model: Some("anthropic/m".to_owned()),
        purpose: purpose.map(str::to_owned),
    }
}

fn call(id: &str) -> ToolCall {
    let mut input = Map::new();
    input.insert("command".to_owned(), SECRET.into());
    ToolCall {
        tool_call_id: ToolCallId::new(id),
        tool_name: "run_shell".to_owned(),
        input,
        target: target(),
    }
}

fn target() -> Target {
    Target { summary: SECRET.to_owned(), effect: Effect::Execute, paths: Vec::new() }
}

fn result(reason: TurnEnd) -> TurnResult {
    TurnResult {
        reason,
        code: (reason == TurnEnd::Error).then(|| "provider".to_owned()),
        message: Some(SECRET.to_owned()),
        usage: usage(None).usage,
        cost_usd: None,
        turns: 1,
        duration_ms: 9_000,
        text: SECRET.to_owned(),
        unanswered: 0,
        structured: None,
    }
}

fn begin(stand: &Stand) {
    stand.tell(
        0,
        PromptStarted {
            prompt_id: PromptId::new("p1"),
            message_id: MessageId::new("m1"),
            content: said(),
            max_turns: None,
            command: None,
            options: Default::default(),
        },
    );
    stand.tell(
        1,
        TurnStart { turn: 1, prompt_id: PromptId::new("p1"), model: "anthropic/m".into() },
    );
}

fn answer(stand: &Stand) {
    stand.tell(401, TextDelta { text: SECRET.to_owned() });
    stand.tell(
        2_001,
        AssistantMessage {
            message_id: MessageId::new("m2"),
            content: said(),
            stop_reason: StopReason::ToolUse,
        },
    );
    stand.tell(2_001, usage(None));
}

fn end(stand: &Stand, reason: TurnEnd) {
    stand.tell(9_000, Done { result: result(reason) });
    let finished = PromptFinished { prompt_id: PromptId::new("p1"), result: result(reason) };
    stand.tell(9_000, finished);
}

fn finished_call(tool: &str) -> ToolResult {
    ToolResult {
        tool_call_id: ToolCallId::new("c1"),
        tool_name: tool.to_owned(),
        is_error: false,
        output: said(),
        truncated: false,
        spill: None,
        duration_ms: 1_000,
        display: None,
        files: Vec::new(),
    }
}

/// A turn with two calls, one of which waits for a person and is refused.
fn whole_turn(stand: &Stand) {
    begin(stand);
    answer(stand);
    stand.tell(2_002, call("c1"));
    stand.tell(3_002, finished_call("run_shell"));
    stand.tell(3_003, call("c2"));
    stand.tell(
        3_004,
        PermissionRequest {
            request_id: RequestId::new("r1"),
            tool_call_id: ToolCallId::new("c2"),
            tool_name: "run_shell".to_owned(),
            effect: Effect::Execute,
            target: target(),
            input: Map::new(),
            suggested_rules: Vec::new(),
            risk: Risk::Low,
            reason: None,
            review: false,
            diff: None,
            checks: Vec::new(),
            expires_at: None,
        },
    );
    stand.tell(
        8_004,
        RequestResolved {
            request_id: RequestId::new("r1"),
            kind: InteractionKind::Permission,
            outcome: Outcome::Deny,
            by: DecidedBy::Client,
            rule: None,
            persist: None,
            answers: Vec::new(),
            words: Some(SECRET.to_owned()),
            mode: None,
        },
    );
    stand.tell(
        8_005,
        ToolDenied {
            tool_call_id: ToolCallId::new("c2"),
            tool_name: "run_shell".to_owned(),
            reason: SECRET.to_owned(),
            by: DeniedBy::User,
        },
    );
    end(stand, TurnEnd::Completed);
}

#[test]
fn a_turn_is_counted() {
    let stand = Stand::new();
    whole_turn(&stand);
    let text = stand.text();
    for line in [
        "narthex_prompts_total{reason=\"completed\"} 1",
        "narthex_steps_total{model=\"anthropic/m\"} 1",
        "narthex_tokens_total{model=\"anthropic/m\",kind=\"input\"} 10",
        "narthex_tokens_total{model=\"anthropic/m\",kind=\"cache_read\"} 6",
        "narthex_cost_usd_total{model=\"anthropic/m\"} 0.25",
        "narthex_tool_calls_total{tool=\"run_shell\",outcome=\"ok\"} 1",
        "narthex_tool_calls_total{tool=\"run_shell\",outcome=\"denied\"} 1",
        "narthex_tool_calls_denied_total{by=\"user\"} 1",
        "narthex_requests_decided_total{kind=\"permission\",outcome=\"deny\",by=\"client\"} 1",
        "narthex_request_seconds_sum{kind=\"permission\"} 5.0",
        "narthex_first_piece_seconds_sum{model=\"anthropic/m\"} 0.4",
        "narthex_step_seconds_sum{model=\"anthropic/m\"} 2.0",
        "narthex_prompt_seconds_sum{reason=\"completed\"} 9.0",
        "narthex_sessions{state=\"waiting\"} 2",
        "narthex_requests_pending 3",
        "narthex_build_info{version=\"1.2.3\"} 1",
        "process_resident_memory_bytes ",
        "# TYPE process_cpu_seconds counter",
        "process_cpu_seconds_total ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_turn_is_one_tree_of_spans() {
    let stand = Stand::new();
    whole_turn(&stand);
    let spans = stand.finished();
    let by_name: HashMap<&str, &SpanData> =
        spans.iter().map(|span| (span.name.as_ref(), span)).collect();
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let turn = by_name["invoke_agent narthex"];
    assert_eq!(turn.parent_span_id, SpanId::INVALID);
    for span in spans.iter().filter(|span| span.name != turn.name) {
        assert_eq!(span.parent_span_id, turn.span_context.span_id(), "{}", span.name);
        assert_eq!(span.span_context.trace_id(), turn.span_context.trace_id(), "{}", span.name);
    }
    let step = by_name["chat m"];
    let took = step.end_time.duration_since(step.start_time).unwrap();
    assert_eq!(took.as_millis(), 2_000);
    let attribute = |span: &SpanData, key: &str| {
        let found = span.attributes.iter().find(|it| it.key.as_str() == key);
        found.map(|it| it.value.to_string())
    };
    let used = attribute(step, "gen_ai.usage.input_tokens");
    assert_eq!(used.as_deref(), Some("16"), "with what was read from the cache");
    assert_eq!(attribute(step, "gen_ai.provider.name").as_deref(), Some("anthropic"));
    assert_eq!(attribute(turn, "gen_ai.conversation.id").as_deref(), Some("s1"));
}

#[test]
fn nothing_that_was_said_gets_out() {
    let stand = Stand::new();
    whole_turn(&stand);
    begin(&stand);
    end(&stand, TurnEnd::Error);
    assert!(!stand.text().contains(SECRET));
    assert!(!format!("{:?}", stand.finished()).contains(SECRET));
}

#[test]
fn a_step_without_an_answer_and_a_call_without_a_result_end_with_the_turn() {
    let stand = Stand::new();
    begin(&stand);
    stand.tell(5, call("c1"));
    end(&stand, TurnEnd::Interrupted);
    let spans = stand.finished();
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let cut = |span: &SpanData| {
        span.attributes
            .iter()
            .any(|it| it.key.as_str() == "error.type" && it.value.as_str() == "cut")
    };
    assert_eq!(spans.iter().filter(|span| cut(span)).count(), 2);
    assert!(!stand.text().contains("narthex_steps_total{"), "a call without an answer is none");
}

#[test]
fn a_summary_is_paid_for_and_is_no_step() {
    let stand = Stand::new();
    begin(&stand);
    stand.tell(10, usage(Some("compaction")));
    answer(&stand);
    end(&stand, TurnEnd::Completed);
    let text = stand.text();
    assert!(text.contains("narthex_cost_usd_total{model=\"anthropic/m\"} 0.5"), "{text}");
    assert!(text.contains("narthex_steps_total{model=\"anthropic/m\"} 1"), "{text}");
}

/// A name that no tool has is the model's own words.
#[test]
fn a_tool_that_does_not_exist_has_no_name() {
    let stand = Stand::new();
    begin(&stand);
    answer(&stand);
    stand.tell(2_002, finished_call(SECRET));
    stand.tell(
        2_003,
        ToolDenied {
            tool_call_id: ToolCallId::new("c2"),
            tool_name: SECRET.to_owned(),
            reason: SECRET.to_owned(),
            by: DeniedBy::Rule,
        },
    );
    let text = stand.text();
    assert!(!text.contains(SECRET), "{text}");
    for outcome in ["ok", "denied"] {
        let line = format!("{{tool=\"unknown\",outcome=\"{outcome}\"}} 1");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[test]
fn strangers_methods_are_one() {
    let stand = Stand::new();
    for method in ["GET", "A", "B", "get"] {
        stand.meter.http(method, "/v1/sessions", 401, Some(0.001));
    }
    let text = stand.text();
    for line in
        ["{method=\"GET\",route=", "{method=\"other\",route=\"/v1/sessions\",status=\"401\"} 3"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("method=\"A\""), "{text}");
}

#[test]
fn a_session_that_lost_its_log_is_forgotten() {
    let stand = Stand::new();
    begin(&stand);
    assert!(!stand.telemetry.rests());
    let (level, message) = (NoticeLevel::Error, "gone".to_owned());
    stand.tell(3, Notice { level, code: Some("log_lost".to_owned()), message });
    assert!(stand.telemetry.rests());
}

#[test]
fn a_session_that_rests_is_forgotten() {
    let stand = Stand::new();
    whole_turn(&stand);
    assert!(stand.telemetry.rests());
}
