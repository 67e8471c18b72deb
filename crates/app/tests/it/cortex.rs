//! `narthex cortex`, and the same door beside `/v1`: what the program itself adds to them. Neurons
//! are of the driver `host` here, which every machine has.

use serde_json::{Value, json};
use testkit::model_server::{Answer, Call};

use crate::program::{Program, alive, finish, until};
use crate::serving::{Reply, Serving, ask};

const BASE: &str = "/api/v1/cortex";

fn cortex(program: &Program, variables: &[(&str, &str)]) -> Serving {
    let mut command = program.command(&["cortex", "--port", "0", "--json-ready"]);
    command.env("NSYS_CORTEX_MODE", "host").envs(variables.iter().copied());
    Serving::of(command, Some("none is needed"))
}

fn neuron(server: &Serving, id: &str) -> Value {
    let made = server.post(&format!("{BASE}/neurons"), &json!({ "agentId": id }));
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

fn exec(server: &Serving, id: &str, code: &str) -> Reply {
    server.post(&format!("{BASE}/neurons/{id}/exec"), &json!({ "code": code }))
}

fn destroy(server: &Serving, id: &str) {
    let path = format!("{BASE}/neurons/{id}");
    let gone = ask(server.port, "DELETE", &path, Some(&server.token), None);
    assert_eq!(gone.status, 200, "{gone:?}");
}

#[test]
fn a_neuron_outlives_its_server_and_is_taken_over_by_the_next() {
    let program = Program::new();
    let mut first = cortex(&program, &[]);
    assert_eq!(first.ready["cortex"], format!("http://127.0.0.1:{}{BASE}", first.port));
    let made = neuron(&first, "worker");
    assert_eq!(made["isolation"]["level"], "none", "what does not isolate says so: {made}");
    let said = exec(&first, "worker", "echo kept > note; echo said").json();
    assert_eq!((&said["stdout"], &said["exitCode"]), (&json!("said\n"), &json!(0)));
    let ended = first.stop("TERM");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut second = cortex(&program, &[]);
    let said = exec(&second, "worker", "cat note").json();
    assert_eq!(said["stdout"], "kept\n", "{said}");
    let pid = made["pid"].as_u64().unwrap();
    destroy(&second, "worker");
    until("its first process is gone", || {
        !std::path::Path::new(&format!("/proc/{pid}/status")).exists()
    });
    assert_eq!(second.stop("INT").code, Some(0));
}

#[test]
fn beside_v1_it_is_behind_its_token_and_has_its_own_words_and_headers() {
    let program = Program::new();
    let mut command =
        program.command(&["serve", "--port", "0", "--json-ready", "--with", "cortex"]);
    command.env("NSYS_CORTEX_MODE", "host");
    let mut server = Serving::of(command, None);
    for path in ["", "/", "/health", "/neurons/%2e%2e", "/no/such/thing"] {
        let path = format!("{BASE}{path}");
        let refused = ask(server.port, "GET", &path, None, None);
        assert_eq!(refused.status, 401, "{path}: {refused:?}");
        assert_eq!(refused.json()["error"]["code"], "UNAUTHORIZED", "{path}: {refused:?}");
        assert!(refused.head.contains("x-nsys-cortex-version: "), "{path}: {refused:?}");
    }
    let health = server.get(&format!("{BASE}/health"));
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")), "{health:?}");
    let other = server.get("/v1/sessions");
    assert_eq!(other.status, 200, "{other:?}");
    for path in ["/v1/sessions", "/v1/no-such", "/api/v1/other", "/metrics"] {
        assert!(!server.get(path).head.contains("x-nsys"), "{path}");
    }
    neuron(&server, "worker");
    assert_eq!(exec(&server, "worker", "echo hi").json()["stdout"], "hi\n");
    destroy(&server, "worker");
    assert_eq!(server.stop("TERM").code, Some(0));
    let mut alone = Serving::start(&program, &[]);
    assert_eq!(alone.get(&format!("{BASE}/health")).status, 404, "it is opened where asked for");
    assert_eq!(alone.stop("TERM").code, Some(0));
}

#[test]
fn what_is_wrong_stops_this_door_alone() {
    let program = Program::new();
    for (name, value, part) in [
        ("NSYS_CORTEX_MODE", "firecracker", "no driver of microVMs"),
        ("NSYS_CORTEX_RATE_LIMIT", "many", "expected a whole number"),
        ("NSYS_CORTEX_API_HOST", "0.0.0.0", "NSYS_CORTEX_API_TOKEN"),
    ] {
        let mut command = program.command(&["cortex", "--port", "0"]);
        let ended = finish(command.env(name, value).spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{name}: {ended:?}");
        assert!(ended.err.contains(name) && ended.err.contains(part), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
    let mut command = program.command(&["config", "show"]);
    command.env("NSYS_CORTEX_MODE", "firecracker").env("NSYS_CORTEX_PORT", "3111");
    let shown = finish(command.spawn().unwrap());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("cortex.port = 3111"), "{shown:?}");
    assert!(shown.out.contains("# environment, NSYS_CORTEX_PORT"), "{shown:?}");
    assert!(shown.err.contains("NSYS_CORTEX_MODE: there is no driver"), "{shown:?}");
}

fn tool(server: &Serving, id: &str, name: &str, params: &Value) -> Value {
    let path = format!("{BASE}/neurons/{id}/tool");
    let ran = server.post(&path, &json!({"tool": name, "params": params}));
    assert_eq!(ran.status, 200, "{ran:?}");
    ran.json()
}

fn session(server: &Serving, fields: &Value) -> String {
    let made = server.post(&format!("{BASE}/sessions"), fields);
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["sessionId"].as_str().unwrap().to_owned()
}

/// The approvals of a session that wait, once there are any.
fn approvals(server: &Serving, session: &str) -> Vec<Value> {
    let path = format!("{BASE}/sessions/{session}/approvals");
    let waiting = || server.get(&path).json()["approvals"].as_array().cloned().unwrap_or_default();
    until("an approval", || !waiting().is_empty());
    waiting()
}

#[test]
fn the_admin_preset_has_processes_and_commands_that_a_person_approves() {
    let program = Program::new();
    let mut server = cortex(&program, &[("NSYS_CORTEX_API_TOOL_PRESET", "admin")]);
    neuron(&server, "worker");
    let listed = server.get(&format!("{BASE}/neurons/worker/tools")).json();
    let tools = listed["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    for name in ["apply_patch", "process_start", "process_list", "process_output", "process_kill"] {
        assert_eq!(find(name)["requiresApproval"], false, "{name}");
    }
    let elevated = find("elevated");
    assert_eq!(
        (&elevated["effectClass"], &elevated["requiresApproval"]),
        (&json!("destructive"), &json!(true))
    );
    // What a call starts in a neuron goes on there, and later calls and sessions see it.
    let started = tool(&server, "worker", "process_start", &json!({"command": "sleep 71839"}));
    assert!(started["output"].as_str().unwrap().starts_with("started as p1: "), "{started}");
    until("the process", || alive("71839") == 1);
    let call = Call::new("process_list", json!({}));
    program.server.push_all([Answer::text("I look.").and_call(call), Answer::text("One runs.")]);
    let id = session(&server, &json!({"agentId": "worker"}));
    let path = format!("{BASE}/sessions/{id}/message");
    let said = server.post(&path, &json!({"message": "what runs?"}));
    assert_eq!(said.json()["response"], "One runs.", "{said:?}");
    let requests = program.server.requests();
    let seen = format!("{:?}", testkit::model_server::tool_results(&requests[1]));
    assert!(seen.contains("p1: running for ") && seen.contains("sleep 71839"), "{seen}");
    // What a session starts ends with it.
    let call = Call::new("process_start", json!({"command": "sleep 71841"}));
    program.server.push_all([Answer::text("I start it.").and_call(call), Answer::text("Done.")]);
    server.post(&path, &json!({"message": "start it"}));
    until("the session's process", || alive("71841") == 1);
    let gone = ask(server.port, "DELETE", &format!("{BASE}/sessions/{id}"), Some(""), None);
    assert_eq!(gone.status, 200, "{gone:?}");
    until("its end", || alive("71841") == 0);
    assert_eq!(alive("71839"), 1);
    let ran = json!({"command": "echo $((6 * 7))", "reason": "to know"});
    assert_eq!(tool(&server, "worker", "elevated", &ran)["output"], "42\nexit code 0");
    destroy(&server, "worker");
    until("the neuron's process is gone", || alive("71839") == 0);
    assert_eq!(server.stop("TERM").code, Some(0));
    program.server.assert_clean();
}

#[test]
fn what_an_approval_is_needed_for_waits_for_it() {
    let program = Program::new();
    // Nothing is asked for by its effect, and an elevated command all the same.
    std::fs::create_dir_all(program.home()).unwrap();
    let settings = "[agent.approval]\nrequireFor = []\n";
    std::fs::write(program.home().join("config.toml"), settings).unwrap();
    let mut server = cortex(&program, &[("NSYS_CORTEX_API_TOOL_PRESET", "admin")]);
    neuron(&server, "worker");
    let elevated = |name: &str| {
        let input = json!({"command": format!("touch {name}"), "reason": "it is needed"});
        Answer::text("I ask.").and_call(Call::new("elevated", input))
    };
    program.server.push_all([elevated("first"), elevated("second"), Answer::text("One of two.")]);
    let id = session(&server, &json!({"agentId": "worker"}));
    let path = format!("{BASE}/sessions/{id}/message");
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post(&path, &json!({"message": "touch both"})));
        for decision in
            [json!({"decision": "deny", "reason": "not that one"}), json!({"decision": "allow"})]
        {
            let asked = approvals(&server, &id).remove(0);
            assert_eq!(asked["toolName"], "elevated", "{asked}");
            assert_eq!(asked["effectClass"], "destructive", "{asked}");
            let seen = exec(&server, "worker", "ls").json();
            assert_eq!(seen["stdout"], "", "nothing ran before the word: {seen}");
            let approval = asked["approvalId"].as_str().unwrap();
            let path = format!("{BASE}/sessions/{id}/approvals/{approval}");
            let decided = server.post(&path, &decision);
            assert_eq!(decided.status, 200, "{decided:?}");
            assert_eq!(server.post(&path, &decision).status, 409);
        }
        waiting.join().unwrap()
    });
    assert_eq!(answer.json()["response"], "One of two.", "{answer:?}");
    assert_eq!(exec(&server, "worker", "ls").json()["stdout"], "second\n");
    let requests = program.server.requests();
    let told = format!("{:?}", testkit::model_server::tool_results(&requests[1]));
    assert!(told.contains("denied: not that one"), "{told}");
    destroy(&server, "worker");
    assert_eq!(server.stop("TERM").code, Some(0));
    program.server.assert_clean();
}

