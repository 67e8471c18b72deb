//! Tests of the kernel: whatever happens in whatever order, and wherever the log ends, the state
//! is the fold of the log and the transcript is one that a strict provider accepts.

use std::collections::HashSet;

use proptest::prelude::*;
use protocol::event::{
    Answer, ChangesRecorded, Checkpoint, CheckpointMade, Compacted, ContextAdded, DecidedBy,
    InteractionKind, PauseKind, PermissionRequest, PlanRequest, PromptOptions, QuestionRequest,
    RewindScope, Rewound, SessionStart, ToolCall, ToolDenied, ToolResult,
};
use protocol::{
    Block, Effect, EventBody, Message, MessageId, Mode, PromptId, RequestId, Risk, Role, Seq,
    Signed, StopReason, Target, Timestamp, ToolCallId, TreeId, TurnEnd, Usage, Wire,
};
use serde_json::Map;

use super::state::{CallStage, Wait};
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
            ..SessionStart::default()
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

    /// Returns what the model reads of a log, through its view.
    fn messages(log: &[(Timestamp, EventBody)]) -> Vec<std::sync::Arc<Message>> {
        let view = Self::folded(log).view;
        let mut transcript = Transcript::default();
        let body_at = |seq: Seq| &log[usize::try_from(seq.0).unwrap() - 1].1;
        let mut summary = view.compaction().map(|compaction| match body_at(compaction.at) {
            EventBody::Compacted(compacted) => compacted.summary.clone(),
            other => panic!("no compaction: {other:?}"),
        });
        for (index, (at, body)) in log.iter().enumerate() {
            let is_context = matches!(body, EventBody::ContextSet(_));
            let is_shown = view.shows(Seq(index as u64 + 1)) && Transcript::needs(body.kind());
            if is_shown
                && !is_context
                && let Some(text) = summary.take()
            {
                transcript.summary(*at, MessageId::new("summary"), text);
            }
            if is_shown || is_context {
                transcript.push(*at, body);
            }
        }
        if let Some(text) = summary {
            transcript.summary(Timestamp(0), MessageId::new("summary"), text);
        }
        transcript.messages()
    }
}

