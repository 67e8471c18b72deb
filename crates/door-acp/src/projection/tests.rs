//! What events become, kind by kind.

use super::*;
use protocol::event::{
    Compacted, Display, Done, ModeChanged, ModelChanged, Outcome, PromptFinished, RequestResolved,
    TextDelta, ThinkingDelta, ToolCall, ToolProgress, ToolResult, TurnStart,
};
use protocol::event::{DecidedBy, InteractionKind, Notice as Told, SessionUpdated};
use protocol::{Effect, FrameId, Risk, Seq, SessionId, Target, Timestamp, ToolCallId, Usage};
use serde_json::{Value, json};

fn event(body: impl Into<EventBody>) -> Event {
    Event {
        body: body.into(),
        session_id: SessionId::new("s"),
        seq: Some(Seq(1)),
        frame: FrameId(1),
        ts: Timestamp(0),
    }
}

struct Fold(Projection);

impl Fold {
    fn new() -> Self {
        Self(Projection::new("/w", Understands::default(), false))
    }

    fn take(&mut self, body: impl Into<EventBody>) -> Vec<Step> {
        self.0.take(&event(body))
    }

    /// Takes an event and returns the updates as they go out.
    fn shows(&mut self, body: impl Into<EventBody>) -> Vec<Value> {
        self.take(body)
            .into_iter()
            .filter_map(|step| match step {
                Step::Show(update) => Some(serde_json::to_value(update).unwrap()),
                _ => None,
            })
            .collect()
    }
}

fn start(turn: u32) -> TurnStart {
    TurnStart { turn, prompt_id: PromptId::new("p"), model: "m".to_owned() }
}

fn delta(text: &str) -> TextDelta {
    TextDelta { text: text.to_owned() }
}

fn answer(text: &str, stop: StopReason) -> AssistantMessage {
    AssistantMessage {
        message_id: protocol::MessageId::new("m1"),
        content: vec![Block::text(text)],
        stop_reason: stop,
    }
}

fn result(reason: TurnEnd) -> TurnResult {
    TurnResult {
        reason,
        code: None,
        message: None,
        usage: Usage::default(),
        cost_usd: None,
        turns: 1,
        duration_ms: 1,
        text: String::new(),
        unanswered: 0,
        structured: None,
    }
}

fn finished(result: TurnResult) -> PromptFinished {
    PromptFinished { prompt_id: PromptId::new("p"), result }
}

fn call(id: &str, tool: &str, input: &Value) -> ToolCall {
    ToolCall {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        input: input.as_object().unwrap().clone(),
        target: Target {
            summary: "a.txt".to_owned(),
            effect: Effect::Write,
            paths: vec!["/w/a.txt".to_owned()],
        },
    }
}

fn brought(id: &str, tool: &str, text: &str, display: Option<Display>) -> ToolResult {
    ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: tool.to_owned(),
        is_error: false,
        output: vec![Block::text(text)],
        truncated: false,
        spill: None,
        duration_ms: 1,
        display,
        files: Vec::new(),
    }
}

#[test]
fn what_was_streamed_is_not_said_again() {
    let mut fold = Fold::new();
    fold.take(start(1));
    let thought = fold.shows(ThinkingDelta { text: "hm".to_owned() });
    assert_eq!(thought[0]["sessionUpdate"], "agent_thought_chunk");
    let first = fold.shows(delta("Hel"));
    let second = fold.shows(delta("lo"));
    assert_eq!(first[0]["messageId"], second[0]["messageId"]);
    assert_eq!(second[0]["content"], json!({"type": "text", "text": "lo"}));
    assert!(fold.shows(answer("Hello", StopReason::EndTurn)).is_empty());
    fold.take(start(2));
    fold.take(delta("A"));
    assert_eq!(fold.shows(answer("A b", StopReason::EndTurn))[0]["content"]["text"], " b");
    fold.take(start(3));
    let whole = fold.shows(answer("unstreamed", StopReason::EndTurn));
    assert_eq!(whole[0]["content"]["text"], "unstreamed");
}

#[test]
fn after_a_retry_the_words_are_another_message() {
    let mut fold = Fold::new();
    fold.take(start(1));
    let before = fold.shows(delta("half"))[0]["messageId"].clone();
    fold.take(Retry {
        attempt: 1,
        max_attempts: 0,
        delay_ms: 5,
        reason: "overloaded".to_owned(),
        partial_text: "half".to_owned(),
    });
    let after = fold.shows(delta("whole"));
    assert_ne!(after[0]["messageId"], before);
    assert!(fold.shows(answer("whole", StopReason::EndTurn)).is_empty());
}

