//! `narthex policy` and the remote policy, with the built program.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use testkit::model_server::Answer;

use crate::program::{Ended, Program, until};
use crate::serving::Serving;

/// A program with managed settings of its own.
struct House {
    program: Program,
}

impl House {
    fn new() -> Self {
        let house = Self { program: Program::new() };
        house.managed(&json!({}));
        house
    }

    fn managed(&self, settings: &Value) {
        self.program.write("../managed.json", &settings.to_string());
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut command = self.program.command(args);
        command.env("NARTHEX_MANAGED_SETTINGS", self.program.cwd().join("../managed.json"));
        crate::program::finish(command.spawn().unwrap())
    }

    /// Runs a command that has to end well.
    fn good(&self, args: &[&str]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended
    }

    fn key(&self, name: &str) -> String {
        self.good(&["policy", "keygen", "--out", name]).out.trim().to_owned()
    }

    /// Signs a bundle with a key and returns the envelope's text.
    fn signed(&self, key: &str, bundle: &Value) -> String {
        self.program.write("bundle.json", &bundle.to_string());
        self.good(&["policy", "sign", "bundle.json", "--key", key]).out
    }

    fn kept(&self) -> PathBuf {
        self.program.home().join("policy/remote.json")
    }

    fn explain(&self, args: &[&str]) -> Value {
        self.good(&[&["policy", "explain", "--json"], args].concat()).json()
    }
}

fn bundle(version: u64, settings: &Value) -> Value {
    json!({
        "version": version,
        "id": "acme",
        "issuedAt": "2026-01-01T00:00:00Z",
        "settings": settings,
    })
}

fn no_touch() -> Value {
    json!({"permissions": {"deny": ["run_shell(touch *)"]}})
}

/// A server that answers every request with what it holds, and counts.
struct Server {
    url: String,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<Mutex<usize>>,
}

