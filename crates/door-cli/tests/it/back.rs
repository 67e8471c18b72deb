//! Undo, rewind, and copies at a point.

use protocol::event::RewindScope;
use protocol::{CheckpointId, MessageId, RefusalCode, Seq, Timestamp};
use runtime_api::{ForkPoint, GoBack, PointInfo, WentBack};
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::stand::*;

const NOW: Timestamp = Timestamp(1_796_000_600_000);

fn point(id: &str, seq: u64, label: &str, files: u64) -> PointInfo {
    PointInfo {
        id: CheckpointId::new(id),
        seq: Seq(seq),
        created_at: NOW.plus_ms(-600_000),
        message_id: MessageId::new(format!("m{seq}")),
        label: label.to_owned(),
        files,
        has_files: files > 0,
        is_undone: false,
        is_cut: false,
    }
}

fn points() -> Vec<PointInfo> {
    vec![
        point("01a1", 2, "write the parser", 3),
        PointInfo { is_undone: true, ..point("01a2", 9, "make it fast", 1) },
        PointInfo { is_cut: true, ..point("01b1", 15, "what \u{1b}[2J", 0) },
    ]
}

fn went() -> WentBack {
    let path = |text: &str| text.to_owned();
    WentBack {
        point: Some(CheckpointId::new("01a1")),
        changed: vec![
            ('+', path("gone.txt")),
            ('~', path("/src/app/src/a.rs")),
            ('-', path("new\n.txt")),
        ],
        kept: vec![(path("/src/app/b.rs"), "was changed since".to_owned())],
        beyond: vec!["target/ is ignored and was not captured".to_owned()],
        messages_removed: 4,
    }
}

fn runtime(went: WentBack) -> FakeRuntime {
    FakeRuntime::new().session(session_info("01kc3v9yq8", "/src/app")).points(points(), went)
}

