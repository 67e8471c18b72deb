//! What waits in a sandbox: shown, asked for, applied, discarded.

use protocol::{IsolationLevel, NeuronDriver, SessionSandbox, Writes};
use runtime_api::SessionInfo;
use runtime_api::neuron::{BringOver, BroughtOver, BroughtPath, Held, Kept, OverlayChange};
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::stand::*;

const ID: &str = "01kc3v9yq8";

fn waiting(changes_waiting: u64) -> SessionInfo {
    let sandbox = SessionSandbox {
        driver: NeuronDriver::Namespace,
        isolation: IsolationLevel::Full,
        writes: Writes::Overlay,
    };
    SessionInfo { sandbox: Some(sandbox), changes_waiting, ..session_info(ID, "/src/app") }
}

fn brought() -> BroughtOver {
    let path = |path: &str, change, old, new| BroughtPath { path: path.into(), change, old, new };
    let text = |text: &str| Held::Text(text.to_owned());
    BroughtOver {
        changed: vec![
            path("a\u{1b}[2J.txt", OverlayChange::Added, Held::Nothing, text("\u{1b}[2Jnew\n")),
            path("b.txt", OverlayChange::Changed, text("1\n"), text("2\n")),
            path("c.bin", OverlayChange::Changed, Held::Bytes(9), Held::Link("/etc".to_owned())),
            path("d.txt", OverlayChange::Removed, text("gone\n"), Held::Nothing),
        ],
        kept: Vec::new(),
    }
}

fn kept() -> BroughtOver {
    let why = "it was changed in the folder meanwhile".to_owned();
    BroughtOver { kept: vec![Kept { path: "both.txt".to_owned(), why }], ..brought() }
}

fn runtime(brought: BroughtOver) -> FakeRuntime {
    FakeRuntime::new().session(waiting(4)).brought(brought)
}

/// What was done apart from looking.
fn done(outcome: &Outcome) -> Vec<String> {
    let calls = outcome.runtime.calls();
    let done = calls.iter().filter_map(|call| match call {
        Call::BringOver(_, how) if !how.is_dry => Some(format!("{how:?}")),
        Call::Discard(id) => Some(format!("discard {id}")),
        _ => None,
    });
    done.collect()
}

fn applied(is_forced: bool) -> Vec<String> {
    vec![format!("{:?}", BringOver { is_forced, is_dry: false })]
}

#[test]
fn what_waits_is_shown_as_a_diff_that_moves_no_cursor() {
    let outcome = Stand::new(runtime(kept())).run(&["sessions", "apply", "--dry-run"]);
    assert_eq!((outcome.code, done(&outcome)), (0, vec![]), "{outcome:?}");
    for part in ["~ b.txt", "    -1", "    +2", "- d.txt", "    -gone", "a link to /etc, was 9"] {
        assert!(outcome.out.contains(part), "{part}: {}", outcome.out);
    }
    assert!(!outcome.out.contains('\u{1b}') && !outcome.err.contains('\u{1b}'), "{outcome:?}");
    assert!(outcome.err.contains("kept back: both.txt: it was changed"), "{}", outcome.err);
}

#[test]
fn nothing_is_done_before_somebody_said_so() {
    let unasked = Stand::new(runtime(brought())).run(&["sessions", "apply", ID]);
    assert_eq!((unasked.code, done(&unasked)), (3, vec![]), "{unasked:?}");
    assert!(unasked.err.contains("--yes"), "{}", unasked.err);
    for (said, expected) in [("n\n", vec![]), ("what\ny\n", applied(false)), ("", vec![])] {
        let stand = Stand::new(runtime(brought())).terminal().input(said);
        let outcome = stand.run(&["sessions", "apply", ID]);
        assert_eq!((outcome.code, done(&outcome)), (0, expected), "{said:?}: {outcome:?}");
    }
    let yes = Stand::new(runtime(brought())).run(&["sessions", "apply", ID, "--yes", "--force"]);
    assert_eq!((yes.code, done(&yes)), (0, applied(true)), "{yes:?}");
    assert!(yes.err.contains("applied: 1 added, 2 changed, 1 removed"), "{}", yes.err);
}

#[test]
fn what_is_kept_back_is_told_and_ends_with_1() {
    let outcome = Stand::new(runtime(kept())).run(&["sessions", "apply", ID, "--yes", "--json"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let report: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!((&report["outcome"], &report["sessionId"]), (&"applied".into(), &ID.into()));
    assert_eq!(report["kept"][0]["path"], "both.txt");
    assert_eq!(report["changes"][1]["change"], "changed");
    let diff = report["changes"][1]["diff"].as_str().unwrap();
    assert!(diff.contains("-1\n+2\n"), "{diff}");
}

#[test]
fn what_is_discarded_is_asked_for_as_well() {
    let args = ["sessions", "apply", ID, "--discard"];
    let refused = Stand::new(runtime(brought())).run(&args);
    assert_eq!((refused.code, done(&refused)), (3, vec![]), "{refused:?}");
    let stand = Stand::new(runtime(brought())).terminal().input("y\n");
    let outcome = stand.run(&args);
    assert_eq!((outcome.code, done(&outcome)), (0, vec![format!("discard {ID}")]), "{outcome:?}");
    assert!(outcome.err.contains("throw away 1 added"), "{}", outcome.err);
}

#[test]
fn where_nothing_waits_that_is_said() {
    let runtime = FakeRuntime::new().session(waiting(0)).brought(BroughtOver::default());
    let outcome = Stand::new(runtime).run(&["sessions", "apply", "--yes"]);
    assert_eq!((outcome.code, done(&outcome)), (0, vec![]), "{outcome:?}");
    assert!(outcome.err.contains("nothing waits"), "{}", outcome.err);
    let plain = FakeRuntime::new().session(session_info(ID, "/src/app"));
    let outcome = Stand::new(plain).run(&["sessions", "apply"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("no session of /src/app has a sandbox"), "{}", outcome.err);
}

#[test]
fn lists_say_what_waits_and_a_stored_session_keeps_its_sandbox() {
    let list = Stand::new(runtime(brought())).run(&["sessions", "list"]);
    assert!(list.out.contains("4 changes wait"), "{}", list.out);
    let json = Stand::new(runtime(brought())).run(&["sessions", "list", "--output-format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(listed["sessions"][0]["changesWaiting"], 4);
    assert_eq!(listed["sessions"][0]["sandbox"]["driver"], "namespace");
    let args = ["run", "--resume", ID, "--sandbox", "host", "go"];
    let outcome = Stand::new(runtime(brought()).turn(answer("done"))).input("").run(&args);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("was created with sandbox namespace"), "{}", outcome.err);
}
