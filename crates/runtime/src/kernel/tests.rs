//! Tests of the kernel: whatever happens in whatever order, and wherever the log ends, the state
//! is the fold of the log and the transcript is one that a strict provider accepts.

use std::collections::HashSet;

use proptest::prelude::*;
use protocol::event::{
    Answer, DecidedBy, PermissionRequest, SessionStart, ToolCall, ToolDenied, ToolResult,
};
use protocol::{
    Block, Effect, EventBody, Message, MessageId, Mode, PromptId, RequestId, Risk, Role, Seq,
    Signed, StopReason, Target, Timestamp, ToolCallId, TurnEnd, Usage, Wire,
};
use serde_json::Map;

use super::state::CallStage;
use super::transcript::OUTCOME_UNKNOWN;
use super::*;

/// A session in memory: its log, and the state that commands have led to.
#[derive(Clone, Default)]
struct Session {
    log: Vec<(Timestamp, EventBody)>,
    state: State,
    ids: u64,
}

impl Session {
    fn begun() -> Self {
        let mut session = Self::default();
        let start = SessionStart {
            cwd: "/w".into(),
            model: "demo".into(),
            mode: Mode::Ask,
            tools: Vec::new(),
            title: None,
            parent: None,
        };
        session.record(start.into());
        session
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("id{}", self.ids)
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000 * self.log.len() as i64)
    }

    fn record(&mut self, body: EventBody) {
        let (seq, at) = (self.state.seq.next(), self.now());
        evolve(&mut self.state, seq, at, &body);
        self.log.push((at, body));
    }

    /// Applies a command; a refusal changes nothing.
    fn apply(&mut self, command: Command) {
        for body in decide(&self.state, command, self.now()).unwrap_or_default() {
            self.record(body);
        }
    }

    fn settle(&mut self) {
        while pending(&self.state).contains(&Owed::Advance) {
            let before = self.state.seq;
            self.apply(Command::Advance);
            assert_ne!(before, self.state.seq, "an advance that is owed must lead somewhere");
        }
    }

    fn folded(log: &[(Timestamp, EventBody)]) -> State {
        let mut state = State::default();
        for (index, (at, body)) in log.iter().enumerate() {
            evolve(&mut state, Seq(index as u64 + 1), *at, body);
        }
        state
    }

    fn messages(log: &[(Timestamp, EventBody)]) -> Vec<std::sync::Arc<Message>> {
        let mut transcript = Transcript::default();
        for (at, body) in log {
            transcript.push(*at, body);
        }
        transcript.messages()
    }
}

/// One random thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Prompt,
    Answer { calls: usize, text: bool, signed: bool },
    Gate { which: usize, verdict: u8 },
    Resolve { allow: bool },
    Start { which: usize },
    Finish { which: usize },
    LateResult,
    Retry,
    Stop,
    Fail,
    ClearQueue,
    Close,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Prompt),
        6 => (0..4_usize, any::<bool>(), any::<bool>())
            .prop_map(|(calls, text, signed)| Happening::Answer { calls, text, signed }),
        8 => (0..4_usize, 0..4_u8).prop_map(|(which, verdict)| Happening::Gate { which, verdict }),
        3 => any::<bool>().prop_map(|allow| Happening::Resolve { allow }),
        8 => (0..4_usize).prop_map(|which| Happening::Start { which }),
        8 => (0..4_usize).prop_map(|which| Happening::Finish { which }),
        1 => Just(Happening::LateResult),
        1 => Just(Happening::Retry),
        1 => Just(Happening::Stop),
        1 => Just(Happening::Fail),
        1 => Just(Happening::ClearQueue),
        1 => Just(Happening::Close),
    ]
}