#[test]
fn going_back_says_exactly_what_came_of_it() {
    let mut shown = String::new();
    for args in [
        &["undo"][..],
        &["undo", "--dry-run"],
        &["undo", "--json"],
        &["rewind", "--list"],
        &["rewind", "--list", "--json"],
        &["rewind", "01a1"],
        &["rewind", "01a2", "--conversation", "--dry-run"],
        &["rewind", "01a2", "--files", "--json"],
    ] {
        let Outcome { code, out, err, .. } = Stand::new(runtime(went())).run(args);
        shown.push_str(&format!("$ narthex {}\nexit {code}\n{out}{err}\n", args.join(" ")));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn what_is_asked_for_reaches_the_runtime() {
    let back = |outcome: &Outcome| {
        let done = |call| match call {
            Call::Undo(_, how) => Some((None, how)),
            Call::Rewind(point, scope, how) => Some((Some((point.to_string(), scope)), how)),
            _ => None,
        };
        outcome.runtime.calls().into_iter().find_map(done)
    };
    let how = |is_forced, is_dry| GoBack { is_forced, is_dry };
    let at = |id: &str, scope| Some((id.to_owned(), scope));
    let table: [(&[&str], _); 5] = [
        (&["undo"], (None, how(false, false))),
        (&["undo", "--force", "--dry-run"], (None, how(true, true))),
        (&["rewind", "01a2"], (at("01a2", RewindScope::Both), how(false, false))),
        (&["rewind", "01b", "--files"], (at("01b1", RewindScope::Files), how(false, false))),
        (
            &["rewind", "01a1", "--conversation", "--session", "01kc"],
            (at("01a1", RewindScope::Conversation), how(false, false)),
        ),
    ];
    for (args, expected) in table {
        let outcome = Stand::new(runtime(went())).run(args);
        assert_eq!(back(&outcome), Some(expected), "{args:?}: {outcome:?}");
        // A turn that was cut is not carried on for this.
        let carries = |call: &Call| matches!(call, Call::Open(_, agent) if agent.carries_on);
        assert!(!outcome.runtime.calls().iter().any(carries));
    }
}

#[test]
fn nothing_to_undo_is_no_failure_and_nothing_undone_is_one() {
    let outcome = Stand::new(runtime(WentBack::default())).run(&["undo"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.err.contains("nothing to undo in session 01kc3v9yq8"), "{}", outcome.err);
    let kept = WentBack { changed: Vec::new(), messages_removed: 0, ..went() };
    let outcome = Stand::new(runtime(kept.clone())).run(&["undo"]);
    assert_eq!(outcome.code, 1, "all of it was kept: {outcome:?}");
    let outcome = Stand::new(runtime(kept)).run(&["undo", "--dry-run"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn refusals_have_their_exit_codes() {
    let table: [(&[&str], &str); 4] = [
        (&["rewind", "77"], "no point 77"),
        (&["rewind", "01a"], "more than one point"),
        (&["rewind"], "narthex rewind --list"),
        (&["undo", "--session", "77"], "no session 77"),
    ];
    for (args, part) in table {
        let outcome = Stand::new(runtime(went())).run(args);
        assert_eq!(outcome.code, 2, "{args:?}: {outcome:?}");
        assert!(outcome.err.contains(part), "{args:?}: {}", outcome.err);
    }
    let busy = runtime(went()).refuse("undo", RefusalCode::SessionBusy, "a turn runs");
    let outcome = Stand::new(busy).run(&["undo"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
}

#[test]
fn a_session_that_waits_for_an_answer_is_left_alone() {
    let testkit::fake_handle::Play::Event(request) = asks("r1", "touch x") else { return };
    let waiting = runtime_api::Pending {
        session: protocol::SessionId::new("01kc3v9yq8"),
        cwd: "/src/app".to_owned(),
        title: None,
        since: NOW,
        owner_pid: None,
        request,
    };
    let outcome = Stand::new(runtime(went()).pending(vec![waiting])).run(&["undo", "--dry-run"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.err.contains("waits for an answer"), "{}", outcome.err);
    let opened = |call: &Call| matches!(call, Call::Open(..));
    assert!(!outcome.runtime.calls().iter().any(opened), "{outcome:?}");
}

fn rewinds(outcome: &Outcome) -> Vec<(String, RewindScope, bool)> {
    let back = |call| match call {
        Call::Rewind(id, scope, how) => Some((id.to_string(), scope, how.is_dry)),
        _ => None,
    };
    outcome.runtime.calls().into_iter().filter_map(back).collect()
}

#[test]
fn at_a_terminal_one_is_asked_for_the_point_and_for_a_yes() {
    let outcome =
        Stand::new(runtime(went())).terminal().input("9\n2\nx\n\nwhat\ny\n").run(&["rewind"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let (first, both) = ("01a1".to_owned(), RewindScope::Both);
    assert_eq!(rewinds(&outcome), [(first.clone(), both, true), (first, both, false)]);
    insta::assert_snapshot!(format!("{}--- stdout\n{}", outcome.err, outcome.out));
}

#[test]
fn without_a_yes_nothing_goes_back() {
    for input in ["", "\n", "2\n", "2\nn\n", "2\n\n", "2\n\nn\n", "2\n\n\n"] {
        let outcome = Stand::new(runtime(went())).terminal().input(input).run(&["rewind"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{input:?}: {outcome:?}");
        assert!(rewinds(&outcome).iter().all(|(.., is_dry)| *is_dry), "{input:?}: {outcome:?}");
    }
    for args in [&["rewind", "--dry-run"][..], &["rewind", "--dry-run", "--files"]] {
        let outcome = Stand::new(runtime(went())).terminal().input("2\n\ny\n").run(args);
        assert!(rewinds(&outcome).iter().all(|(.., is_dry)| *is_dry), "{args:?}: {outcome:?}");
    }
}

#[test]
fn what_to_go_back_in_is_a_letter_or_a_flag() {
    let table: [(&[&str], &str, RewindScope); 4] = [
        (&["rewind"], "1\nc\ny\n", RewindScope::Conversation),
        (&["rewind"], "1\nf\ny\n", RewindScope::Files),
        (&["rewind", "--files"], "1\ny\n", RewindScope::Files),
        (&["rewind", "--both"], "1\ny\n", RewindScope::Both),
    ];
    for (args, input, scope) in table {
        let outcome = Stand::new(runtime(went())).terminal().input(input).run(args);
        let last = rewinds(&outcome).pop();
        assert_eq!(last, Some(("01a2".to_owned(), scope, false)), "{args:?}: {outcome:?}");
    }
}

#[test]
fn a_point_is_named_by_its_number_or_either_end_of_its_id() {
    let table = [("1", "01a2"), ("2", "01a1"), ("01a1", "01a1"), ("a2", "01a2"), ("01b", "01b1")];
    for (given, id) in table {
        let outcome = Stand::new(runtime(went())).run(&["rewind", given, "--files"]);
        let expected = [(id.to_owned(), RewindScope::Files, false)];
        assert_eq!(rewinds(&outcome), expected, "{given}: {outcome:?}");
    }
}

#[test]
fn undo_says_whose_changes_and_why_there_are_none() {
    let silent = vec![PointInfo { label: String::new(), ..point("01a1", 2, "", 1) }];
    let info = session_info("01kc3v9yq8", "/src/app");
    let stand = FakeRuntime::new().session(info.clone()).points(silent, went());
    let outcome = Stand::new(stand).run(&["undo"]);
    assert!(outcome.err.contains("the changes of a prompt without words"), "{}", outcome.err);
    let unknown = FakeRuntime::new().session(info).points(Vec::new(), went());
    let outcome = Stand::new(unknown).run(&["undo"]);
    assert!(outcome.err.contains("the changes of the prompt at 01a1"), "{}", outcome.err);
    let words = "checkpoints are off (checkpoints.enabled)";
    let nothing = || Stand::new(runtime(WentBack::default()));
    assert!(!nothing().run(&["undo"]).err.contains(words));
    let outcome = nothing().without_checkpoints().run(&["undo"]);
    assert!(outcome.err.contains(words), "{}", outcome.err);
}

#[test]
fn a_copy_can_end_before_a_point() {
    let forked = |outcome: &Outcome| {
        let until = |call| match call {
            Call::Fork(_, ForkPoint::Seq(until)) => Some(until),
            _ => None,
        };
        outcome.runtime.calls().into_iter().find_map(until)
    };
    let args = ["sessions", "fork", "01kc3v9yq8", "--at", "01a2"];
    let outcome = Stand::new(runtime(went())).run(&args);
    assert_eq!((outcome.code, forked(&outcome)), (0, Some(Seq(8))), "{outcome:?}");
    let outcome = Stand::new(runtime(went())).run(&["sessions", "fork", "01kc3v9yq8", "--at", "9"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
}