/// One random thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Prompt,
    Answer {
        calls: usize,
        text: bool,
        signed: bool,
    },
    Gate {
        which: usize,
        verdict: u8,
    },
    Resolve {
        allow: bool,
    },
    Start {
        which: usize,
    },
    Finish {
        which: usize,
    },
    /// A call that runs asks a person.
    Inquire {
        which: usize,
    },
    Activate {
        which: u8,
    },
    LateResult,
    Retry,
    Stop,
    Fail,
    ClearQueue,
    Close,
    /// A prompt that is a slash command.
    Order,
    /// What the prompt says does not fit any model.
    TooLong,
    Told {
        goes_on: bool,
    },
    Spent,
    Pause {
        circles: bool,
    },
    Compact {
        through: u16,
        keeps: bool,
    },
    Uncompact,
    Rewind {
        which: usize,
        scope: u8,
    },
    Checkpoint,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Prompt),
        6 => (0..4_usize, any::<bool>(), any::<bool>())
            .prop_map(|(calls, text, signed)| Happening::Answer { calls, text, signed }),
        8 => (0..4_usize, 0..6_u8).prop_map(|(which, verdict)| Happening::Gate { which, verdict }),
        3 => any::<bool>().prop_map(|allow| Happening::Resolve { allow }),
        8 => (0..4_usize).prop_map(|which| Happening::Start { which }),
        8 => (0..4_usize).prop_map(|which| Happening::Finish { which }),
        4 => (0..4_usize).prop_map(|which| Happening::Inquire { which }),
        1 => (0..8_u8).prop_map(|which| Happening::Activate { which }),
        1 => Just(Happening::LateResult),
        1 => Just(Happening::Retry),
        1 => Just(Happening::Stop),
        1 => Just(Happening::Fail),
        1 => Just(Happening::ClearQueue),
        1 => Just(Happening::Close),
        1 => Just(Happening::Order),
        1 => Just(Happening::TooLong),
        1 => any::<bool>().prop_map(|goes_on| Happening::Told { goes_on }),
        1 => Just(Happening::Spent),
        1 => any::<bool>().prop_map(|circles| Happening::Pause { circles }),
        2 => (any::<u16>(), any::<bool>())
            .prop_map(|(through, keeps)| Happening::Compact { through, keeps }),
        1 => Just(Happening::Uncompact),
        2 => (0..8_usize, 0..3_u8).prop_map(|(which, scope)| Happening::Rewind { which, scope }),
        2 => Just(Happening::Checkpoint),
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
            Happening::Prompt => self.prompt(None),
            Happening::Order => self.prompt(Some("help".into())),
            Happening::TooLong => self.apply(Command::End(Ending::error(TOO_LONG, "too long"))),
            Happening::Told { goes_on } => {
                let (source, text, goes_on) = ("hook".into(), "look".into(), *goes_on);
                self.apply(Command::AddContext(ContextAdded { source, text, goes_on }));
            }
            Happening::Spent => {
                let (model, purpose) = ("demo".to_owned(), "compaction".to_owned());
                let usage = Usage { input_tokens: 7, ..Usage::default() };
                self.apply(Command::Spent { usage, cost_usd: None, model, purpose });
            }
            Happening::Pause { circles } => self.pause(*circles),
            Happening::Compact { through, keeps } => self.compact(u64::from(*through), *keeps),
            Happening::Uncompact => self.apply(Command::Uncompact { after: 900 }),
            Happening::Rewind { which, scope } => self.rewind(*which, *scope),
            Happening::Checkpoint => self.checkpoint(),
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
                let wait = self.state.waits().next().cloned();
                if let Some(wait) = wait {
                    self.apply(Command::Resolve(decided(&wait, *allow)));
                }
            }
            Happening::Start { which } => {
                if let Some((call, _)) = stages(self).get(*which) {
                    self.apply(Command::Start { call: call.clone() });
                }
            }
            Happening::Finish { which } => {
                let is_running = |stage: &CallStage| {
                    matches!(stage, CallStage::Started(_) | CallStage::Asking(..))
                };
                if let Some((call, stage)) = stages(self).get(*which)
                    && is_running(stage)
                {
                    self.apply(Command::Finish(result(call.as_str(), "done")));
                }
            }
            Happening::Inquire { which } => {
                if let Some((call, CallStage::Started(_))) = stages(self).get(*which) {
                    let request = self.question(Some(call.clone()), None);
                    self.apply(Command::Ask(request.into()));
                }
            }
            Happening::Activate { which } => {
                let names = vec![format!("tool{}", which % 4), format!("tool{}", which / 4)];
                self.apply(Command::Activate { names });
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
        if let Some(Owed::RecordChanges(checkpoint_id)) = pending(&self.state).first().cloned() {
            let tree = Some(TreeId::new("after"));
            self.apply(Command::RecordChanges(ChangesRecorded { checkpoint_id, tree, paths: 1 }));
        }
        if pending(&self.state).contains(&Owed::TakeNext) {
            let new = self.new_prompt(None);
            self.apply(Command::TakeNext(new));
            self.settle();
        }
        if pending(&self.state).contains(&Owed::Obey) {
            let text = Some("obeyed".into());
            self.apply(Command::End(Ending { text, ..Ending::of(TurnEnd::Completed) }));
            self.settle();
        }
    }

    fn new_prompt(&mut self, command: Option<String>) -> NewPrompt {
        let (prompt_id, message_id) = (PromptId::new(self.id()), MessageId::new(self.id()));
        let content = vec![Block::text("do it")];
        let (steps_max, max_turns, options) = (4, None, PromptOptions::default());
        NewPrompt { prompt_id, message_id, content, steps_max, command, max_turns, options }
    }

    fn prompt(&mut self, command: Option<String>) {
        let new = self.new_prompt(command);
        self.apply(Command::Prompt(new));
    }

    /// Pauses a turn of which nothing is under way.
    fn pause(&mut self, circles: bool) {
        let is_asking = matches!(pending(&self.state).first(), Some(Owed::AskModel(_)));
        if is_asking {
            let about = if circles { PauseKind::Repetition } else { PauseKind::Budget };
            let request = self.question(None, Some(about));
            self.apply(Command::Pause(request));
        }
    }

    fn question(
        &mut self,
        tool_call_id: Option<ToolCallId>,
        about: Option<PauseKind>,
    ) -> QuestionRequest {
        QuestionRequest {
            request_id: RequestId::new(self.id()),
            tool_call_id,
            about,
            question: "which?".into(),
            options: Vec::new(),
            multi_select: false,
            allow_other: true,
            expires_at: None,
        }
    }

    /// Compacts up to any position whatever, even between a call and its result.
    fn compact(&mut self, through: u64, keeps: bool) {
        let through = Seq(1 + through % self.state.seq.0);
        let points = self.state.points.iter().rev().filter(|point| !point.is_cut);
        let kept = points.map(|point| point.seq).find(|seq| keeps && *seq <= through);
        self.apply(Command::Compact(Compacted {
            before: 1_000,
            after: 990,
            automatic: true,
            through,
            kept,
            summary: "what was said".into(),
            mechanical: false,
        }));
    }

    /// Goes back to any point at any time, even in the middle of a turn.
    fn rewind(&mut self, which: usize, scope: u8) {
        let Some(point) = self.state.points.iter().rev().nth(which).cloned() else { return };
        let scopes = [RewindScope::Both, RewindScope::Conversation, RewindScope::Files];
        let scope = scopes[usize::from(scope)];
        self.apply(Command::Rewind(Rewound {
            checkpoint_id: point.id,
            scope,
            from: (scope != RewindScope::Files).then_some(point.seq),
            undo: scope == RewindScope::Files,
            files_changed: Vec::new(),
            files_kept: Vec::new(),
            messages_removed: 0,
        }));
    }

    fn checkpoint(&mut self) {
        let is_running = self.state.turn.as_ref().is_some_and(|turn| turn.command.is_none());
        let Some(point) = self.state.newest_point().cloned() else { return };
        if is_running && point.changes.is_none() {
            let checkpoint = Checkpoint {
                id: point.id,
                created_at: point.at,
                message_id: point.message_id,
                label: "do it".into(),
                files: 3,
            };
            let (tree, left_out) = (TreeId::new("before"), Vec::new());
            self.apply(Command::Checkpoint(CheckpointMade { checkpoint, tree, left_out }));
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
        let (usage, model) = (Usage::default(), "demo".into());
        ModelAnswer { message_id, content, stop, usage, cost_usd: None, model }
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
                let request = PermissionRequest {
                    request_id,
                    tool_call_id: id,
                    tool_name,
                    effect: Effect::Execute,
                    target,
                    input: Map::new(),
                    suggested_rules: Vec::new(),
                    risk: Risk::Low,
                    reason: None,
                    review: false,
                    diff: None,
                    checks: Vec::new(),
                    expires_at: None,
                };
                self.apply(Command::Ask(request.into()));
            }
            4 => {
                let request = self.question(Some(id), None);
                self.apply(Command::Ask(request.into()));
            }
            5 => {
                let (request_id, tool_call_id) = (RequestId::new(self.id()), id);
                let (plan, expires_at) = ("first this".into(), None);
                let request = PlanRequest { request_id, tool_call_id, plan, expires_at };
                self.apply(Command::Ask(request.into()));
            }
            _ => self.apply(Command::Start { call: id }),
        }
    }
}