#[test]
fn a_call_begins_waits_goes_on_and_ends() {
    let mut fold = Fold::new();
    let shown = fold.shows(call("c", "edit_file", &json!({"path": "a.txt"})));
    assert_eq!(shown[0]["sessionUpdate"], "tool_call");
    assert_eq!(shown[0]["status"], "in_progress");
    assert_eq!(
        (&shown[0]["kind"], &shown[0]["title"]),
        (&json!("edit"), &json!("edit_file a.txt"))
    );
    assert_eq!(shown[0]["locations"], json!([{"path": "/w/a.txt"}]));
    let asked = PermissionRequest {
        request_id: RequestId::new("r"),
        tool_call_id: ToolCallId::new("c"),
        tool_name: "edit_file".to_owned(),
        effect: Effect::Write,
        target: call("c", "edit_file", &json!({})).target,
        input: serde_json::Map::new(),
        suggested_rules: Vec::new(),
        risk: Risk::Low,
        reason: None,
        diff: None,
        checks: Vec::new(),
        review: false,
        expires_at: None,
    };
    let steps = fold.take(asked);
    assert!(matches!(&steps[1], Step::Ask(request) if request.id().as_str() == "r"), "{steps:?}");
    let resolved = RequestResolved {
        request_id: RequestId::new("r"),
        kind: InteractionKind::Permission,
        outcome: Outcome::AllowOnce,
        by: DecidedBy::Client,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    };
    let steps = fold.take(resolved);
    assert_eq!(steps[0], Step::Settled(RequestId::new("r")));
    assert_eq!(steps.len(), 2);
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-x\n+y\n".to_owned();
    let display = Some(Display::Diff { diff, added: 1, removed: 1 });
    let ended = fold.shows(brought("c", "edit_file", "done", display));
    assert_eq!(ended[0]["status"], "completed");
    assert_eq!(ended[0]["content"][0]["type"], "diff");
    assert_eq!(ended[0]["locations"][0]["line"], 2);
    assert!(fold.take(finished(result(TurnEnd::Completed))).len() == 1);
}

#[test]
fn a_call_that_never_began_is_told_with_its_end() {
    let mut fold = Fold::new();
    let shown = fold.shows(brought("x", "no_such_tool", "there is no such tool", None));
    assert_eq!(shown[0]["sessionUpdate"], "tool_call");
    assert_eq!(shown[1]["sessionUpdate"], "tool_call_update");
}

