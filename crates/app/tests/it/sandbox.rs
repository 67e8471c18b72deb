//! Sessions in sandboxes of their own: where everything of a session acts, what becomes of what it
//! changed, and that nothing of it is weaker the second time. As root and as an ordinary user.
#![allow(clippy::disallowed_methods, reason = "a test looks at the machine as users do")]

use serde_json::{Value, json};
use testkit::model_server::{Answer, tool_results};

use crate::program::{Ended, Program, until};
use crate::serving::Serving;

/// Speaks the Model Context Protocol as far as a client asks, and says where it runs.
const WHERE: &str = r#"
import json, os, sys
def say(body): sys.stdout.write(json.dumps(body) + "\n"); sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    name, answer = asked["method"], {"error": {"code": -32601, "message": "no such method"}}
    if name == "initialize":
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "probe", "version": "1"}}}
    elif name == "tools/list":
        answer = {"result": {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}}
    elif name == "tools/call":
        open("of-mcp", "w").write("written\n")
        text = os.readlink("/proc/self/ns/mnt")
        answer = {"result": {"content": [{"type": "text", "text": text}]}}
    say({"jsonrpc": "2.0", "id": asked["id"], **answer})
"#;

fn settings(program: &Program, text: &str) {
    std::fs::create_dir_all(program.home()).unwrap();
    std::fs::write(program.home().join("config.toml"), text).unwrap();
}

fn overlaid(program: &Program) {
    settings(program, "[neurons]\nwrites = \"overlay\"\n");
}

fn shell(command: &str) -> Answer {
    Answer::call("run_shell", json!({"command": command}))
}

fn write(path: &str, text: &str) -> Answer {
    Answer::call("write_file", json!({"path": path, "content": text}))
}

/// Lets the model ask for these calls, one after the other, and end.
fn push(program: &Program, calls: Vec<Answer>) {
    for call in calls {
        program.server.push(call);
    }
    program.server.push(Answer::text("done"));
}

const SANDBOXED: [&str; 5] = ["run", "--sandbox", "namespace", "--mode", "full-auto"];

