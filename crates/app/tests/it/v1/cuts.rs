//! E1: connections cut at every frame lose nothing, double nothing, and never contradict.

use serde_json::json;
use testkit::model_server::Answer;
use testkit::net::{At, Fault, Harm, Proxy};

use super::client::{Api, Frame, Next, Refused, Seen, Stream};
use super::stand::Stand;
use crate::program::until;

/// What the model says in the three steps of a turn: no part of it stands in it twice.
const SAID: [&str; 3] = [
    "First I read what is there, because nobody knows yet.",
    "Now I write a file that was not here before.",
    "Both are done: one was read, the other written, and all of it was said in pieces.",
];

fn model(_: &str, results: usize) -> Answer {
    let said = Answer::text(SAID[results.min(2)]);
    match results {
        0 => said.deltas(7).and_call(call("read_file", json!({"path": "a.txt"}))),
        1 => {
            let write = json!({"path": "made.txt", "content": "made\n"});
            said.deltas(5).and_call(call("write_file", write))
        }
        _ => said.deltas(9),
    }
}

fn call(name: &str, args: serde_json::Value) -> testkit::model_server::Call {
    testkit::model_server::Call::new(name, args)
}

/// A turn that is watched through a proxy and answered past it.
struct Turn<'a> {
    stand: &'a mut Stand,
    proxy: &'a Proxy,
    session: String,
    from: u64,
    seen: Seen,
    /// The frames of the first connection.
    of_first: usize,
}

impl<'a> Turn<'a> {
    fn begin(stand: &'a mut Stand, proxy: &'a Proxy) -> Self {
        let api = stand.api();
        // Every turn is like the first.
        drop(std::fs::remove_file(stand.program.cwd().join("made.txt")));
        let session = api.create();
        let from = api.session(&session)["lastEventId"].as_u64().unwrap();
        Self { stand, proxy, session, from, seen: Seen::after(from), of_first: 0 }
    }

    fn through(&self) -> Api {
        self.stand.api_through(self.proxy.port())
    }

    /// Watches to the end. The first connection has the fault; `broken` is called when it has
    /// come to that.
    fn watch(&mut self, fault: Option<Fault>, broken: impl Fn(&mut Stand, &Proxy)) {
        if let Some(fault) = fault {
            self.proxy.plan(fault);
        }
        let mut stream = Stream::open(&self.through(), &self.session, Some(self.from));
        self.stand.api().prompt(&self.session, "go on");
        let silent_behind = match fault {
            Some(Fault { at: At::Frame { count, .. }, harm: Harm::BlackHole }) => Some(count),
            _ => None,
        };
        let mut is_first = true;
        loop {
            let is_silent = is_first && silent_behind == Some(self.of_first);
            let next = match &mut stream {
                // A client that waits in vain gives up.
                Ok(_) if is_silent => Next::Broken,
                Ok(stream) => stream.next(),
                Err(_) => Next::Broken,
            };
            match next {
                Next::Frame(frame) => {
                    self.of_first += usize::from(is_first);
                    if self.take(frame) {
                        return;
                    }
                }
                Next::Ended | Next::Broken => {
                    drop(stream);
                    if is_first {
                        broken(self.stand, self.proxy);
                    }
                    is_first = false;
                    stream = Ok(self.reconnect());
                }
            }
        }
    }

    fn reconnect(&self) -> Stream {
        let again = || Stream::open(&self.through(), &self.session, Some(self.seen.last));
        match again() {
            Ok(stream) => stream,
            Err(Refused::Status(404)) => {
                // After a restart what was idle is stored; whoever wants it opens it.
                self.stand.api().resume(&self.session);
                again().unwrap_or_else(|refused| panic!("{refused:?}"))
            }
            Err(refused) => panic!("{refused:?}"),
        }
    }

