//! The demo: it succeeds only where the project's tests passed.

use protocol::event::Display;
use protocol::{StopReason, TurnEnd};
use testkit::fake_handle::{Call, FakeRuntime};

use crate::stand::*;

fn demo_with(last_code: i32) -> Outcome {
    let exit = |code| Some(Display::Exit { code: Some(code), signal: None });
    let mut plays = vec![
        step(1),
        calls("c1", "run_shell", "sh test.sh"),
        brings("c1", "run_shell", false, exit(1)),
        calls("c2", "run_shell", "sh test.sh"),
        brings("c2", "run_shell", false, exit(last_code)),
        says("That was it.", StopReason::EndTurn),
    ];
    plays.extend(ends(result(TurnEnd::Completed, "That was it.")));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("slug.sh"), "new\n").unwrap();
    let path = folder.path().to_owned();
    Stand::new(FakeRuntime::new().turn(plays)).demo(path).run(&["demo"])
}

#[test]
fn it_shows_the_change_and_what_to_do_next() {
    let outcome = demo_with(0);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for part in ["-old", "+new", "The tests pass.", "narthex sessions show"] {
        assert!(outcome.out.contains(part), "{part}: {}", outcome.out);
    }
    assert!(outcome.err.contains("✓ run_shell sh test.sh"), "{}", outcome.err);
    let created = outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Create(session) => Some((session.model, session.mode)),
        _ => None,
    });
    let expected = (Some("demo".to_owned()), Some(protocol::Mode::FullAuto));
    assert_eq!(created, Some(expected));
}

#[test]
fn it_fails_where_the_tests_still_do() {
    let outcome = demo_with(1);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.out.contains("do not pass"), "{}", outcome.out);
}