/// Decides whatever waits, in either way.
fn decided(wait: &Wait, is_yes: bool) -> Decided {
    let answer = match (wait.kind, is_yes) {
        (InteractionKind::Permission, true) => Answer::AllowOnce,
        (InteractionKind::Permission, false) => Answer::Deny { feedback: None },
        (InteractionKind::Question, true) => {
            Answer::Chosen { answers: vec![GO_ON.into()], other: None }
        }
        (InteractionKind::Question, false) => Answer::Dismissed,
        (InteractionKind::Plan, true) => Answer::Approved { mode: Some(Mode::AutoEdit) },
        (InteractionKind::Plan, false) => Answer::Rejected { feedback: None },
    };
    let (request, by, rule) = (wait.request.clone(), DecidedBy::Client, None);
    Decided { request, answer, by, rule, told: "the user decided".into(), is_host: false }
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

/// Counts the turns that have not exactly one `done` before the next one begins.
fn turns_without_one_end(log: &[(Timestamp, EventBody)]) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    for (_, body) in log {
        match body {
            EventBody::PromptStarted(_) => ends.push(0),
            EventBody::Done(_) => *ends.last_mut().expect("a turn began") += 1,
            _ => {}
        }
    }
    ends.iter().filter(|ends| **ends != 1).count()
}

