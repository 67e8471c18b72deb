//! The numbering: every log of a session becomes the same frames, whoever reads it from where.

use proptest::prelude::*;
use protocol::event::{
    DeniedBy, Done, ModelChanged, Notice, NoticeLevel, PromptFinished, PromptOptions,
    QuestionRequest, SessionStart, TextDelta, ThinkingDelta, ToolDenied, ToolResult, TurnStart,
    UsageEvent,
};
use protocol::{
    Effect, FrameId, MessageId, RequestId, Risk, StopReason as ModelStop, Target, Timestamp,
    TurnEnd,
};
use serde_json::json;

use super::*;

/// Puts bodies into the envelopes of a log: recorded ones get positions with holes between them,
/// as internal events leave them.
pub(crate) fn log(bodies: Vec<EventBody>) -> Vec<Event> {
    let mut seq = 0;
    let number = |body: EventBody| {
        let is_delta = body.kind().class() == protocol::event::EventClass::Delta;
        seq += if is_delta { 0 } else { 1 + seq % 2 };
        Event {
            body,
            session_id: SessionId::new("s"),
            seq: (!is_delta).then_some(Seq(seq)),
            frame: FrameId(0),
            ts: Timestamp(1_796_000_000_000),
        }
    };
    bodies.into_iter().map(number).collect()
}

fn call_id() -> ToolCallId {
    ToolCallId::new("tc-1")
}

fn target() -> Target {
    Target { summary: "true".to_owned(), effect: Effect::Execute, paths: Vec::new() }
}

fn input() -> serde_json::Map<String, Value> {
    json!({"command": "true"}).as_object().unwrap().clone()
}

pub(crate) fn start() -> EventBody {
    SessionStart {
        model: "a/b".to_owned(),
        title: Some("worker".to_owned()),
        ..SessionStart::default()
    }
    .into()
}

pub(crate) fn begin(run: &str) -> EventBody {
    PromptStarted {
        prompt_id: PromptId::new(run),
        message_id: MessageId::new("m"),
        content: vec![Block::text("hi")],
        max_turns: Some(50),
        command: None,
        options: PromptOptions { request_id: Some("ctx-1".to_owned()), ..PromptOptions::default() },
    }
    .into()
}

fn step(run: &str, turn: u32) -> EventBody {
    TurnStart { turn, prompt_id: PromptId::new(run), model: "a/b".to_owned() }.into()
}

fn answer(thinking: &str, text: &str) -> EventBody {
    let thought = Block::Thinking { text: thinking.to_owned(), signed: None };
    AssistantMessage {
        message_id: MessageId::new("m"),
        content: vec![thought, Block::text(text)],
        stop_reason: ModelStop::EndTurn,
    }
    .into()
}

fn used() -> EventBody {
    let usage =
        Usage { input_tokens: 5, output_tokens: 2, cache_read_tokens: 3, ..Usage::default() };
    UsageEvent { usage, cost_usd: None, model: None, purpose: None }.into()
}

fn called() -> EventBody {
    let (tool_call_id, tool_name) = (call_id(), "run_shell".to_owned());
    ToolCall { tool_call_id, tool_name, input: input(), target: target() }.into()
}

fn result_of(output: &str) -> EventBody {
    ToolResult {
        tool_call_id: call_id(),
        tool_name: "run_shell".to_owned(),
        is_error: false,
        output: vec![Block::text(output)],
        truncated: false,
        spill: None,
        duration_ms: 42,
        display: None,
        files: Vec::new(),
    }
    .into()
}

fn asked() -> EventBody {
    PermissionRequest {
        request_id: RequestId::new("r"),
        tool_call_id: call_id(),
        tool_name: "run_shell".to_owned(),
        effect: Effect::Destructive,
        target: target(),
        input: input(),
        suggested_rules: Vec::new(),
        risk: Risk::High,
        reason: None,
        review: false,
        diff: None,
        checks: Vec::new(),
        expires_at: Some(Timestamp(1_796_000_300_000)),
    }
    .into()
}

