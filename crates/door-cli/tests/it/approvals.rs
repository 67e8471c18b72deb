//! `narthex approvals`: seen from another terminal, answered by letter or by carrying a turn on.

use protocol::event::{Answer, Persist, PlanRequest, QuestionOption, QuestionRequest};
use protocol::{EventBody, Mode, RefusalCode, RequestId, SessionId, Timestamp, ToolCallId};
use runtime_api::{Pending, SessionInfo};
use testkit::fake_handle::{Call, FakeRuntime, Play, session_info};

use crate::stand::*;

const NOW: Timestamp = Timestamp(1_796_000_600_000);

fn body(play: Play) -> EventBody {
    let Play::Event(body) = play else { unreachable!("only events are asked for") };
    body
}

fn waits(session: &str, cwd: &str, owner_pid: Option<u32>, request: EventBody) -> Pending {
    Pending {
        session: SessionId::new(session),
        cwd: cwd.to_owned(),
        title: Some("fix\u{1b}[2J it".to_owned()),
        since: NOW.plus_ms(-300_000),
        owner_pid,
        request,
    }
}

fn question() -> EventBody {
    let option = |id: &str, label: &str| QuestionOption {
        id: id.to_owned(),
        label: label.to_owned(),
        description: None,
    };
    QuestionRequest {
        request_id: RequestId::new("01q1"),
        tool_call_id: Some(ToolCallId::new("call1")),
        about: None,
        question: "Which database?".to_owned(),
        options: vec![option("pg", "Postgres"), option("lite", "SQLite")],
        multi_select: false,
        allow_other: true,
        expires_at: Some(NOW.plus_ms(600_000)),
    }
    .into()
}

fn plan() -> EventBody {
    PlanRequest {
        request_id: RequestId::new("01pl"),
        tool_call_id: ToolCallId::new("call1"),
        plan: "# Move it\n1. now".to_owned(),
        expires_at: None,
    }
    .into()
}

/// Three requests of a living process.
fn living() -> FakeRuntime {
    let here = |request| waits("01live", "/src/app", Some(42), request);
    FakeRuntime::new().session(session_info("01live", "/src/app")).pending(vec![
        here(body(asks("01p1", "touch x"))),
        here(question()),
        here(plan()),
    ])
}

/// One request of a session whose process has died, and how its turn goes on.
fn dead(plays: Vec<Play>) -> FakeRuntime {
    let request = body(asks("01p1", "touch x"));
    let info = SessionInfo { mode: Mode::AutoEdit, ..session_info("01dead", "/other/app") };
    let mut script = vec![Play::UntilAnswer(RequestId::new("01p1"))];
    script.extend(plays);
    FakeRuntime::new()
        .session(info)
        .pending(vec![waits("01dead", "/other/app", None, request)])
        .waiting(script)
}

