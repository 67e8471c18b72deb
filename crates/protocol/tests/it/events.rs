//! A golden file per kind: what these lines say is what clients rely on. Changes only add.

use protocol::event::*;
use protocol::{
    Block, CheckpointId, Effect, Event, EventBody, EventKind, Finding, FrameId, Image, MessageId,
    Mode, NeuronId, PromptId, RequestId, Risk, Seq, SessionId, Signed, StopReason, Target,
    Timestamp, ToolCallId, TreeId, TurnEnd, Usage, Wire,
};
use serde_json::{Map, Value, json};

#[allow(clippy::needless_pass_by_value, reason = "reads better with json! at every call")]
fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn target() -> Target {
    Target { summary: "npm test".into(), effect: Effect::Execute, paths: vec!["/w/a".into()] }
}

fn usage() -> Usage {
    let (cache_read_tokens, cache_write_tokens) = (900, 50);
    Usage {
        input_tokens: 100,
        output_tokens: 20,
        cache_read_tokens,
        cache_write_tokens,
        ..Usage::default()
    }
}

fn result() -> TurnResult {
    TurnResult {
        reason: TurnEnd::Error,
        code: Some("overloaded".into()),
        message: Some("the provider is overloaded".into()),
        usage: usage(),
        cost_usd: Some(0.25),
        turns: 3,
        duration_ms: 1_250,
        text: "It works.".into(),
        unanswered: 1,
        structured: Some(json!({"works": true})),
    }
}

