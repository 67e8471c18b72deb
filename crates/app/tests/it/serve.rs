//! `narthex serve` and `narthex token` with the built program.
#![allow(clippy::disallowed_methods, reason = "these tests start the built program as users do")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::model_server::{Answer, At, Gate};

use crate::program::{Ended, Program, alive, finish, until};
use crate::serving::{Serving, ask, with_input};

const TOKEN: &str = "a-token-of-ones-own-0123456789";

fn server_json(program: &Program) -> Option<Value> {
    let text = std::fs::read_to_string(program.home().join("server.json")).ok()?;
    serde_json::from_str(&text).ok()
}

fn health(port: u16) -> u16 {
    ask(port, "GET", "/v1/health", None, None).status
}

/// A line of shell that only ends by force, with a word that only this test's processes have.
fn stubborn(tail: u32) -> (String, String) {
    let word = format!("97{}{tail}", std::process::id());
    (format!("trap '' TERM INT HUP; sleep {word}; sleep {word}"), word)
}

#[test]
fn a_server_says_where_it_is_and_lets_only_its_token_in() {
    let program = Program::new();
    let mut server = Serving::start(&program, &[]);
    let ready = &server.ready;
    assert_eq!(ready["url"], format!("http://127.0.0.1:{}", server.port), "{ready}");
    assert_eq!((&ready["type"], &ready["pid"]), (&json!("ready"), &json!(server.id)), "{ready}");
    let kept = server_json(&program).unwrap();
    for key in ["url", "token", "pid", "version"] {
        assert_eq!(kept[key], ready[key], "{key}");
    }
    let work = program.cwd().canonicalize().unwrap();
    assert_eq!(kept["roots"], json!([work]));
    assert!(kept["startedAt"].as_str().unwrap().ends_with('Z'), "{kept}");
    let stat = std::fs::metadata(program.home().join("server.json")).unwrap();
    assert_eq!(stat.permissions().mode() & 0o777, 0o600);
    assert_eq!(server.get("/v1/sessions").status, 200);
    for wrong in [None, Some(""), Some("x"), Some(&server.token[1..])] {
        assert_eq!(ask(server.port, "GET", "/v1/sessions", wrong, None).status, 401, "{wrong:?}");
    }
    assert_eq!(health(server.port), 200);
    let ended = server.stop("TERM");
    assert_eq!((ended.code, server_json(&program)), (Some(0), None), "{ended:?}");
}

#[test]
fn each_way_to_ask_for_the_end_is_graceful() {
    let program = Program::new();
    for name in ["INT", "TERM", "HUP"] {
        let mut server = Serving::start(&program, &[]);
        let ended = server.stop(name);
        assert_eq!((ended.code, server_json(&program)), (Some(0), None), "{name}: {ended:?}");
    }
    let args = ["serve", "--port", "0", "--json-ready", "--exit-on-stdin-close"];
    let mut server = Serving::of(with_input(program.command(&args)), None);
    assert_eq!(health(server.port), 200);
    server.close_input();
    let ended = server.end();
    assert_eq!((ended.code, server_json(&program)), (Some(0), None), "{ended:?}");
    // Without the flag the end of input is no wish.
    let server = Serving::start(&program, &[]);
    assert_eq!(health(server.port), 200);
}

