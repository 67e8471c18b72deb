//! `narthex cortex`, and the same door beside `/v1`: what the program itself adds to them. Neurons
//! are of the driver `host` here, which every machine has.

use serde_json::{Value, json};

use crate::program::{Program, finish, until};
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