/// Lists the interactions that were not decided exactly once.
fn undecided(log: &[(Timestamp, EventBody)]) -> Vec<RequestId> {
    let mut decisions: std::collections::BTreeMap<RequestId, usize> = Default::default();
    for (_, body) in log {
        match body {
            EventBody::PermissionRequest(PermissionRequest { request_id, .. })
            | EventBody::QuestionRequest(QuestionRequest { request_id, .. })
            | EventBody::PlanRequest(PlanRequest { request_id, .. }) => {
                decisions.entry(request_id.clone()).or_default();
            }
            EventBody::RequestResolved(resolved) => {
                *decisions.entry(resolved.request_id.clone()).or_default() += 1;
            }
            _ => {}
        }
    }
    decisions.retain(|_, count| *count != 1);
    decisions.into_keys().collect()
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
            prop_assert_eq!(undecided(&opened.log), Vec::<RequestId>::new());
            let mut names = opened.state.tools.clone();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), opened.state.tools.len(), "each tool once");
            opened.happen(&Happening::Prompt);
            let messages = Session::messages(&opened.log);
            prop_assert_eq!(faults(&messages), Vec::<String>::new());
            prop_assert_eq!(Session::folded(&opened.log), opened.state.clone());
            let started = count(&opened.log, |body| matches!(body, EventBody::PromptStarted(_)));
            let done = count(&opened.log, |body| matches!(body, EventBody::Done(_)));
            prop_assert_eq!(started, done + 1, "one terminal event per turn");
            prop_assert_eq!(turns_without_one_end(&opened.log), 1, "the new turn alone is open");
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
    let new = session.new_prompt(None);
    let command = Command::Prompt(new);
    let refusal = decide(&session.state, command, Timestamp(0)).unwrap_err();
    assert_eq!(refusal.code, protocol::RefusalCode::QueueFull);
}

#[test]
fn an_answer_is_decided_once() {
    let mut session = begun_turn(1);
    session.happen(&Happening::Gate { which: 0, verdict: 1 });
    let turn = session.state.turn.clone().unwrap();
    let CallStage::Waiting(wait, _) = turn.calls[0].stage.clone() else { panic!("waits") };
    session.happen(&Happening::Resolve { allow: true });
    let again = Command::Resolve(decided(&wait, true));
    let refusal = decide(&session.state, again, Timestamp(0)).unwrap_err();
    assert_eq!(refusal.code, protocol::RefusalCode::RequestResolved);
}

/// H3: a result that comes after its call was compacted or rewound is recorded and never sent.
#[test]
fn h3_a_late_result_is_not_sent_after_compaction_or_rewind() {
    for is_compacted in [true, false] {
        let mut session = begun_turn(1);
        session.happen(&Happening::Gate { which: 0, verdict: 3 });
        let call = session.state.turn.as_ref().unwrap().calls[0].id.clone();
        session.happen(&Happening::Stop);
        if is_compacted {
            let through = u16::try_from(session.state.seq.0 - 1).unwrap();
            session.happen(&Happening::Compact { through, keeps: false });
        } else {
            session.happen(&Happening::Rewind { which: 0, scope: 1 });
        }
        session.apply(Command::Finish(result(call.as_str(), "late secret")));
        session.happen(&Happening::Prompt);
        session.happen(&Happening::Answer { calls: 0, text: true, signed: false });
        session.apply(Command::Finish(result(call.as_str(), "later secret")));
        let messages = Session::messages(&session.log);
        assert_eq!(faults(&messages), Vec::<String>::new());
        let sent = serde_json::to_string(&messages.iter().map(|m| &**m).collect::<Vec<_>>());
        assert!(!sent.unwrap().contains("secret"), "compacted: {is_compacted}");
        assert_eq!(count(&session.log, |body| matches!(body, EventBody::ToolResult(_))), 3);
    }
}

/// A prompt that was withdrawn takes neither the summary before it along nor what was said before.
#[test]
fn a_withdrawn_prompt_leaves_what_was_said_before() {
    let mut session = begun_turn(0);
    let through = u16::try_from(session.state.seq.0 - 1).unwrap();
    session.happen(&Happening::Compact { through, keeps: true });
    session.happen(&Happening::Prompt);
    session.happen(&Happening::TooLong);
    assert!(session.state.newest_point().unwrap().is_cut, "nobody goes back to it");
    let messages = Session::messages(&session.log);
    let said: Vec<String> =
        messages[0].content.iter().map(|b| text_of(std::slice::from_ref(b))).collect();
    assert_eq!(said, ["what was said", "do it"]);
}