fn run(program: &Program, calls: Vec<Answer>) -> Ended {
    push(program, calls);
    let ended = program.run(&[&SANDBOXED[..], &["go"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// What every call of the newest turn brought.
fn told(program: &Program) -> String {
    let requests = program.server.requests();
    let all: Vec<String> =
        requests.iter().map(|request| format!("{:?}", tool_results(request))).collect();
    all.join("\n")
}

fn listed(program: &Program) -> Value {
    let ended = program.run(&["sessions", "list", "--output-format", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()["sessions"].clone()
}

fn newest(program: &Program) -> String {
    listed(program)[0]["id"].as_str().unwrap().to_owned()
}

/// The folders of neurons that are there.
fn neurons(program: &Program) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(program.home().join("neurons")) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Counts the living processes of neurons of this test.
fn first_processes(program: &Program) -> usize {
    let states = neurons(program).into_iter().filter_map(|name| {
        let path = program.home().join("neurons").join(name).join("state.json");
        let state: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let (pid, started) = (&state["process"]["pid"], &state["process"]["started"]);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let facts: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        // Its state, and when it was started: the number may be another process's by now.
        let is_it = facts.get(19) == Some(&started.to_string().as_str());
        (is_it && facts.first() != Some(&"Z")).then_some(())
    });
    states.count()
}

#[test]
fn x1_file_tools_shell_hooks_checks_and_mcp_servers_act_in_one_place() {
    let program = Program::new();
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = program.cwd().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let hook = script("hook.sh", "cat >/dev/null; readlink /proc/self/ns/mnt >> of-hook");
    let check = script(
        "check.sh",
        "cat >/dev/null; readlink /proc/self/ns/mnt >> of-check; echo '{\"findings\":[]}'",
    );
    program.write("where.py", WHERE);
    let server = program.cwd().join("where.py").display().to_string();
    let cwd = program.cwd().display().to_string();
    settings(
        &program,
        &format!(
            "[neurons]\nwrites = \"overlay\"\n[checks]\ncommand = [\"{check}\"]\n\
             [[hooks.PreToolUse]]\nhooks = [{{ type = \"command\", command = \"{hook}\" }}]\n\
             [mcp.servers.probe]\ncommand = \"python3\"\nargs = [\"{server}\"]\n\
             cwd = \"{cwd}\"\nscope = \"neuron\"\n"
        ),
    );
    let secret = program.home().join("secret");
    std::fs::write(&secret, "planted-secret").unwrap();
    let secret = secret.display().to_string();
    run(
        &program,
        vec![
            write("of-tool", "by a tool\n"),
            shell("cat of-tool; readlink /proc/self/ns/mnt > of-shell"),
            Answer::call("mcp__probe__where", json!({})),
            Answer::call("read_file", json!({"path": "of-mcp"})),
            Answer::call("grep", json!({"pattern": "by a tool"})),
            Answer::call("read_file", json!({"path": secret})),
            shell(&format!("cat {secret}")),
            shell("cat of-shell of-hook of-check"),
        ],
    );
    let told = told(&program);
    for part in ["by a tool", "written", "mnt:["] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("planted-secret"), "{told}");
    let here = std::fs::read_link("/proc/self/ns/mnt").unwrap().display().to_string();
    assert!(!told.contains(&here), "something acted outside: {told}");
    let places: std::collections::BTreeSet<&str> =
        told.split("mnt:[").skip(1).filter_map(|rest| rest.split(']').next()).collect();
    assert_eq!(places.len(), 1, "all of it acts in one place: {told}");
    for name in ["of-tool", "of-shell", "of-hook", "of-check", "of-mcp"] {
        assert!(!program.cwd().join(name).exists(), "{name} is in the overlay alone");
        let waits = program.run(&["sessions", "apply", "--dry-run", "--json"]);
        assert!(waits.out.contains(&format!("\"{name}\"")), "{name}: {waits:?}");
    }
}

#[test]
fn x6_what_is_written_to_the_folder_is_there_and_the_sandbox_ends_with_its_session() {
    let program = Program::new();
    program.write("old.txt", "1\n");
    push(&program, vec![shell("echo 2 > old.txt; id -u; echo $HOME"), write("new.txt", "n\n")]);
    let stream = ["--output-format", "stream-json", "go"];
    let ended = program.run(&[&SANDBOXED[..], &stream].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let first: Value = serde_json::from_str(ended.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "session_start");
    assert_eq!(first["sandbox"]["driver"], "namespace", "{first}");
    assert_eq!(first["sandbox"]["writes"], "folder", "{first}");
    assert!(matches!(first["sandbox"]["isolation"].as_str(), Some("full" | "partial")), "{first}");
    assert_eq!((program.read("old.txt"), program.read("new.txt")), ("2\n".into(), "n\n".into()));
    assert!(told(&program).contains("/home/neuron"), "{}", told(&program));
    assert_eq!(neurons(&program), Vec::<String>::new());
    assert_eq!(listed(&program)[0]["sandbox"], first["sandbox"]);
    let undone = program.run(&["undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!((program.read("old.txt"), program.read("new.txt")), ("1\n".into(), String::new()));
}

#[test]
fn what_waits_in_an_overlay_is_shown_and_applied() {
    let program = Program::new();
    overlaid(&program);
    program.write("old.txt", "1\n");
    program.write("gone.txt", "g\n");
    let ended = run(&program, vec![shell("echo 2 > old.txt; rm gone.txt; mkdir d; echo n > d/n")]);
    assert!(ended.err.contains("narthex sessions apply"), "{ended:?}");
    assert_eq!((program.read("old.txt"), program.read("gone.txt")), ("1\n".into(), "g\n".into()));
    assert_eq!((neurons(&program).len(), first_processes(&program)), (1, 0));
    let list = program.run(&["sessions", "list"]);
    assert!(list.out.contains("4 changes wait"), "{list:?}");
    let shown = program.run(&["sessions", "show", &newest(&program)]);
    for part in ["writes to an overlay", "4 changes wait"] {
        assert!(shown.out.contains(part), "{part}: {shown:?}");
    }
    let looked = program.run(&["sessions", "apply", "--dry-run"]);
    for part in ["~ old.txt", "-1", "+2", "- gone.txt", "+ d/n", "a folder"] {
        assert!(looked.out.contains(part), "{part}: {looked:?}");
    }
    let unasked = program.run(&["sessions", "apply"]);
    assert_eq!(unasked.code, Some(3), "{unasked:?}");
    assert_eq!(program.read("old.txt"), "1\n");
    let applied = program.run(&["sessions", "apply", "--yes", "--json"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let report = applied.json();
    assert_eq!(
        (&report["outcome"], report["changes"].as_array().unwrap().len()),
        (&json!("applied"), 4)
    );
    assert_eq!((program.read("old.txt"), program.read("d/n")), ("2\n".into(), "n\n".into()));
    assert!(!program.cwd().join("gone.txt").exists());
    assert_eq!(neurons(&program), Vec::<String>::new(), "the sandbox has done its work");
    let again = program.run(&["sessions", "apply", "--yes"]);
    assert!(again.code == Some(0) && again.err.contains("nothing waits"), "{again:?}");
}

#[test]
fn what_changed_on_both_sides_waits_on_and_is_named() {
    let program = Program::new();
    overlaid(&program);
    program.write("both.txt", "1\n");
    program.write("mine.txt", "1\n");
    run(&program, vec![shell("echo 2 > both.txt; echo 2 > mine.txt")]);
    program.write("both.txt", "3\n");
    let applied = program.run(&["sessions", "apply", "--yes", "--json"]);
    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert_eq!(applied.json()["kept"][0]["path"], "both.txt");
    assert_eq!((program.read("both.txt"), program.read("mine.txt")), ("3\n".into(), "2\n".into()));
    let list = program.run(&["sessions", "list"]);
    assert!(list.out.contains("wait"), "nothing is lost: {list:?}");
    let forced = program.run(&["sessions", "apply", "--yes", "--force"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert_eq!(program.read("both.txt"), "2\n");
}

#[test]
fn what_is_discarded_is_gone_and_the_session_goes_on_over_the_folder() {
    let program = Program::new();
    overlaid(&program);
    run(&program, vec![write("waste.txt", "w\n")]);
    let gone = program.run(&["sessions", "apply", "--discard", "--yes"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!((neurons(&program), program.read("waste.txt")), (vec![], String::new()));
    push(&program, vec![shell("ls; readlink /proc/self/ns/mnt")]);
    let ended = program.run(&["run", "--continue", "--mode", "full-auto", "go on"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let here = std::fs::read_link("/proc/self/ns/mnt").unwrap().display().to_string();
    assert!(!told(&program).contains(&here), "it is still in a sandbox: {}", told(&program));
}

#[test]
fn a_session_that_is_taken_up_again_finds_its_overlay_and_is_as_strong() {
    let program = Program::new();
    overlaid(&program);
    run(&program, vec![write("kept.txt", "of the first\n")]);
    // The settings of now say something else, which is not what the session was made with.
    settings(&program, "[neurons]\nwrites = \"folder\"\n");
    push(&program, vec![shell("cat kept.txt; echo second >> kept.txt")]);
    let ended = program.run(&["run", "--continue", "--mode", "full-auto", "go on"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(told(&program).contains("of the first"), "{}", told(&program));
    assert_eq!(program.read("kept.txt"), "", "it still writes to its overlay");
    let applied = program.run(&["sessions", "apply", "--yes"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(program.read("kept.txt"), "of the first\nsecond\n");
    for (driver, code) in [("host", 2), ("namespace", 0)] {
        program.server.push(Answer::text("done"));
        let ended = program.run(&["run", "--continue", "--sandbox", driver, "go on"]);
        assert_eq!(ended.code, Some(code), "{driver}: {ended:?}");
        assert!(code == 0 || ended.err.contains("keeps it"), "{ended:?}");
    }
}

#[test]
fn x6_what_the_machine_lacks_is_refused_and_never_left_out() {
    let program = Program::new();
    // No launcher: the machine cannot make neurons at all.
    settings(&program, "agent_command = [\"/bin/false\"]\n");
    let ended = program.run(&["run", "--sandbox", "namespace", "go"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(program.server.requests().is_empty(), "nobody was asked anything");
    settings(&program, "[neurons]\nwrites = \"overlay\"\n");
    run(&program, vec![write("a.txt", "a\n")]);
    settings(&program, "agent_command = [\"/bin/false\"]\n");
    let asked = program.server.requests().len();
    let ended = program.run(&["run", "--continue", "--mode", "full-auto", "go on"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_eq!(program.server.requests().len(), asked, "it does not go on outside");
    assert_eq!(neurons(&program).len(), 1, "nothing is lost: {ended:?}");
    settings(&program, "");
    let applied = program.run(&["sessions", "apply", "--yes"]);
    assert_eq!((applied.code, program.read("a.txt")), (Some(0), "a\n".into()), "{applied:?}");
    let unknown = program.run(&["run", "--sandbox", "vm", "go"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("--sandbox") && unknown.err.contains("namespace"), "{unknown:?}");
    let further = program.run(&[&SANDBOXED[..], &["--add-root", "/usr", "go"]].concat());
    assert_eq!(further.code, Some(2), "{further:?}");
    assert!(further.err.contains("sandbox: it holds the working folder alone"), "{further:?}");
}

#[test]
fn p1_no_process_outlives_a_session_in_a_sandbox() {
    let program = Program::new();
    let word = "86399.7";
    let stays = format!("sh -c 'setsid sleep {word} & (trap \"\" TERM; sleep {word}) & disown'");
    run(&program, vec![shell(&stays)]);
    until("its processes are gone", || crate::program::alive(word) == 0);
    let mut server = Serving::start(&program, &["--mode", "full-auto", "--sandbox", "namespace"]);
    push(&program, vec![shell(&stays)]);
    let id = server.session(&json!({}));
    server.prompt(&id, "go");
    until("it is idle", || server.state(&id) == "idle");
    let path = format!("/v1/sessions/{id}");
    let closed = crate::serving::ask(server.port, "DELETE", &path, Some(&server.token), None);
    assert_eq!(closed.status, 204, "{closed:?}");
    until("its processes are gone", || crate::program::alive(word) == 0);
    assert_eq!(neurons(&program), Vec::<String>::new());
    // A server that dies leaves the sandbox; whoever makes the next one puts it away.
    push(&program, vec![shell(&stays)]);
    let id = server.session(&json!({}));
    server.prompt(&id, "go");
    until("it is idle", || server.state(&id) == "idle");
    crate::program::signal(server.id, "KILL");
    server.end();
    run(&program, vec![]);
    until("its processes are gone", || crate::program::alive(word) == 0);
    until("its sandbox is gone", || neurons(&program).is_empty());
}

#[test]
fn sessions_of_a_server_say_what_keeps_them_apart() {
    let program = Program::new();
    let mut server = Serving::start(&program, &["--mode", "full-auto"]);
    let plain = server.post("/v1/sessions", &json!({})).json();
    assert_eq!(
        plain["sandbox"],
        json!({"driver": "host", "isolation": "none", "writes": "folder"})
    );
    let made = server.post("/v1/sessions", &json!({"sandbox": "namespace"}));
    assert_eq!(made.status, 201, "{made:?}");
    let session = made.json();
    assert_eq!(session["sandbox"]["driver"], "namespace", "{session}");
    assert_ne!(session["sandbox"]["isolation"], "none", "{session}");
    let id = session["id"].as_str().unwrap().to_owned();
    push(&program, vec![shell("readlink /proc/self/ns/mnt; echo x > made.txt")]);
    server.prompt(&id, "go");
    until("it is idle", || server.state(&id) == "idle");
    let here = std::fs::read_link("/proc/self/ns/mnt").unwrap().display().to_string();
    assert!(!told(&program).contains(&here), "{}", told(&program));
    assert_eq!(program.read("made.txt"), "x\n");
    let unknown = server.post("/v1/sessions", &json!({"sandbox": "vm"}));
    assert_eq!(unknown.status, 400, "{unknown:?}");
    let message = unknown.json().to_string();
    assert!(message.contains("sandbox") && message.contains("namespace"), "{message}");
    let kept = server.post("/v1/sessions", &json!({"resume": id, "sandbox": "host"}));
    assert_eq!(kept.status, 400, "{kept:?}");
    assert!(kept.json().to_string().contains("sandbox"), "{kept:?}");
    assert_eq!(server.stop("TERM").code, Some(0));
    assert_eq!(neurons(&program), Vec::<String>::new(), "it ends with the server");
    let mut server = Serving::start(&program, &["--mode", "full-auto"]);
    let resumed = server.post("/v1/sessions", &json!({"resume": id}));
    assert_eq!(resumed.json()["sandbox"], session["sandbox"], "{resumed:?}");
    push(&program, vec![shell("readlink /proc/self/ns/mnt")]);
    server.prompt(&id, "again");
    until("it is idle", || server.state(&id) == "idle");
    assert!(!told(&program).contains(&here), "it is as strong: {}", told(&program));
    assert_eq!(server.stop("TERM").code, Some(0));
}

#[test]
fn rules_of_the_home_are_about_the_sandbox_and_protect_the_machine_as_well() {
    let program = Program::new();
    program.write("note.txt", "of the machine\n");
    let deny = format!("read_file(~/{}/**)", "private");
    // The home of the test's user is the folder above the working folder.
    let outside = format!("read_file(~/{}/note.txt)", "work");
    push(
        &program,
        vec![
            write("~/private/a", "hidden-word\n"),
            Answer::call("read_file", json!({"path": "~/private/a"})),
            Answer::call("read_file", json!({"path": "note.txt"})),
        ],
    );
    let ended =
        program.run(&[&SANDBOXED[..], &["--deny", &deny, "--deny", &outside, "go"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = told(&program);
    assert!(!told.contains("hidden-word"), "{told}");
    assert!(!told.contains("of the machine"), "a rule of the machine's home holds too: {told}");
}

#[test]
fn a_copy_of_a_session_has_a_sandbox_of_its_own() {
    let program = Program::new();
    overlaid(&program);
    run(&program, vec![write("a.txt", "one\n")]);
    let id = newest(&program);
    let copy = program.run(&["sessions", "fork", &id]);
    assert_eq!(copy.code, Some(0), "{copy:?}");
    let copy = copy.out.trim().to_owned();
    assert_eq!((neurons(&program).len(), first_processes(&program)), (2, 0));
    let gone = program.run(&["sessions", "rm", &id]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(neurons(&program), [format!("s-{copy}")]);
    let applied = program.run(&["sessions", "apply", &copy, "--yes"]);
    assert_eq!((applied.code, program.read("a.txt")), (Some(0), "one\n".into()), "{applied:?}");
}
