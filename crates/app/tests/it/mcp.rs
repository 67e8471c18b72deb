//! MCP servers of the built program: inside of neurons, under hooks and checks, and at the call of
//! a single tool.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testkit::model_server::{Answer, tool_results};

use crate::program::{Program, alive, until};
use crate::serving::{Reply, Serving, ask};

const BASE: &str = "/api/v1/cortex";

/// A server in lines of shell. Its tools say which process it is, where it runs, what the folder
/// holds, and whether it reaches a port of this machine; one of them says that it only reads.
/// `MARK` is a word of the test's own: a child with it tells whether the server lives.
pub(crate) const SERVER: &str = r#"sleep "$MARK" &
takes='"inputSchema":{"type":"object"}'
hint='"annotations":{"readOnlyHint":true}'
tools="{\"name\":\"look\",$takes,$hint},{\"name\":\"change\",$takes}"
part() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"*\([^\",}]*\).*/\\1/p"; }
while read -r line; do
  id=$(part id)
  case $line in
    *'"initialize"'*)
      facts='"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}'
      answer="\"result\":{\"protocolVersion\":\"$(part protocolVersion)\",$facts}" ;;
    *'"tools/list"'*) answer="\"result\":{\"tools\":[$tools]}" ;;
    *'"tools/call"'*)
      echo called >> called
      if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then way=open; else way=shut; fi
      text="pid=$$ pwd=$(pwd) note=$(cat note 2>/dev/null) way=$way end"
      answer="\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}" ;;
    *) answer='"error":{"code":-32601,"message":"no such method"}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

/// Settings with the server `probe`.
fn settings(program: &Program, mark: &str, port: u16, further: &str) {
    let server = json!({
        "command": "bash", "args": ["-c", SERVER],
        "env": {"MARK": mark, "PORT": port.to_string()},
    });
    std::fs::create_dir_all(program.home()).unwrap();
    let text = json!({"mcpServers": {"probe": server}}).to_string();
    std::fs::write(program.home().join("mcp.json"), text).unwrap();
    std::fs::write(program.home().join("config.toml"), further).unwrap();
}

fn inside(program: &Program, mark: &str, port: u16) {
    settings(program, mark, port, "");
    let path = program.home().join("mcp.json");
    let mut text: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    text["mcpServers"]["probe"]["scope"] = json!("neuron");
    std::fs::write(path, text.to_string()).unwrap();
}

/// The results that the newest request brought, as text.
fn told(program: &Program) -> String {
    format!("{:?}", tool_results(program.server.requests().last().unwrap()))
}

/// The word after `name=` in what the tool said.
fn word(told: &str, name: &str) -> String {
    let rest = told.split_once(&format!("{name}=")).map_or("", |(_, rest)| rest);
    rest.split([' ', '"', '\\']).next().unwrap_or_default().to_owned()
}

fn cortex(program: &Program, mode: &str) -> Serving {
    let mut command = program.command(&["cortex", "--port", "0", "--json-ready"]);
    command.env("NSYS_CORTEX_MODE", mode);
    Serving::of(command, Some("none is needed"))
}

fn post(server: &Serving, path: &str, body: &Value) -> Reply {
    server.post(&format!("{BASE}{path}"), body)
}

fn neuron(server: &Serving, id: &str) {
    let made = post(server, "/neurons", &json!({"agentId": id}));
    assert_eq!(made.status, 201, "{made:?}");
    let note = json!({"code": format!("echo of-{id} > note")});
    assert_eq!(post(server, &format!("/neurons/{id}/exec"), &note).json()["exitCode"], 0);
}

fn session(server: &Serving, neuron: &str) -> String {
    let made = post(server, "/sessions", &json!({"agentId": neuron}));
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["sessionId"].as_str().unwrap().to_owned()
}

/// Lets the model of a session look, and returns what the tool said.
fn look(program: &Program, server: &Serving, session: &str) -> String {
    program.server.push(Answer::call("mcp__probe__look", json!({})));
    program.server.push(Answer::text("done"));
    let path = format!("/sessions/{session}/message");
    let done = post(server, &path, &json!({"message": "look"}));
    assert_eq!(done.status, 200, "{done:?}");
    told(program)
}

/// One server in each neuron, of a driver: shared by its sessions, back when it was killed, gone
/// with the neuron, and taken up by the next process.
fn in_each_neuron(mode: &str, mark: &str) {
    let program = Program::new();
    // Something on this machine that can be reached from it.
    let open = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    inside(&program, mark, open.local_addr().unwrap().port());
    let mut server = cortex(&program, mode);
    assert_eq!(alive(mark), 0, "nothing runs before a session begins in a neuron");
    for id in ["one", "two"] {
        neuron(&server, id);
    }
    let (first, second, other) =
        (session(&server, "one"), session(&server, "one"), session(&server, "two"));
    assert_eq!(alive(mark), 2, "one process for each neuron");
    let seen = look(&program, &server, &first);
    assert_eq!((word(&seen, "note").as_str(), alive(mark)), ("of-one", 2), "{seen}");
    assert_eq!(word(&look(&program, &server, &second), "pid"), word(&seen, "pid"));
    assert_eq!(word(&look(&program, &server, &other), "note"), "of-two");
    let way = if mode == "host" { "open" } else { "shut" };
    assert_eq!(word(&seen, "way"), way, "{seen}");
    // Killed: it comes back in its neuron, and answers the next call or the one after.
    let kill = json!({"code": format!("kill -9 {}", word(&seen, "pid"))});
    post(&server, "/neurons/one/exec", &kill);
    until("the server to come back", || {
        let seen = look(&program, &server, &first);
        word(&seen, "note") == "of-one"
    });
    let gone = ask(server.port, "DELETE", &format!("{BASE}/neurons/two"), None, None);
    assert_eq!(gone.status, 200, "{gone:?}");
    until("its server is gone with the neuron", || alive(mark) == 1);
    assert_eq!(server.stop("TERM").code, Some(0));
    until("no server outlives the process", || alive(mark) == 0);
    let server = cortex(&program, mode);
    let seen = look(&program, &server, &first);
    assert_eq!(word(&seen, "note"), "of-one", "a session goes on with its server: {seen}");
    ask(server.port, "DELETE", &format!("{BASE}/neurons/one"), None, None);
    until("nothing is left", || alive(mark) == 0);
}