#[test]
fn two_compactions_that_free_nothing_are_counted_until_one_does() {
    let mut session = begun_turn(1);
    let vain = |session: &Session| session.state.turn.as_ref().unwrap().vain_compactions;
    session.happen(&Happening::Compact { through: 3, keeps: false });
    session.happen(&Happening::Compact { through: 3, keeps: false });
    assert_eq!(vain(&session), 2);
    session.apply(Command::Compact(Compacted {
        before: 1_000,
        after: 950,
        automatic: true,
        through: Seq(2),
        kept: None,
        summary: "short".into(),
        mechanical: false,
    }));
    assert_eq!((vain(&session), session.state.tokens()), (0, 950));
}

#[test]
fn a_pause_comes_before_a_command_is_obeyed() {
    let mut session = Session::begun();
    session.prompt(Some("compact".into()));
    assert_eq!(pending(&session.state), [Owed::Obey]);
    let request = session.question(None, Some(PauseKind::Budget));
    session.apply(Command::Pause(request));
    assert!(matches!(pending(&session.state)[..], [Owed::Await(_)]));
    session.happen(&Happening::Resolve { allow: true });
    assert!(session.state.turn.is_none(), "the command was obeyed after that");
    assert_eq!((session.state.points.len(), session.state.prompts), (0, 0));
}

/// A call that runs and asks goes on with its answer, and so do the others beside it.
#[test]
fn a_call_that_runs_goes_on_after_its_question_is_decided() {
    for is_yes in [true, false] {
        let mut session = begun_turn(1);
        session.happen(&Happening::Gate { which: 0, verdict: 3 });
        session.happen(&Happening::Inquire { which: 0 });
        assert!(matches!(pending(&session.state)[..], [Owed::Await(_)]));
        assert!(!session.state.may_wait_without_us(), "its process is needed");
        session.happen(&Happening::Resolve { allow: is_yes });
        let call = session.state.turn.as_ref().unwrap().calls[0].clone();
        assert_eq!(call.stage, CallStage::Started(Effect::Execute));
        assert_eq!(count(&session.log, |body| matches!(body, EventBody::ToolResult(_))), 0);
        session.happen(&Happening::Inquire { which: 0 });
        session.happen(&Happening::Finish { which: 0 });
        assert_eq!(undecided(&session.log), [], "a result settles what was asked on the way");
        assert!(!session.state.is_waiting());
    }
}

/// H1: what a call had begun is unknown after a crash, also where it waited for a person.
#[test]
fn h1_a_call_that_asked_while_it_ran_is_unknown_after_a_crash() {
    let mut session = begun_turn(1);
    session.happen(&Happening::Gate { which: 0, verdict: 3 });
    session.happen(&Happening::Inquire { which: 0 });
    let opened = recovered(&session.log);
    assert_eq!(undecided(&opened.log), []);
    let texts: Vec<String> = opened
        .log
        .iter()
        .filter_map(|(_, body)| match body {
            EventBody::ToolResult(result) => Some(text_of(&result.output)),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [OUTCOME_UNKNOWN]);
}

#[test]
fn tools_are_offered_once_at_the_end_and_no_more_than_may_be() {
    let mut session = Session::begun();
    session.apply(Command::Activate { names: vec!["b".into(), "a".into(), "b".into()] });
    session.apply(Command::Activate { names: vec!["a".into(), "c".into()] });
    assert_eq!(session.state.tools, ["b", "a", "c"]);
    let events = session.log.len();
    session.apply(Command::Activate { names: vec!["c".into()] });
    assert_eq!(session.log.len(), events, "nothing new is no event");
    session.apply(Command::Activate { names: (0..2_000).map(|it| it.to_string()).collect() });
    assert_eq!(session.state.tools.len(), TOOLS_MAX);
}

#[test]
fn a_prompt_may_name_the_model_of_its_turn_alone() {
    let mut session = Session::begun();
    let mut new = session.new_prompt(None);
    new.options.model = Some("other".into());
    session.apply(Command::Prompt(new));
    session.prompt(None);
    session.settle();
    assert_eq!(session.state.model_now(), "other");
    session.happen(&Happening::Answer { calls: 0, text: true, signed: false });
    assert_eq!(session.state.model_now(), "demo");
    let models = session.log.iter().filter_map(|(_, body)| match body {
        EventBody::TurnStart(start) => Some(start.model.as_str()),
        _ => None,
    });
    assert_eq!(models.collect::<Vec<_>>(), ["other", "demo"]);
}
