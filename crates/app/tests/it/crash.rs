//! H1 against the built program: SIGKILL before and after every write that reaches the disk, and
//! at every place of the conversation with the model, with three parallel tools.
#![allow(clippy::disallowed_methods, reason = "these tests start the built program as users do")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testkit::model_server::{Answer, At, Call, Gate};

use crate::program::{Ended, Program, finish, signal, until};

/// A library that kills the process named narthex at its n-th sync, before or after the disk has
/// it. It stands between the program and the C library, so the product has no hook for tests.
const KILLER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static atomic_int count;
static void die_at(const char *moment, int n) {
    const char *at = getenv("CRASH_AT"), *when = getenv("CRASH_WHEN");
    if (at && when && !strcmp(when, moment) && atoi(at) == n
        && !strcmp(program_invocation_short_name, "narthex"))
        kill(getpid(), SIGKILL);
}
static int counted(int fd, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int n = ++count;
    die_at("before", n);
    int done = real(fd);
    die_at("after", n);
    return done;
}
int fdatasync(int fd) { return counted(fd, "fdatasync"); }
int fsync(int fd) { return counted(fd, "fsync"); }
"#;

fn killer(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("killer.c"), folder.join("killer.so"));
    std::fs::write(&source, KILLER).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .unwrap();
    assert!(built.success());
    library
}

fn push_the_job(program: &Program, gates: &[(usize, At, Gate)]) {
    program.write("notes.txt", "apricot\n");
    let gated = |answer: Answer, index: usize| {
        gates
            .iter()
            .filter(|(of, ..)| *of == index)
            .fold(answer, |answer, (_, at, gate)| answer.gate(*at, gate))
    };
    let shell = |word: &str| json!({"command": format!("echo {word} >> ran.txt")});
    let three = Answer::text("Three things.")
        .and_call(Call::new("read_file", json!({"path": "notes.txt"})))
        .and_call(Call::new("run_shell", shell("one")))
        .and_call(Call::new("run_shell", shell("two")));
    program.server.push(gated(three, 0));
    program.server.push(gated(Answer::call("run_shell", shell("three")), 1));
    program.server.push(gated(Answer::text("All done."), 2));
}

fn ran_once(program: &Program, label: &str) {
    let ran = program.read("ran.txt");
    for word in ["one", "two", "three"] {
        let count = ran.lines().filter(|line| *line == word).count();
        assert!(count <= 1, "{label}: {word} ran {count} times");
    }
}

/// Opens the session again and looks whether the next prompt works.
fn assert_goes_on(program: &Program, label: &str) {
    // What the dead process was answered last stays unread in its script.
    while program.server.answers_left() > 0 {
        let left = program.run(&["run", "--mode", "full-auto", "--output-format", "json", "drain"]);
        assert!(left.code.is_some(), "{label}: {left:?}");
    }
    program.server.push(Answer::text("I see what happened."));
    let sessions = program.run(&["sessions", "list", "--output-format", "json"]);
    let listed = sessions.json();
    let listed = listed.as_array().cloned().or_else(|| listed["sessions"].as_array().cloned());
    let first = listed.unwrap_or_default().into_iter().find(|session| {
        session["title"].as_str().is_some_and(|title| title.contains("three things"))
    });
    let Some(first) = first else { return };
    let id = first["id"].as_str().unwrap().to_owned();
    let next = ["run", "--mode", "full-auto", "--resume", &id, "what happened?"];
    let ended = program.run(&next);
    assert_eq!(ended.code, Some(0), "{label}: {ended:?}");
    assert_eq!(ended.out.trim(), "I see what happened.", "{label}");
    assert!(program.server.violations().is_empty(), "{label}: {:?}", program.server.violations());
    ran_once(program, label);
}

fn was_killed(ended: &Ended) -> bool {
    ended.code.is_none()
}

#[test]
fn h1_sigkill_around_every_sync() {
    let folder = tempfile::tempdir().unwrap();
    let library = killer(folder.path());
    for moment in ["before", "after"] {
        let mut killed = 0;
        for n in 1..200 {
            let label = format!("killed {moment} sync {n}");
            let program = Program::new();
            push_the_job(&program, &[]);
            let child = program
                .command(&["run", "--mode", "full-auto", "do three things"])
                .env("LD_PRELOAD", &library)
                .env("CRASH_AT", n.to_string())
                .env("CRASH_WHEN", moment)
                .spawn()
                .unwrap();
            let ended = finish(child);
            if !was_killed(&ended) {
                assert_eq!(ended.code, Some(0), "{label}: {ended:?}");
                break;
            }
            killed += 1;
            assert_goes_on(&program, &label);
        }
        assert!(killed > 5, "a turn has several syncs, the sweep met {killed}");
    }
}

#[test]
fn h1_sigkill_at_every_place_of_the_conversation() {
    for answer in 0..3 {
        for at in [At::Start, At::Head, At::Text, At::Calls, At::End] {
            let is_met = !matches!((answer, at), (2, At::Calls) | (1, At::Text));
            if !is_met {
                continue;
            }
            let label = format!("killed at {at:?} of answer {answer}");
            let program = Program::new();
            let gate = Gate::new();
            push_the_job(&program, &[(answer, at, gate.clone())]);
            let child = program.start(&["run", "--mode", "full-auto", "do three things"]);
            until(&label, || gate.is_reached());
            signal(child.id(), "KILL");
            let ended = finish(child);
            assert!(was_killed(&ended), "{label}: {ended:?}");
            gate.open();
            assert_goes_on(&program, &label);
        }
    }
}