#[test]
fn a_person_is_told_in_words() {
    let program = Program::new();
    let mut command = program.command(&["serve", "--port", "0", "--mode", "plan"]);
    let child = command.env("NARTHEX_SERVER_TOKEN", TOKEN).spawn().unwrap();
    until("server.json", || server_json(&program).is_some());
    let kept = server_json(&program).unwrap();
    let token = program.run(&["token"]);
    assert_eq!(token.out, format!("{TOKEN}\n"), "{token:?}");
    let record = program.run(&["token", "--json"]).json();
    assert_eq!((&record["url"], &record["token"]), (&kept["url"], &json!(TOKEN)));
    let doctor = program.run(&["doctor"]);
    let running = format!("{}, process {}, version", kept["url"].as_str().unwrap(), child.id());
    assert!(doctor.out.contains(&running), "{doctor:?}");
    crate::program::signal(child.id(), "INT");
    let ended = finish(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let url = kept["url"].as_str().unwrap();
    for word in [url, "mode   plan", "NARTHEX_SERVER_TOKEN", "/docs", "curl -H"] {
        assert!(ended.out.contains(word), "{word}: {ended:?}");
    }
    assert!(!ended.out.contains(TOKEN) && !ended.err.contains(TOKEN), "{ended:?}");
    let token = program.run(&["token"]);
    assert_eq!(token.code, Some(1), "{token:?}");
    assert!(token.err.contains("start one: narthex serve"), "{token:?}");
}

#[test]
fn a_second_signal_ends_it_at_once_and_nothing_is_left() {
    let program = Program::new();
    let (command, word) = stubborn(1);
    program.server.push(Answer::call("run_shell", json!({"command": command})));
    let mut server = Serving::start(&program, &["--mode", "full-auto"]);
    let session = server.session(&json!({}));
    server.prompt(&session, "go");
    until("the command is up", || alive(&word) > 0);
    let begun = Instant::now();
    crate::program::signal(server.id, "INT");
    let ended = server.stop("TERM");
    // It may have been quick enough to end as it should.
    assert!(matches!(ended.code, Some(130 | 0)), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(server_json(&program), None);
    until("the command has gone", || alive(&word) == 0);
}

#[test]
fn a_stop_ends_turns_with_their_processes_and_tells_viewers() {
    let program = Program::new();
    let (command, word) = stubborn(2);
    program.server.push(Answer::call("run_shell", json!({"command": command})));
    let mut server = Serving::start(&program, &["--mode", "full-auto"]);
    let session = server.session(&json!({}));
    let events = server.watch(&session);
    server.prompt(&session, "go");
    until("the command is up", || alive(&word) > 0);
    let ended = server.stop("TERM");
    assert_eq!((ended.code, alive(&word)), (Some(0), 0), "{ended:?}");
    let seen: Vec<String> = events.iter().collect();
    let data = |kind: &str| {
        let mark = format!("\"type\":\"{kind}\"");
        seen.iter().filter(move |line| line.starts_with("data:") && line.contains(&mark)).cloned()
    };
    let done: Vec<String> = data("done").collect();
    assert!(done.len() == 1 && done[0].contains("\"reason\":\"interrupted\""), "{seen:?}");
    let closed: Vec<String> = data("session_closed").collect();
    assert!(closed.len() == 1 && closed[0].contains("\"reason\":\"shutdown\""), "{seen:?}");
}

#[test]
fn what_a_killed_server_left_is_replaced_and_a_living_ones_file_is_not() {
    let program = Program::new();
    let mut killed = Serving::start(&program, &[]);
    killed.stop("KILL");
    let left = server_json(&program).unwrap();
    let token = program.run(&["token"]);
    assert_eq!(token.code, Some(1), "{token:?}");
    assert!(token.err.contains(&format!("left of process {}", killed.id)), "{token:?}");
    let mut first = Serving::start(&program, &[]);
    let kept = server_json(&program).unwrap();
    assert_ne!(kept, left);
    let mut second = Serving::start(&program, &[]);
    assert_eq!(server_json(&program), Some(kept.clone()));
    until("it is told", || second.log().contains(&format!("process {}", first.id)));
    assert_eq!(second.get("/v1/sessions").status, 200, "it serves all the same");
    assert_eq!(second.stop("TERM").code, Some(0));
    assert_eq!(server_json(&program), Some(kept));
    assert_eq!(first.stop("TERM").code, Some(0));
    assert_eq!(server_json(&program), None);
}

#[test]
fn a_port_in_use_is_told_with_whoever_has_it() {
    let program = Program::new();
    let first = Serving::start(&program, &[]);
    let port = first.port.to_string();
    let ended = program.run(&["serve", "--port", &port]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    for word in [&port, &format!("narthex serve, process {}", first.id), "--port 0"] {
        assert!(ended.err.contains(word), "{word}: {ended:?}");
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let ended = program.run(&["serve", "--port", &port]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let who = format!("process {}", std::process::id());
    assert!(ended.err.contains(&who), "{ended:?}");
}

#[test]
fn what_cannot_start_says_why_and_exits_2() {
    let program = Program::new();
    let refused = |args: &[&str], variables: &[(&str, &str)]| -> Ended {
        let mut command =
            program.command(&[&["serve", "--port", "0", "--json-ready"], args].concat());
        let ended = finish(command.envs(variables.iter().copied()).spawn().unwrap());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(server_json(&program).is_none(), "{args:?}");
        ended
    };
    let own = ("NEURALINVERSE_SERVER_TOKEN", TOKEN);
    for (args, variables, word) in [
        (&["--host", "0.0.0.0"][..], &[][..], "both are missing"),
        (&["--host", "0.0.0.0"], &[own], "--allow-remote is missing"),
        (&["--host", "0.0.0.0", "--allow-remote"], &[], "the token is missing"),
        (&["--host", "::", "--allow-remote"], &[], "the token is missing"),
        (&["--host", "no such host"], &[], "host no such host"),
        (&["--host", "192.0.2.7", "--allow-remote"], &[own], "no address 192.0.2.7"),
        (&["--root", "missing"], &[], "missing"),
        (&["--origin", "*"], &[], "origin *"),
        (&["--token", "short"], &[], "the token of flag --token"),
        (&[], &[("NARTHEX_SERVER_TOKEN", "has a blank in it")], "NARTHEX_SERVER_TOKEN"),
    ] {
        let ended = refused(args, variables);
        assert!(ended.err.contains(word), "{word}: {ended:?}");
    }
    // A token that was made is not one that somebody chose for this.
    assert_eq!(program.run(&["token", "create", "ci"]).code, Some(0));
    let ended = refused(&["--host", "0.0.0.0", "--allow-remote"], &[]);
    assert!(ended.err.contains("the token is missing"), "{ended:?}");
}

#[test]
fn other_machines_are_served_where_both_were_asked_for() {
    let program = Program::new();
    let args = ["serve", "--port", "0", "--json-ready", "--host", "0.0.0.0", "--allow-remote"];
    let mut command = program.command(&args);
    command.env("NARTHEX_SERVER_TOKEN", TOKEN);
    let server = Serving::of(command, Some(TOKEN));
    assert_eq!(server.ready.get("token"), None);
    assert_eq!(server.get("/v1/sessions").status, 200);
    let args = ["serve", "--port", "0", "--json-ready", "--token", TOKEN];
    let server = Serving::of(program.command(&args), Some(TOKEN));
    assert_eq!(server.get("/v1/sessions").status, 200);
    until("it is told", || server.log().contains("rather set NARTHEX_SERVER_TOKEN"));
}

#[test]
fn made_tokens_come_and_go_while_it_runs() {
    let program = Program::new();
    let mut server = Serving::start(&program, &[]);
    let made = program.run(&["token", "create", "ci", "--expires", "30d", "--json"]).json();
    let token = made["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("nx_"), "{made}");
    let status = || ask(server.port, "GET", "/v1/sessions", Some(&token), None).status;
    until("it is admitted", || status() == 200);
    let listed = program.run(&["token", "list", "--json"]).json();
    assert_eq!(listed["tokens"][0]["name"], "ci");
    let file = program.home().join("tokens.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token[3..]), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = program.run(&["token", "create", "ci"]);
    assert_eq!((again.code, again.out.as_str()), (Some(2), ""), "{again:?}");
    assert_eq!(program.run(&["token", "revoke", "ci"]).code, Some(0));
    until("it is refused", || status() == 401);
    assert_eq!(server.get("/v1/sessions").status, 200);
    std::fs::write(&file, "{").unwrap();
    until("the broken file is told", || {
        assert_eq!(ask(server.port, "GET", "/v1/sessions", Some(&token), None).status, 401);
        server.log().contains("no token but the server's own is admitted")
    });
    assert_eq!(server.get("/v1/sessions").status, 200);
    let ended = server.stop("TERM");
    assert!(ended.err.contains("\"caller\":\"ci\""), "the log names tokens: {ended:?}");
    assert!(!ended.err.contains(&token), "{ended:?}");
}

#[test]
fn the_log_is_json_and_holds_no_token_prompt_or_answer() {
    let program = Program::new();
    program.write("private.txt", "the-contents-of-a-file\n");
    program.server.push(Answer::call("read_file", json!({"path": "private.txt"})));
    program.server.push(Answer::text("what-the-model-said"));
    let mut server = Serving::start(&program, &["--log-level", "trace"]);
    let session = server.session(&json!({"title": "a-title-of-ones-own"}));
    server.prompt(&session, "what-the-person-said");
    until("it has ended", || server.state(&session) == "idle");
    assert_eq!(ask(server.port, "GET", "/v1/sessions", Some("a-wrong-token"), None).status, 401);
    let token = server.token.clone();
    let ended = server.stop("TERM");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in ended.err.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(record["level"].is_string() && record["message"].is_string(), "{line}");
    }
    for word in ["serving", "stopped", "\"target\":\"access\"", "/v1/sessions/{sessionId}"] {
        assert!(ended.err.contains(word), "{word}: {}", ended.err);
    }
    for secret in [
        token.as_str(),
        "a-wrong-token",
        "what-the-person-said",
        "what-the-model-said",
        "the-contents-of-a-file",
        "a-title-of-ones-own",
        "key-a",
    ] {
        let line = ended.err.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[test]
fn the_log_is_as_the_settings_say() {
    let program = Program::new();
    std::fs::create_dir_all(program.home()).unwrap();
    let text = "[log]\nlevel = \"error\"\nformat = \"text\"\nfilter = \"access=info\"\n\
                [server]\nmax_sessions = 1\n";
    std::fs::write(program.home().join("config.toml"), text).unwrap();
    let mut server = Serving::start(&program, &[]);
    server.session(&json!({}));
    let second = server.post("/v1/sessions", &json!({}));
    assert_eq!(
        (second.status, &second.json()["error"]["code"]),
        (429, &json!("too_many_sessions"))
    );
    let ended = server.stop("TERM");
    assert!(ended.err.contains("access: request"), "{ended:?}");
    assert!(!ended.err.contains("serving") && !ended.err.contains('{'), "{ended:?}");
    assert!(!program.home().join("logs").exists(), "a server writes no file");
    let shown = program.run(&["config", "show"]);
    for line in ["log.filter", "log.format", "server.max_sessions", "server.port"] {
        assert!(shown.out.contains(line), "{line}: {shown:?}");
    }
}

#[test]
fn a_launcher_that_reads_nothing_more_does_not_end_it() {
    let program = Program::new();
    let mut server = Serving::start(&program, &["--log-level", "debug"]);
    server.out = None;
    for _ in 0..50 {
        assert_eq!(server.get("/v1/sessions").status, 200);
    }
    assert_eq!(server.stop("TERM").code, Some(0));
    // Nobody reads standard error here, and then it is closed.
    let mut command = program.command(&["serve", "--port", "0", "--json-ready"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    until("server.json", || server_json(&program).is_some());
    drop(child.stderr.take());
    drop(child.stdout.take());
    let kept = server_json(&program).unwrap();
    let url = kept["url"].as_str().unwrap();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    for _ in 0..50 {
        assert_eq!(ask(port, "GET", "/v1/sessions", None, None).status, 401);
    }
    crate::program::signal(child.id(), "TERM");
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn a_turn_that_a_kill_cut_goes_on_after_the_next_start() {
    let program = Program::new();
    let gate = Gate::new();
    program.server.push(Answer::text("never said").gate(At::Head, &gate));
    let mut server = Serving::start(&program, &[]);
    let session = server.session(&json!({}));
    server.prompt(&session, "hello");
    until("the model was asked", || gate.is_reached());
    server.stop("KILL");
    gate.open();
    program.server.push(Answer::text("said after all"));
    let server = Serving::start(&program, &[]);
    // It is there with the first request, and ends by itself.
    assert_eq!(server.get(&format!("/v1/sessions/{session}")).status, 200);
    until("it has ended", || server.state(&session) == "idle");
    let messages = server.get(&format!("/v1/sessions/{session}/messages"));
    assert!(messages.body.contains("said after all"), "{messages:?}");
}

#[test]
fn what_waits_for_a_person_outlives_a_stop_and_a_kill() {
    let program = Program::new();
    let write = json!({"path": "made.txt", "content": "made\n"});
    program.server.push(Answer::call("write_file", write));
    let mut server = Serving::start(&program, &[]);
    let session = server.session(&json!({}));
    server.prompt(&session, "write it");
    let request = server.request(&session);
    assert_eq!(server.stop("TERM").code, Some(0));
    let mut server = Serving::start(&program, &[]);
    assert_eq!(server.request(&session), request, "a stop leaves it waiting");
    server.stop("KILL");
    let server = Serving::start(&program, &[]);
    assert_eq!(server.request(&session), request, "so does a kill");
    program.server.push(Answer::text("Done."));
    let path = format!("/v1/sessions/{session}/permissions/{request}");
    let reply = server.post(&path, &json!({"answer": "allow_once"}));
    assert_eq!(reply.status, 200, "{reply:?}");
    until("it has ended", || server.state(&session) == "idle");
    assert_eq!(program.read("made.txt"), "made\n");
}

#[test]
fn sessions_of_other_folders_are_not_taken_up() {
    let program = Program::new();
    std::fs::create_dir(program.cwd().join("one")).unwrap();
    std::fs::create_dir(program.cwd().join("two")).unwrap();
    let write = json!({"path": "made.txt", "content": "made\n"});
    program.server.push(Answer::call("write_file", write));
    let mut server = Serving::start(&program, &["--root", "one"]);
    let session = server.session(&json!({}));
    server.prompt(&session, "write it");
    server.request(&session);
    server.stop("TERM");
    let server = Serving::start(&program, &["--root", "two"]);
    assert_eq!(server.get(&format!("/v1/sessions/{session}")).status, 404);
}

#[test]
fn what_happens_is_counted_for_whoever_has_a_token() {
    let program = Program::new();
    program.server.push(Answer::text("Hello."));
    let server = Serving::start(&program, &[]);
    let session = server.session(&json!({}));
    server.prompt(&session, "hello");
    until("it has ended", || server.state(&session) == "idle");
    let metrics = server.get("/metrics");
    assert_eq!(metrics.status, 200, "{metrics:?}");
    for line in [
        "narthex_prompts_total{reason=\"completed\"} 1",
        "narthex_sessions{state=\"idle\"} 1",
        "narthex_steps_total{model=\"anthropic/claude-sonnet-4-6\"} 1",
        "route=\"/v1/sessions/{sessionId}/prompt\",status=\"202\"} 1",
    ] {
        assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
    }
    let refused = ask(server.port, "GET", "/metrics", None, None);
    assert_eq!((refused.status, &refused.json()["status"]), (401, &json!(401)), "{refused:?}");
    assert!(refused.json()["title"].is_string(), "problem details: {refused:?}");
    let refused = ask(server.port, "GET", "/v1/sessions", None, None);
    assert_eq!(refused.json()["error"]["code"], "unauthorized");
    let again = server.get("/metrics");
    let line = "narthex_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"401\"} 1";
    assert!(again.body.contains(line), "{}", again.body);
}

#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let program = Program::new();
    program.server.push(Answer::text("Hello."));
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let mut command = program.command(&["serve", "--port", "0", "--json-ready"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", gone);
    let mut server = Serving::of(command, None);
    let session = server.session(&json!({}));
    server.prompt(&session, "hello");
    until("it has ended", || server.state(&session) == "idle");
    let ended = server.stop("TERM");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut command = program.command(&["serve", "--port", "0", "--json-ready"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere");
    let ended = finish(command.spawn().unwrap());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{ended:?}");
}

#[test]
fn a_private_server_leaves_the_file_to_others() {
    let program = Program::new();
    let mut private = Serving::start(&program, &["--no-announce", "--no-mcp"]);
    assert_eq!(private.get("/v1/sessions").status, 200);
    assert_eq!(server_json(&program), None);
    assert_eq!(program.run(&["token"]).code, Some(1));
    let mut public = Serving::start(&program, &[]);
    assert_eq!(server_json(&program).unwrap()["pid"], public.id);
    assert_eq!(private.stop("TERM").code, Some(0));
    assert_eq!(server_json(&program).unwrap()["pid"], public.id);
    assert_eq!(public.stop("TERM").code, Some(0));
}

#[test]
fn an_address_in_the_words_of_the_other_family_is_what_it_is() {
    let program = Program::new();
    let server = Serving::start(&program, &["--host", "::ffff:127.0.0.1"]);
    assert_eq!(server.ready["url"], format!("http://127.0.0.1:{}", server.port));
    assert_eq!(server.get("/v1/sessions").status, 200);
}

#[test]
fn who_cannot_be_told_where_it_is_gets_no_server_and_nothing_is_left() {
    let program = Program::new();
    let (command, word) = stubborn(3);
    let gate = Gate::new();
    program.server.push(Answer::text("never said").gate(At::Head, &gate));
    let mut server = Serving::start(&program, &["--mode", "full-auto"]);
    let session = server.session(&json!({}));
    server.prompt(&session, "hello");
    until("the model was asked", || gate.is_reached());
    server.stop("KILL");
    gate.open();
    // The turn goes on with the next start, which has nowhere to say where it is.
    program.server.push(Answer::call("run_shell", json!({"command": command})));
    let mut command = program.command(&["serve", "--port", "0", "--json-ready"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = finish(command.stdout(full).spawn().unwrap());
    assert_eq!((ended.code, alive(&word)), (Some(1), 0), "{ended:?}");
    assert!(ended.err.contains("\"stopped\""), "in order: {ended:?}");
    assert_eq!(server_json(&program), None);
}

#[test]
fn commands_have_the_limit_of_open_files_that_the_server_was_started_with() {
    let program = Program::new();
    program.server.push(Answer::call("run_shell", json!({"command": "ulimit -Sn"})));
    program.server.push(Answer::text("Done."));
    let own = program.command(&["serve", "--port", "0", "--json-ready", "--mode", "full-auto"]);
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "ulimit -Sn 509 && exec \"$0\" \"$@\""]).arg(own.get_program());
    command.args(own.get_args()).current_dir(own.get_current_dir().unwrap()).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = Serving::of(command, None);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id)).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft > 509, "{line}");
    let session = server.session(&json!({}));
    server.prompt(&session, "how many?");
    until("it has ended", || server.state(&session) == "idle");
    let messages = server.get(&format!("/v1/sessions/{session}/messages"));
    assert!(messages.body.contains("509"), "{messages:?}");
}
