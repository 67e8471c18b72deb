//! The matrix of modes, where no rule decides.

use policy::{Decision, LayerName, PathUse};
use protocol::event::DeniedBy;
use protocol::{Effect, Mode};

use Decision::{Allow, Ask, Deny};

use crate::{allow, call, on_path, path, policy, shell};

#[test]
fn each_mode_has_its_defaults() {
    let inside_read = [path("/srv/app/a", false)];
    let inside_write = [path("/srv/app/a", true)];
    let outside_read = [path("/etc/hosts", false)];
    let outside_write = [path("/etc/hosts", true)];
    let mixed = [path("/srv/app/a", true), path("/etc/hosts", true)];
    let none: [PathUse<'_>; 0] = [];
    let rows: [(&str, Effect, &[PathUse<'_>], [Decision; 4]); 12] = [
        ("read_file", Effect::Read, &inside_read, [Allow, Allow, Allow, Allow]),
        ("read_file", Effect::Read, &outside_read, [Ask, Ask, Ask, Allow]),
        ("todos", Effect::Read, &none, [Allow, Allow, Allow, Allow]),
        ("ask_question", Effect::Interact, &none, [Allow, Allow, Allow, Allow]),
        ("exit_plan", Effect::Interact, &none, [Allow, Allow, Allow, Allow]),
        ("write_file", Effect::Write, &inside_write, [Deny, Ask, Allow, Allow]),
        ("write_file", Effect::Write, &outside_write, [Deny, Ask, Ask, Allow]),
        ("apply_patch", Effect::Write, &mixed, [Deny, Ask, Ask, Allow]),
        ("mcp__x__write", Effect::Write, &none, [Deny, Ask, Ask, Allow]),
        ("web_search", Effect::Network, &none, [Ask, Ask, Ask, Allow]),
        ("mcp__x__drop", Effect::Destructive, &none, [Deny, Ask, Ask, Allow]),
        ("mcp__x__run", Effect::Execute, &none, [Deny, Ask, Ask, Allow]),
    ];
    for (tool, effect, paths, expected) in rows {
        for (mode, expected) in Mode::ALL.into_iter().zip(expected) {
            let verdict = policy([]).judge(mode, &call(tool, effect, paths));
            assert_eq!(verdict.decision, expected, "{tool} {effect:?} {mode} {paths:?}");
            assert_eq!(verdict.by, DeniedBy::Mode, "{tool} {mode}");
            assert!(!verdict.reason.is_empty());
        }
    }
    // A command that only looks is asked for in plan mode; any other is refused there.
    for (command, expected) in [("make", [Deny, Ask, Ask, Allow]), ("ls", [Ask, Ask, Ask, Allow])] {
        for (mode, expected) in Mode::ALL.into_iter().zip(expected) {
            let verdict = policy([]).judge(mode, &shell(command));
            assert_eq!(verdict.decision, expected, "{command} {mode}");
        }
    }
}

#[test]
fn an_effect_is_never_taken_for_less_than_the_facts() {
    let written = [path("/srv/app/a", true)];
    let verdict = policy([]).judge(Mode::Plan, &call("read_file", Effect::Read, &written));
    assert_eq!(verdict.decision, Deny);
    let command = policy::Call { effect: Effect::Read, ..shell("ls") };
    assert_eq!(policy([]).judge(Mode::Ask, &command).decision, Ask);
}

#[test]
fn plan_mode_is_not_lifted_by_rules() {
    let policy = policy([allow(LayerName::Flags, &["*", "run_shell", "write_file(**)"])]);
    assert_eq!(policy.judge(Mode::Plan, &shell("touch x")).decision, Deny);
    assert_eq!(policy.judge(Mode::Plan, &shell("ls > x")).decision, Deny);
    assert_eq!(policy.judge(Mode::Plan, &shell("git diff && ls")).decision, Allow);
    let verdict = on_path(&policy, Mode::Plan, "write_file", "/srv/app/a");
    assert_eq!((verdict.decision, verdict.by), (Deny, DeniedBy::Mode));
    assert_eq!(on_path(&policy, Mode::Plan, "read_file", "/etc/hosts").decision, Allow);
}