impl Server {
    fn start(text: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/policy.json", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new((200, text.to_owned())));
        let asked = Arc::new(Mutex::new(0));
        let (held, count) = (Arc::clone(&answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                *count.lock().unwrap() += 1;
                let (status, text) = held.lock().unwrap().clone();
                let length = text.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
                let answer = format!("{head}connection: close\r\n\r\n{text}");
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { url, answer, asked }
    }

    fn answers(&self, status: u16, text: &str) {
        *self.answer.lock().unwrap() = (status, text.to_owned());
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

#[test]
fn a_key_is_made_once_and_for_its_owner() {
    let house = House::new();
    let public = house.key("acme.pem");
    assert!(public.starts_with("MCowBQYDK2VwAyEA") && public.len() == 60, "{public}");
    let path = house.program.cwd().join("acme.pem");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = house.program.read("acme.pem");
    assert!(before.starts_with("-----BEGIN PRIVATE KEY-----"), "{before}");
    let again = house.run(&["policy", "keygen", "--out", "acme.pem"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("is not overwritten"), "{again:?}");
    assert_eq!(house.program.read("acme.pem"), before);
    assert_ne!(house.key("other.pem"), public, "each key is its own");
}

#[test]
fn bundles_are_signed_and_every_refusal_has_its_reason() {
    let house = House::new();
    let public = house.key("acme.pem");
    house.key("stranger.pem");
    let good = bundle(3, &no_touch());
    let signed = house.signed("acme.pem", &good);
    let envelope: Value = serde_json::from_str(&signed).unwrap();
    assert_eq!(envelope["bundle"], good);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut envelope = envelope.clone();
        change(&mut envelope);
        envelope.to_string()
    };
    let sign = |bundle: &Value| house.signed("acme.pem", bundle);
    let mut expired = good.clone();
    expired["expiresAt"] = "2026-02-01T00:00:00Z".into();
    let mut early = good.clone();
    early["issuedAt"] = "2999-01-01T00:00:00Z".into();
    house.managed(&json!({
        "remotePolicyPublicKey": public,
        "permissions": {"mode": "ask"},
        "models": {"allowed": ["anthropic/*"]},
    }));
    let wide_mode = bundle(3, &json!({"permissions": {"mode": "auto-edit"}}));
    let wide_models = bundle(3, &json!({"models": {"allowed": ["*"]}}));
    let table = [
        (signed.clone(), None),
        (with(&|it| drop(it.as_object_mut().unwrap().remove("signature"))), Some("unsigned")),
        (with(&|it| it["signature"] = "".into()), Some("bad_signature")),
        (with(&|it| it["bundle"]["version"] = 4.into()), Some("bad_signature")),
        (house.signed("stranger.pem", &good), Some("unknown_key")),
        (sign(&expired), Some("expired")),
        (sign(&early), Some("not_yet_valid")),
        (with(&|it| it["bundle"]["more"] = 1.into()), Some("malformed")),
        ("{".to_owned(), Some("malformed")),
        (sign(&wide_mode), Some("widening")),
        (sign(&wide_models), Some("widening")),
    ];
    for (text, reason) in &table {
        house.program.write("policy.json", text);
        let ended = house.run(&["policy", "verify", "policy.json"]);
        let expected = match reason {
            None => (Some(0), "valid\n".to_owned()),
            Some(reason) => (Some(1), format!("refused  {reason}: ")),
        };
        assert_eq!(ended.code, expected.0, "{reason:?} {ended:?}");
        assert!(ended.out.starts_with(&expected.1), "{reason:?} {ended:?}");
        let json = house.run(&["policy", "verify", "policy.json", "--json"]).json();
        assert_eq!(json["reason"].as_str(), *reason, "{json}");
        assert_eq!(json["valid"], reason.is_none());
    }
    // A key of the command line takes the place of the settings'.
    house.managed(&json!({}));
    house.program.write("policy.json", &signed);
    let ended = house.run(&["policy", "verify", "policy.json"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("--public-key"), "{ended:?}");
    house.good(&["policy", "verify", "policy.json", "--public-key", &public]);
    let ended = house.run(&["policy", "verify", "policy.json", "--public-key", "abc"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    // What nobody would take is not signed.
    house.program.write("bundle.json", &bundle(1, &json!({"embed": {}})).to_string());
    let ended = house.run(&["policy", "sign", "bundle.json", "--key", "acme.pem"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("no bundle may set embed"), "{ended:?}");
    // An output file, a missing time, and a bundle that is signed anew.
    house.program.write("bundle.json", r#"{"version": 1, "id": "a", "settings": {}}"#);
    house.good(&["policy", "sign", "bundle.json", "--key", "acme.pem", "--out", "a.json"]);
    house.good(&["policy", "verify", "a.json", "--public-key", &public]);
    house.good(&["policy", "sign", "a.json", "--key", "stranger.pem", "--out", "b.json"]);
    let ended = house.run(&["policy", "verify", "b.json", "--public-key", &public]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn a_bundle_is_told_with_the_way_on_which_it_holds() {
    let house = House::new();
    let (acme, host) = (house.key("acme.pem"), house.key("host.pem"));
    house.managed(&json!({
        "remotePolicyUrl": "https://policy.example/x.json", "remotePolicyPublicKey": acme,
        "embed": {"hostPolicyPublicKeys": [host]},
    }));
    for (key, sources) in [("acme.pem", &["remote", "pushed"][..]), ("host.pem", &["pushed"])] {
        house.program.write("policy.json", &house.signed(key, &bundle(1, &no_touch())));
        let json = house.good(&["policy", "verify", "policy.json", "--json"]).json();
        assert_eq!(json["sources"], json!(sources), "{key}");
        let text = house.good(&["policy", "verify", "policy.json"]).out;
        let held = text.lines().find_map(|line| line.trim().strip_prefix("holds as"));
        assert_eq!(held.map(str::trim), Some(&*sources.join(" and ")), "{text}");
        assert_eq!(text.contains("not as remote"), sources.len() == 1, "{text}");
    }
}

#[test]
fn nothing_may_be_allowed_beyond_an_empty_list_and_kept_rules_need_leave() {
    let house = House::new();
    let home = house.program.home();
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("rules.toml"), "allow = [\"run_shell(touch *)\"]\n").unwrap();
    let touch = ["run_shell(touch x)"];
    assert_eq!(house.explain(&touch)["decision"], "allow");
    let shown = house.good(&["config", "show"]).out;
    let line = shown.lines().find(|line| line.starts_with("permissions.allow")).unwrap();
    assert!(line.ends_with("home/rules.toml"), "{line}");
    let explained = house.good(&["policy", "explain", touch[0]]).out;
    assert!(explained.contains("home/rules.toml"), "{explained}");
    house.managed(&json!({"permissions": {"allow": []}}));
    assert_eq!(house.explain(&touch)["decision"], "ask");
    house.managed(&json!({"permissions": {"allowPersist": false}}));
    let explained = house.explain(&touch);
    assert_eq!(explained["decision"], "ask", "{explained}");
}

#[test]
fn searches_are_asked_about_without_brackets_and_voters_are_told() {
    let house = House::new();
    for tool in ["glob", "grep", "list_dir"] {
        let explained = house.explain(&[tool]);
        let path = explained["parts"][0]["text"].as_str().unwrap();
        assert!(path.ends_with("/work"), "{explained}");
        assert_eq!(explained["decision"], "allow", "{explained}");
        assert_eq!(explained["alsoVote"], json!([]));
    }
    std::fs::create_dir_all(house.program.home()).unwrap();
    let settings = "[checks]\ncommand = [\"true\"]\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n\
                    hooks = [{ type = \"command\", command = \"true\" }]\n";
    std::fs::write(house.program.home().join("config.toml"), settings).unwrap();
    let told = house.good(&["policy", "explain", "run_shell(ls)"]).out;
    assert!(told.contains("hooks at PreToolUse also vote"), "{told}");
    let told = house.good(&["policy", "explain", "write_file(a.txt)"]).out;
    assert!(told.contains("checks examine the change") && !told.contains("hooks at"), "{told}");
}

#[test]
fn explain_names_the_layer_and_the_rule_that_decide() {
    let house = House::new();
    house.managed(&json!({"permissions": {"deny": ["run_shell(git push *)"]}}));
    let user = "[permissions]\nallow = [\"run_shell(git *)\", \"web_fetch(domain:docs.rs)\"]\n\
                deny = [\"write_file(secrets/**)\"]\n";
    std::fs::create_dir_all(house.program.home()).unwrap();
    std::fs::write(house.program.home().join("config.toml"), user).unwrap();
    house.program.write(".git", "");
    std::fs::create_dir(house.program.cwd().join("secrets")).unwrap();
    std::os::unix::fs::symlink("secrets", house.program.cwd().join("link")).unwrap();
    let table: [(&[&str], &str, Option<&str>); 12] = [
        (&["run_shell(git push origin main)"], "deny", Some("managed deny run_shell(git push *)")),
        (&["run_shell(git status)"], "allow", Some("user allow run_shell(git *)")),
        (&["run_shell(git status; git push)"], "deny", Some("managed deny run_shell(git push *)")),
        (&["run_shell(make)"], "ask", None),
        (&["run_shell(make)", "--mode", "full-auto"], "allow", None),
        (
            &["run_shell(make)", "--allow", "run_shell(make *)"],
            "allow",
            Some("flags allow run_shell(make *)"),
        ),
        (&["run_shell(git log)", "--deny", "run_shell"], "deny", Some("flags deny run_shell")),
        (&["bash(git status)"], "allow", Some("user allow run_shell(git *)")),
        (&["write_file(link/key)"], "deny", Some("user deny write_file(secrets/**)")),
        (&["read_file(a.txt)"], "allow", None),
        (
            &["web_fetch(https://static.docs.rs/x)"],
            "allow",
            Some("user allow web_fetch(domain:docs.rs)"),
        ),
        (&["mcp__git__push"], "ask", None),
    ];
    for (args, decision, rule) in table {
        let explained = house.explain(args);
        assert_eq!(explained["decision"], decision, "{args:?} {explained}");
        let decisive = explained["rule"].as_object().map(|rule| {
            let text = |key: &str| rule[key].as_str().unwrap().to_owned();
            format!("{} {} {}", text("layer"), text("list"), text("rule"))
        });
        assert_eq!(decisive.as_deref(), rule, "{args:?} {explained}");
    }
    let text = house.good(&["policy", "explain", "run_shell(git push origin main)"]).out;
    for part in [
        "deny   run_shell(git push origin main)\n",
        "denied by the rule run_shell(git push *) of the managed settings",
        "→ managed  deny   run_shell(git push *)  decides",
        "managed.json",
        "  pushed   none",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    for wrong in ["run_shell(", "run_shell()", "", "*", "Bash(ls)", "todos(x)"] {
        let ended = house.run(&["policy", "explain", wrong]);
        assert_eq!(ended.code, Some(2), "{wrong:?} {ended:?}");
    }
    let ended = house.good(&["policy", "explain", "raed_file"]);
    assert!(ended.err.contains("did you mean 'read_file'"), "{ended:?}");
}

#[test]
fn a_rule_for_a_tool_that_does_not_exist_is_told() {
    let house = House::new();
    std::fs::create_dir_all(house.program.home()).unwrap();
    let user = "[permissions]\ndeny = [\"raed_file(secrets)\"]\n";
    std::fs::write(house.program.home().join("config.toml"), user).unwrap();
    // With a pattern it is refused, since nobody knows what the pattern means; else it is told.
    let ended = house.run(&["policy", "explain", "todos"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("no tool is named 'raed_file'"), "{ended:?}");
    let user = "[permissions]\ndeny = [\"raed_file\"]\n";
    std::fs::write(house.program.home().join("config.toml"), user).unwrap();
    let ended = house.good(&["config", "show"]);
    let told = "the deny rule 'raed_file' of the user settings never applies: no tool is named \
                'raed_file'; did you mean 'read_file'?";
    assert!(ended.err.contains(told), "{ended:?}");
}

#[test]
fn the_remote_policy_is_fetched_kept_and_used_without_a_network() {
    let house = House::new();
    let public = house.key("acme.pem");
    let server = Server::start(&house.signed("acme.pem", &bundle(1, &no_touch())));
    house.managed(&json!({
        "remotePolicyUrl": server.url, "remotePolicyPublicKey": public,
        "remotePolicyRequired": true,
    }));
    let touch = ["run_shell(touch x)"];
    let explained = house.explain(&touch);
    assert_eq!(explained["rule"]["layer"], "remote", "{explained}");
    assert_eq!(server.asked(), 1, "the first start waits for it");
    let mode = std::fs::metadata(house.kept()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shown = house.good(&["policy", "show"]).out;
    assert!(shown.contains("acme version 1 from http://127.0.0.1"), "{shown}");
    // Without an answer the kept one holds, also one of a server that fails.
    server.answers(500, "");
    assert_eq!(house.explain(&touch)["decision"], "deny");
    // A prompt's run is bound by it, whatever the mode.
    let shell = json!({"command": "touch made"});
    house.program.server.push(Answer::call("run_shell", shell.clone()));
    house.program.server.push(Answer::text("It was refused."));
    let ended = house.run(&["run", "--mode", "full-auto", "--output-format", "stream-json", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!house.program.cwd().join("made").exists(), "{ended:?}");
    let told = "denied by the rule run_shell(touch *) of the remote policy settings";
    assert!(ended.out.contains(told) && ended.out.contains("\"by\":\"policy\""), "{ended:?}");
    // What was changed by hand does not hold, and is fetched anew.
    let text = std::fs::read_to_string(house.kept()).unwrap().replace("touch", "tooch");
    std::fs::write(house.kept(), text).unwrap();
    let ended = house.run(&["policy", "explain", "run_shell(touch x)"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("require the remote policy and none holds"), "{ended:?}");
    assert!(ended.err.contains("bad_signature"), "{ended:?}");
    server.answers(200, &house.signed("acme.pem", &bundle(1, &no_touch())));
    assert_eq!(house.explain(&touch)["decision"], "deny");
}

#[test]
fn without_a_required_policy_nothing_runs_and_else_it_is_told() {
    let house = House::new();
    let public = house.key("acme.pem");
    house.key("stranger.pem");
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/policy.json", listener.local_addr().unwrap())
    };
    let managed = |url: &str, is_required: bool| {
        house.managed(&json!({
            "remotePolicyUrl": url, "remotePolicyPublicKey": public,
            "remotePolicyRequired": is_required,
        }));
    };
    managed(&gone, true);
    for args in [&["run", "hello"][..], &["policy", "explain", "todos"], &["demo"]] {
        let ended = house.run(args);
        assert_eq!(ended.code, Some(2), "{args:?} {ended:?}");
        assert!(ended.err.contains("require the remote policy and none holds"), "{ended:?}");
        assert!(ended.err.contains(&gone), "{ended:?}");
    }
    assert!(house.program.server.requests().is_empty(), "nothing was asked of a model");
    // What only looks goes on.
    house.good(&["config", "show"]);
    let shown = house.good(&["policy", "show"]).out;
    assert!(shown.contains("required: not fetched yet"), "{shown}");
    managed(&gone, false);
    let ended = house.good(&["policy", "explain", "run_shell(touch x)"]);
    assert!(ended.err.contains("no remote policy is in force"), "{ended:?}");
    let server = Server::start(&house.signed("stranger.pem", &bundle(1, &no_touch())));
    managed(&server.url, true);
    let ended = house.run(&["policy", "explain", "run_shell(touch x)"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("unknown_key"), "{ended:?}");
}

#[test]
fn a_newer_policy_comes_beside_the_run_and_a_refused_one_leaves_the_old() {
    let house = House::new();
    let public = house.key("acme.pem");
    let server = Server::start(&house.signed("acme.pem", &bundle(2, &no_touch())));
    house.managed(&json!({"remotePolicyUrl": server.url, "remotePolicyPublicKey": public}));
    assert_eq!(house.explain(&["run_shell(touch x)"])["decision"], "deny");
    let newer = json!({"permissions": {"deny": ["run_shell(make *)"]}});
    server.answers(200, &house.signed("acme.pem", &bundle(3, &newer)));
    // The next start uses the kept one and fetches beside; a conversation lasts long enough.
    let kept = || std::fs::read_to_string(house.kept()).unwrap();
    let converse = |what: &str, holds: &mut dyn FnMut() -> bool| {
        let mut command = house.program.command(&[]);
        command.env("NARTHEX_MANAGED_SETTINGS", house.program.cwd().join("../managed.json"));
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        until(what, holds);
        drop(input);
        crate::program::finish(child)
    };
    converse("the newer bundle", &mut || kept().contains("run_shell(make *)"));
    assert_eq!(house.explain(&["run_shell(make)"])["rule"]["layer"], "remote");
    assert_eq!(house.explain(&["run_shell(touch x)"])["decision"], "ask");
    // An older one is refused, and the next start tells of it.
    server.answers(200, &house.signed("acme.pem", &bundle(1, &no_touch())));
    converse("the refusal", &mut || kept().contains("refused"));
    let ended = house.good(&["policy", "explain", "run_shell(make)"]);
    assert!(ended.out.starts_with("deny "), "{ended:?}");
    assert!(ended.err.contains("was refused: stale"), "{ended:?}");
}

#[test]
fn a_server_puts_a_newer_policy_in_force_for_sessions_that_are_opened_later() {
    let house = House::new();
    let public = house.key("acme.pem");
    let server = Server::start(&house.signed("acme.pem", &bundle(1, &no_touch())));
    house.managed(&json!({
        "remotePolicyUrl": server.url, "remotePolicyPublicKey": public,
        "remotePolicyRefreshMs": 1000,
    }));
    let args = ["serve", "--port", "0", "--json-ready", "--mode", "full-auto"];
    let mut command = house.program.command(&args);
    command.env("NARTHEX_MANAGED_SETTINGS", house.program.cwd().join("../managed.json"));
    let serving = Serving::of(command, None);
    let touch = |file: &str| {
        let call = Answer::call("run_shell", json!({"command": format!("touch {file}")}));
        house.program.server.push(call);
        house.program.server.push(Answer::text("I see."));
        let session = serving.session(&json!({}));
        serving.prompt(&session, "go");
        until("the turn has ended", || serving.state(&session) == "idle");
        house.program.cwd().join(file).exists()
    };
    assert!(!touch("first"), "version 1 forbids it");
    let newer = json!({"permissions": {"deny": ["run_shell(make *)"]}});
    server.answers(200, &house.signed("acme.pem", &bundle(2, &newer)));
    until("it is in force", || serving.log().contains("the remote policy changed"));
    assert!(touch("second"), "version 2 does not");
    // One that is refused changes nothing.
    server.answers(200, &house.signed("acme.pem", &bundle(1, &no_touch())));
    until("it is refused", || serving.log().contains("stale"));
    assert!(touch("third"));
}