impl Session {
    #[allow(clippy::too_many_lines, reason = "a table: one arm per happening")]
    fn happen(&mut self, happening: &Happening) {
        let stages = |session: &Self| -> Vec<(ToolCallId, CallStage)> {
            let calls = session.state.turn.iter().flat_map(|turn| turn.calls.clone());
            calls.map(|call| (call.id, call.stage)).collect()
        };
        match happening {
            Happening::Prompt => {
                let (prompt, message) = (self.id(), self.id());
                self.apply(Command::Prompt {
                    prompt_id: PromptId::new(prompt),
                    message_id: MessageId::new(message),
                    content: vec![Block::text("do it")],
                    steps_max: 4,
                });
            }
            Happening::Answer { calls, text, signed } => {
                if matches!(pending(&self.state).first(), Some(Owed::AskModel(_))) {
                    let answer = self.answer(*calls, *text, *signed);
                    self.apply(Command::Answered(answer));
                }
            }
            Happening::Gate { which, verdict } => {
                if let Some((id, CallStage::Requested)) = stages(self).get(*which) {
                    self.gate(id.clone(), *verdict);
                }
            }
            Happening::Resolve { allow } => {
                let waiting = stages(self).into_iter().find_map(|(_, stage)| match stage {
                    CallStage::Waiting(request, _) => Some(request),
                    _ => None,
                });
                if let Some(request) = waiting {
                    let answer =
                        if *allow { Answer::AllowOnce } else { Answer::Deny { feedback: None } };
                    let by = DecidedBy::Client;
                    self.apply(Command::Resolve { request, answer, by, rule: None });
                }
            }
            Happening::Start { which } => {
                if let Some((call, _)) = stages(self).get(*which) {
                    self.apply(Command::Start { call: call.clone() });
                }
            }
            Happening::Finish { which } => {
                if let Some((call, CallStage::Started(_))) = stages(self).get(*which) {
                    self.apply(Command::Finish(result(call.as_str(), "done")));
                }
            }
            Happening::LateResult => {
                self.apply(Command::Finish(result("nobody-asked-for-this", "late")));
            }
            Happening::Retry => self.apply(Command::Retry {
                attempt: 1,
                delay_ms: 1,
                reason: "overloaded".into(),
                partial_text: "half".into(),
            }),
            Happening::Stop => {
                let mut ending = Ending::of(TurnEnd::Interrupted);
                ending.partial = Some((MessageId::new(self.id()), "half".into()));
                self.apply(Command::End(ending));
            }
            Happening::Fail => self.apply(Command::End(Ending::error("network", "gone"))),
            Happening::ClearQueue => self.apply(Command::ClearQueue),
            Happening::Close => {
                if self.state.turn.is_none() {
                    self.apply(Command::Close(protocol::event::SessionEnd::Closed));
                }
            }
        }
        self.settle();
        if pending(&self.state).contains(&Owed::TakeNext) {
            let message_id = MessageId::new(self.id());
            let content = vec![Block::text("queued")];
            self.apply(Command::TakeNext { message_id, content, steps_max: 4 });
            self.settle();
        }
    }

    fn answer(&mut self, calls: usize, text: bool, signed: bool) -> ModelAnswer {
        let mut content = Vec::new();
        if signed {
            let (wire, signature) = (Wire::Anthropic, self.id());
            let signed = Some(Signed { wire, signature, extra: Map::new() });
            content.push(Block::Thinking { text: String::new(), signed });
        }
        content.push(Block::text(if text { "words" } else { "" }));
        for _ in 0..calls {
            content.push(Block::ToolUse {
                id: ToolCallId::new(self.id()),
                name: "run_shell".into(),
                input: Map::new(),
                malformed: None,
                signed: None,
            });
        }
        let stop = if calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
        let message_id = MessageId::new(self.id());
        ModelAnswer { message_id, content, stop, usage: Usage::default(), cost_usd: None }
    }

    fn gate(&mut self, id: ToolCallId, verdict: u8) {
        let target = Target { summary: "x".into(), effect: Effect::Execute, paths: Vec::new() };
        let tool_name = "run_shell".to_owned();
        self.apply(Command::Describe(ToolCall {
            tool_call_id: id.clone(),
            tool_name: tool_name.clone(),
            input: Map::new(),
            target: target.clone(),
        }));
        match verdict {
            0 => self.apply(Command::Deny(ToolDenied {
                tool_call_id: id,
                tool_name,
                reason: "no".into(),
                by: protocol::event::DeniedBy::Rule,
            })),
            1 => {
                let request_id = RequestId::new(self.id());
                self.apply(Command::Ask(PermissionRequest {
                    request_id,
                    tool_call_id: id,
                    tool_name,
                    effect: Effect::Execute,
                    target,
                    input: Map::new(),
                    suggested_rules: Vec::new(),
                    risk: Risk::Low,
                    reason: None,
                    expires_at: None,
                }));
            }
            _ => self.apply(Command::Start { call: id }),
        }
    }
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: "run_shell".into(),
        is_error: false,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 1,
        display: None,
        files: Vec::new(),
    }
}

