//! Effects that are asked for whatever lets them run, and tools under their other names.

use policy::{Call, Decision, LayerName, Policy, canonical};
use protocol::event::DeniedBy;
use protocol::{Effect, Mode};

use crate::{allow, ask, call, deny, on_path, path, policy, shell};

use Decision::{Allow, Ask, Deny};

fn destroying(command: &str) -> Call<'_> {
    Call { effect: Effect::Destructive, ..shell(command) }
}

#[test]
fn an_effect_is_asked_for_although_a_mode_or_a_rule_would_let_it_run() {
    let destructive = [Effect::Destructive];
    for (layers, mode, expected) in [
        (vec![], Mode::FullAuto, Ask),
        (vec![allow(LayerName::Flags, &["run_shell"])], Mode::Ask, Ask),
        (vec![allow(LayerName::User, &["run_shell(rm *)"])], Mode::FullAuto, Ask),
        (vec![deny(LayerName::Session, &["run_shell(rm *)"])], Mode::FullAuto, Deny),
        (vec![], Mode::Plan, Deny),
    ] {
        let policy = policy(layers).asking_for(&destructive);
        let verdict = policy.judge(mode, &destroying("rm -r build"));
        assert_eq!(verdict.decision, expected, "{verdict:?}");
        if expected == Ask {
            assert_eq!(verdict.by, DeniedBy::Rule, "no hook answers it");
            assert!(verdict.reason.contains("'destructive' is asked for"), "{}", verdict.reason);
        }
        // What has another effect is judged as ever.
        let other = policy.judge(Mode::FullAuto, &shell("make"));
        assert_eq!(other.decision, Allow, "{other:?}");
    }
}

#[test]
fn a_command_that_deletes_or_cannot_be_read_is_destructive() {
    let policy = Policy::default().asking_for(&[Effect::Destructive]);
    for (line, expected) in [
        ("rm -rf precious", Ask),
        ("ls && /bin/rm -r a", Ask),
        ("timeout 5 rm a", Ask),
        ("git push origin main", Ask),
        ("$TOOL a", Ask),
        ("echo 'unclosed", Ask),
        ("make && git status", Allow),
        ("chmod +x run.sh", Allow),
        ("echo rm", Allow),
    ] {
        assert_eq!(policy.judge(Mode::FullAuto, &shell(line)).decision, expected, "{line}");
        let asked = (expected == Ask).then_some(Effect::Destructive);
        assert_eq!(policy.asked_effect(&shell(line)), asked, "{line}");
    }
    assert_eq!(Policy::default().asked_effect(&shell("rm a")), None, "nothing is asked for");
}

#[test]
fn the_rule_that_asks_is_told_and_not_the_effect() {
    let policy = policy([ask(LayerName::User, &["run_shell(rm *)"])]);
    let policy = policy.asking_for(&[Effect::Destructive]);
    let verdict = policy.judge(Mode::FullAuto, &destroying("rm -r build"));
    assert_eq!(verdict.decision, Ask);
    assert!(verdict.reason.contains("run_shell(rm *)"), "{}", verdict.reason);
}

#[test]
fn a_command_executes_and_a_written_path_is_a_write_whatever_is_higher() {
    let write = [path("/srv/app/x", true)];
    let writing = Call { paths: &write, ..call("write_file", Effect::Destructive, &[]) };
    for (effects, call, expected) in [
        (vec![Effect::Execute], destroying("rm -r build"), Ask),
        (vec![Effect::Write], writing, Ask),
        (vec![Effect::Network], destroying("rm -r build"), Allow),
        (vec![Effect::Read], call("grep", Effect::Read, &[]), Ask),
        (vec![Effect::Interact], call("ask_question", Effect::Interact, &[]), Allow),
    ] {
        let policy = Policy::default().asking_for(&effects);
        assert_eq!(policy.judge(Mode::FullAuto, &call).decision, expected, "{effects:?}");
    }
}

#[test]
fn it_stays_when_layers_come_later_and_no_rule_is_offered_against_it() {
    let effects = [Effect::Execute, Effect::Write, Effect::Execute];
    let policy = Policy::default().asking_for(&effects);
    let policy = policy.tighten(allow(LayerName::Flags, &["run_shell"]));
    assert_eq!(policy.asks_for(), [Effect::Write, Effect::Execute]);
    assert_eq!(policy.judge(Mode::FullAuto, &shell("make")).decision, Ask);
    assert_eq!(policy.suggest(&shell("npm test")), Vec::<String>::new());
    assert!(!Policy::default().suggest(&shell("npm test")).is_empty());
}

