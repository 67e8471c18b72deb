//! Sessions that come and go: memory and descriptors stay flat.
#![allow(clippy::print_stderr, reason = "the figures of a run by hand")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::model_server::Answer;

use super::client::{Api, Line};
use super::measure;
use super::stand::Stand;

/// How long it goes on where `NARTHEX_CHURN_SECONDS` says nothing.
const SECONDS: u64 = 300;

/// Sessions at once.
const DRIVERS: usize = 6;

/// By how much the trend of memory may rise over the second half, in bytes: pages that the
/// allocator has not given back yet.
const RISE_BYTES_MAX: f64 = 4.0 * 1024.0 * 1024.0;

/// By how many descriptors the second half may have more than the first.
const DESCRIPTORS_MAX: usize = 8;

/// By hand, for an hour:
///
/// ```text
/// NARTHEX_CHURN_SECONDS=3600 cargo test --release -p app --test it -- \
///     --ignored --nocapture memory_and_descriptors_stay_flat
/// ```
#[test]
#[ignore = "takes minutes: CI runs it for five, a person for an hour"]
fn memory_and_descriptors_stay_flat() {
    let seconds = std::env::var("NARTHEX_CHURN_SECONDS").ok().map(|text| text.parse().unwrap());
    let seconds = seconds.unwrap_or(SECONDS);
    assert!(seconds >= 60, "a trend needs a minute");
    let stand = Stand::start_light(&["--log-level", "error"]);
    stand.script(|prompt, results| match (prompt, results) {
        ("hang", _) => Answer::silence(),
        (_, 0) => Answer::text("I look.")
            .deltas(5)
            .and_call(testkit::model_server::Call::new("read_file", json!({"path": "a.txt"}))),
        _ => Answer::text("It says something.").deltas(5),
    });
    let (api, pid) = (stand.api(), stand.server.id);
    let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let drivers: Vec<_> = (0..DRIVERS)
        .map(|_| {
            let (api, is_over, rounds) = (api.clone(), Arc::clone(&is_over), Arc::clone(&rounds));
            std::thread::spawn(move || {
                let mut line = Line::open(&api).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    round(&api, &mut line, rounds.fetch_add(1, Ordering::Relaxed));
                }
            })
        })
        .collect();
    let mut samples = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds)
        && drivers.iter().all(|it| !it.is_finished())
    {
        // This is a clock of samples, nothing waits for it.
        std::thread::sleep(Duration::from_secs(1));
        let sample = (measure::resident(pid), measure::descriptors(pid));
        if samples.len().is_multiple_of(10) {
            let rounds = rounds.load(Ordering::Relaxed);
            eprintln!(
                "{:>5} s {rounds:>7} sessions {:>7} KiB {:>4} files",
                samples.len(),
                sample.0 >> 10,
                sample.1
            );
        }
        samples.push(sample);
    }
    is_over.store(true, Ordering::Relaxed);
    drivers.into_iter().for_each(|driver| driver.join().unwrap());
    judge(&samples);
}

/// Creates, prompts, watches with a broken connection, interrupts sometimes, deletes; most
/// sessions are erased.
fn round(api: &Api, line: &mut Line, number: usize) {
    let mut ask = |method: &str, path: String, body: Option<serde_json::Value>| {
        let answer = line.ask((method, &path), body.as_ref()).unwrap();
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer
    };
    let created = ask("POST", "/sessions".to_owned(), Some(json!({}))).json();
    let id = created["id"].as_str().unwrap();
    let mut stream = api.stream(id, created["lastEventId"].as_u64());
    let hangs = number.is_multiple_of(5);
    let text = if hangs { "hang" } else { "go" };
    ask("POST", format!("/sessions/{id}/prompt"), Some(json!({"text": text})));
    let frames = stream.until(|frame| frame.is("turn_start"));
    drop(stream);
    let mut stream = api.stream(id, frames.last().unwrap().id);
    if hangs {
        ask("POST", format!("/sessions/{id}/interrupt"), Some(json!({})));
    }
    stream.until(|frame| frame.is("prompt_finished"));
    ask("GET", format!("/sessions/{id}/messages"), None);
    let query = if number.is_multiple_of(4) { "" } else { "?purge=true" };
    ask("DELETE", format!("/sessions/{id}{query}"), None);
    assert_eq!(stream.rest().last().map(super::client::Frame::kind), Some("session_closed"));
}

/// Holds the second half against its bounds.
fn judge(samples: &[(u64, usize)]) {
    let (first, second) = samples.split_at(samples.len() / 2);
    let rise = trend(second.iter().map(|sample| sample.0));
    let most = |half: &[(u64, usize)]| half.iter().map(|sample| sample.1).max().unwrap_or(0);
    let (before, after) = (most(first), most(second));
    eprintln!(
        "memory rose by {:.0} KiB over the second half, files {before} then {after}",
        rise / 1024.0
    );
    assert!(rise < RISE_BYTES_MAX, "memory rose by {:.0} KiB", rise / 1024.0);
    assert!(after <= before + DESCRIPTORS_MAX, "files rose from {before} to {after}");
}

/// Returns by how much a straight line through values rises from the first to the last of them.
#[allow(clippy::cast_precision_loss, reason = "a trend of bytes needs no last digit")]
fn trend(values: impl Iterator<Item = u64>) -> f64 {
    let points: Vec<(f64, f64)> =
        values.enumerate().map(|(at, value)| (at as f64, value as f64)).collect();
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    over / under * (count - 1.0)
}

#[test]
fn a_trend_is_told_from_noise() {
    let noise = |at: u64| 1_000 + (at * 7919) % 13;
    assert!(trend((0..100).map(noise)).abs() < 13.0);
    let rise = trend((0..100).map(|at| noise(at) + at * 50));
    assert!((rise - 4_950.0).abs() < 30.0, "{rise}");
}