#[test]
fn a_stopped_turn_leaves_no_call_open() {
    let mut fold = Fold::new();
    fold.take(call("c", "run_shell", &json!({"command": "sleep 9"})));
    let steps = fold.take(finished(result(TurnEnd::Interrupted)));
    let Step::Show(update) = &steps[0] else { panic!("{steps:?}") };
    assert_eq!(serde_json::to_value(update).unwrap()["status"], "failed");
    assert_eq!(steps[1], Step::Over(PromptId::new("p"), Ended::Well(Stop::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn live_output_is_shown_now_and_then_and_cut_at_its_front() {
    let mut fold = Fold::new();
    fold.take(call("c", "run_shell", &json!({"command": "make"})));
    let progress =
        |text: String| ToolProgress { tool_call_id: ToolCallId::new("c"), text, stream: None };
    assert_eq!(fold.shows(progress("one\n".to_owned())).len(), 1);
    assert_eq!(fold.shows(progress("two\n".to_owned())).len(), 0);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let shown = fold.shows(progress("ä".repeat(20_000)));
    let text = shown[0]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.len() <= 16 * 1024 + 16 && !text.contains("one"), "{}", text.len());
}

#[test]
fn a_terminal_of_the_client_stays_in_its_call() {
    use agent_client_protocol_schema::v1::TerminalId;
    let mut fold = Fold::new();
    fold.take(call("c", "run_shell", &json!({"command": "make"})));
    let argv = ["bash".to_owned(), "-c".to_owned(), "make".to_owned()];
    let id = TerminalId::new("t1");
    let shown = fold.0.calls().runs_in(&argv, &id).unwrap();
    let shown = serde_json::to_value(shown).unwrap();
    assert_eq!(shown["content"], json!([{"type": "terminal", "terminalId": "t1"}]));
    let ended = fold.shows(brought("c", "run_shell", "output", None));
    assert_eq!(ended[0]["content"], json!([{"type": "terminal", "terminalId": "t1"}]));
    // The terminal may be there before the call was seen.
    assert!(fold.0.calls().runs_in(&argv, &id).is_none());
    let begun = fold.shows(call("d", "run_shell", &json!({"command": "make"})));
    assert_eq!(begun[0]["content"], json!([{"type": "terminal", "terminalId": "t1"}]));
}

#[test]
fn turns_end_in_the_words_of_the_protocol() {
    let check = |stop: Option<StopReason>, reason, code: Option<&str>, expected| {
        let mut fold = Fold::new();
        if let Some(stop) = stop {
            fold.take(answer("a", stop));
        }
        let result = TurnResult { code: code.map(str::to_owned), ..result(reason) };
        let steps = fold.take(finished(result));
        assert_eq!(steps.last(), Some(&Step::Over(PromptId::new("p"), expected)));
    };
    check(Some(StopReason::EndTurn), TurnEnd::Completed, None, Ended::Well(Stop::EndTurn));
    check(Some(StopReason::MaxTokens), TurnEnd::Completed, None, Ended::Well(Stop::MaxTokens));
    check(Some(StopReason::Refusal), TurnEnd::Completed, None, Ended::Well(Stop::Refusal));
    check(None, TurnEnd::MaxTurns, None, Ended::Well(Stop::MaxTurnRequests));
    check(None, TurnEnd::Budget, None, Ended::Well(Stop::MaxTurnRequests));
    check(None, TurnEnd::Interrupted, None, Ended::Well(Stop::Cancelled));
    check(None, TurnEnd::Denied, None, Ended::Well(Stop::Refusal));
    check(None, TurnEnd::Error, Some("rate_limited"), Ended::Failed("rate_limited".to_owned()));
}

#[test]
fn what_a_command_answers_is_shown() {
    let mut fold = Fold::new();
    let said = TurnResult { text: "12 tokens".to_owned(), ..result(TurnEnd::Completed) };
    let steps = fold.take(finished(said));
    let Step::Show(update) = &steps[0] else { panic!("{steps:?}") };
    assert_eq!(serde_json::to_value(update).unwrap()["content"]["text"], "12 tokens");
    // An answer of the model is there already.
    fold.take(start(1));
    fold.take(delta("Hi"));
    let said = TurnResult { text: "Hi".to_owned(), ..result(TurnEnd::Completed) };
    assert_eq!(fold.take(finished(said)).len(), 1);
}

#[test]
fn prompts_are_shown_in_a_replay_alone() {
    let started = PromptStarted {
        prompt_id: PromptId::new("p"),
        message_id: protocol::MessageId::new("u1"),
        content: vec![Block::text("do it")],
        max_turns: None,
        command: None,
        options: protocol::event::PromptOptions::default(),
    };
    let mut fold = Fold(Projection::new("/w", Understands::default(), true));
    let shown = fold.shows(started.clone());
    assert_eq!(shown[0]["sessionUpdate"], "user_message_chunk");
    assert_eq!(
        (&shown[0]["messageId"], &shown[0]["content"]["text"]),
        (&json!("u1"), &json!("do it"))
    );
    fold.0.goes_live();
    assert!(fold.shows(started).is_empty());
}

#[test]
fn changes_of_the_session_are_told() {
    let mut fold = Fold::new();
    let steps = fold.take(ModeChanged { mode: Mode::Plan });
    assert_eq!(steps[1], Step::Mode(Mode::Plan));
    let steps = fold.take(ModelChanged { model: "a/b".to_owned() });
    assert_eq!(steps, [Step::Model("a/b".to_owned())]);
    let shown = fold.shows(SessionUpdated { title: Some("A title".to_owned()) });
    assert_eq!(
        (&shown[0]["sessionUpdate"], &shown[0]["title"]),
        (&json!("session_info_update"), &json!("A title"))
    );
    assert!(fold.take(Done { result: result(TurnEnd::Completed) }).is_empty());
}

#[test]
fn a_client_gets_what_it_understands() {
    let warning = || Told { level: NoticeLevel::Warn, code: None, message: "be warned".to_owned() };
    let good = || Told { level: NoticeLevel::Info, code: None, message: "fyi".to_owned() };
    let compacted = || Compacted {
        before: 9,
        after: 1,
        automatic: true,
        through: Seq(7),
        kept: None,
        summary: "in short".to_owned(),
        mechanical: false,
    };
    let mut plain = Fold::new();
    assert_eq!(plain.shows(warning())[0]["sessionUpdate"], "agent_message_chunk");
    assert!(plain.shows(good()).is_empty() && plain.shows(compacted()).is_empty());
    let understands = Understands { notices: true, compaction: true };
    let mut fold = Fold(Projection::new("/w", understands, false));
    let shown = fold.shows(warning());
    assert_eq!(
        (&shown[0]["sessionUpdate"], &shown[0]["severity"]),
        (&json!("notice"), &json!("warning"))
    );
    assert_eq!(fold.shows(good()).len(), 1);
    assert_eq!(fold.shows(compacted())[0]["sessionUpdate"], "compaction_update");
}
