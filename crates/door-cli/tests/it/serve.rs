//! `narthex serve` and `narthex token` in front of a server that plays what the port says.

use std::path::PathBuf;

use door_cli::{
    CortexArgs, CortexFacts, Failure, FurtherDoor, Globals, HostArgs, NewToken, RunningServer,
    SandboxDriver, ServeArgs, Server, ServerFacts, ServerMachine, Stop, TokenInfo, TokenOrigin,
};
use protocol::{Mode, Timestamp};
use serde_json::{Value, json};
use stdx::Secret;
use testkit::fake_handle::FakeRuntime;
use tokio::sync::mpsc;

use crate::stand::{FakeMachine, Outcome, Stand};

/// A port that cannot be had.
const TAKEN: u16 = 1;
/// A listener that fails at once.
const FAILS: u16 = 2;
/// A server that never stops.
const HANGS: u16 = 3;
/// A server that says that it could not stop.
const STUCK: u16 = 4;
/// A start that takes for ever.
const SLOW: u16 = 5;
/// A second server of a home folder, with a token that was given.
const SECOND: u16 = 6;
/// A server that takes sessions up for ever, is stopped meanwhile, and says that it could not stop.
const BUSY: u16 = 8;
/// A server of its launcher alone, whose token came with a flag.
const FLAGGED: u16 = 10;