fn decided(by: DecidedBy, words: Option<&str>) -> EventBody {
    RequestResolved {
        request_id: RequestId::new("r"),
        kind: InteractionKind::Permission,
        outcome: if words.is_some() { Outcome::AllowOnce } else { Outcome::Deny },
        by,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: words.map(str::to_owned),
        mode: None,
    }
    .into()
}

fn result(reason: TurnEnd, turns: u32) -> TurnResult {
    TurnResult {
        reason,
        code: None,
        message: Some("the provider said: key sk-1".to_owned()),
        usage: Usage { input_tokens: 10, output_tokens: 4, ..Usage::default() },
        cost_usd: None,
        turns,
        duration_ms: 1,
        text: "Done.".to_owned(),
        unanswered: 0,
        structured: None,
    }
}

pub(crate) fn end(run: &str, reason: TurnEnd) -> Vec<EventBody> {
    let result = result(reason, 2);
    let finished = PromptFinished { prompt_id: PromptId::new(run), result: result.clone() };
    vec![Done { result }.into(), finished.into()]
}

fn frames(bodies: Vec<EventBody>) -> Vec<Frame> {
    let mut projection = Projection::default();
    log(bodies).iter().flat_map(|event| projection.fold(event).frames).collect()
}

fn data(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_str(frame.read().1).unwrap()).collect()
}

fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.read().0).collect()
}

/// A run with everything in it. Its frames are what clients have stored: they never change.
fn long_run() -> Vec<EventBody> {
    let delta = |text: &str| TextDelta { text: text.to_owned() }.into();
    let mut all = vec![
        start(),
        begin("p"),
        step("p", 1),
        ThinkingDelta { text: "hm".to_owned() }.into(),
        delta("Let me "),
        delta("look."),
        answer("hm", "Let me look."),
        used(),
        called(),
        asked(),
        decided(DecidedBy::Client, Some("looks fine")),
        result_of("ok"),
        step("p", 2),
        delta("Done."),
        answer("", "Done."),
        used(),
    ];
    all.extend(end("p", TurnEnd::Completed));
    all
}

#[test]
fn a_run_becomes_these_frames() {
    let expected = include_str!("run.jsonl");
    let got: Vec<_> = frames(long_run()).iter().map(|frame| frame.read().1.to_owned()).collect();
    assert_eq!(got.join("\n") + "\n", expected);
}

#[test]
fn the_session_is_summed_up_on_the_way() {
    let mut projection = Projection::default();
    for event in log(long_run()) {
        projection.pass(&event);
    }
    assert_eq!((projection.count, projection.runs, projection.turns), (11, 1, 2));
    assert_eq!(projection.name.as_deref(), Some("worker"));
    assert_eq!(projection.usage.prompt_tokens() + projection.usage.output_tokens, 20);
    assert_eq!(projection.run(), None);
}

#[test]
fn a_failure_is_generic_and_keeps_what_was_said() {
    let mut bodies = vec![start(), begin("p"), step("p", 1), answer("", "Half way."), step("p", 2)];
    bodies.extend(end("p", TurnEnd::Error));
    let frames = frames(bodies);
    assert_eq!(
        kinds(&frames),
        ["run_start", "turn_start", "text", "turn_start", "error", "run_complete"]
    );
    let data = data(&frames);
    assert_eq!(
        data[4],
        json!({"type": "error", "seq": 5, "runId": "run-p", "sessionId": "ses-s",
               "code": "RUN_ERROR", "requestId": "ctx-1", "partialResponse": "Half way."})
    );
    assert_eq!(data[5]["stopReason"], "error");
    assert!(!frames.iter().any(|frame| frame.read().1.contains("sk-1")), "{frames:?}");
}

#[test]
fn nothing_said_is_no_partial_response() {
    let mut bodies = vec![start(), begin("p"), step("p", 1)];
    bodies.extend(end("p", TurnEnd::Budget));
    let data = data(&frames(bodies));
    assert_eq!((&data[2]["type"], data[2].get("partialResponse")), (&json!("error"), None));
}

