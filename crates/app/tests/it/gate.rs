//! The gate of the built program: hooks, checks, approvals, budgets, and the way back.
#![allow(clippy::disallowed_methods, reason = "a repository is made as users make one")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::json;
use testkit::model_server::{Answer, tool_results};

use crate::program::{Ended, Program, finish, until};

/// What lies at a path: its kind and bits, and its contents or target.
type Entry = (u32, Vec<u8>);

/// Everything beneath a folder but for git's own files.
fn tree(folder: &Path) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if name == ".git" {
                continue;
            }
            let stat = path.symlink_metadata().unwrap();
            let contents = match stat.file_type() {
                kind if kind.is_symlink() => {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                kind if kind.is_dir() => {
                    folders.push(path);
                    Vec::new()
                }
                _ => std::fs::read(&path).unwrap(),
            };
            found.insert(name, (stat.mode(), contents));
        }
    }
    found
}

fn shell(command: &str) -> Answer {
    Answer::call("run_shell", json!({"command": command}))
}

/// The results that the newest request brought, as text.
fn told(program: &Program) -> String {
    format!("{:?}", tool_results(program.server.requests().last().unwrap()))
}

fn script(program: &Program, name: &str, text: &str) -> String {
    let path = program.cwd().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn settings(program: &Program, text: &str) {
    std::fs::create_dir_all(program.home()).unwrap();
    std::fs::write(program.home().join("config.toml"), text).unwrap();
}

#[test]
fn i3_undo_restores_what_the_shell_did_byte_for_byte() {
    let program = Program::new();
    let sh = |line: &str| {
        let mut command = std::process::Command::new("sh");
        let done = command.args(["-c", line]).current_dir(program.cwd()).output().unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
    };
    program.write("tracked.txt", "one\n");
    program.write("gone.txt", "I was here\n");
    program.write("renamed.txt", "same words\n");
    program.write("run.sh", "true\n");
    sh("git init -q && git add .");
    sh("git -c user.name=n -c user.email=n@example.org commit -qm start");
    program.write("untracked.txt", "not in git\n");
    std::fs::create_dir_all(program.cwd().join("empty/inner")).unwrap();
    std::fs::create_dir_all(program.cwd().join("full")).unwrap();
    program.write("full/deep.txt", "deep\n");
    program.write("binary", "\u{0}\u{1}\u{2}");
    std::os::unix::fs::symlink("tracked.txt", program.cwd().join("link")).unwrap();
    let before = tree(&program.cwd());
    program.server.push(shell(
        "printf 'two' > tracked.txt; rm gone.txt untracked.txt binary; \
         mv renamed.txt elsewhere.txt; \
         chmod 755 run.sh; ln -sfn full link; rm -r empty full; mkdir -p new/folder; \
         echo more > new/folder/file; mkdir full.txt; ln -s nowhere dangling",
    ));
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "--mode", "full-auto", "tidy up"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_ne!(tree(&program.cwd()), before);
    let undone = program.run(&["undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(tree(&program.cwd()), before, "{undone:?}");
    let again = program.run(&["undo"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(format!("{again:?}").contains("nothing to undo"), "{again:?}");
}

#[test]
fn i3_undo_leaves_what_a_person_changed_since_and_names_it() {
    let program = Program::new();
    program.write("a.txt", "one\n");
    program.write("b.txt", "one\n");
    program.server.push(shell("echo two > a.txt; echo two > b.txt"));
    program.server.push(Answer::text("done"));
    program.run(&["run", "--mode", "full-auto", "change both"]);
    program.write("a.txt", "mine\n");
    let undone = program.run(&["undo"]);
    assert_eq!(
        (program.read("a.txt").as_str(), program.read("b.txt").as_str()),
        ("mine\n", "one\n")
    );
    assert!(format!("{}{}", undone.out, undone.err).contains("a.txt"), "{undone:?}");
    let forced = program.run(&["undo", "--force"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
}

#[test]
fn hooks_of_the_settings_deny_and_are_heard() {
    let program = Program::new();
    let guard = "grep -q forbidden && { echo 'that word is not for you' >&2; exit 2; }; exit 0";
    let guard = script(&program, "guard.sh", guard);
    settings(
        &program,
        &format!(
            "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\nhooks = [{{ type = \"command\", command = \
             \"{guard}\" }}]\n"
        ),
    );
    program.server.push(shell("echo forbidden > a.txt"));
    program.server.push(shell("echo fine > b.txt"));
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((program.read("a.txt").as_str(), program.read("b.txt").as_str()), ("", "fine\n"));
    let second = format!("{:?}", tool_results(&program.server.requests()[1]));
    assert!(second.contains("that word is not for you"), "{second}");
}

#[test]
fn a_broken_hook_never_allows() {
    let program = Program::new();
    settings(
        &program,
        "[[hooks.PreToolUse]]\nhooks = [{ type = \"command\", command = \"/no/such/hook\" }]\n",
    );
    program.server.push(shell("echo x > a.txt"));
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(program.read("a.txt"), "");
}

#[test]
fn hooks_of_a_folder_run_only_where_it_is_trusted() {
    let program = Program::new();
    std::fs::create_dir(program.cwd().join(".narthex")).unwrap();
    let hook = json!({"hooks": {"UserPromptSubmit": [
        {"hooks": [{"type": "command", "command": "touch hooked"}]}
    ]}});
    program.write(".narthex/hooks.json", &hook.to_string());
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "go"]);
    assert!(ended.err.contains("hooks.json is not trusted"), "{ended:?}");
    assert!(!program.cwd().join("hooked").exists());
    let trusted = program.run(&["config", "trust"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    program.server.push(Answer::text("done"));
    program.run(&["run", "go"]);
    assert!(program.cwd().join("hooked").exists());
}

#[test]
fn a_check_refuses_what_it_finds_whatever_the_mode() {
    let program = Program::new();
    let check = "if grep -q rosebud; then echo '{\"findings\":[{\"ruleId\":\"secret\",\"severity\":\
                 \"error\",\"message\":\"a password\",\"blocking\":true}]}'; else echo \
                 '{\"findings\":[]}'; fi";
    let check = script(&program, "check.sh", check);
    settings(&program, &format!("[checks]\ncommand = [\"{check}\"]\n"));
    let write = |text: &str| Answer::call("write_file", json!({"path": "a.txt", "content": text}));
    program.server.push(write("rosebud\n"));
    program.server.push(write("harmless\n"));
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(program.read("a.txt"), "harmless\n");
    let second = format!("{:?}", tool_results(&program.server.requests()[1]));
    assert!(second.contains("denied by a check: secret: a password"), "{second}");
}

#[test]
fn a_headless_run_waits_for_an_approval_from_elsewhere() {
    let program = Program::new();
    program.server.push(shell("echo yes > a.txt"));
    program.server.push(Answer::text("done"));
    let child = program.start(&["run", "--permission-timeout", "50000", "go"]);
    let mut id = String::new();
    until("something waits", || {
        let listed = program.run(&["approvals", "list", "--json"]);
        let found = serde_json::from_str::<serde_json::Value>(&listed.out).unwrap_or_default();
        id = found["approvals"][0]["requestId"].as_str().unwrap_or_default().to_owned();
        !id.is_empty()
    });
    let decided = program.run(&["approvals", "decide", &id, "allow"]);
    assert_eq!(decided.code, Some(0), "{decided:?}");
    let ended = finish(child);
    assert_eq!((ended.code, program.read("a.txt").as_str()), (Some(0), "yes\n"), "{ended:?}");
}

#[test]
fn a1_nobody_answers_in_time() {
    let program = Program::new();
    program.server.push(shell("echo yes > a.txt"));
    program.server.push(Answer::text("then not"));
    let ended = program.run(&["run", "--permission-timeout", "400", "go"]);
    assert_eq!((ended.code, program.read("a.txt").as_str()), (Some(3), ""), "{ended:?}");
    assert!(told(&program).contains("nobody answered in time"), "{}", told(&program));
}

#[test]
fn a_kept_rule_counts_in_the_next_session() {
    let program = Program::new();
    program.server.push(shell("touch a.txt"));
    program.server.push(Answer::text("done"));
    let child = program.start(&["run", "--permission-timeout", "50000", "go"]);
    let mut id = String::new();
    until("something waits", || {
        let listed = program.run(&["approvals", "list", "--json"]);
        let found = serde_json::from_str::<serde_json::Value>(&listed.out).unwrap_or_default();
        id = found["approvals"][0]["requestId"].as_str().unwrap_or_default().to_owned();
        !id.is_empty()
    });
    let rule = "run_shell(touch *)";
    let always = ["approvals", "decide", &id, "always", "--rule", rule, "--persist", "project"];
    let decided = program.run(&always);
    assert_eq!(decided.code, Some(0), "{decided:?}");
    assert_eq!(finish(child).code, Some(0));
    program.server.push(shell("touch b.txt"));
    program.server.push(Answer::text("done"));
    let ended = program.run(&["run", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(program.cwd().join("b.txt").exists());
    assert!(!program.cwd().join(".narthex").exists());
}

#[test]
fn a_budget_ends_the_turn_with_4() {
    let program = Program::new();
    program.server.push(shell("echo one"));
    let ended = program.run(&["run", "--mode", "full-auto", "--max-budget-usd", "0.0001", "go"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("budget"), "{ended:?}");
    assert!(program.server.requests().is_empty(), "nothing was spent");
}

#[test]
fn a_circle_ends_the_turn_with_4() {
    let program = Program::new();
    for _ in 0..6 {
        program.server.push(shell("cat nothing-there"));
    }
    let ended = program.run(&["run", "--mode", "full-auto", "go"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert_eq!(program.server.requests().len(), 4);
}

#[test]
fn slash_commands_are_obeyed_in_a_headless_run() {
    let program = Program::new();
    program.server.push(Answer::text("hello"));
    let first: Ended = program.run(&["run", "hi"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let help = program.run(&["run", "--continue", "/help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    assert!(help.out.contains("/compact") && help.out.contains("/undo"), "{help:?}");
    assert_eq!(program.server.requests().len(), 1, "no model heard it");
}

#[test]
fn usage_is_told() {
    let program = Program::new();
    program.server.push(Answer::text("hello"));
    program.run(&["run", "hi"]);
    let told = program.run(&["usage", "--json"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("claude-sonnet") || told.out.contains("inputTokens"), "{told:?}");
}
