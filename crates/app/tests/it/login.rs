//! `narthex connections login` from end to end: a browser, an authorization server, tokens that are
//! kept, renewed and forgotten.

mod town;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;

use serde_json::{Value, json};
use testkit::model_server::{Answer, tool_results};

use self::town::{Owner, Town, visit};
use crate::program::{Ended, Program, finish, signal};

fn program(town: &Town) -> Program {
    let program = Program::new();
    std::fs::create_dir_all(program.home()).unwrap();
    std::fs::write(program.home().join("config.toml"), town.settings()).unwrap();
    program
}

/// Begins to log in and returns the address that a person is to open.
fn begin(program: &Program) -> (Child, String, BufReader<std::process::ChildStderr>) {
    let mut child = program.start(&["connections", "login", "issues"]);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut address = String::new();
    while !address.starts_with("http") {
        address.clear();
        assert_ne!(said.read_line(&mut address).unwrap(), 0, "no address to open");
    }
    (child, address.trim().to_owned(), said)
}

/// Logs in, in a browser that goes where it is sent.
fn login(program: &Program) -> Ended {
    let (child, address, mut said) = begin(program);
    let (status, back) = visit(&address);
    assert_eq!(status, 302, "{address}");
    assert_eq!(visit(&back.unwrap()).0, 200);
    let ended = finish(child);
    let mut err = String::new();
    said.read_to_string(&mut err).unwrap();
    Ended { err, ..ended }
}

fn status(program: &Program) -> (Ended, Value) {
    let ended = program.run(&["connections", "status", "--json"]);
    let stands = ended.json()["connections"][0].clone();
    (ended, stands)
}

/// What is kept of the server, if anything is.
fn kept(program: &Program) -> Option<(PathBuf, Value)> {
    let folder = program.home().join("connections");
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_none_or(|extension| extension != "lock"));
    assert!(paths.len() <= 1, "one file, and nothing that was left half written: {paths:?}");
    let path = paths.pop()?;
    let text = std::fs::read_to_string(&path).unwrap();
    Some((path, serde_json::from_str(&text).unwrap()))
}