    /// Takes a frame; tells whether it was the last one.
    fn take(&mut self, frame: Frame) -> bool {
        if frame.is("permission_request") {
            let request = frame.data["requestId"].as_str().unwrap();
            let answer = self.stand.api().allow(&self.session, request);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        let is_last = frame.is("prompt_finished");
        self.seen.take(frame);
        is_last
    }

    /// Holds what was seen against the log.
    fn check(&self, what: &str) {
        let log: Vec<Frame> = {
            let mut stream = self.stand.api().stream(&self.session, Some(self.from));
            stream.until(|frame| frame.is("prompt_finished"))
        };
        assert_eq!(self.seen.recorded, log, "{what}");
        assert_eq!(self.seen.gaps, 0, "{what}");
        for (kind, count) in [("prompt_started", 1), ("done", 1), ("prompt_finished", 1)] {
            assert_eq!(self.seen.count(kind), count, "{what}: {kind}");
        }
        assert_eq!(self.seen.recorded.last().unwrap().data["result"]["reason"], "completed");
    }

    /// Live text is what stands in the final text, in its order, nothing twice.
    fn check_deltas(&self, what: &str) {
        let whole = SAID.concat();
        let mut rest = whole.as_str();
        for delta in self.seen.deltas.iter().filter(|frame| frame.is("text_delta")) {
            let text = delta.data["text"].as_str().unwrap();
            let at = rest.find(text).unwrap_or_else(|| panic!("{what}: {text:?} in {rest:?}"));
            rest = &rest[at + text.len()..];
        }
    }
}

/// Lets the turn run once without a fault; returns how many frames it has.
fn frames(stand: &mut Stand, proxy: &Proxy) -> usize {
    let mut turn = Turn::begin(stand, proxy);
    turn.watch(None, |_, _| panic!("nothing is to break"));
    turn.check("whole");
    let said: String =
        turn.seen.deltas.iter().map(|it| it.data["text"].as_str().unwrap()).collect();
    assert_eq!(said, SAID.concat());
    assert!(turn.of_first >= 30, "the turn has {} frames", turn.of_first);
    turn.of_first
}

fn cut_everywhere(harm: Harm, more: u64) {
    let mut stand = Stand::start(&[]);
    stand.script(model);
    let proxy = Proxy::start(stand.server.port);
    let all = frames(&mut stand, &proxy);
    for count in 0..all {
        let what = format!("{harm:?} behind frame {count} and {more} bytes");
        let mut turn = Turn::begin(&mut stand, &proxy);
        turn.watch(Some(Fault { at: At::Frame { count, more }, harm }), |_, proxy| {
            until("the fault", || proxy.struck() > count);
        });
        assert_eq!(turn.of_first, count, "{what}");
        turn.check(&what);
        turn.check_deltas(&what);
    }
    proxy.release();
    stand.program.server.assert_clean();
}

#[test]
fn e1_a_reset_behind_every_frame_loses_nothing() {
    cut_everywhere(Harm::Reset, 0);
}

#[test]
fn e1_a_reset_within_every_frame_loses_nothing() {
    cut_everywhere(Harm::Reset, 9);
}

#[test]
fn e1_an_end_within_every_frame_loses_nothing() {
    cut_everywhere(Harm::Finish, 40);
}

#[test]
fn e1_a_silence_behind_every_frame_loses_nothing() {
    cut_everywhere(Harm::BlackHole, 0);
}

#[test]
fn e1_a_kill_behind_every_frame_loses_nothing() {
    let mut stand = Stand::start(&[]);
    stand.script(model);
    let proxy = Proxy::start(stand.server.port);
    let all = frames(&mut stand, &proxy);
    for count in 0..all {
        let what = format!("a kill behind frame {count}");
        let mut turn = Turn::begin(&mut stand, &proxy);
        turn.watch(Some(Fault { at: At::frame(count), harm: Harm::BlackHole }), |stand, proxy| {
            stand.kill_and_restart();
            proxy.retarget(stand.server.port);
        });
        turn.check(&what);
        for delta in turn.seen.deltas.iter().filter(|frame| frame.is("text_delta")) {
            let text = delta.data["text"].as_str().unwrap();
            assert!(SAID.iter().any(|said| said.contains(text)), "{what}: {text:?}");
        }
    }
    stand.program.server.assert_clean();
}

#[test]
fn e1_single_bytes_and_refused_connections_lose_nothing() {
    let mut stand = Stand::start(&[]);
    stand.script(model);
    let proxy = Proxy::start(stand.server.port);
    proxy.in_pieces_of(1);
    frames(&mut stand, &proxy);
    let mut turn = Turn::begin(&mut stand, &proxy);
    turn.watch(Some(Fault { at: At::frame(5), harm: Harm::Reset }), |stand, proxy| {
        proxy.refuse(true);
        let session = stand.api().create();
        let refused = Stream::open(&stand.api_through(proxy.port()), &session, None);
        assert!(matches!(refused, Err(Refused::Network)));
        proxy.refuse(false);
    });
    turn.check("refused for a while");
    turn.check_deltas("refused for a while");
}