/// Says what a strict provider would refuse.
fn faults(messages: &[std::sync::Arc<Message>]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut used = HashSet::new();
    let mut open: Vec<ToolCallId> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let expected = if index % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != expected {
            faults.push(format!("message {index}: {:?}", message.role));
        }
        if message.content.is_empty() || message.content.iter().any(Block::is_blank) {
            faults.push(format!("message {index}: blank"));
        }
        let mut results = Vec::new();
        let mut is_past_results = false;
        for block in &message.content {
            match block {
                Block::ToolResult { id, .. } => {
                    results.push(id.clone());
                    if is_past_results {
                        faults.push(format!("message {index}: results come first"));
                    }
                }
                Block::ToolUse { id, .. } => {
                    if id.as_str().is_empty() || !used.insert(id.clone()) {
                        faults.push(format!("message {index}: id {id} again"));
                    }
                }
                _ => is_past_results = true,
            }
        }
        if message.role == Role::User {
            if results != open {
                faults.push(format!("message {index}: results {results:?} for {open:?}"));
            }
            open.clear();
        } else {
            open = message
                .content
                .iter()
                .filter_map(|block| match block {
                    Block::ToolUse { id, .. } => Some(id.clone()),
                    _ => None,
                })
                .collect();
        }
    }
    if messages.last().is_none_or(|last| last.role != Role::User) {
        faults.push("the last message must be the user's".into());
    }
    faults
}

fn count(log: &[(Timestamp, EventBody)], is: impl Fn(&EventBody) -> bool) -> usize {
    log.iter().filter(|(_, body)| is(body)).count()
}

/// Opens a log again as after a crash: the cut turn ends, waiting prompts are dropped.
fn recovered(log: &[(Timestamp, EventBody)]) -> Session {
    let state = Session::folded(log);
    let mut session = Session { log: log.to_vec(), state, ids: 1_000_000 };
    session.apply(Command::End(Ending::of(TurnEnd::Interrupted)));
    session.apply(Command::ClearQueue);
    session
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A crash at every point: the fold equals the state, the transcript is sound, the turn ends
    /// once, and the next prompt works.
    #[test]
    fn every_prefix_of_every_log_is_sound(happenings in prop::collection::vec(happening(), 1..60)) {
        let mut session = Session::begun();
        for happening in &happenings {
            session.happen(happening);
        }
        prop_assert_eq!(&Session::folded(&session.log), &session.state);
        for end in 1..=session.log.len() {
            let mut opened = recovered(&session.log[..end]);
            prop_assert!(opened.state.turn.is_none());
            prop_assert!(opened.state.queue.is_empty());
            opened.happen(&Happening::Prompt);
            let messages = Session::messages(&opened.log);
            prop_assert_eq!(faults(&messages), Vec::<String>::new());
            let started = count(&opened.log, |body| matches!(body, EventBody::PromptStarted(_)));
            let done = count(&opened.log, |body| matches!(body, EventBody::Done(_)));
            prop_assert_eq!(started, done + 1, "one terminal event per turn");
        }
    }

    /// A snapshot is the state.
    #[test]
    fn snapshots_lose_nothing(happenings in prop::collection::vec(happening(), 1..60)) {
        let mut session = Session::begun();
        for happening in &happenings {
            session.happen(happening);
        }
        let bytes = serde_json::to_vec(&session.state).unwrap();
        let read: State = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(read, session.state);
    }

    /// Events survive their encoding.
    #[test]
    fn logs_survive_their_encoding(happenings in prop::collection::vec(happening(), 1..40)) {
        let mut session = Session::begun();
        for happening in &happenings {
            session.happen(happening);
        }
        for (_, body) in &session.log {
            let read = EventBody::decode(body.kind(), &body.encode().unwrap()).unwrap();
            prop_assert_eq!(&read, body);
        }
    }
}

