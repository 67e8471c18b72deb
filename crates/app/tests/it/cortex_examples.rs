//! Every example of the door's description, run by the real `curl` as it stands there. Only the
//! port and the id of the session are put in: both are made when the server and the session are.
#![allow(clippy::disallowed_methods, reason = "these tests run what a person types")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::model_server::Answer;

use crate::program::{Program, finish};
use crate::serving::Serving;

const CREATE_NEURON: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/neurons \
  -H "Content-Type: application/json" \
  -d '{"agentId": "my-neuron"}'
"#;

const CREATE_WITH_AUTH: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/neurons \
  -H "Authorization: Bearer ${NSYS_CORTEX_API_TOKEN}" \
  -H "Content-Type: application/json" \
  -d '{"agentId": "my-neuron"}'
"#;

const EXEC: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/neurons/my-neuron/exec \
  -H "Content-Type: application/json" \
  -d '{"code": "echo hello from cortex", "language": "bash"}'
"#;

const HEALTH: &str = "
curl http://localhost:3100/api/v1/cortex/health
";

const TOOL: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/neurons/my-neuron/tool \
  -H "Content-Type: application/json" \
  -d '{"tool": "bash", "params": {"command": "ls -la"}}'
"#;

const TOOLS: &str = "
curl http://localhost:3100/api/v1/cortex/neurons/my-neuron/tools
";

const CREATE_SESSION: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/sessions \
  -H "Content-Type: application/json" \
  -d '{"agentId": "my-neuron", "name": "worker"}'
"#;

const SESSION: &str = "
curl http://localhost:3100/api/v1/cortex/sessions/ses-abc123
";

const HISTORY: &str = r#"
curl "http://localhost:3100/api/v1/cortex/sessions/ses-abc123?history=20"
"#;

const DELETE_SESSION: &str = "
curl -X DELETE http://localhost:3100/api/v1/cortex/sessions/ses-abc123
";

const MESSAGE: &str = r#"
curl -X POST http://localhost:3100/api/v1/cortex/sessions/ses-abc123/message \
  -H "Content-Type: application/json" \
  -d '{"message": "List the files in the workspace"}'
"#;

const STRUCTURED: &str = include_str!("cortex_examples/structured.sh");

const IMAGE: &str = include_str!("cortex_examples/image.sh");

const RUN: &str = r#"
curl -N -X POST http://localhost:3100/api/v1/cortex/sessions/ses-abc123/run \
  -H "Content-Type: application/json" \
  -d '{"message": "Create a hello.txt file", "model": "claude-sonnet-4-6"}'
"#;

/// A picture of one dot.
const SHOT: [u8; 67] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, 0x49, 0x44, 0x41, 0x54,
    0x78, 0x9c, 0x63, 0x60, 0, 0, 0, 2, 0, 1, 0x48, 0xaf, 0xa4, 0x71, 0, 0, 0, 0, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];

/// The same as a provider is sent it.
const SHOT_TEXT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNg\
                         AAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/// The `base64` for which the examples were written: the one of the usual Linux breaks lines,
/// and no line may break in a JSON string.
const BASE64: &str = "#!/bin/sh\nPATH=${PATH#*:}\nexec base64 \"$@\" -w 0\n";

/// Somebody who types the examples.
struct Typist {
    program: Program,
    server: Serving,
    token: Option<&'static str>,
    session: String,
}

impl Typist {
    fn new(token: Option<&'static str>) -> Self {
        let program = Program::new();
        let mut command = program.command(&["cortex", "--port", "0", "--json-ready"]);
        command.env("NSYS_CORTEX_MODE", "host");
        if let Some(token) = token {
            command.env("NSYS_CORTEX_API_TOKEN", token);
        }
        let server = Serving::of(command, Some(token.unwrap_or("none is needed")));
        // Beside what it prints, the status.
        let settings = "silent\nshow-error\nmax-time = 60\nwrite-out = \"\\n%{http_code}\"\n";
        program.write(".curlrc", settings);
        std::fs::write(program.cwd().join("shot.png"), SHOT).unwrap();
        let programs = program.cwd().join("bin");
        std::fs::create_dir(&programs).unwrap();
        std::fs::write(programs.join("base64"), BASE64).unwrap();
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(programs.join("base64"), may_run).unwrap();
        Self { program, server, token, session: "ses-none".to_owned() }
    }