/// Makes the kept token one that has ended.
fn age(program: &Program) {
    let (path, mut record) = kept(program).unwrap();
    record["token"]["expires_at_ms"] = json!(1_000);
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn a_person_lets_the_program_in_and_every_process_has_the_token() {
    let town = Town::build();
    let program = program(&town);
    let (ended, stands) = status(&program);
    assert_eq!((ended.code, &stands["state"]), (Some(1), &json!("unauthorized")), "{ended:?}");
    let help = stands["error"].as_str().unwrap();
    assert!(help.contains("narthex connections login issues"), "{help}");
    let ended = login(&program);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("issues let this program in"), "{ended:?}");
    let (path, record) = kept(&program).unwrap();
    assert_eq!(record["token"]["access"], "access-1");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let (ended, stands) = status(&program);
    assert_eq!((ended.code, &stands["tools"]), (Some(0), &json!(1)), "{ended:?}");
    program.server.push(Answer::call("mcp__issues__count", json!({})));
    program.server.push(Answer::text("seven"));
    let ran = program.run(&["run", "how many issues?"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = format!("{:?}", tool_results(program.server.requests().last().unwrap()));
    assert!(told.contains("there are seven issues"), "{told}");
    for ended in [&ended, &ran] {
        let shown = format!("{ended:?}");
        assert!(!shown.contains("access-1") && !shown.contains("refresh-1"), "{shown}");
    }
    let books = town.books();
    assert_eq!((books.registrations, books.redeemed, books.refreshes), (1, 1, 0));
    assert_eq!(books.faults, Vec::<String>::new());
}

#[test]
fn logout_forgets_the_tokens_and_says_whether_there_were_any() {
    let town = Town::build();
    let program = program(&town);
    assert_eq!(login(&program).code, Some(0));
    let gone = program.run(&["connections", "logout", "issues"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(gone.err.contains("the tokens of issues are forgotten"), "{gone:?}");
    assert!(kept(&program).is_none());
    let again = program.run(&["connections", "logout", "issues"]);
    assert!(again.err.contains("there were no tokens of issues"), "{again:?}");
    assert_eq!(status(&program).1["state"], "unauthorized");
    let unknown = program.run(&["connections", "logout", "isues"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("no MCP server is named 'isues'; there are: issues"));
}

#[test]
fn a_no_is_told_and_leaves_nothing_behind() {
    let town = Town::build();
    let program = program(&town);
    town.books().owner = Owner::Denies;
    let ended = login(&program);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("issues: "), "{ended:?}");
    assert!(ended.err.contains("access_denied: the owner said no"), "{ended:?}");
    assert!(kept(&program).is_none());
    town.books().owner = Owner::Allows;
    assert_eq!(login(&program).code, Some(0));
    assert_eq!(town.books().faults, Vec::<String>::new());
}

#[test]
fn an_answer_to_another_question_is_passed_over_and_the_right_one_counts() {
    let town = Town::build();
    let program = program(&town);
    town.books().owner = Owner::Forges;
    let (child, address, _said) = begin(&program);
    let forged = visit(&address).1.unwrap();
    assert_eq!(visit(&forged).0, 400, "its state is not ours");
    assert_eq!((kept(&program).is_none(), town.books().redeemed), (true, 0));
    town.books().owner = Owner::Allows;
    let right = visit(&address).1.unwrap();
    assert_eq!(visit(&right).0, 200);
    assert_eq!(finish(child).code, Some(0));
    assert_eq!(town.books().redeemed, 1);
    assert_eq!(town.books().faults, Vec::<String>::new());
}

#[test]
fn a_person_who_gives_up_leaves_nothing_behind() {
    let town = Town::build();
    let program = program(&town);
    let (child, _, _said) = begin(&program);
    signal(child.id(), "INT");
    assert_eq!(finish(child).code, Some(130));
    assert!(kept(&program).is_none());
}

#[test]
fn m2_a_token_is_renewed_before_it_ends_and_the_new_pair_is_kept() {
    let town = Town::build();
    let program = program(&town);
    assert_eq!(login(&program).code, Some(0));
    age(&program);
    let (ended, stands) = status(&program);
    assert_eq!((ended.code, &stands["state"]), (Some(0), &json!("connected")), "{ended:?}");
    let (path, record) = kept(&program).unwrap();
    assert_eq!(record["token"]["refresh"], "refresh-2");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let books = town.books();
    assert_eq!((books.refreshes, books.reuses), (1, 0));
    assert_eq!(books.faults, Vec::<String>::new());
}

#[test]
fn m2_two_processes_that_renew_at_once_renew_once() {
    let town = Town::build();
    let program = program(&town);
    assert_eq!(login(&program).code, Some(0));
    age(&program);
    let both: Vec<Child> =
        (0..2).map(|_| program.start(&["connections", "status", "--json"])).collect();
    for child in both {
        let ended = finish(child);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(kept(&program).unwrap().1["token"]["refresh"], "refresh-2");
    let books = town.books();
    assert_eq!((books.refreshes, books.reuses), (1, 0));
    assert_eq!(books.faults, Vec::<String>::new());
}

#[test]
fn a_spent_refresh_token_needs_a_person_again_and_says_so() {
    let town = Town::build();
    let program = program(&town);
    assert_eq!(login(&program).code, Some(0));
    age(&program);
    town.books().refresh = None;
    let (ended, stands) = status(&program);
    assert_eq!((ended.code, &stands["state"]), (Some(1), &json!("unauthorized")), "{ended:?}");
    assert!(stands["error"].as_str().unwrap().contains("connections login issues"), "{stands}");
    assert_eq!(kept(&program).unwrap().1["token"], Value::Null, "what is spent is not kept");
    program.server.push(Answer::text("without it, then"));
    let ran = program.run(&["run", "how many issues?"]);
    assert!(ran.err.contains("the MCP server issues is unauthorized"), "{ran:?}");
    assert_eq!(login(&program).code, Some(0));
    assert_eq!(status(&program).1["state"], "connected");
}
