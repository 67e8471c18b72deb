//! Questions, plans, rules that are edited, and requests that are answered elsewhere.

use protocol::event::{
    Answer, DecidedBy, InteractionKind, Outcome as Decision, PauseKind, Persist, PlanRequest,
    QuestionOption, QuestionRequest, RequestResolved, ToolProgress,
};
use protocol::{Mode, RefusalCode, RequestId, ToolCallId};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::stand::*;

fn option(id: &str, label: &str) -> QuestionOption {
    QuestionOption { id: id.to_owned(), label: label.to_owned(), description: None }
}

fn question(id: &str, about: Option<PauseKind>) -> Play {
    let options = match about {
        Some(_) => vec![option("go_on", "go on"), option("stop", "end the turn")],
        None => vec![option("pg", "Postgres"), option("lite", "SQLite")],
    };
    QuestionRequest {
        request_id: RequestId::new(id),
        tool_call_id: about.is_none().then(|| ToolCallId::new("call1")),
        about,
        question: "Which way?".to_owned(),
        options,
        multi_select: false,
        allow_other: about.is_none(),
        expires_at: None,
    }
    .into()
}

fn plan(id: &str) -> Play {
    PlanRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("call1"),
        plan: "# Plan\n1. go".to_owned(),
        expires_at: None,
    }
    .into()
}

fn resolved(id: &str, outcome: Decision, by: DecidedBy) -> Play {
    RequestResolved {
        request_id: RequestId::new(id),
        kind: InteractionKind::Permission,
        outcome,
        by,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    }
    .into()
}

fn until(id: &str) -> Play {
    Play::UntilAnswer(RequestId::new(id))
}

fn asked(mut plays: Vec<Play>) -> FakeRuntime {
    plays.insert(0, step(1));
    plays.extend(answer("finished"));
    FakeRuntime::new().turn(plays)
}

fn answers(outcome: &Outcome) -> Vec<Answer> {
    let answered = |call| match call {
        Call::Answer(_, answer) => Some(answer),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(answered).collect()
}

fn attended(outcome: &Outcome) -> Option<bool> {
    outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Create(session) => Some(session.agent.is_attended),
        _ => None,
    })
}

