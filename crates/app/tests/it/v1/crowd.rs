//! Many sessions at once lose nothing.
#![allow(clippy::print_stderr, reason = "the figures of a run by hand")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use testkit::model_server::Answer;

use super::client::{Api, Line, count};
use super::measure;
use super::stand::Stand;

/// Threads that drive the sessions: more would only measure themselves.
const DRIVERS: usize = 8;

#[test]
fn a_hundred_sessions_of_five_steps_lose_nothing() {
    crowd(100, 5);
}

/// ```text
/// cargo test --release -p app --test it -- --ignored --nocapture a_thousand_sessions
/// ```
#[test]
#[ignore = "takes a minute and shows figures: run by hand, in a release build"]
fn a_thousand_sessions_of_ten_steps_lose_nothing() {
    crowd(1_000, 10);
}

fn crowd(sessions: usize, steps: usize) {
    let stand = Stand::start_light(&["--max-sessions", "2000", "--log-level", "error"]);
    stand.script(move |prompt, results| match results {
        _ if results + 1 < steps => Answer::text(format!("{prompt}, step {results}.")).and_call(
            testkit::model_server::Call::new(
                "read_file",
                json!({"path": "a.txt", "limit": results + 1}),
            ),
        ),
        _ => Answer::text(format!("{prompt} is done.")),
    });
    let (api, pid) = (stand.api(), stand.server.id);
    let begun = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let each = |work: fn(&Api, &mut Line, usize, usize, &str), ids: Arc<Vec<String>>| {
        next.store(0, Ordering::Relaxed);
        let drivers: Vec<_> = (0..DRIVERS)
            .map(|_| {
                let (api, next, ids) = (api.clone(), Arc::clone(&next), Arc::clone(&ids));
                std::thread::spawn(move || {
                    let mut line = Line::open(&api).unwrap();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(id) = ids.get(number) else { return };
                        work(&api, &mut line, number, steps, id);
                    }
                })
            })
            .collect();
        drivers.into_iter().for_each(|driver| driver.join().unwrap());
    };
    let mut line = Line::open(&api).unwrap();
    let ids: Vec<String> = (0..sessions)
        .map(|_| {
            let answer = line.ask(("POST", "/sessions"), Some(&json!({}))).unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.json()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let ids = Arc::new(ids);
    let created = begun.elapsed();
    each(prompt, Arc::clone(&ids));
    each(watch, Arc::clone(&ids));
    let ended = begun.elapsed();
    let (computed, peak) = (measure::computed_ms(pid), measure::peak(pid));
    each(check, Arc::clone(&ids));
    let asked = stand.program.server.request_count();
    assert_eq!(asked, sessions * steps);
    stand.program.server.assert_clean();
    eprintln!(
        "{sessions} sessions of {steps} steps: created in {created:.2?}, ended after {ended:.2?}, \
         {computed} ms of computing, {} MiB at most",
        peak >> 20
    );
}

fn prompt(_: &Api, line: &mut Line, number: usize, _: usize, id: &str) {
    let path = format!("/sessions/{id}/prompt");
    let text = format!("number {number}");
    let answer = line.ask(("POST", &path), Some(&json!({"text": text}))).unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
}

/// Watches a session to its end: most of it is replayed, some of it live.
fn watch(api: &Api, _: &mut Line, _: usize, steps: usize, id: &str) {
    let frames = api.stream(id, Some(0)).until(|frame| frame.is("prompt_finished"));
    for (kind, expected) in [
        ("prompt_started", 1),
        ("turn_start", steps),
        ("assistant_message", steps),
        ("tool_call", steps - 1),
        ("tool_result", steps - 1),
        ("done", 1),
        ("prompt_finished", 1),
    ] {
        assert_eq!(count(&frames, kind), expected, "{kind} of {id}");
    }
    let result = &frames.last().unwrap().data["result"];
    assert_eq!((&result["reason"], &result["turns"]), (&json!("completed"), &json!(steps)));
}

/// Checks a transcript.
fn check(api: &Api, line: &mut Line, number: usize, steps: usize, id: &str) {
    watch(api, line, number, steps, id);
    let path = format!("/sessions/{id}/messages?limit=1000");
    let answer = line.ask(("GET", &path), None).unwrap();
    let messages = answer.json()["messages"].as_array().unwrap().clone();
    let said = |text: &str| messages.iter().filter(|it| it.to_string().contains(text)).count();
    assert_eq!(messages.len(), 2 * steps, "{id}: {messages:?}");
    assert_eq!(said(&format!("\"number {number}\"")), 1);
    for step in 0..steps - 1 {
        assert_eq!(said(&format!("number {number}, step {step}.")), 1, "{id}");
    }
    assert_eq!(said(&format!("number {number} is done.")), 1, "{id}");
    assert_eq!(said("the first file"), steps - 1, "{id}");
}
