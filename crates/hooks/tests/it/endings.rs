//! Hooks that fail, take too long, say too much, or leave something behind.

use std::time::{Duration, Instant};

use driver_api::{Happening, HookVote, Hooks};
use hooks::{CommandHooks, Origin};
use protocol::{Mode, SessionId};
use serde_json::json;

use crate::place::{Place, alive, at, group, mark, set, shell, wait_for};

#[tokio::test]
async fn a_hook_that_fails_asks_before_a_call_and_is_a_failure_elsewhere() {
    let place = Place::new();
    let table = [
        ("echo boom >&2; exit 1", "ended with exit code 1: boom"),
        ("exit 3", "ended with exit code 3"),
        ("no-such-program --x", "ended with exit code 127: "),
        ("kill -SEGV $$", "was ended by signal 11"),
        ("echo '{\"decision\": '", "answered with JSON that is wrong: "),
        ("echo '{\"decision\": \"perhaps\"}'", "answered with JSON that is wrong: "),
        ("head -c 2000000 /dev/zero", "wrote more than 1.0 MiB"),
        ("yes no >&2", "wrote more than 1.0 MiB"),
    ];
    let prompt = Happening::UserPromptSubmit { prompt: "p".into() };
    for (command, why) in table {
        let answer = place.tell(&at("PreToolUse", &[command]), &shell("x")).await;
        assert_eq!(answer.vote, Some(HookVote::Ask), "{command}: {answer:?}");
        let failure = &answer.failures[0];
        assert!(failure.starts_with("hook `") && failure.contains(why), "{command}: {failure}");
        assert_eq!(answer.reason.as_ref(), Some(failure));
        let answer = place.tell(&at("UserPromptSubmit", &[command]), &prompt).await;
        assert_eq!((answer.vote, answer.failures.len()), (None, 1), "{command}: {answer:?}");
    }
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_ended_with_its_tree() {
    let place = Place::new();
    let mark = mark(1);
    let command = format!("trap '' TERM; setsid sleep {mark}1 & sleep {mark}2; sleep {mark}3");
    let value = json!({"PreToolUse": [{"hooks": [{"command": command, "timeout": 1}]}]});
    let hooks = CommandHooks::new(vec![(Origin::User, set(&value))]).unwrap();
    let since = Instant::now();
    let answer = place.tell(&hooks, &shell("x")).await;
    assert!(since.elapsed() >= Duration::from_secs(1));
    assert_eq!(answer.vote, Some(HookVote::Ask), "{answer:?}");
    assert!(answer.failures[0].contains("took longer than 1"), "{answer:?}");
    assert_eq!(alive(&mark), 0, "expected no survivor when the answer is there");
}

#[tokio::test]
async fn a_daemon_of_a_hook_ends_with_it() {
    let place = Place::new();
    let mark = mark(2);
    let command = format!(
        "setsid sleep {mark}1 >/dev/null 2>&1 & (setsid nohup sleep {mark}2 >/dev/null 2>&1 &); \
         while [ $(pgrep -cf 'sleep {mark}') -lt 2 ]; do sleep 0.01; done; echo context"
    );
    let prompt = Happening::UserPromptSubmit { prompt: "p".into() };
    let answer = place.tell(&at("UserPromptSubmit", &[&command]), &prompt).await;
    assert_eq!((answer.context, answer.failures), (vec!["context".to_owned()], Vec::new()));
    assert_eq!(alive(&mark), 0, "expected no survivor when the answer is there");
}

#[tokio::test]
async fn dropping_the_future_ends_the_processes() {
    let place = Place::new();
    let mark = mark(3);
    let command = |number: u32| format!("setsid sleep {mark}{number}0 & sleep {mark}{number}1");
    let (one, two) = (command(1), command(2));
    let value = json!({"PreToolUse": [group("", &[&one, &two])]});
    let hooks = CommandHooks::new(vec![(Origin::User, set(&value))]).unwrap();
    let (session, happening) = (SessionId::new("ses_1"), shell("x"));
    {
        let place = driver_api::HookPlace {
            session: &session,
            mode: Mode::Ask,
            workspace: &*place.workspace,
        };
        let mut told = hooks.tell(&happening, place);
        tokio::select! {
            answer = &mut told => panic!("expected no answer, got {answer:?}"),
            () = wait_for("both trees", || alive(&mark) == 4) => {}
        }
    }
    wait_for("no survivor", || alive(&mark) == 0).await;
}

#[tokio::test]
async fn a_hook_that_reads_nothing_is_no_problem() {
    let place = Place::new();
    let large = "x".repeat(1 << 20);
    let answer = place.tell(&at("PreToolUse", &["exec <&-; exit 0"]), &shell(&large)).await;
    assert_eq!(answer, driver_api::HookAnswer::default());
}
