//! H5, H6: damage to the store, and two processes on one home.

use testkit::model_server::{Answer, At, Gate};

use crate::program::{Program, finish, until};

/// Damages a store in many ways; each time the program starts, what was readable is listed or the
/// damage is told, and a new prompt works.
#[test]
fn h5_a_damaged_store_never_blocks_the_start() {
    let whole = {
        let program = Program::new();
        program.server.push_all([Answer::text("one"), Answer::text("two")]);
        program.run(&["run", "first prompt: papaya"]);
        program.run(&["run", "--continue", "second prompt"]);
        std::fs::read(program.home().join("narthex.db")).unwrap()
    };
    assert!(whole.len() > 8_192, "{}", whole.len());
    let cut = |length: usize| whole[..length.min(whole.len())].to_vec();
    let flipped = |place: usize| {
        let mut bytes = whole.clone();
        let place = place % bytes.len();
        bytes[place] ^= 0x5a;
        bytes
    };
    let mut damages: Vec<(String, Vec<u8>)> = vec![("nothing left".into(), Vec::new())];
    for length in [1, 100, 512, 4_096, 5_000, whole.len() / 2, whole.len() - 1] {
        damages.push((format!("cut to {length}"), cut(length)));
    }
    for index in 0..16_usize {
        damages.push((format!("bit {index} flipped"), flipped(index * 7_919 + 13)));
    }
    for (label, bytes) in damages {
        let program = Program::new();
        std::fs::create_dir_all(program.home()).unwrap();
        std::fs::write(program.home().join("narthex.db"), bytes).unwrap();
        let listed = program.run(&["sessions", "list"]);
        assert_eq!(listed.code, Some(0), "{label}: {listed:?}");
        program.server.push(Answer::text("Still here."));
        let ran = program.run(&["run", "hello"]);
        assert_eq!(ran.code, Some(0), "{label}: {ran:?}");
        assert_eq!(ran.out.trim(), "Still here.", "{label}");
    }
}

#[test]
fn h6_a_session_in_use_is_refused_at_once() {
    let program = Program::new();
    let gate = Gate::new();
    program.server.push(Answer::text("started"));
    program.server.push(Answer::text("the owner's answer").gate(At::Head, &gate));
    let first = program.run(&["run", "--output-format", "json", "begin"]);
    let id = first.json()["sessionId"].as_str().unwrap().to_owned();
    let owner = program.start(&["run", "--continue", "go on"]);
    until("the owner asks", || gate.is_reached());
    let begun = std::time::Instant::now();
    let second = program.run_with_input(&["resume", &id], "me too\n");
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.err.contains("in use"), "{second:?}");
    let third = program.run(&["run", "--continue", "me too"]);
    assert_eq!(third.code, Some(1), "{third:?}");
    gate.open();
    let owner = finish(owner);
    assert_eq!((owner.code, owner.out.trim()), (Some(0), "the owner's answer"), "{owner:?}");
    assert_eq!(program.server.request_count(), 2);
}

#[test]
fn h6_two_processes_share_a_home() {
    let program = Program::new();
    program.server.push_for("alpha", Answer::text("answer one"));
    program.server.push_for("beta", Answer::text("answer two"));
    let runs = ["alpha", "beta"].map(|word| program.start(&["run", word]));
    let [alpha, beta] = runs.map(finish);
    assert_eq!((alpha.code, alpha.out.trim()), (Some(0), "answer one"), "{alpha:?}");
    assert_eq!((beta.code, beta.out.trim()), (Some(0), "answer two"), "{beta:?}");
}