    fn programs(&self) -> PathBuf {
        self.program.cwd().join("bin")
    }

    /// Types an example; returns the status and what is printed.
    fn types(&self, example: &str) -> (u16, String) {
        let text = example
            .replace("localhost:3100", &format!("localhost:{}", self.server.port))
            .replace("ses-abc123", &self.session);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-c", &text])
            .current_dir(self.program.cwd())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.programs().display()))
            .env("CURL_HOME", self.program.cwd())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.envs(self.token.map(|token| ("NSYS_CORTEX_API_TOKEN", token)));
        let ended = finish(command.spawn().unwrap());
        assert_eq!(ended.code, Some(0), "{text}{ended:?}");
        let (body, status) = ended.out.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    /// Types an example whose answer is JSON with this status.
    fn json(&self, example: &str, status: u16) -> Value {
        let (got, body) = self.types(example);
        assert_eq!(got, status, "{example}{body}{}", self.server.log());
        serde_json::from_str(&body).unwrap_or_else(|_| panic!("{example}{body}"))
    }

    fn says(&self, answer: Answer) {
        self.program.server.push(answer);
    }

    fn begin_session(&mut self) {
        let session = self.json(CREATE_SESSION, 201);
        self.session = session["sessionId"].as_str().unwrap().to_owned();
    }

    fn leave(mut self) {
        let gone = "curl -X DELETE http://localhost:3100/api/v1/cortex/neurons/my-neuron ${TOKEN}";
        let header = self.token.map(|token| format!("-H 'Authorization: Bearer {token}'"));
        let gone = gone.replace("${TOKEN}", &header.unwrap_or_default());
        assert_eq!(self.json(&gone, 200), json!({"agentId": "my-neuron", "destroyed": true}));
        assert_eq!(self.server.stop("TERM").code, Some(0));
        self.program.server.assert_clean();
    }
}

/// A field and what it has to be.
type Field<'a> = (&'a str, fn(&Value) -> bool);