const CORTEX: CortexFacts = CortexFacts {
    base: "/api/v1/cortex",
    driver: "namespace",
    isolation: "full",
    preset: "coding",
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct FakeServer(ServerFacts, mpsc::Sender<Stop>);

impl Server for FakeServer {
    fn facts(&self) -> &ServerFacts {
        &self.0
    }

    async fn begin(&mut self) {
        if self.0.port == BUSY {
            self.1.try_send(Stop::Terminate).unwrap();
            std::future::pending().await
        }
    }

    async fn failed(&mut self) -> Failure {
        if self.0.port == FAILS {
            return Failure::failed("the listener failed");
        }
        std::future::pending().await
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        match self.0.port {
            HANGS => std::future::pending().await,
            STUCK | BUSY => Err(Failure::failed("stopping took longer than 15 s")),
            _ => Ok(()),
        }
    }
}

impl ServerMachine for FakeMachine {
    async fn acp(
        &self,
        _: &Globals,
        stopped: tokio::sync::oneshot::Receiver<()>,
    ) -> Result<(), Failure> {
        // It is stopped when whoever could is gone.
        drop(stopped.await);
        Ok(())
    }

    async fn host(
        &self,
        _: &Globals,
        args: HostArgs,
        stopped: tokio::sync::oneshot::Receiver<()>,
    ) -> Result<(), Failure> {
        if args.grace == 1 {
            return Err(Failure::usage("the folder of the socket is not yours"));
        }
        // It is stopped when whoever could is gone.
        drop(stopped.await);
        Ok(())
    }

    type Server = FakeServer;

    async fn serve(&self, globals: &Globals, args: ServeArgs) -> Result<FakeServer, Failure> {
        let port = args.port.unwrap_or(7420);
        match port {
            TAKEN => return Err(Failure::usage("port 1 is in use")),
            SLOW => std::future::pending().await,
            _ => {}
        }
        let token_origin = match port {
            SECOND => Some(TokenOrigin::Variable("HOST_TOKEN".to_owned())),
            FLAGGED => Some(TokenOrigin::Flag),
            _ => None,
        };
        let roots = args.root.iter().map(|root| root.display().to_string());
        let facts = ServerFacts {
            url: format!("http://127.0.0.1:{port}"),
            port,
            pid: 77,
            version: "1.2.3".to_owned(),
            token: Some(Secret::new(TOKEN.to_owned())),
            roots: std::iter::once("/src/app".to_owned()).chain(roots).collect(),
            mode: globals.mode.unwrap_or(Mode::Ask),
            model: globals.model.clone(),
            file: token_origin.is_none().then(|| PathBuf::from("/home/server.json")),
            token_origin,
            taken_up: u64::from(args.max_sessions.unwrap_or(0)),
            cortex: args.with.contains(&FurtherDoor::Cortex).then_some(CORTEX),
            notices: vec!["something is odd".to_owned()],
        };
        Ok(FakeServer(facts, self.stops.clone()))
    }

    async fn cortex(&self, globals: &Globals, args: CortexArgs) -> Result<FakeServer, Failure> {
        let port = args.port.unwrap_or(3100);
        if args.host.as_deref() == Some("0.0.0.0") {
            return Err(Failure::usage("other machines could reach 0.0.0.0"));
        }
        let is_apart = args.driver != Some(SandboxDriver::Host);
        let apart = CortexFacts { driver: "host", isolation: "none", ..CORTEX };
        let facts = ServerFacts {
            url: format!("http://127.0.0.1:{port}"),
            port,
            pid: 77,
            version: "1.2.3".to_owned(),
            token: None,
            token_origin: None,
            roots: Vec::new(),
            mode: Mode::FullAuto,
            model: globals.model.clone(),
            file: None,
            taken_up: 0,
            cortex: Some(if is_apart { CORTEX } else { apart }),
            notices: Vec::new(),
        };
        Ok(FakeServer(facts, self.stops.clone()))
    }

    fn running_server(&self, globals: &Globals) -> Result<RunningServer, Failure> {
        if globals.trust_project {
            return Err(Failure::failed("no server of /home runs; start one: narthex serve"));
        }
        let url = "http://127.0.0.1:7420".to_owned();
        Ok(RunningServer { url, token: Secret::new(TOKEN.to_owned()), pid: 77 })
    }

    fn make_token(
        &self,
        _: &Globals,
        name: &str,
        life_ms: Option<i64>,
    ) -> Result<NewToken, Failure> {
        let created_at = Timestamp(1_796_000_600_000);
        let expires_at = life_ms.map(|life| created_at.plus_ms(life));
        let info = TokenInfo { name: name.to_owned(), created_at, expires_at };
        Ok(NewToken { token: Secret::new("nx_secret".to_owned()), info })
    }

    fn tokens(&self, globals: &Globals) -> Result<Vec<TokenInfo>, Failure> {
        if globals.trust_project {
            return Ok(Vec::new());
        }
        let now = 1_796_000_600_000;
        let token = |name: &str, end: Option<i64>| TokenInfo {
            name: name.to_owned(),
            created_at: Timestamp(now - 86_400_000),
            expires_at: end.map(Timestamp),
        };
        Ok(vec![token("ci", None), token("laptop", Some(now - 1)), token("x", Some(now + 1))])
    }

    fn revoke_token(&self, _: &Globals, name: &str) -> Result<(), Failure> {
        match name {
            "ci" => Ok(()),
            name => Err(Failure::usage(format!("no token is named '{name}'"))),
        }
    }
}

fn stand() -> Stand {
    Stand::new(FakeRuntime::default())
}

fn serve(port: u16, stops: &[Stop], further: &[&str]) -> Outcome {
    let port = port.to_string();
    let args = ["serve", "--port", port.as_str()].into_iter().chain(further.iter().copied());
    stand().silent_input().stops_at("call", stops).run(&args.collect::<Vec<_>>())
}

#[test]
fn a_person_is_told_where_it_is_and_how_to_call_it() {
    let further = ["--root", "/doc", "--max-sessions", "2", "--model", "a/b", "--mode", "plan"];
    let outcome = serve(8000, &[Stop::Terminate], &further);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let told = "narthex 1.2.3 at http://127.0.0.1:8000
  token  0123456789abcdef0123456789abcdef
  roots  /src/app
         /doc
  mode   plan · model a/b
  file   /home/server.json
  took   up 2 sessions with a cut turn, or waiting for an answer
  docs   http://127.0.0.1:8000/docs
  call   curl -H \"Authorization: Bearer $(narthex token)\" http://127.0.0.1:8000/v1/sessions
  stop   Ctrl-C
";
    assert_eq!(outcome.out, told);
    assert!(outcome.err.contains("something is odd"), "{outcome:?}");
}

#[test]
fn the_cortex_door_is_told_alone_and_beside_the_other() {
    let stand = stand().silent_input().stops_at("stop", &[Stop::Terminate]);
    let outcome = stand.run(&["cortex", "--model", "a/b"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let told = "narthex 1.2.3 at http://127.0.0.1:3100
  token  none: every program of this machine is let in
  mode   full-auto · model a/b
  apart  full isolation by driver namespace · tools coding
  call   curl http://127.0.0.1:3100/api/v1/cortex/health
  stop   Ctrl-C
";
    assert_eq!(outcome.out, told);
    let stand = crate::serve::stand().silent_input().stops_at("ready", &[Stop::Terminate]);
    let outcome = stand.run(&["cortex", "--json-ready", "--port", "8001", "--driver", "host"]);
    let record = json!({
        "type": "ready", "url": "http://127.0.0.1:8001", "port": 8001, "pid": 77,
        "version": "1.2.3", "cortex": "http://127.0.0.1:8001/api/v1/cortex",
    });
    assert_eq!(serde_json::from_str::<Value>(&outcome.out).unwrap(), record);
    let outcome = serve(8000, &[Stop::Terminate], &["--with", "cortex"]);
    for part in ["/v1/sessions", "8000/api/v1/cortex/health", "full isolation"] {
        assert!(outcome.out.contains(part), "{part}: {outcome:?}");
    }
    let outcome = crate::serve::stand().run(&["cortex", "--host", "0.0.0.0"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
    let outcome = crate::serve::stand().input("").run(&["cortex", "--exit-on-stdin-close"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn a_token_that_was_given_is_not_shown() {
    let outcome = serve(SECOND, &[Stop::Interrupt], &[]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(!outcome.out.contains(TOKEN), "{outcome:?}");
    assert!(outcome.out.contains("the one of $HOST_TOKEN"), "{outcome:?}");
    assert!(outcome.out.contains("Bearer $HOST_TOKEN\""), "{outcome:?}");
    assert!(!outcome.out.contains("file"), "{outcome:?}");
    let outcome = serve(FLAGGED, &[Stop::Interrupt], &[]);
    assert!(outcome.out.contains("the one of --token"), "{outcome:?}");
    assert!(outcome.out.contains("Bearer YOUR_TOKEN\""), "{outcome:?}");
}

#[test]
fn the_first_line_for_a_launcher_is_the_ready_record() {
    let run = |port: &str| {
        let stand = stand().silent_input().stops_at("ready", &[Stop::Terminate]);
        let outcome = stand.run(&["serve", "--json-ready", "--port", port]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        serde_json::from_str::<Value>(&outcome.out).unwrap()
    };
    let record = json!({
        "type": "ready", "url": "http://127.0.0.1:8000", "port": 8000, "pid": 77,
        "version": "1.2.3", "token": TOKEN,
    });
    assert_eq!(run("8000"), record);
    assert_eq!(run("6").get("token"), None);
}

#[test]
fn the_end_of_input_stops_it_where_that_was_asked_for() {
    let outcome = stand().input("anything\n").run(&["serve", "--exit-on-stdin-close"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    // Without the flag only the stop ends it.
    let stand = stand().input("").stops_at("call", &[Stop::Terminate]);
    let outcome = stand.run(&["serve"]);
    assert!(outcome.code == 0 && outcome.out.contains("stop "), "{outcome:?}");
}

#[test]
fn every_end_has_its_code() {
    let (stop, twice) = ([Stop::Terminate], [Stop::Terminate, Stop::Terminate]);
    for (port, stops, code, words) in [
        (TAKEN, &[][..], 2, "port 1 is in use"),
        (FAILS, &[], 1, "the listener failed"),
        (BUSY, &[], 1, "stopping took longer"),
        (STUCK, &stop, 1, "stopping took longer"),
        (HANGS, &twice, 130, ""),
    ] {
        let outcome = serve(port, stops, &[]);
        assert_eq!(outcome.code, code, "{port}: {outcome:?}");
        assert!(outcome.err.contains(words), "{port}: {outcome:?}");
    }
    let outcome = stand().silent_input().stops(&stop).run(&["serve", "--port", "5"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "it had not begun to serve");
}

#[test]
fn a_reader_of_the_ready_line_that_has_gone_is_no_reason_to_stop() {
    let stand = stand().broken_pipe().silent_input();
    let outcome = stand.run(&["serve", "--json-ready", "--port", "2"]);
    assert!(outcome.err.contains("the listener failed"), "it served until then: {outcome:?}");
}

#[test]
fn numbers_and_secrets_of_the_flags_are_checked() {
    let exit = |args: &[&str]| {
        let words = ["narthex", "serve"].iter().chain(args).map(Into::into);
        door_cli::parse(words).err().map(|exit| exit.code())
    };
    for wrong in [
        &["--port", "65536"][..],
        &["--port", "-1"],
        &["--max-sessions", "0"],
        &["--max-sessions", "10001"],
        &["--with", "package"],
        &["folder"],
        &["--no-announce=yes"],
    ] {
        assert_eq!(exit(wrong), Some(2), "{wrong:?}");
    }
    let words =
        ["narthex", "serve", "--token", "very-secret-token", "--origin", "a", "--origin", "b"];
    let cli = door_cli::parse(words.map(Into::into)).unwrap();
    let shown = format!("{cli:?}");
    assert!(!shown.contains("very-secret") && shown.contains("origin: [\"a\", \"b\"]"), "{shown}");
}

#[test]
fn a_token_is_printed_alone_so_that_a_command_can_take_it() {
    let outcome = stand().run(&["token"]);
    assert_eq!((outcome.code, outcome.out), (0, format!("{TOKEN}\n")));
    let outcome = stand().run(&["token", "--json"]);
    let record: Value = serde_json::from_str(&outcome.out).unwrap();
    let expected = json!({"url": "http://127.0.0.1:7420", "token": TOKEN, "pid": 77});
    assert_eq!(record, expected);
    let outcome = stand().run(&["token", "--trust-project"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{}", outcome.err);
    assert!(outcome.err.contains("start one: narthex serve"), "{}", outcome.err);
}

#[test]
fn a_made_token_is_data_and_all_else_is_for_people() {
    let outcome = stand().run(&["token", "create", "ci", "--expires", "1d"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "nx_secret\n"));
    assert!(outcome.err.contains("until 2026-12-01T01:03:20.000Z"), "{}", outcome.err);
    let outcome = stand().run(&["token", "create", "ci", "--json"]);
    let record: Value = serde_json::from_str(&outcome.out).unwrap();
    let expected = json!({
        "name": "ci", "createdAt": "2026-11-30T01:03:20.000Z", "expiresAt": null,
        "token": "nx_secret",
    });
    assert_eq!((record, outcome.err.as_str()), (expected, ""));
}

#[test]
fn tokens_are_listed_with_their_end_and_taken_away() {
    let outcome = stand().run(&["token", "list"]);
    let lines: Vec<&str> = outcome.out.lines().collect();
    assert!(lines[0].starts_with("ci      made 2026-11-29") && lines[0].ends_with("for ever"));
    assert!(lines[1].contains("laptop  made") && lines[1].contains("expired 2026-"), "{lines:?}");
    assert!(lines[2].contains("until 2026-"), "{lines:?}");
    let outcome = stand().run(&["token", "list", "--json"]);
    let listed: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(3));
    let outcome = stand().run(&["token", "list", "--trust-project"]);
    assert!(outcome.out.is_empty() && outcome.err.contains("narthex token create"), "{outcome:?}");
    assert_eq!(stand().run(&["token", "revoke", "ci"]).code, 0);
    assert_eq!(stand().run(&["token", "revoke", "other"]).code, 2);
}