#[test]
fn questions_and_plans_are_answered_at_the_terminal() {
    let chosen = |id: &str| Answer::Chosen { answers: vec![id.to_owned()], other: None };
    let approved = |mode| Answer::Approved { mode: Some(mode) };
    let budget = Some(PauseKind::Budget);
    let own = Answer::Chosen { answers: Vec::new(), other: Some("a file".to_owned()) };
    let table = [
        (question("r1", None), "2\n", chosen("lite")),
        (question("r1", None), "a file\n", own),
        (question("r1", None), "\n\n", Answer::Dismissed),
        (question("r1", None), "7\n-\n", Answer::Dismissed),
        (question("r1", None), "", Answer::Dismissed),
        (question("r1", budget), "what\ny\n", chosen("go_on")),
        (question("r1", budget), "n\n", chosen("stop")),
        (plan("r1"), "y\n", approved(Mode::Ask)),
        (plan("r1"), "a\n", approved(Mode::AutoEdit)),
        (
            plan("r1"),
            "first the tests\n",
            Answer::Rejected { feedback: Some("first the tests".to_owned()) },
        ),
        (plan("r1"), "", Answer::Rejected { feedback: None }),
    ];
    for (request, input, expected) in table {
        let stand = Stand::new(asked(vec![request, until("r1")])).terminal().input(input);
        let outcome = stand.run(&["run", "go"]);
        assert_eq!(answers(&outcome), [expected], "{input:?}: {outcome:?}");
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
}

#[test]
fn what_became_of_a_question_or_a_plan_is_told() {
    let settled = |outcome, by, answers: &[&str], words: Option<&str>| RequestResolved {
        request_id: RequestId::new("r1"),
        kind: InteractionKind::Plan,
        outcome,
        by,
        rule: None,
        persist: None,
        answers: answers.iter().map(|id| (*id).to_owned()).collect(),
        words: words.map(str::to_owned),
        mode: (outcome == Decision::Approved).then_some(Mode::AutoEdit),
    };
    let (client, clock) = (DecidedBy::Client, DecidedBy::Timeout);
    let table = [
        (plan("r1"), settled(Decision::Rejected, client, &[], None), "⊘ tool Plan · plan rejected"),
        (
            plan("r1"),
            settled(Decision::Approved, client, &[], None),
            "✓ tool Plan · plan approved, mode auto-edit",
        ),
        (
            plan("r1"),
            settled(Decision::Rejected, clock, &[], None),
            "⊘ tool Plan · nobody answered in time",
        ),
        (
            question("r1", None),
            settled(Decision::Answered, client, &["pg"], Some("with care")),
            "✓ tool Plan · answered: Postgres, with care",
        ),
        (
            question("r1", None),
            settled(Decision::Dismissed, client, &[], None),
            "⊘ tool Plan · dismissed",
        ),
        (
            question("r1", None),
            settled(Decision::Dismissed, clock, &[], None),
            "⊘ tool Plan · nobody answered in time",
        ),
    ];
    for (request, resolved, line) in table {
        let is_late = resolved.by == clock;
        let mut plays = vec![step(1), calls("call1", "tool", "Plan"), request, resolved.into()];
        plays.push(brings("call1", "tool", false, None));
        let end = protocol::event::TurnResult {
            unanswered: u32::from(is_late),
            ..result(protocol::TurnEnd::Completed, "well")
        };
        plays.extend(ends(end));
        let outcome = Stand::new(FakeRuntime::new().turn(plays)).terminal().run(&["run", "go"]);
        assert!(outcome.err.contains(line), "{line}: {}", outcome.err);
        let late = "1 call needed an answer and nobody answered in time (tool)";
        assert_eq!(outcome.err.contains(late), is_late, "{}", outcome.err);
    }
}

#[test]
fn several_requests_are_asked_one_after_the_other() {
    let all = ["r1", "r2", "r3"];
    let mut plays: Vec<Play> = all.iter().map(|id| asks(id, &format!("touch {id}"))).collect();
    for id in all {
        plays.push(until(id));
        plays.push(resolved(id, Decision::AllowOnce, DecidedBy::Client));
    }
    let stand = Stand::new(asked(plays)).terminal().input("y\ny\nn\n");
    let outcome = stand.run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for place in ["1 of 3", "2 of 3", "3 of 3"] {
        assert_eq!(outcome.err.matches(place).count(), 1, "{place}: {}", outcome.err);
    }
}

#[test]
fn a_rule_is_edited_and_a_refused_one_is_edited_again() {
    let plays = vec![asks("r1", "touch x"), until("r1")];
    let runtime =
        asked(plays).refuse("answer", RefusalCode::Invalid, "rule: no bracket at its end");
    let input = "e\nrun_shell(touch\ns\nrun_shell(touch x)\nu\n";
    let outcome = Stand::new(runtime).terminal().input(input).run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let rule = |text: &str, persist| Answer::AllowAlways { rule: Some(text.to_owned()), persist };
    let expected =
        [rule("run_shell(touch", Persist::Session), rule("run_shell(touch x)", Persist::User)];
    assert_eq!(answers(&outcome), expected);
    assert_eq!(outcome.err.matches("? run_shell").count(), 1, "{}", outcome.err);
    insta::assert_snapshot!(outcome.err);
}

#[test]
fn a_locked_mode_is_told_and_offered_no_more() {
    let runtime = asked(vec![plan("r1"), until("r1")]);
    let runtime = runtime.refuse("answer", RefusalCode::LockedByPolicy, "full-auto is locked");
    let outcome = Stand::new(runtime).terminal().input("f\na\n").run(&["run", "go"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.err.matches("f in full-auto").count(), 1, "{}", outcome.err);
    assert_eq!(answers(&outcome)[1], Answer::Approved { mode: Some(Mode::AutoEdit) });
}

#[test]
fn what_somebody_else_decides_before_the_card_is_drawn_is_not_asked() {
    let plays = vec![asks("r1", "touch x"), resolved("r1", Decision::AllowOnce, DecidedBy::Client)];
    let outcome = Stand::new(asked(plays)).terminal().silent_input().run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{outcome:?}");
    assert!(!outcome.err.contains("? run_shell"), "{}", outcome.err);
    assert!(answers(&outcome).is_empty(), "{outcome:?}");
}

#[test]
fn a_card_goes_away_when_somebody_else_decides() {
    // Enough output of another call that the card is drawn before the decision is read.
    let mut plays = vec![asks("r1", "touch x")];
    plays.extend((0..100).map(|_| {
        let (id, text) = (ToolCallId::new("call2"), "line".to_owned());
        Play::from(ToolProgress { tool_call_id: id, stream: None, text })
    }));
    plays.push(resolved("r1", Decision::AllowOnce, DecidedBy::Client));
    let outcome = Stand::new(asked(plays)).terminal().silent_input().run(&["run", "go"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{outcome:?}");
    let note = "allowed once meanwhile, from elsewhere; press Enter";
    assert!(outcome.err.contains(note), "{}", outcome.err);
    assert!(answers(&outcome).is_empty(), "{outcome:?}");
}

#[test]
fn with_a_time_out_nobody_is_waited_for_elsewhere() {
    let plays = || {
        vec![
            asks("r1", "touch x"),
            question("r2", None),
            resolved("r1", Decision::AllowOnce, DecidedBy::Client),
            resolved("r2", Decision::Dismissed, DecidedBy::Timeout),
        ]
    };
    let args = ["run", "--permission-timeout", "60000", "go"];
    let outcome = Stand::new(asked(plays())).run(&args);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{outcome:?}");
    assert_eq!(attended(&outcome), Some(true));
    assert!(answers(&outcome).is_empty(), "{outcome:?}");
    insta::assert_snapshot!(outcome.err);
    let outcome = Stand::new(asked(plays())).run(&["run", "--permission-timeout", "0", "go"]);
    assert_eq!(attended(&outcome), Some(false), "without time nobody can answer");
}

#[test]
fn a_programs_last_word_waits_as_well_when_there_is_time() {
    let plays = vec![asks("r1", "touch x"), resolved("r1", Decision::AllowOnce, DecidedBy::Client)];
    let args = [
        "run",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--permission-timeout",
        "60000",
    ];
    let input = "{\"type\":\"prompt\",\"text\":\"a\"}\n";
    let outcome = Stand::new(asked(plays)).input(input).run(&args);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(answers(&outcome).is_empty(), "{outcome:?}");
}

#[test]
fn money_and_time_are_checked_on_the_command_line() {
    for args in [
        &["run", "--max-budget-usd", "-1", "go"][..],
        &["run", "--max-budget-usd", "inf", "go"],
        &["run", "--max-budget-usd", "NaN", "go"],
        &["run", "--max-budget-usd", "much", "go"],
        &["run", "--permission-timeout", "-1", "go"],
        &["run", "--permission-timeout", "1.5", "go"],
        &["run", "--permission-timeout", "99999999999999", "go"],
    ] {
        let words = std::iter::once("narthex").chain(args.iter().copied()).map(Into::into);
        assert_eq!(door_cli::parse(words).unwrap_err().code(), 2, "{args:?}");
    }
    let words = ["narthex", "run", "--max-budget-usd", "2.50", "--permission-timeout", "0", "go"];
    let cli = door_cli::parse(words.map(Into::into)).unwrap();
    assert_eq!(cli.globals.max_budget_usd, Some(2.5));
    assert_eq!(cli.globals.permission_timeout, Some(0));
}
