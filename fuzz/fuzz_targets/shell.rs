//! Rules and commands: the first line of the input is a rule, the rest a command. Nothing panics,
//! the same question has the same answer, a further deny rule never lets more run, and a command
//! that no rule allows is never allowed for standing beside one that is.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use policy::{Call, Decision, Layer, LayerName, Policy, Rule, risk};
use protocol::{Effect, Mode};

/// How a command that is not allowed may be joined with another one, A.
const PLANTED: [&str; 9] = [
    "A\nplanted x",
    "planted x\nA",
    "planted x; A",
    "planted x && A",
    "planted x | A",
    "{ planted x; }\nA",
    "echo $(planted x)\nA",
    "f() { planted x; }\nA",
    "timeout 5 planted x\nA",
];

fn call(command: &str) -> Call<'_> {
    Call {
        tool: "run_shell",
        effect: Effect::Execute,
        command: Some(command),
        host: None,
        paths: &[],
        cwd: Path::new("/work"),
        homes: Some(Path::new("/home/me")).into(),
    }
}

fuzz_target!(|text: &str| {
    let (rule, command) = text.split_once('\n').unwrap_or(("", text));
    let mut user = Layer::new(LayerName::User);
    user.allow.extend("run_shell(echo *)".parse::<Rule>());
    user.deny.extend("run_shell(rm *)".parse::<Rule>());
    let policy = Policy::default().tighten(user);
    let call_of = call(command);
    for mode in Mode::ALL {
        assert_eq!(policy.judge(mode, &call_of), policy.judge(mode, &call_of));
    }
    let _risk = risk(&call_of);
    let suggested = policy.suggest(&call_of);
    assert_eq!(suggested, policy.suggest(&call_of));
    for text in &suggested {
        assert!(text.parse::<Rule>().is_ok(), "a suggested rule can be read: {text}");
    }
    if policy.judge(Mode::Ask, &call_of).decision == Decision::Allow {
        planted(&policy, command);
    }
    let Ok(rule) = rule.parse::<Rule>() else { return };
    assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule));
    let mut session = Layer::new(LayerName::Session);
    session.deny.push(rule);
    let tighter = policy.tighten(session);
    for mode in Mode::ALL {
        let (before, after) = (policy.judge(mode, &call_of), tighter.judge(mode, &call_of));
        assert!(after.decision >= before.decision, "{before:?} {after:?}");
    }
});

/// Plants a command beside one that is allowed.
fn planted(policy: &Policy, command: &str) {
    // What ends in the middle of a line swallows what follows.
    let swallows = command.contains("<<") || command.ends_with('\\');
    for frame in PLANTED.iter().skip(usize::from(swallows)) {
        let longer = frame.replacen('A', command, 1);
        let decision = policy.judge(Mode::Ask, &call(&longer)).decision;
        assert_ne!(decision, Decision::Allow, "{longer:?}");
    }
}