#[test]
fn an_explanation_says_which_effect_is_asked_for() {
    let policy = policy([allow(LayerName::Session, &["run_shell"])]);
    let policy = policy.asking_for(&[Effect::Execute]);
    let explanation = policy.explain(Mode::FullAuto, &shell("make"));
    assert_eq!((explanation.decision, explanation.asks_for), (Ask, Some(Effect::Execute)));
    assert_eq!(explanation.rule, None);
    assert!(explanation.reason.contains("allowed by the rule run_shell"), "{}", explanation.reason);
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["asksFor"], "execute");
    let other = policy.explain(Mode::FullAuto, &call("grep", Effect::Read, &[]));
    assert!(!serde_json::to_string(&other).unwrap().contains("asksFor"));
}

#[test]
fn a_tool_is_bound_by_rules_under_either_name() {
    for (alias, native) in [
        ("read", "read_file"),
        ("write", "write_file"),
        ("edit", "edit_file"),
        ("bash", "run_shell"),
    ] {
        assert_eq!(canonical(alias), native);
        for (rule, tool) in [(alias, native), (native, alias), (alias, alias)] {
            let denying = policy([deny(LayerName::User, &[rule])]);
            let verdict = denying.judge(Mode::FullAuto, &call(tool, Effect::Read, &[]));
            assert_eq!(verdict.decision, Deny, "{rule} and {tool}");
        }
    }
    let secret = policy([deny(LayerName::User, &["read(secret/**)"])]);
    let verdict = on_path(&secret, Mode::FullAuto, "read_file", "/srv/app/secret/key");
    assert_eq!(verdict.decision, Deny);
}

#[test]
fn an_elevated_call_is_asked_for_whatever_lets_it_run() {
    let elevated =
        |command| Call { tool: "elevated", effect: Effect::Destructive, ..shell(command) };
    let rules = ["elevated", "run_shell", "run_shell(make *)"];
    for (layers, mode, expected) in [
        (vec![], Mode::FullAuto, Ask),
        (vec![], Mode::Ask, Ask),
        (vec![allow(LayerName::Flags, &rules)], Mode::FullAuto, Ask),
        (vec![allow(LayerName::User, &["*"])], Mode::Ask, Ask),
        (vec![deny(LayerName::Session, &["elevated"])], Mode::FullAuto, Deny),
        (vec![deny(LayerName::Session, &["run_shell(make *)"])], Mode::FullAuto, Deny),
        (vec![], Mode::Plan, Deny),
    ] {
        let policy = policy(layers);
        let verdict = policy.judge(mode, &elevated("make install"));
        assert_eq!(verdict.decision, expected, "{verdict:?}");
        if expected == Ask {
            assert_eq!(verdict.by, DeniedBy::Rule, "no hook answers it");
            assert_eq!(verdict.reason, "every call of elevated is asked for");
            assert_eq!(policy.asked_effect(&elevated("make")), Some(Effect::Destructive));
            assert!(policy.suggest(&elevated("make")).is_empty(), "no rule would spare it");
        }
    }
}

#[test]
fn what_is_said_of_the_shell_holds_for_commands_in_the_background() {
    let start = |command| Call { tool: "process_start", ..shell(command) };
    let rules = policy([
        deny(LayerName::User, &["run_shell(rm *)"]),
        allow(LayerName::User, &["run_shell(npm run *)"]),
    ]);
    for (command, expected) in [("rm -r x", Deny), ("npm run dev", Allow), ("make", Ask)] {
        assert_eq!(rules.judge(Mode::Ask, &start(command)).decision, expected, "{command}");
    }
    let kill = call("process_kill", Effect::Execute, &[]);
    assert_eq!(rules.judge(Mode::FullAuto, &kill).decision, Allow, "it runs no command");
    let named = policy([deny(LayerName::User, &["process_start"])]);
    assert_eq!(named.judge(Mode::FullAuto, &start("make")).decision, Deny);
    assert_eq!(named.judge(Mode::FullAuto, &shell("make")).decision, Allow);
}