#[test]
fn p3_servers_of_neurons_that_are_folders() {
    in_each_neuron("host", "31415926");
}

#[test]
fn p3_servers_inside_of_sandboxes() {
    in_each_neuron("process", "27182818");
}

#[test]
fn a_server_of_neurons_is_for_no_session_outside_and_the_list_says_where_it_runs() {
    let program = Program::new();
    inside(&program, "16180339", 9);
    program.server.push(Answer::text("done"));
    let ran = program.run(&["run", "look"]);
    assert_eq!((ran.code, alive("16180339")), (Some(0), 0), "{ran:?}");
    assert!(!ran.err.contains("probe"), "nothing is missing: {ran:?}");
    let request = program.server.requests().last().unwrap().body.to_string();
    assert!(!request.contains("mcp__probe"), "{request}");
    let stands = program.run(&["connections", "status"]);
    assert_eq!(stands.code, Some(0), "{stands:?}");
    assert!(stands.out.contains("started in each neuron"), "{stands:?}");
}

#[test]
fn hooks_and_checks_see_calls_to_servers_and_may_refuse_them() {
    let program = Program::new();
    let script = |name: &str, text: &str| {
        let path = program.cwd().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let hook =
        script("hook.sh", "cat >> seen-by-hook; [ ! -e stop ] || { echo not now >&2; exit 2; }");
    let finding = json!({"ruleId": "r", "severity": "error", "message": "no looking",
                         "blocking": true});
    let found = json!({"findings": [finding]});
    let check = script(
        "check.sh",
        &format!(
            "cat >> seen-by-check; [ -e bad ] || exec echo '{{\"findings\":[]}}'; echo '{found}'"
        ),
    );
    let further = format!(
        "[checks]\ncommand = [\"{check}\"]\n[[hooks.PreToolUse]]\nmatcher = \"mcp__probe__.*\"\n\
         hooks = [{{ type = \"command\", command = \"{hook}\" }}]\n"
    );
    settings(&program, "14142135", 9, &further);
    let run = || {
        program.server.push(Answer::call("mcp__probe__change", json!({})));
        program.server.push(Answer::text("done"));
        let ran = program.run(&["run", "--mode", "full-auto", "look"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        told(&program)
    };
    let calls = || program.read("called").lines().count();
    let seen = run();
    assert!((word(&seen, "way").as_str(), calls()) == ("shut", 1), "{seen}");
    assert!(program.read("seen-by-hook").contains("mcp__probe__change"));
    program.write("stop", "");
    let seen = run();
    assert!(seen.contains("not now") && calls() == 1, "the server heard nothing: {seen}");
    std::fs::remove_file(program.cwd().join("stop")).unwrap();
    program.write("bad", "");
    let seen = run();
    assert!(program.read("seen-by-check").contains("mcp__probe__change"), "{seen}");
    assert!(seen.contains("no looking") && calls() == 1, "the server heard nothing: {seen}");
}

#[test]
fn a_single_call_at_the_cortex_door_is_for_the_tools_of_its_preset() {
    let program = Program::new();
    settings(&program, "17320508", 9, "");
    let server = cortex(&program, "host");
    neuron(&server, "one");
    let listed = server.get(&format!("{BASE}/neurons/one/tools"));
    assert!(!listed.body.contains("mcp__"), "{listed:?}");
    let refused =
        post(&server, "/neurons/one/tool", &json!({"tool": "mcp__probe__look", "input": {}}));
    assert_eq!(refused.status, 400, "{refused:?}");
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("mcp__probe__look") && message.contains("bash"), "{message}");
    ask(server.port, "DELETE", &format!("{BASE}/neurons/one"), None, None);
}

#[test]
fn m1_a_server_that_ends_at_once_is_told_with_its_last_words() {
    let program = Program::new();
    let loud = "for n in $(seq 1 300); do echo line-$n >&2; done; echo the reason >&2; exit 3";
    std::fs::create_dir_all(program.home()).unwrap();
    let text = json!({"mcpServers": {"probe": {"command": "sh", "args": ["-c", loud]}}});
    std::fs::write(program.home().join("mcp.json"), text.to_string()).unwrap();
    let ended = program.run(&["connections", "status", "--json"]);
    let error = ended.json()["connections"][0]["error"].as_str().unwrap().to_owned();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for part in ["ended with exit code 3", "line-300", "the reason"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("Transport") && !error.contains("rmcp"), "{error}");
}