fn begun_turn(calls: usize) -> Session {
    let mut session = Session::begun();
    session.happen(&Happening::Prompt);
    session.happen(&Happening::Answer { calls, text: true, signed: true });
    session
}

/// H1: a call that had started is reported as unknown, one that had not as not run.
#[test]
fn h1_a_started_call_is_unknown_after_a_crash_and_others_are_not_run() {
    let mut session = begun_turn(3);
    session.happen(&Happening::Gate { which: 0, verdict: 3 });
    session.happen(&Happening::Gate { which: 1, verdict: 1 });
    let opened = recovered(&session.log);
    let mut texts = Vec::new();
    for (_, body) in &opened.log {
        if let EventBody::ToolResult(result) = body {
            texts.push(super::evolve::text_of(&result.output));
        }
    }
    assert_eq!(texts.len(), 3);
    assert_eq!(texts[0], OUTCOME_UNKNOWN);
    assert!(texts[1].starts_with("not run") && texts[2].starts_with("not run"), "{texts:?}");
}

/// H3: a result that comes after its turn was stopped is recorded and never sent.
#[test]
fn h3_a_late_result_is_recorded_and_not_sent() {
    let mut session = begun_turn(1);
    session.happen(&Happening::Gate { which: 0, verdict: 3 });
    let call = session.state.turn.as_ref().unwrap().calls[0].id.clone();
    session.happen(&Happening::Stop);
    session.happen(&Happening::Prompt);
    session.apply(Command::Finish(result(call.as_str(), "late words")));
    session.happen(&Happening::Answer { calls: 0, text: true, signed: false });
    session.apply(Command::Finish(result(call.as_str(), "later words")));
    session.happen(&Happening::Prompt);
    let messages = Session::messages(&session.log);
    assert_eq!(faults(&messages), Vec::<String>::new());
    let sent = serde_json::to_string(&messages.iter().map(|m| &**m).collect::<Vec<_>>()).unwrap();
    assert!(!sent.contains("late words") && !sent.contains("later words"), "{sent}");
    assert_eq!(count(&session.log, |body| matches!(body, EventBody::ToolResult(_))), 3);
}

/// H2: signed blocks stay the bytes that came, whatever happens around them.
#[test]
fn h2_signed_blocks_survive_stops_and_prompts_byte_for_byte() {
    let mut session = begun_turn(2);
    let first = session.log.iter().find_map(|(_, body)| match body {
        EventBody::AssistantMessage(message) => Some(message.content[0].clone()),
        _ => None,
    });
    session.happen(&Happening::Stop);
    session.happen(&Happening::Prompt);
    let messages = Session::messages(&session.log);
    assert_eq!(Some(&messages[1].content[0]), first.as_ref());
}

#[test]
fn the_queue_has_a_limit() {
    let mut session = Session::begun();
    for _ in 0..=super::decide::QUEUE_MAX {
        session.happen(&Happening::Prompt);
    }
    assert_eq!(session.state.queue.len(), super::decide::QUEUE_MAX);
    let command = Command::Prompt {
        prompt_id: PromptId::new("one too many"),
        message_id: MessageId::new("m"),
        content: vec![Block::text("x")],
        steps_max: 1,
    };
    let refusal = decide(&session.state, command, Timestamp(0)).unwrap_err();
    assert_eq!(refusal.code, protocol::RefusalCode::QueueFull);
}

#[test]
fn an_answer_is_decided_once() {
    let mut session = begun_turn(1);
    session.happen(&Happening::Gate { which: 0, verdict: 1 });
    let turn = session.state.turn.clone().unwrap();
    let CallStage::Waiting(request, _) = turn.calls[0].stage.clone() else { panic!("waits") };
    session.happen(&Happening::Resolve { allow: true });
    let again =
        Command::Resolve { request, answer: Answer::AllowOnce, by: DecidedBy::Client, rule: None };
    let refusal = decide(&session.state, again, Timestamp(0)).unwrap_err();
    assert_eq!(refusal.code, protocol::RefusalCode::RequestResolved);
}