/// Asserts that an object has these keys, each of a kind.
fn has(object: &Value, fields: &[Field<'_>]) {
    for (name, fits) in fields {
        assert!(object.get(*name).is_some_and(fits), "{name}: {object}");
    }
}

/// The frames of a stream: name and data.
fn frames(stream: &str) -> Vec<(String, Value)> {
    let frames = stream.split("\n\n").filter(|frame| frame.contains("data: "));
    let read = |frame: &str| {
        let field = |name| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        (field("event: ").to_owned(), serde_json::from_str(field("data: ")).unwrap())
    };
    frames.map(read).collect()
}

#[test]
fn neurons_and_their_commands() {
    let typist = Typist::new(None);
    let neuron = typist.json(CREATE_NEURON, 201);
    assert_eq!((&neuron["agentId"], &neuron["state"]), (&json!("my-neuron"), &json!("running")));
    let again = typist.json(CREATE_NEURON, 409);
    assert_eq!(again["error"]["code"], "CONFLICT");
    has(&again["error"], &[("requestId", |id| id.as_str().unwrap().starts_with("ctx-"))]);
    let ran = typist.json(EXEC, 200);
    assert_eq!((&ran["stdout"], &ran["exitCode"]), (&json!("hello from cortex\n"), &json!(0)));
    let health = typist.json(HEALTH, 200);
    assert_eq!(health["status"], "ok");
    has(
        &health,
        &[
            ("version", Value::is_string),
            ("activeNeurons", |count| *count == 1),
            ("totalNeurons", |count| *count == 1),
            ("activeSessions", |count| *count == 0),
            ("totalSessions", |count| *count == 0),
            ("uptime", Value::is_f64),
        ],
    );
    let listed = typist.json(TOOL, 200);
    assert_eq!((&listed["tool"], &listed["ok"]), (&json!("bash"), &json!(true)));
    assert!(listed["output"].as_str().unwrap().contains("total "), "{listed}");
    let tools = typist.json(TOOLS, 200);
    let names: Vec<_> = tools["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["read", "write", "edit", "bash"]);
    typist.leave();
}

#[test]
fn with_a_token() {
    let typist = Typist::new(Some("0a6d25c4f43cb92b8d44a0b4ee2b2cbd"));
    let refused = typist.json(CREATE_NEURON, 401);
    assert_eq!(refused["error"]["code"], "UNAUTHORIZED");
    assert_eq!(refused["error"].as_object().unwrap().len(), 2, "{refused}");
    assert_eq!(typist.json(CREATE_WITH_AUTH, 201)["agentId"], "my-neuron");
    typist.leave();
}

#[test]
fn sessions_and_messages() {
    let mut typist = Typist::new(None);
    typist.json(CREATE_NEURON, 201);
    typist.begin_session();
    let session = typist.json(SESSION, 200);
    assert_eq!((&session["agentId"], &session["name"]), (&json!("my-neuron"), &json!("worker")));
    assert_eq!(session.get("history"), None, "metadata only");
    typist.says(Answer::call("bash", json!({"command": "ls"})));
    typist.says(Answer::text("There is nothing yet."));
    let answer = typist.json(MESSAGE, 200);
    let expected = (&json!("There is nothing yet."), &json!("end_turn"));
    assert_eq!((&answer["response"], &answer["stopReason"]), expected);
    typist.says(Answer::text("{\"fileCount\": 0, \"languages\": []}"));
    let answer = typist.json(STRUCTURED, 200);
    assert_eq!(answer["structured"], json!({"fileCount": 0, "languages": []}), "{answer}");
    typist.says(Answer::text("A dot."));
    assert_eq!(typist.json(IMAGE, 200)["response"], "A dot.");
    let requests = typist.program.server.requests();
    let sent = String::from_utf8_lossy(&requests.last().unwrap().raw).into_owned();
    assert!(sent.contains(SHOT_TEXT), "{sent}");
    let session = typist.json(HISTORY, 200);
    let usage = &session["usage"];
    assert_eq!((&usage["runs"], &usage["turns"]), (&json!(3), &json!(4)), "{usage}");
    let names = [
        "inputTokens",
        "outputTokens",
        "cacheReadTokens",
        "cacheCreationTokens",
        "reasoningTokens",
    ];
    assert!(names.iter().all(|name| usage[name].is_u64()), "{usage}");
    let history = session["history"].as_array().unwrap();
    assert_eq!(history.first().unwrap()["role"], "user", "{history:?}");
    assert_eq!(history.last().unwrap()["content"][0]["text"], "A dot.", "{history:?}");
    let deleted = typist.json(DELETE_SESSION, 200);
    assert_eq!(deleted, json!({"sessionId": typist.session, "deleted": true}));
    assert_eq!(typist.json(SESSION, 404)["error"]["code"], "NOT_FOUND");
    typist.leave();
}

#[test]
fn a_run_as_a_stream() {
    let mut typist = Typist::new(None);
    typist.json(CREATE_NEURON, 201);
    typist.begin_session();
    let write = json!({"path": "hello.txt", "content": "hello\n"});
    let call = testkit::model_server::Call::new("write", write);
    typist.says(Answer::text("Let me create").and_call(call));
    typist.says(Answer::text("It is there."));
    let (status, stream) = typist.types(RUN);
    assert_eq!(status, 200, "{stream}");
    let frames = frames(&stream);
    let find = |kind: &str| {
        let found = frames.iter().find(|(name, _)| name == kind);
        &found.unwrap_or_else(|| panic!("{kind}: {stream}")).1
    };
    let text: fn(&Value) -> bool = Value::is_string;
    for (name, data) in &frames {
        assert_eq!(data["type"], **name);
        has(data, &[("runId", |id| id.as_str().unwrap().starts_with("run-"))]);
    }
    assert_eq!(find("text_delta")["sessionId"], typist.session);
    has(find("text_delta"), &[("text", text)]);
    assert_eq!(find("tool_call_start")["toolName"], "write");
    has(find("tool_call_start"), &[("toolCallId", text)]);
    assert_eq!(find("tool_call_end")["toolCallId"], find("tool_call_start")["toolCallId"]);
    has(find("tool_call_end"), &[("toolName", text), ("durationMs", Value::is_u64)]);
    let (last, complete) = frames.last().unwrap();
    assert_eq!((last.as_str(), &complete["totalTurns"]), ("run_complete", &json!(2)));
    has(
        &complete["totalUsage"],
        &[("inputTokens", Value::is_u64), ("outputTokens", Value::is_u64)],
    );
    let said = typist.json(&EXEC.replace("echo hello from cortex", "cat hello.txt"), 200);
    assert_eq!(said["stdout"], "hello\n");
    typist.leave();
}