#[test]
fn what_a_provider_said_is_in_the_log_under_the_request_id_and_nowhere_else() {
    let program = Program::new();
    let mut server = cortex(&program, &[]);
    neuron(&server, "worker");
    let id = session(&server, &json!({"agentId": "worker"}));
    program.server.push(Answer::error(401, "the key that begins with whisper is wrong"));
    let path = format!("{BASE}/sessions/{id}/message");
    let failed = server.post(&path, &json!({"message": "hello"}));
    assert_eq!(failed.status, 502, "{failed:?}");
    let request = failed.json()["error"]["requestId"].as_str().unwrap().to_owned();
    assert!(!failed.body.contains("whisper"), "{failed:?}");
    let line = |log: &str| {
        log.lines().any(|line| line.contains(&request) && line.contains("begins with whisper"))
    };
    until("the line of the log", || line(&server.log()));
    destroy(&server, "worker");
    assert_eq!(server.stop("TERM").code, Some(0));
}

#[test]
fn the_ceiling_and_the_usage_of_a_session_hold_over_a_restart() {
    let program = Program::new();
    let mut first = cortex(&program, &[]);
    neuron(&first, "worker");
    let id = session(&first, &json!({"agentId": "worker", "name": "n", "maxTurns": 1}));
    assert_eq!(first.stop("TERM").code, Some(0));
    let mut second = cortex(&program, &[]);
    let call = Call::new("bash", json!({"command": "true"}));
    let answer = Answer::text("I begin.").and_call(call).reasoning_tokens(3);
    program.server.push(answer);
    let path = format!("{BASE}/sessions/{id}/message");
    let model = json!({"message": "work", "model": "openai/gpt-5"});
    let cut = second.post(&path, &model).json();
    assert_eq!((&cut["stopReason"], &cut["response"]), (&json!("max_turns"), &json!("I begin.")));
    assert_eq!(cut["totalUsage"]["reasoningTokens"], 3, "{cut}");
    let shown = second.get(&format!("{BASE}/sessions/{id}")).json();
    assert_eq!(second.stop("TERM").code, Some(0));
    let mut third = cortex(&program, &[]);
    let listed = third.get(&format!("{BASE}/sessions")).json();
    let again = &listed["sessions"][0];
    assert_eq!((&again["usage"], &again["lastSeq"]), (&shown["usage"], &shown["lastSeq"]));
    assert_eq!(again["usage"]["reasoningTokens"], 3, "{again}");
    destroy(&third, "worker");
    assert_eq!(third.stop("TERM").code, Some(0));
}
