//! P1, P2: the whole tree is gone, whatever it did to get away, and statuses are true.

use serde_json::json;
use testkit::model_server::{Answer, tool_results};

use crate::program::{Program, alive, finish, signal, until};

/// A word that only this test's processes have.
fn word(tail: u32) -> String {
    format!("98{}{tail}", std::process::id())
}

fn stubborn(word: &str) -> String {
    format!(
        "setsid sleep {word} & nohup sleep {word} >/dev/null 2>&1 & \
         (trap '' TERM INT HUP; sleep {word}; sleep {word}) & \
         setsid sh -c 'setsid sleep {word} & exec sleep {word}' & disown -a; sleep {word}"
    )
}

#[test]
fn p1_a_stop_leaves_nothing() {
    let (program, word) = (Program::new(), word(1));
    program.server.push(Answer::call("run_shell", json!({"command": stubborn(&word)})));
    let child = program.start(&["run", "--mode", "full-auto", "go"]);
    until("the tree is up", || alive(&word) >= 6);
    signal(child.id(), "INT");
    let ended = finish(child);
    assert_eq!((ended.code, alive(&word)), (Some(130), 0), "{ended:?}");
}

#[test]
fn p1_a_time_out_leaves_nothing_when_it_is_reported() {
    let (program, word) = (Program::new(), word(2));
    let call = json!({"command": stubborn(&word), "timeout_ms": 1500});
    program.server.push(Answer::call("run_shell", call));
    program.server.push(Answer::text("I see."));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!((ended.code, alive(&word)), (Some(0), 0), "{ended:?}");
    let results = tool_results(&program.server.requests()[1]);
    assert!(format!("{results:?}").contains("timed out"), "{results:?}");
}

#[test]
fn p1_the_death_of_the_program_leaves_nothing() {
    let (program, word) = (Program::new(), word(3));
    program.server.push(Answer::call("run_shell", json!({"command": stubborn(&word)})));
    let child = program.start(&["run", "--mode", "full-auto", "go"]);
    until("the tree is up", || alive(&word) >= 6);
    signal(child.id(), "KILL");
    finish(child);
    until("the tree is gone", || alive(&word) == 0);
}

#[test]
fn p1_what_a_command_leaves_behind_ends_with_it() {
    let (program, word) = (Program::new(), word(4));
    let command = format!("sleep {word} >/dev/null & setsid sleep {word} & echo started");
    program.server.push(Answer::call("run_shell", json!({"command": command})));
    program.server.push(Answer::text("I see."));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!((ended.code, alive(&word)), (Some(0), 0), "{ended:?}");
    let results = format!("{:?}", tool_results(&program.server.requests()[1]));
    assert!(results.contains("started") && results.contains('2'), "{results}");
}

#[test]
fn p2_statuses_are_true() {
    let program = Program::new();
    let commands = ["exit 7", "kill -SEGV $$", "kill -9 $$", "true"];
    for command in commands {
        program.server.push(Answer::call("run_shell", json!({"command": command})));
    }
    program.server.push(Answer::text("I see."));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let requests = program.server.requests();
    let told: Vec<String> =
        (1..=4).map(|index| format!("{:?}", tool_results(&requests[index]))).collect();
    assert!(told[0].contains("exit code 7"), "{told:?}");
    assert!(told[1].contains("signal 11"), "{told:?}");
    assert!(told[2].contains("signal 9"), "{told:?}");
    assert!(!told[3].contains("exit code 1") && !told[3].contains("signal"), "{told:?}");
}

/// R3: a flood of output needs constant memory and is spilled to a file.
#[test]
fn r3_a_flood_is_spilled_in_constant_memory() {
    let program = Program::new();
    let command = "head -c 300000000 /dev/zero | tr '\\0' 'x' | fold -w 100";
    program.server.push(Answer::call("run_shell", json!({"command": command})));
    program.server.push(Answer::text("Much."));
    let child = program.start(&["run", "--mode", "full-auto", "--output-format", "json", "go"]);
    let id = child.id();
    let peak = std::thread::spawn(move || {
        let mut peak = 0;
        loop {
            let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else {
                return peak;
            };
            let Some(line) = status.lines().find(|line| line.starts_with("VmHWM")) else {
                return peak;
            };
            let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or_default());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    let ended = finish(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let peak = peak.join().unwrap();
    assert!(peak > 0 && peak < 150_000, "peak memory {peak} KiB");
    let results = tool_results(&program.server.requests()[1]);
    let text = format!("{results:?}");
    assert!(text.len() < 40_000 && text.contains("spill"), "{} {}", text.len(), &text[..300]);
    let spilled: u64 = walk(&program.home().join("spill"));
    assert!(spilled > 60_000_000 && spilled <= 64 << 20, "{spilled}");
}

fn walk(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