fn answers(outcome: &Outcome) -> Vec<(String, Answer)> {
    let answered = |call| match call {
        Call::Answer(id, answer) => Some((id.to_string(), answer)),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(answered).collect()
}

fn opened(outcome: &Outcome) -> Vec<(bool, bool)> {
    let opened = |call| match call {
        Call::Open(_, agent) => Some((agent.carries_on, agent.is_attended)),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(opened).collect()
}

#[test]
fn what_waits_is_listed_and_shown() {
    let mut shown = String::new();
    for args in [
        &["approvals", "list"][..],
        &["approvals", "list", "--session", "01li"],
        &["approvals", "show", "01p1"],
        &["approvals", "show", "01q"],
        &["approvals", "show", "01pl"],
    ] {
        let outcome = Stand::new(living()).run(args);
        let line = args.join(" ");
        let Outcome { code, out, err, .. } = outcome;
        shown.push_str(&format!("$ narthex {line}\nexit {code}\n{out}{err}\n"));
    }
    insta::assert_snapshot!(shown);
    let outcome = Stand::new(living()).run(&["approvals", "list", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    insta::assert_json_snapshot!(value["approvals"][1]);
    let outcome = Stand::new(FakeRuntime::new()).run(&["approvals", "list"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""));
    assert!(outcome.err.contains("nothing waits for an answer"), "{}", outcome.err);
}

#[test]
fn each_answer_goes_to_the_process_that_runs_the_session() {
    let rule = Some("run_shell(touch *)".to_owned());
    let text = |words: &str| Some(words.to_owned());
    let chosen = |id: &str, other| Answer::Chosen { answers: vec![id.to_owned()], other };
    let table: [(&[&str], Answer); 11] = [
        (&["01p1", "allow"], Answer::AllowOnce),
        (&["01p1", "always"], Answer::AllowAlways { rule: None, persist: Persist::Session }),
        (
            &["01p", "always", "--rule", "run_shell(touch *)", "--persist", "project"],
            Answer::AllowAlways { rule, persist: Persist::Project },
        ),
        (&["01p1", "deny", "--feedback", "use make"], Answer::Deny { feedback: text("use make") }),
        (&["01q1", "choose", "--option", "2"], chosen("lite", None)),
        (&["01q1", "choose", "--option", "postgres"], chosen("pg", None)),
        (&["01q1", "choose", "--option", "pg", "--other", "16"], chosen("pg", text("16"))),
        (&["01q1", "dismiss"], Answer::Dismissed),
        (
            &["01pl", "approve", "--mode", "auto-edit"],
            Answer::Approved { mode: Some(Mode::AutoEdit) },
        ),
        (&["01pl", "approve"], Answer::Approved { mode: None }),
        (&["01pl", "reject", "--feedback", "no"], Answer::Rejected { feedback: text("no") }),
    ];
    for (words, expected) in table {
        let args: Vec<&str> = ["approvals", "decide"].iter().chain(words).copied().collect();
        // The beginning of an id is enough where only one begins so.
        let runtime = match words[0] {
            "01p" => FakeRuntime::new()
                .session(session_info("01live", "/src/app"))
                .pending(vec![waits("01live", "/", Some(1), body(asks("01p1", "touch x")))]),
            _ => living(),
        };
        let outcome = Stand::new(runtime).run(&args);
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
        let given: Vec<Answer> = answers(&outcome).into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(given, [expected], "{args:?}");
        assert!(opened(&outcome).is_empty(), "nothing is opened: {outcome:?}");
    }
    let outcome = Stand::new(living()).run(&["approvals", "decide", "01p1", "allow"]);
    assert_eq!(outcome.err, "allowed once: run_shell: touch x; process 42 goes on\n");
}

#[test]
fn answers_that_do_not_fit_are_wrong_usage() {
    let table: [(&[&str], &str); 6] = [
        (&["01p1", "choose", "--option", "1"], "allow, always or deny answers it"),
        (&["01q1", "allow"], "choose or dismiss answers it"),
        (&["01pl", "deny"], "approve or reject answers it"),
        (&["01q1", "choose", "--option", "7"], "there are: 1 Postgres, 2 SQLite"),
        (&["01", "allow"], "more than one request begins with '01'"),
        (&["77", "allow"], "no request 77 waits"),
    ];
    for (words, part) in table {
        let args: Vec<&str> = ["approvals", "decide"].iter().chain(words).copied().collect();
        let outcome = Stand::new(living()).run(&args);
        assert_eq!(outcome.code, 2, "{args:?}: {outcome:?}");
        assert!(outcome.err.contains(part), "{args:?}: {}", outcome.err);
        assert!(answers(&outcome).is_empty(), "{outcome:?}");
    }
    for words in [
        &["01p1", "allow", "--rule", "a(b)"][..],
        &["01p1", "deny", "--persist", "user"],
        &["01p1", "always", "--feedback", "x"],
        &["01q1", "choose"],
        &["01p1", "allow", "--mode", "plan"],
        &["01p1", "perhaps"],
    ] {
        let args = ["narthex", "approvals", "decide"].iter().chain(words).map(Into::into);
        assert_eq!(door_cli::parse(args).unwrap_err().code(), 2, "{words:?}");
    }
}

#[test]
fn a_refusal_of_the_owner_is_told() {
    let runtime = living().refuse("answer", RefusalCode::RequestResolved, "decided already");
    let outcome = Stand::new(runtime).run(&["approvals", "decide", "01p1", "allow"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.err.contains("decided already"), "{}", outcome.err);
}

#[test]
fn a_turn_that_nobody_runs_is_carried_on_to_its_end() {
    let outcome =
        Stand::new(dead(answer("finished"))).run(&["approvals", "decide", "01p", "allow"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{outcome:?}");
    assert_eq!(opened(&outcome), [(true, false)]);
    assert_eq!(answers(&outcome), [("01p1".to_owned(), Answer::AllowOnce)]);
    assert!(outcome.err.contains("carrying it on here, in /other/app"), "{}", outcome.err);
    let failing = ends(result(protocol::TurnEnd::Budget, ""));
    let outcome = Stand::new(dead(failing)).run(&["approvals", "decide", "01p1", "deny"]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
}

#[test]
fn what_is_asked_on_the_way_goes_to_the_terminal() {
    let mut plays = vec![asks("01p2", "touch y"), Play::UntilAnswer(RequestId::new("01p2"))];
    plays.extend(answer("finished"));
    let stand = Stand::new(dead(plays)).terminal().input("n\n");
    let outcome = stand.run(&["approvals", "decide", "01p1", "allow"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "finished\n"), "{outcome:?}");
    assert_eq!(opened(&outcome), [(true, true)]);
    let no = Answer::Deny { feedback: None };
    assert_eq!(answers(&outcome)[1], ("01p2".to_owned(), no));
}

#[test]
fn a_refused_answer_leaves_a_dead_session_waiting() {
    let runtime = dead(answer("finished"));
    let runtime = runtime.refuse("answer", RefusalCode::Invalid, "rule: is none");
    let outcome = Stand::new(runtime).run(&["approvals", "decide", "01p1", "always"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
    assert!(outcome.err.contains("rule: is none"), "{}", outcome.err);
    // The archive is put away; the session is left as a process leaves it that dies.
    let shut = |call: &Call| matches!(call, Call::Shutdown);
    assert_eq!(outcome.runtime.calls().iter().filter(|call| shut(call)).count(), 1);
}
