//! Packages in neurons: through the way out alone, from indexes that the test itself serves on an
//! address of this machine. What a neuron cannot do is refused with its reason.
#![allow(clippy::disallowed_methods, reason = "packages are made with the tools of their kind")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::program::{Program, until};
use crate::serving::{Reply, Serving, ask};

const BASE: &str = "/api/v1/cortex";

/// Where the indexes are: an address of this machine that no program takes for itself, so that it
/// is asked for through the proxy.
const ADDRESS: &str = "127.0.0.2";

/// Makes a wheel with one module. Its arguments are the file, and a word that the module knows.
const WHEEL: &str = r#"
import sys, zipfile
info = "narthex_probe-1.0.dist-info"
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("narthex_probe.py", f"word = {sys.argv[2]!r}\n")
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: narthex-probe\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL",
                   "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"narthex_probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n"
                   f"{info}/RECORD,,\n")
"#;

/// Files that are served under their paths, and the paths that were asked for.
#[derive(Clone)]
struct Index {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Index {
    fn serve(listener: TcpListener, files: BTreeMap<String, (&'static str, Vec<u8>)>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, files) = (Arc::clone(&asked), Arc::new(files));
        // It ends with the test's process; each connection brings one request.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, files) = (Arc::clone(&noted), Arc::clone(&files));
                std::thread::spawn(move || drop(answer(stream, &files, &noted)));
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, (&'static str, Vec<u8>)>,
    noted: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    noted.lock().unwrap().push(path.clone());
    let (status, kind, body) = match files.get(&path) {
        Some((kind, body)) => ("200 OK", *kind, body.as_slice()),
        None => ("404 Not Found", "text/plain", b"not here".as_slice()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

fn listen() -> TcpListener {
    TcpListener::bind((ADDRESS, 0)).unwrap()
}

/// A server of the cortex door with the driver `namespace`, whose neurons reach the index alone.
fn cortex(program: &Program, port: u16) -> Serving {
    std::fs::create_dir_all(program.home()).unwrap();
    let text = format!(
        "[neurons.egress]\nallow = [{{ host = \"{ADDRESS}\", port = {port}, private = true }}]\n"
    );
    std::fs::write(program.home().join("config.toml"), text).unwrap();
    let command = program.command(&["cortex", "--port", "0", "--json-ready"]);
    Serving::of(command, Some("none is needed"))
}

fn post(server: &Serving, path: &str, body: &Value) -> Reply {
    server.post(&format!("{BASE}{path}"), body)
}

fn neuron(server: &Serving, env: &Value) {
    let made = post(server, "/neurons", &json!({"agentId": "n", "env": env}));
    assert_eq!(made.status, 201, "{made:?}");
}

fn exec(server: &Serving, code: &str, language: &str) -> Value {
    let body = json!({"code": code, "language": language});
    post(server, "/neurons/n/exec", &body).json()
}

fn end(mut server: Serving) {
    let path = format!("{BASE}/neurons/n");
    let gone = ask(server.port, "DELETE", &path, Some(&server.token), None);
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(server.stop("TERM").code, Some(0));
}

#[test]
fn pip_installs_from_an_index_that_the_rules_allow() {
    let program = Program::new();
    let wheel = program.cwd().join("narthex_probe-1.0-py3-none-any.whl");
    let mut python = Command::new("python3");
    let made = python.args(["-c", WHEEL, wheel.to_str().unwrap(), "of-the-wheel"]).output();
    assert!(made.unwrap().status.success(), "this test needs python3");
    let page = "<a href=\"/narthex_probe-1.0-py3-none-any.whl\">\
                narthex_probe-1.0-py3-none-any.whl</a>";
    let index = Index::serve(
        listen(),
        BTreeMap::from([
            ("/simple/narthex-probe/".to_owned(), ("text/html", page.as_bytes().to_vec())),
            (
                "/narthex_probe-1.0-py3-none-any.whl".to_owned(),
                ("application/octet-stream", std::fs::read(&wheel).unwrap()),
            ),
        ]),
    );
    let port = index.port;
    let server = cortex(&program, port);
    neuron(
        &server,
        &json!({"PIP_INDEX_URL": format!("http://{ADDRESS}:{port}/simple/"),
                "PIP_TRUSTED_HOST": ADDRESS}),
    );
    let body = json!({"manager": "pip", "packages": ["narthex-probe==1.0"]});
    let done = post(&server, "/neurons/n/install", &body).json();
    assert_eq!(done["ok"], true, "{done}");
    let said = exec(&server, "import narthex_probe; print(narthex_probe.word)", "python");
    assert_eq!(said["stdout"], "of-the-wheel\n", "{said}");
    let asked = index.asked();
    assert!(asked.iter().any(|path| path.contains("narthex-probe")), "{asked:?}");
    // What no rule allows is not reached, whatever the package manager is told.
    let elsewhere = Index::serve(listen(), BTreeMap::new());
    let code = format!(
        "PIP_INDEX_URL=http://{ADDRESS}:{}/simple/ PIP_TRUSTED_HOST={ADDRESS} \
         python3 -m pip download --retries 0 other-probe",
        elsewhere.port
    );
    assert_ne!(exec(&server, &code, "bash")["exitCode"], 0);
    assert_eq!(elsewhere.asked(), Vec::<String>::new());
    end(server);
}

#[test]
fn npm_installs_from_a_registry_that_the_rules_allow() {
    let program = Program::new();
    let package = program.cwd().join("package");
    std::fs::create_dir(&package).unwrap();
    let facts = json!({"name": "narthex-probe", "version": "1.0.0", "main": "index.js"});
    std::fs::write(package.join("package.json"), facts.to_string()).unwrap();
    std::fs::write(package.join("index.js"), "module.exports = 'of-the-tarball';\n").unwrap();
    let mut tar = Command::new("tar");
    let mut packed = tar
        .args(["czf", "-", "package"])
        .current_dir(program.cwd())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tarball = Vec::new();
    packed.stdout.take().unwrap().read_to_end(&mut tarball).unwrap();
    assert!(packed.wait().unwrap().success());
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    let document = json!({
        "name": "narthex-probe",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {
            "name": "narthex-probe", "version": "1.0.0",
            "dist": {"tarball": format!("http://{ADDRESS}:{port}/narthex-probe-1.0.0.tgz")}
        }}
    });
    let index = Index::serve(
        listener,
        BTreeMap::from([
            ("/narthex-probe".to_owned(), ("application/json", document.to_string().into_bytes())),
            ("/narthex-probe-1.0.0.tgz".to_owned(), ("application/octet-stream", tarball)),
        ]),
    );
    let server = cortex(&program, port);
    neuron(&server, &json!({"npm_config_registry": format!("http://{ADDRESS}:{port}/")}));
    let body = json!({"manager": "npm", "packages": ["narthex-probe"]});
    let done = post(&server, "/neurons/n/install", &body).json();
    assert_eq!(done["ok"], true, "{done} {:?}", index.asked());
    let said = exec(&server, "console.log(require('narthex-probe'))", "javascript");
    assert_eq!(said["stdout"], "of-the-tarball\n", "{said}");
    end(server);
}

#[test]
fn apt_is_refused_with_the_reason_where_a_neuron_cannot_have_it() {
    let program = Program::new();
    let index = Index::serve(listen(), BTreeMap::new());
    let server = cortex(&program, index.port);
    neuron(&server, &json!({}));
    let refused = post(&server, "/neurons/n/install", &json!({"packages": ["narthex-probe"]}));
    assert_eq!(refused.status, 501, "{refused:?}");
    let error = refused.json()["error"].clone();
    assert_eq!(error["code"], "NOT_SUPPORTED", "{error}");
    // The door's envelope has no words; whoever runs the server finds them under the request's id.
    let id = error["requestId"].as_str().unwrap();
    until("the reason is in the log", || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains(id) && line.contains("apt cannot work"));
        line.is_some_and(|line| line.contains("pip and npm can"))
    });
    assert_eq!(index.asked(), Vec::<String>::new());
    end(server);
}
