//! Shell commands under rules: what must not slip through, and what must not be asked for.

use policy::{Decision, LayerName, Policy};
use protocol::Mode;
use serde_json::{Map, Value};

use crate::{allow, deny, policy, shell};

fn table(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap()
}

/// Commands with the rules that are in force for them.
struct Group {
    policy: Policy,
    mode: Mode,
    commands: Map<String, Value>,
}

fn groups(text: &str) -> Vec<Group> {
    let groups: Vec<Value> = serde_json::from_str(text).unwrap();
    let rules = |group: &Value, key: &str| -> Vec<String> {
        let list = group.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().map(|rule| format!("run_shell({})", rule.as_str().unwrap())).collect()
    };
    let group = |group: &Value| {
        let (allowed, denied) = (rules(group, "allow"), rules(group, "deny"));
        let [allowed, denied] =
            [&allowed, &denied].map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
        let mode = group.get("mode").and_then(Value::as_str);
        Group {
            policy: policy([allow(LayerName::Flags, &allowed), deny(LayerName::User, &denied)]),
            mode: if mode == Some("full-auto") { Mode::FullAuto } else { Mode::Ask },
            commands: group.get("commands").and_then(Value::as_object).cloned().unwrap(),
        }
    };
    groups.iter().map(group).collect()
}

#[test]
fn an_allow_rule_covers_no_other_command() {
    let groups = groups(include_str!("../data/bypasses.json"));
    assert!(groups.iter().map(|group| group.commands.len()).sum::<usize>() >= 300);
    let mut slipped = Vec::new();
    for Group { policy, mode, commands } in &groups {
        for (name, command) in commands {
            let command = command.as_str().unwrap();
            let verdict = policy.judge(*mode, &shell(command));
            if verdict.decision == Decision::Allow {
                slipped.push((name, command, verdict.reason));
            }
        }
    }
    assert!(slipped.is_empty(), "{slipped:#?}");
}

#[test]
fn everyday_commands_are_not_asked_for() {
    let groups = groups(include_str!("../data/everyday.json"));
    assert!(groups.iter().map(|group| group.commands.len()).sum::<usize>() >= 200);
    let mut asked = Vec::new();
    for Group { policy, commands, .. } in &groups {
        for (name, command) in commands {
            let command = command.as_str().unwrap();
            let verdict = policy.judge(Mode::Ask, &shell(command));
            if verdict.decision != Decision::Allow {
                asked.push((name, command, verdict.reason));
            }
            // The rules are needed: without any of them it is asked for.
            let without = crate::policy([]).judge(Mode::Ask, &shell(command));
            assert_eq!(without.decision, Decision::Ask, "{name}");
        }
    }
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn a_deny_rule_sees_through_disguises() {
    let cases = table(include_str!("../data/disguises.json"));
    let rule = ["run_shell(touch *)"];
    let policy =
        policy([deny(LayerName::Flags, &rule), allow(LayerName::User, &["run_shell", "*"])]);
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let command = text(case, "command");
        let expected = match text(case, "verdict") {
            "deny" => Decision::Deny,
            _ => Decision::Ask,
        };
        for mode in [Mode::Ask, Mode::FullAuto] {
            let verdict = policy.judge(mode, &shell(command));
            if verdict.decision != expected {
                wrong.push((name, command, verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn without_a_rule_full_auto_runs_what_cannot_be_read() {
    let cases = table(include_str!("../data/disguises.json"));
    for (name, case) in &cases {
        let verdict = policy([]).judge(Mode::FullAuto, &shell(text(case, "command")));
        assert_eq!(verdict.decision, Decision::Allow, "{name}");
    }
}

#[test]
fn a_deny_rule_leaves_other_commands_alone() {
    let policy = policy([deny(LayerName::User, &["run_shell(git push *)", "run_shell(rm -rf *)"])]);
    for command in [
        "git status",
        "git pull",
        "ls *.txt",
        "echo \"$HOME\" $X",
        "X=1 make test > out.txt",
        "for f in a b; do echo $f; done",
        "(cd src && ls)",
        "sleep 5 & wait",
        "echo 'git push origin'",
        "bash -c 'echo $1'",
        "echo $(date)",
    ] {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, Decision::Allow, "{command}: {}", verdict.reason);
    }
    let braces = policy.judge(Mode::FullAuto, &shell("rm {-rf,x}"));
    assert_eq!(braces.decision, Decision::Deny, "it is known what braces become");
    for command in ["git $X origin", "rm $X", "git pu*"] {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, Decision::Ask, "{command}: {}", verdict.reason);
    }
}
