//! Shell commands under rules: what must not slip through, and what must not be asked for.

use policy::{Decision, LayerName};
use protocol::Mode;
use serde_json::{Map, Value};

use crate::{allow, deny, policy, shell};

fn table(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap()
}

#[test]
fn an_allow_rule_covers_no_other_command() {
    let cases = table(include_str!("../data/bypasses.json"));
    assert!(cases.len() >= 80);
    let policy = policy([allow(LayerName::Flags, &["run_shell(echo *)"])]);
    let plain = policy.judge(Mode::Ask, &shell("echo a"));
    assert_eq!(plain.decision, Decision::Allow, "the rule itself works: {}", plain.reason);
    let mut slipped = Vec::new();
    for (name, command) in &cases {
        let command = command.as_str().unwrap();
        for mode in [Mode::Ask, Mode::AutoEdit] {
            let verdict = policy.judge(mode, &shell(command));
            if verdict.decision != Decision::Ask {
                slipped.push((name, command, verdict.reason));
            }
        }
    }
    assert!(slipped.is_empty(), "{slipped:#?}");
}

#[test]
fn everyday_commands_are_not_asked_for() {
    let cases = table(include_str!("../data/everyday.json"));
    assert!(cases.len() >= 40);
    let mut asked = Vec::new();
    for (name, case) in &cases {
        let list = case.get("rules").and_then(Value::as_array).unwrap();
        let rules: Vec<String> =
            list.iter().map(|rule| format!("run_shell({})", rule.as_str().unwrap())).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let policy = policy([allow(LayerName::Flags, &rules)]);
        let command = text(case, "command");
        let verdict = policy.judge(Mode::Ask, &shell(command));
        if verdict.decision != Decision::Allow {
            asked.push((name, command, verdict.reason));
        }
        // Each rule is needed: without any of them it is asked for.
        let without = crate::policy([]).judge(Mode::Ask, &shell(command));
        assert_eq!(without.decision, Decision::Ask, "{name}");
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
    for command in ["git $X origin", "rm $X", "rm {-rf,x}", "git pu*"] {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, Decision::Ask, "{command}: {}", verdict.reason);
    }
}
