//! X7 for the host: what could not be started is told apart from what ended.

use std::io::Write;
use std::process::{Command, Stdio};

use agent::wire::{Reply, Request, Spawn, Status, Step};

use crate::client::{Client, SOON, command, wait_until};

const ENOENT: i32 = 2;
const ENOEXEC: i32 = 8;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;

fn fails(client: &mut Client, spawn: Spawn) -> (Step, i32) {
    let id = client.spawn(spawn);
    match client.next(id) {
        Reply::Failed { step, errno } => (step, errno),
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[test]
fn a_missing_program_or_folder_is_no_exit() {
    let mut client = Client::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "\x7fnot a program").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let executable = format!("{file}.x");
    std::fs::copy(&file, &executable).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o755);
    rustix::fs::chmod(executable.as_str(), mode).unwrap();

    let cases = [
        (command(&["no-such-program"]), (Step::Program, ENOENT)),
        (command(&["/no/such/program"]), (Step::Program, ENOENT)),
        (command(&[""]), (Step::Program, ENOENT)),
        (command(&[]), (Step::Program, ENOENT)),
        (command(&[&file]), (Step::Program, EACCES)),
        (command(&[&executable]), (Step::Program, ENOEXEC)),
        (Spawn { cwd: b"/no/such/folder".to_vec(), ..command(&["true"]) }, (Step::Folder, ENOENT)),
        (Spawn { cwd: file.into_bytes(), ..command(&["true"]) }, (Step::Folder, ENOTDIR)),
    ];
    for (spawn, expected) in cases {
        let shown = format!("{spawn:?}");
        assert_eq!(fails(&mut client, spawn), expected, "{shown}");
    }
    // The agent is as good as before.
    assert_eq!(client.run("exit 4").2.status, Status::Code(4));
}

#[test]
fn arguments_that_are_too_long_are_refused() {
    let mut client = Client::start();
    let long = "x".repeat(3 << 20);
    let (step, errno) = fails(&mut client, command(&["true", &long]));
    assert_eq!((step, errno), (Step::Program, 7));
    let many = vec!["x".repeat(100_000); 10];
    let mut words = vec!["bash", "-c", "echo $#", "0"];
    words.extend(many.iter().map(String::as_str));
    let id = client.spawn(command(&words));
    assert_eq!(client.finish(id).0, b"10\n");
}

#[test]
fn an_id_that_is_in_use_is_refused() {
    let mut client = Client::start();
    let (id, _) = client.bash("sleep 60");
    client.ask(id, &Request::Spawn(command(&["true"])));
    assert_eq!(client.next(id), Reply::Failed { step: Step::Launch, errno: EEXIST });
}

#[test]
fn a_client_that_speaks_nonsense_is_hung_up_on() {
    let mut client = Client::start();
    client.stream.write_all(&[0xff; 64]).unwrap();
    wait_until(
        SOON,
        || {
            std::fs::metadata(format!("/proc/{}/exe", client.agent.id())).is_err()
                || is_dead(&client)
        },
        || "an agent that goes on".to_owned(),
    );
}

fn is_dead(client: &Client) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.agent.id()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn without_a_socket_it_says_how_it_is_meant_to_be_started() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_narthex-agent")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("narthex starts the agent with a socket"), "got {text}");
}
