//! What an agent asks, answered by callbacks or by nobody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use narthex::protocol::event::{DeniedBy, Persist};
use narthex::protocol::{Effect, EventBody, Mode, TurnEnd};
use narthex::{Agent, Decision, PlanDecision, Reply};
use serde_json::json;
use testkit::model_server::{Answer, tool_results};
use tokio::sync::Notify;

use crate::stand::{Stand, soon};

fn write_file() -> Answer {
    Answer::call("write_file", json!({"path": "a.txt", "content": "x"}))
}

/// Runs a prompt and returns who denied calls, and what the model was told of the first call.
async fn run(stand: &Stand, agent: &Agent) -> (Vec<DeniedBy>, String) {
    let mut denied = Vec::new();
    let before = stand.server.request_count();
    let result = agent.prompt_with("Go", |event| {
        if let EventBody::ToolDenied(event) = &event.body {
            denied.push(event.by);
        }
    });
    let result = soon("the end", result).await.unwrap();
    assert_eq!(result.reason, TurnEnd::Completed);
    let told = tool_results(&*stand.server.request(before + 2).await);
    (denied, told.last().unwrap().text.clone())
}

#[tokio::test]
async fn without_a_callback_calls_that_need_approval_are_denied_at_once() {
    let stand = Stand::new().await;
    stand.server.push_all([write_file(), Answer::text("ok")]);
    let agent = stand.agent(Mode::Ask).await;
    let (denied, _) = run(&stand, &agent).await;
    assert_eq!(denied, [DeniedBy::Nobody]);
    assert_eq!(stand.read("a.txt"), None);
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_callback_allows_writes_and_denies_the_rest_with_words() {
    let stand = Stand::new().await;
    let shell = Answer::call("run_shell", json!({"command": "touch made-by-shell"}));
    stand.server.push_all([write_file(), Answer::text("ok"), shell, Answer::text("ok")]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&seen);
    let agent = stand
        .builder()
        .on_permission(move |request| {
            let line = format!("{}: {}", request.tool_name, request.target.summary);
            shown.lock().unwrap().push(line);
            async move {
                match request.target.effect {
                    Effect::Write => Decision::AllowOnce,
                    _ => Decision::deny("read-only please"),
                }
            }
        })
        .build()
        .await
        .unwrap();
    assert_eq!(run(&stand, &agent).await.0, []);
    assert_eq!(stand.read("a.txt").as_deref(), Some("x"));
    let (denied, told) = run(&stand, &agent).await;
    assert_eq!(denied, [DeniedBy::User]);
    assert!(told.contains("read-only please"), "{told}");
    assert_eq!(stand.read("made-by-shell"), None);
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, ["write_file: a.txt", "run_shell: touch made-by-shell"]);
    agent.close().await.unwrap();
}