fn options() -> PromptOptions {
    PromptOptions {
        model: Some("demo/other".into()),
        output: Some(OutputFormat {
            name: Some("verdict".into()),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        request_id: Some("req-1".into()),
    }
}

fn assistant_content() -> Vec<Block> {
    let signed = |wire, signature: &str| Signed {
        wire,
        signature: signature.into(),
        extra: object(json!({"id": "rs_1"})),
    };
    vec![
        Block::Thinking { text: "hm".into(), signed: Some(signed(Wire::Anthropic, "c2ln")) },
        Block::RedactedThinking { signed: signed(Wire::Anthropic, "b3BhcXVl") },
        Block::text("I look."),
        Block::ToolUse {
            id: ToolCallId::new("toolu_1"),
            name: "read_file".into(),
            input: object(json!({"path": "a.txt", "limit": 10})),
            malformed: None,
            signed: None,
        },
    ]
}

#[allow(clippy::too_many_lines, reason = "a table: one arm per kind")]
fn sample(kind: EventKind) -> EventBody {
    let call = ToolCallId::new("toolu_1");
    let prompt = PromptId::new("06f0000000000000000000000p");
    let request = RequestId::new("06f0000000000000000000000r");
    let message = MessageId::new("06f0000000000000000000000m");
    match kind {
        EventKind::SessionStart => SessionStart {
            cwd: "/w".into(),
            model: "anthropic/claude-sonnet-4-6".into(),
            mode: Mode::AutoEdit,
            tools: vec!["read_file".into(), "run_shell".into()],
            title: Some("Fix the test".into()),
            parent: Some(SessionId::new("06f0000000000000000000000s")),
            allow: vec!["run_shell(npm test *)".into()],
            deny: vec!["read_file(secret/**)".into()],
            append_system_prompt: Some("Be brief.".into()),
            neuron: Some(NeuronId::new("build-1")),
            sandbox: None,
            asks_for: vec![Effect::Destructive],
            max_turns: Some(80),
        }
        .into(),
        EventKind::ContextSet => ContextSet { system: "You are …".into() }.into(),
        EventKind::TurnStart => {
            TurnStart { turn: 2, prompt_id: prompt, model: "demo".into() }.into()
        }
        EventKind::TextDelta => TextDelta { text: "It ".into() }.into(),
        EventKind::ThinkingDelta => ThinkingDelta { text: "hm".into() }.into(),
        EventKind::AssistantMessage => AssistantMessage {
            message_id: message,
            content: assistant_content(),
            stop_reason: StopReason::ToolUse,
        }
        .into(),
        EventKind::ToolCall => ToolCall {
            tool_call_id: call,
            tool_name: "run_shell".into(),
            input: object(json!({"command": "npm test"})),
            target: target(),
        }
        .into(),
        EventKind::ToolStarted => {
            ToolStarted { tool_call_id: call, effect: Effect::Execute }.into()
        }
        EventKind::ToolsActivated => {
            ToolsActivated { names: vec!["mcp__issues__search".into()] }.into()
        }
        EventKind::ToolProgress => {
            let (text, stream) = ("ok 1\n".into(), Some(OutputStream::Stdout));
            ToolProgress { tool_call_id: call, text, stream }.into()
        }
        EventKind::ToolResult => ToolResult {
            tool_call_id: call,
            tool_name: "edit_file".into(),
            is_error: false,
            output: vec![
                Block::text("edited"),
                Block::Image(Image { mime_type: "image/png".into(), data: "aGk=".into() }),
            ],
            truncated: true,
            spill: Some("/h/spill/1.txt".into()),
            duration_ms: 12,
            display: Some(Display::Diff { diff: "-a\n+b\n".into(), added: 1, removed: 1 }),
            files: vec![FileStamp { path: "/w/a.txt".into(), hash: Some("00ff".into()) }],
        }
        .into(),
        EventKind::ToolDenied => ToolDenied {
            tool_call_id: call,
            tool_name: "run_shell".into(),
            reason: "denied: rule".into(),
            by: DeniedBy::Rule,
        }
        .into(),
        EventKind::Retry => Retry {
            attempt: 1,
            max_attempts: 0,
            delay_ms: 750,
            reason: "529 overloaded".into(),
            partial_text: "It w".into(),
        }
        .into(),
        EventKind::Compacted => {
            let summary = "What was done so far.".to_owned();
            let (through, kept) = (Seq(90), Some(Seq(80)));
            let (before, after) = (180_000, 40_000);
            let (automatic, mechanical) = (true, true);
            Compacted { before, after, automatic, through, kept, summary, mechanical }.into()
        }
        EventKind::CompactionUndone => {
            CompactionUndone { compaction: Seq(91), after: 180_000 }.into()
        }
        EventKind::ContextAdded => ContextAdded {
            source: "hook Stop".into(),
            text: "the tests are red".into(),
            goes_on: true,
        }
        .into(),
        EventKind::CheckpointMade => CheckpointMade {
            checkpoint: Checkpoint {
                id: CheckpointId::new("06f0000000000000000000000p"),
                created_at: Timestamp(1_796_000_000_000),
                message_id: message,
                label: "fix it".into(),
                files: 120,
            },
            tree: TreeId::new("ab12"),
            left_out: vec!["contents of ignored folders".into()],
        }
        .into(),
        EventKind::ChangesRecorded => ChangesRecorded {
            checkpoint_id: CheckpointId::new("06f0000000000000000000000p"),
            tree: Some(TreeId::new("cd34")),
            paths: 2,
        }
        .into(),
        EventKind::Rewound => Rewound {
            checkpoint_id: CheckpointId::new("06f0000000000000000000000p"),
            scope: RewindScope::Both,
            from: Some(Seq(40)),
            undo: false,
            files_changed: vec!["/w/a".into()],
            files_kept: vec!["/w/b: changed since the turn left it".into()],
            messages_removed: 7,
        }
        .into(),
        EventKind::QuestionRequest => QuestionRequest {
            request_id: request,
            tool_call_id: Some(call),
            about: None,
            question: "Which database?".into(),
            options: vec![QuestionOption {
                id: "postgres".into(),
                label: "Postgres".into(),
                description: Some("what the servers run".into()),
            }],
            multi_select: false,
            allow_other: true,
            expires_at: None,
        }
        .into(),
        EventKind::PlanRequest => PlanRequest {
            request_id: request,
            tool_call_id: call,
            plan: "1. look".into(),
            expires_at: None,
        }
        .into(),
        EventKind::Usage => UsageEvent {
            usage: usage(),
            cost_usd: Some(0.25),
            model: Some("openai/gpt-5".into()),
            purpose: Some("compaction".into()),
        }
        .into(),
        EventKind::Notice => Notice {
            level: NoticeLevel::Warn,
            code: Some("max_tokens".into()),
            message: "the answer was cut".into(),
        }
        .into(),
        EventKind::ModeChanged => ModeChanged { mode: Mode::FullAuto }.into(),
        EventKind::ModelChanged => ModelChanged { model: "openai/gpt-5".into() }.into(),
        EventKind::PermissionRequest => PermissionRequest {
            request_id: request,
            tool_call_id: call,
            tool_name: "run_shell".into(),
            effect: Effect::Execute,
            target: target(),
            input: object(json!({"command": "npm test"})),
            suggested_rules: vec!["run_shell(npm test *)".into()],
            risk: Risk::Medium,
            reason: Some("commands are asked for in mode ask".into()),
            review: false,
            diff: Some("+one".into()),
            checks: vec![Finding {
                rule_id: "secret".into(),
                severity: "warning".into(),
                message: "looks like a key".into(),
                path: Some("a.txt".into()),
                line: Some(3),
                blocking: false,
            }],
            expires_at: Some(Timestamp(1_796_000_300_000)),
        }
        .into(),
        EventKind::RequestResolved => RequestResolved {
            request_id: request,
            kind: InteractionKind::Permission,
            outcome: Outcome::AllowAlways,
            by: DecidedBy::Client,
            rule: Some("run_shell(npm test *)".into()),
            persist: Some(Persist::Project),
            answers: vec!["postgres".into()],
            words: Some("with pgvector".into()),
            mode: Some(Mode::AutoEdit),
        }
        .into(),
        EventKind::PromptQueued => {
            let content = vec![Block::text("then lint")];
            let (max_turns, options) = (Some(20), options());
            PromptQueued { prompt_id: prompt, position: 1, content, max_turns, options }.into()
        }
        EventKind::PromptStarted => PromptStarted {
            prompt_id: prompt,
            message_id: message,
            content: vec![Block::text("fix it")],
            max_turns: Some(200),
            command: Some("compact the tests".into()),
            options: options(),
        }
        .into(),
        EventKind::PromptFinished => PromptFinished { prompt_id: prompt, result: result() }.into(),
        EventKind::SessionUpdated => SessionUpdated { title: Some("Fix the test".into()) }.into(),
        EventKind::SessionClosed => SessionClosed { reason: SessionEnd::Shutdown }.into(),
        EventKind::Done => Done { result: result() }.into(),
    }
}

#[test]
fn every_kind_keeps_its_form() {
    for kind in EventKind::ALL {
        let body = sample(*kind);
        assert_eq!(body.kind(), *kind);
        let seq = (kind.class() != EventClass::Delta).then_some(Seq(7));
        let event = Event {
            body: body.clone(),
            session_id: SessionId::new("06f0000000000000000000000s"),
            seq,
            frame: FrameId::default(),
            ts: Timestamp(1_796_000_000_040),
        };
        insta::with_settings!({ snapshot_suffix => kind.as_str(), omit_expression => true }, {
            insta::assert_json_snapshot!("event", event);
        });
        let line = serde_json::to_string(&event).unwrap();
        assert!(line.starts_with(&format!("{{\"type\":\"{}\"", kind.as_str())), "{line}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        let stored = body.encode().unwrap();
        assert_eq!(EventBody::decode(*kind, &stored).unwrap(), body, "{stored}");
        assert_eq!(EventKind::from_wire(kind.as_str()), Some(*kind));
    }
}

/// What older logs say is still read.
#[test]
fn forms_of_older_logs_are_read() {
    for (kind, json) in [
        (EventKind::Compacted, r#"{"before":9,"after":1,"automatic":true}"#),
        (
            EventKind::Usage,
            r#"{"inputTokens":1,"outputTokens":1,"cacheReadTokens":0,"cacheWriteTokens":0}"#,
        ),
        (
            EventKind::RequestResolved,
            r#"{"requestId":"r","kind":"permission","outcome":"deny","by":"client"}"#,
        ),
        (EventKind::PromptStarted, r#"{"promptId":"p","messageId":"m","content":[]}"#),
        (EventKind::PromptQueued, r#"{"promptId":"p","position":1,"content":[]}"#),
        (EventKind::SessionStart, r#"{"cwd":"/w","model":"m","mode":"ask","tools":[]}"#),
    ] {
        assert_eq!(EventBody::decode(kind, json).unwrap().kind(), kind);
    }
}