#[test]
fn the_callers_ceiling_is_no_error_and_an_abort_says_nothing() {
    for (reason, extra, stop) in [
        (TurnEnd::MaxTurns, Some("max_turns"), "max_turns"),
        (TurnEnd::Interrupted, None, "aborted"),
    ] {
        let mut bodies = vec![start(), begin("p"), step("p", 1), answer("", "Still at it.")];
        bodies.extend(end("p", reason));
        let frames = frames(bodies);
        let expected: Vec<&str> = ["run_start", "turn_start", "text"]
            .into_iter()
            .chain(extra)
            .chain(["run_complete"])
            .collect();
        assert_eq!(kinds(&frames), expected);
        assert_eq!(data(&frames).last().unwrap()["stopReason"], stop);
    }
}

#[test]
fn a_decision_of_the_clock_or_of_an_abort_is_told_as_such() {
    for (by, reason, who) in [
        (DecidedBy::Client, "no reason given", "api"),
        (DecidedBy::Timeout, "approval timed out", "timeout"),
        (DecidedBy::Interrupt, "the run was aborted", "abort"),
        (DecidedBy::Policy, "a policy decided", "policy"),
    ] {
        let bodies = vec![start(), begin("p"), called(), asked(), decided(by, None)];
        let data = data(&frames(bodies));
        let told = data.last().unwrap();
        assert_eq!(told["decision"], "deny");
        assert_eq!((&told["reason"], &told["decidedBy"]), (&json!(reason), &json!(who)));
    }
}

#[test]
fn a_call_that_never_began_has_a_start_and_an_end() {
    let denied = ToolDenied {
        tool_call_id: call_id(),
        tool_name: "launch_rocket".to_owned(),
        reason: "there is no tool 'launch_rocket'".to_owned(),
        by: DeniedBy::Rule,
    };
    let frames = frames(vec![start(), begin("p"), denied.into()]);
    assert_eq!(kinds(&frames), ["run_start", "tool_call_start", "tool_call_end"]);
    let data = data(&frames);
    assert_eq!((&data[2]["isError"], &data[2]["durationMs"]), (&json!(true), &json!(0)));
}

#[test]
fn an_output_is_cut_at_a_character() {
    let long = "ä".repeat(OUTPUT_BYTES_MAX);
    let frames = frames(vec![start(), begin("p"), called(), result_of(&long)]);
    let data = data(&frames);
    let output = data.last().unwrap()["output"].as_str().unwrap();
    assert_eq!(output.len(), OUTPUT_BYTES_MAX);
}

#[test]
fn a_turn_that_a_crash_cut_after_its_result_keeps_it() {
    let mut bodies = vec![start(), begin("p"), step("p", 1)];
    bodies.extend(end("p", TurnEnd::Completed));
    // The next opening says that it was interrupted, though it was done.
    bodies.pop();
    let result = result(TurnEnd::Interrupted, 2);
    bodies.push(PromptFinished { prompt_id: PromptId::new("p"), result }.into());
    assert_eq!(data(&frames(bodies)).last().unwrap()["stopReason"], "end_turn");
}

#[test]
fn a_prompt_that_never_began_is_over_once() {
    let result = result(TurnEnd::Interrupted, 0);
    let dropped = PromptFinished { prompt_id: PromptId::new("other"), result }.into();
    let mut bodies = vec![start(), begin("p"), dropped];
    bodies.extend(end("p", TurnEnd::Completed));
    let frames = frames(bodies);
    assert_eq!(kinds(&frames), ["run_start", "run_complete", "run_complete"]);
    assert_eq!(data(&frames)[1]["runId"], "run-other");
    assert_eq!(data(&frames)[2]["runId"], "run-p");
}