#[tokio::test]
async fn what_is_allowed_for_good_is_not_asked_again() {
    let stand = Stand::new().await;
    let shell = |text: &str| Answer::call("run_shell", json!({"command": format!("echo {text}")}));
    stand.server.push_all([shell("one"), Answer::text("ok"), shell("two"), Answer::text("ok")]);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let agent = stand
        .builder()
        .on_permission(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let rule = Some("run_shell(echo *)".to_owned());
            async move { Decision::AllowAlways { rule, persist: Persist::Session } }
        })
        .build()
        .await
        .unwrap();
    assert!(run(&stand, &agent).await.1.contains("one"));
    assert!(run(&stand, &agent).await.1.contains("two"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    agent.close().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_cannot_be_taken_becomes_a_denial_that_says_why() {
    let stand = Stand::new().await;
    stand.server.push_all([write_file(), Answer::text("ok")]);
    let agent = stand
        .builder()
        .on_permission(|_| async {
            let rule = Some("run_shell(".to_owned());
            Decision::AllowAlways { rule, persist: Persist::Session }
        })
        .build()
        .await
        .unwrap();
    let (denied, told) = run(&stand, &agent).await;
    assert_eq!(denied, [DeniedBy::User]);
    assert!(told.contains("the answer could not be taken"), "{told}");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_callback_that_panics_denies() {
    let stand = Stand::new().await;
    stand.server.push_all([write_file(), Answer::text("ok"), write_file(), Answer::text("ok")]);
    let times = AtomicUsize::new(0);
    let agent = stand
        .builder()
        .on_permission(move |_| {
            // Once before there is a future, once in it.
            let is_first = times.fetch_add(1, Ordering::SeqCst) == 0;
            assert!(!is_first, "before the future");
            async move { panic!("in the future") }
        })
        .build()
        .await
        .unwrap();
    for _ in 0..2 {
        let (denied, told) = run(&stand, &agent).await;
        assert_eq!(denied, [DeniedBy::User]);
        assert!(told.contains("failed"), "{told}");
    }
    assert_eq!(stand.read("a.txt"), None);
    agent.close().await.unwrap();
}

/// Tells when it is dropped.
struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn an_interrupted_prompt_drops_the_callback_that_it_waits_for() {
    let stand = Stand::new().await;
    stand.server.push_all([write_file(), Answer::text("next")]);
    let (asked, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_asked, is_dropped) = (Arc::clone(&asked), Arc::clone(&dropped));
    let agent = stand
        .builder()
        .on_permission(move |_| {
            let told = Told(Arc::clone(&is_dropped));
            is_asked.notify_one();
            async move {
                std::future::pending::<()>().await;
                drop(told);
                Decision::AllowOnce
            }
        })
        .build()
        .await
        .unwrap();
    let stream = agent.stream("Write");
    soon("the question", asked.notified()).await;
    assert!(agent.interrupt().await.unwrap());
    soon("the callback's end", dropped.notified()).await;
    assert_eq!(soon("the end", stream.finish()).await.unwrap().reason, TurnEnd::Interrupted);
    assert_eq!(soon("the next", agent.prompt("more")).await.unwrap().text, "next");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_callback_that_takes_too_long_is_decided_against() {
    let stand = Stand::new().await;
    stand.server.push_all([write_file(), Answer::text("ok")]);
    let dropped = Arc::new(Notify::new());
    let is_dropped = Arc::clone(&dropped);
    let agent = stand
        .builder()
        .permission_timeout(Duration::from_millis(50))
        .on_permission(move |_| {
            let told = Told(Arc::clone(&is_dropped));
            async move {
                std::future::pending::<()>().await;
                drop(told);
                Decision::AllowOnce
            }
        })
        .build()
        .await
        .unwrap();
    assert_eq!(run(&stand, &agent).await.0, [DeniedBy::Timeout]);
    soon("the callback's end", dropped.notified()).await;
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_slow_callback_holds_up_no_other_session() {
    let stand = Stand::new().await;
    stand.server.push_for("slow", write_file());
    stand.server.push_for("slow", Answer::text("slow"));
    stand.server.push_for("fast", Answer::text("fast"));
    let (asked, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_asked, is_open) = (Arc::clone(&asked), Arc::clone(&open));
    let slow = stand
        .builder()
        .on_permission(move |_| {
            let (is_asked, is_open) = (Arc::clone(&is_asked), Arc::clone(&is_open));
            async move {
                is_asked.notify_one();
                is_open.notified().await;
                Decision::AllowOnce
            }
        })
        .build()
        .await
        .unwrap();
    let fast = stand.builder().runtime(slow.runtime().clone()).build().await.unwrap();
    let waiting = slow.stream("slow");
    soon("the question", asked.notified()).await;
    assert_eq!(soon("the fast one", fast.prompt("fast")).await.unwrap().text, "fast");
    open.notify_one();
    assert_eq!(soon("the slow one", waiting.finish()).await.unwrap().text, "slow");
    assert_eq!(stand.read("a.txt").as_deref(), Some("x"));
    fast.close().await.unwrap();
    slow.close().await.unwrap();
}

fn question() -> Answer {
    let options = json!([{"id": "pg", "label": "Postgres"}, {"label": "SQLite"}]);
    Answer::call("ask_question", json!({"question": "Which database?", "options": options}))
}

#[tokio::test]
async fn questions_are_answered_by_label_or_dismissed() {
    let stand = Stand::new().await;
    stand.server.push_all([question(), Answer::text("ok")]);
    let agent = stand
        .builder()
        .on_question(|question| async move { Reply::choose(&question.options[0].label) })
        .build()
        .await
        .unwrap();
    let (_, told) = run(&stand, &agent).await;
    assert_eq!(told, "The user chose: Postgres");
    // Permissions have no callback here.
    stand.server.push_all([write_file(), Answer::text("ok")]);
    let (denied, told) = run(&stand, &agent).await;
    assert_eq!(denied, [DeniedBy::User]);
    assert!(told.contains("nobody is here"), "{told}");
    let id = agent.session_id().as_str().to_owned();
    agent.close().await.unwrap();

    stand.server.push_all([question(), Answer::text("ok")]);
    let other = stand.builder().resume(id);
    let other = other.on_permission(|_| async { Decision::AllowOnce }).build().await.unwrap();
    let (_, told) = run(&stand, &other).await;
    assert!(told.contains("dismissed"), "{told}");
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_plan_is_approved_with_a_mode_or_rejected() {
    let stand = Stand::new().await;
    let plan = || Answer::call("exit_plan", json!({"plan": "1. Write a.txt"}));
    stand.server.push_all([plan(), Answer::text("ok"), plan(), Answer::text("ok")]);
    let rejected = AtomicUsize::new(0);
    let agent = stand
        .builder()
        .mode(Mode::Plan)
        .on_plan(move |request| {
            let is_first = rejected.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                assert_eq!(request.plan, "1. Write a.txt");
                match is_first {
                    true => PlanDecision::Reject { feedback: Some("split it".to_owned()) },
                    false => PlanDecision::Approve { mode: Some(Mode::AutoEdit) },
                }
            }
        })
        .build()
        .await
        .unwrap();
    assert!(run(&stand, &agent).await.1.contains("split it"));
    assert_eq!(agent.info().await.unwrap().mode, Mode::Plan);
    run(&stand, &agent).await;
    assert_eq!(agent.info().await.unwrap().mode, Mode::AutoEdit);
    agent.close().await.unwrap();
}
