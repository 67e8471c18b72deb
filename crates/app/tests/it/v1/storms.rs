//! E5, E6, E7: half-closed peers, connections by the thousand, reconnects, garbage.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::json;
use socket2::SockRef;
use testkit::model_server::{Answer, At, Gate};

use super::client::{Api, Seen, count};
use super::measure;
use super::stand::Stand;
use crate::program::until;

/// Connections of the storm; `NARTHEX_CONNECTIONS` sets another number.
const CONNECTIONS: usize = 2_000;

/// Connections at once.
const AT_ONCE: usize = 100;

/// Descriptors that a server may have more than before: those of a store's readers come and go.
const DESCRIPTORS_SLACK: usize = 4;

fn connect(api: &Api) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", api.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends bytes; a server that has hung up already is no fault here.
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    drop(stream.write_all(bytes));
}

fn read_some(stream: &mut TcpStream) {
    let mut bytes = [0; 512];
    assert!(stream.read(&mut bytes).unwrap() > 0);
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// One connection of each kind of bad manners, by its number; returns it where it is kept open.
fn bad_manners(api: &Api, session: &str, number: usize) -> Option<TcpStream> {
    let mut stream = connect(api);
    let head = |path: &str| {
        format!(
            "GET /v1{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
            api.token
        )
    };
    let events = head(&format!("/sessions/{session}/events"));
    match number % 8 {
        // Says nothing and goes.
        0 => return None,
        // Half a request, then half-closed and kept.
        1 => send(&mut stream, b"GET /v1/sess"),
        // A stream, half-closed and kept.
        2 => {
            send(&mut stream, events.as_bytes());
            read_some(&mut stream);
        }
        // A stream, reset.
        3 => {
            send(&mut stream, events.as_bytes());
            read_some(&mut stream);
            reset(stream);
            return None;
        }
        // A stream, closed before its answer was read.
        4 => {
            send(&mut stream, events.as_bytes());
            return None;
        }
        // A request that is answered, half-closed and kept.
        5 => {
            send(&mut stream, head("/sessions").as_bytes());
            read_some(&mut stream);
        }
        // Half a body, then reset.
        6 => {
            let head = format!(
                "POST /v1/sessions/{session}/prompt HTTP/1.1\r\nhost: localhost\r\n\
                 authorization: Bearer {}\r\ncontent-type: application/json\r\n\
                 content-length: 1000\r\n\r\n{{\"text\":",
                api.token
            );
            send(&mut stream, head.as_bytes());
            reset(stream);
            return None;
        }
        // No HTTP at all, half-closed and kept.
        _ => send(&mut stream, &[0, 1, 2, 255, b'\n', b'\n']),
    }
    stream.shutdown(Shutdown::Write).unwrap();
    Some(stream)
}

#[test]
fn e5_thousands_of_half_closed_and_broken_connections_leave_nothing_open() {
    let count = std::env::var("NARTHEX_CONNECTIONS").ok().and_then(|text| text.parse().ok());
    let stand = Stand::start_light(&["--log-level", "error"]);
    stand.script(|_, _| Answer::text("Done."));
    let (api, pid) = (stand.api(), stand.server.id);
    let session = api.create();
    api.prompt(&session, "warm");
    api.wait_for_state(&session, "idle");
    let before = measure::descriptors(pid);
    for batch in 0..count.unwrap_or(CONNECTIONS) / AT_ONCE {
        let kept: Vec<TcpStream> =
            (0..AT_ONCE).filter_map(|number| bad_manners(&api, &session, batch + number)).collect();
        // Before any of them goes: whoever half-closed is let go of by the server.
        until("no socket waits to be closed", || measure::close_waits(api.port) == 0);
        drop(kept);
    }
    until("the descriptors are back", || measure::descriptors(pid) <= before + DESCRIPTORS_SLACK);
    let answer = api.get("/sessions");
    assert_eq!(answer.status, 200);
    assert_eq!(api.session(&session)["state"], "idle");
    api.prompt(&session, "still there");
    api.wait_for_state(&session, "idle");
}

/// Milliseconds of computing that one reconnect may cost, in a debug build with all its checks.
const RECONNECT_MS_MAX: u64 = 8;

#[test]
fn e6_a_storm_of_reconnects_costs_little_and_starts_nothing_anew() {
    const RECONNECTS: u64 = 2_000;
    let stand = Stand::start(&["--mode", "full-auto"]);
    let gate = Gate::new();
    let held = gate.clone();
    stand.script(move |_, results| match results {
        0 => Answer::call("run_shell", json!({"command": "cat a.txt"})),
        _ => Answer::text("Done.").gate(At::Head, &held),
    });
    let (api, pid) = (stand.api(), stand.server.id);
    let session = api.create();
    let mut seen = Seen::after(0);
    api.prompt(&session, "go");
    until("the second step", || gate.is_reached());
    let state = || (stand.program.server.request_count(), measure::children(pid));
    let before = (state(), measure::computed_ms(pid), measure::descriptors(pid));
    assert_eq!(before.0.1.len(), 1, "one agent");
    for round in 0..RECONNECTS {
        let last = if round % 100 == 0 { 0 } else { seen.last };
        let mut stream = api.stream(&session, Some(last));
        if last == 0 {
            let frames = stream.until(|frame| frame.is("tool_result"));
            seen = Seen::after(0);
            frames.into_iter().for_each(|frame| seen.take(frame));
        }
    }
    let cost = measure::computed_ms(pid) - before.1;
    assert!(cost < RECONNECTS * RECONNECT_MS_MAX, "{cost} ms for {RECONNECTS} reconnects");
    assert_eq!(state(), before.0, "no model request, no process");
    until("the descriptors are back", || measure::descriptors(pid) <= before.2 + DESCRIPTORS_SLACK);
    let mut stream = api.stream(&session, Some(seen.last));
    gate.open();
    for frame in stream.until(|frame| frame.is("prompt_finished")) {
        seen.take(frame);
    }
    assert_eq!(seen.recorded, api.log(&session));
    assert_eq!(count(&seen.recorded, "turn_start"), 2);
}

/// Sends bytes as they are and returns what comes back until the end.
fn raw(api: &Api, bytes: &[u8], is_all: bool) -> String {
    let mut stream = connect(api);
    send(&mut stream, bytes);
    if is_all {
        drop(stream.shutdown(Shutdown::Write));
    }
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn e7_garbage_is_refused_by_its_name_and_the_server_goes_on() {
    let stand = Stand::start(&[]);
    stand.script(|_, _| Answer::text("Done."));
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    let request = |path: &str, kind: &str, body: &[u8]| {
        let head = format!(
            "POST /v1{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            api.token,
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let prompt = format!("/sessions/{session}/prompt");
    let deep = "[".repeat(100_000);
    let json = "application/json";
    for (bytes, status, code) in [
        (request(&prompt, json, b"{"), 400, "validation_error"),
        (request(&prompt, json, b"\0\x01\xff"), 400, "validation_error"),
        (request(&prompt, json, deep.as_bytes()), 400, "validation_error"),
        (request(&prompt, json, br#"{"text":"\ud800"}"#), 400, "validation_error"),
        (request(&prompt, json, b"[]"), 400, "validation_error"),
        (request(&prompt, json, br#"{"text":1e999}"#), 400, "validation_error"),
        (request(&prompt, json, br#"{"text":"a","text":"b"}"#), 400, "validation_error"),
        (request(&prompt, json, br#"{"text":"a","more":1}"#), 400, "validation_error"),
        (request(&prompt, "text/plain", b"{\"text\":\"a\"}"), 415, "unsupported_media_type"),
        (request("/sessions", json, &vec![b' '; 2 << 20]), 413, "payload_too_large"),
        (request("/sessions/../x", json, b"{}"), 404, "not_found"),
        (request("/sessions/%00%ff/prompt", json, b"{}"), 404, "session_not_found"),
    ] {
        let answer = raw(&api, &bytes, false);
        let shown: String = answer.chars().take(400).collect();
        let sent: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {shown:?}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{code}: {shown}");
    }
    // What is no HTTP gets at most a refusal.
    let binary: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let long = [b"GET /", "x".repeat(100_000).as_bytes(), b" HTTP/1.1\r\n\r\n"].concat();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\r\n\r\n\r\n",
        &binary,
        &long,
    ] {
        let answer = raw(&api, bytes, true);
        let shown: String = answer.chars().take(200).collect();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{shown}");
    }
    // The stream that was open all the while goes on.
    api.prompt(&session, "still there");
    let frames = live.until(|frame| frame.is("prompt_finished"));
    assert_eq!(count(&frames, "done"), 1);
    assert_eq!(count(&frames, "prompt_started"), 1, "no garbage became a prompt");
}