/// Any event of a session, in any order: the numbering does not depend on sense.
fn any_event() -> impl Strategy<Value = EventBody> {
    let run = prop_oneof![Just("p"), Just("q")];
    let question = QuestionRequest {
        request_id: RequestId::new("q"),
        tool_call_id: None,
        about: None,
        question: "?".to_owned(),
        options: Vec::new(),
        multi_select: false,
        allow_other: true,
        expires_at: None,
    };
    let notice = Notice { level: NoticeLevel::Info, code: None, message: "!".to_owned() };
    prop_oneof![
        run.clone().prop_map(begin),
        (run.clone(), 1..4_u32).prop_map(|(run, turn)| step(run, turn)),
        ("[a-z]{0,3}", "[a-z]{0,3}").prop_map(|(thinking, text)| answer(&thinking, &text)),
        "[a-z]{0,3}".prop_map(|text| TextDelta { text }.into()),
        Just(used()),
        Just(called()),
        Just(asked()),
        Just(decided(DecidedBy::Client, None)),
        Just(result_of("x")),
        Just(ModelChanged { model: "c/d".to_owned() }.into()),
        Just(question.into()),
        Just(notice.into()),
        (run, prop_oneof![Just(TurnEnd::Completed), Just(TurnEnd::Error), Just(TurnEnd::MaxTurns)])
            .prop_map(|(run, reason)| end(run, reason).remove(1)),
    ]
}

proptest! {
    #[test]
    fn any_prefix_split_gives_the_same_numbering(
        bodies in prop::collection::vec(any_event(), 0..40),
        cut in 0..41_usize,
        again in 0..5_usize,
    ) {
        let log = log(bodies);
        let mut whole = Projection::default();
        let frames: Vec<Frame> = log.iter().flat_map(|it| whole.fold(it).frames).collect();

        // Recorded frames are numbered 1, 2, 3, … and deltas are not numbered.
        let numbers: Vec<u64> = frames.iter().filter_map(|frame| frame.seq).collect();
        prop_assert_eq!(&numbers, &(1..=whole.count).collect::<Vec<_>>());

        // Whoever counts a part without looking goes on with the same frames, also when the
        // place where replay and live meet is read twice.
        let cut = cut.min(log.len());
        let (before, after) = log.split_at(cut);
        let mut split = Projection::default();
        before.iter().for_each(|event| split.pass(event));
        let counted = split.count;
        let recorded: Vec<Event> = before.iter().filter(|it| it.seq.is_some()).cloned().collect();
        let repeated = recorded.iter().rev().take(again).rev();
        let mut rest: Vec<Frame> = repeated.flat_map(|it| split.fold(it).frames).collect();
        prop_assert_eq!(&rest, &Vec::new());
        rest.extend(after.iter().flat_map(|it| split.fold(it).frames));
        let expected: Vec<Frame> = {
            let mut projection = Projection::default();
            before.iter().for_each(|event| { projection.fold(event); });
            after.iter().flat_map(|it| projection.fold(it).frames).collect()
        };
        prop_assert_eq!(&rest, &expected);
        let late = frames.iter().filter(|frame| frame.seq.is_some_and(|seq| seq > counted));
        let rest = rest.iter().filter(|frame| frame.seq.is_some());
        prop_assert_eq!(late.collect::<Vec<_>>(), rest.collect::<Vec<_>>());
        prop_assert_eq!(split, whole);
    }
}

#[test]
fn frames_that_others_made_are_the_ones_it_would_have_made() {
    let log: Vec<Shown> = log(long_run()).into_iter().map(Shown::new).collect();
    let mut projections = [Projection::default(), Projection::default(), Projection::default()];
    for event in &log {
        let [alone, first, second] = &mut projections;
        let expected = alone.fold(event);
        assert_eq!(first.fold_shared(event), expected);
        assert_eq!(second.fold_shared(event), expected);
        assert_eq!(second.fold_shared(event).frames.is_empty(), event.seq.is_some());
    }
    let [alone, first, second] = projections;
    assert!(alone == first && first == second);
}

#[test]
fn what_was_thought_is_told_where_it_is_known() {
    let usage = Usage { output_tokens: 9, reasoning_tokens: 4, ..Usage::default() };
    assert_eq!(usage_of(&usage)["reasoningTokens"], 4);
    assert_eq!(usage_of(&Usage::default()).get("reasoningTokens"), None);
    let thought = UsageEvent { usage, cost_usd: None, model: None, purpose: None };
    let mut projection = Projection::default();
    for event in log(vec![start(), thought.into(), used()]) {
        projection.pass(&event);
    }
    assert_eq!(projection.usage.reasoning_tokens, 4);
}
