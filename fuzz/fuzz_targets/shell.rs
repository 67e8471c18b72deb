//! Rules and commands: the first line of the input is a rule, the rest a command. Nothing panics,
//! the same question has the same answer, and a further deny rule never lets more run.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use policy::{Call, Layer, LayerName, Policy, Rule, risk};
use protocol::{Effect, Mode};

fuzz_target!(|text: &str| {
    let (rule, command) = text.split_once('\n').unwrap_or(("", text));
    let mut user = Layer::new(LayerName::User);
    user.allow.extend("run_shell(echo *)".parse::<Rule>());
    user.deny.extend("run_shell(rm *)".parse::<Rule>());
    let policy = Policy::default().tighten(user);
    let call = Call {
        tool: "run_shell",
        effect: Effect::Execute,
        command: Some(command),
        paths: &[],
        cwd: Path::new("/work"),
        home: Some(Path::new("/home/me")),
    };
    for mode in Mode::ALL {
        assert_eq!(policy.judge(mode, &call), policy.judge(mode, &call));
    }
    let _risk = risk(&call);
    let suggested = policy.suggest(&call);
    assert_eq!(suggested, policy.suggest(&call));
    for text in &suggested {
        assert!(text.parse::<Rule>().is_ok(), "a suggested rule can be read: {text}");
    }
    let Ok(rule) = rule.parse::<Rule>() else { return };
    assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule));
    let mut session = Layer::new(LayerName::Session);
    session.deny.push(rule);
    let tighter = policy.tighten(session);
    for mode in Mode::ALL {
        let (before, after) = (policy.judge(mode, &call), tighter.judge(mode, &call));
        assert!(after.decision >= before.decision, "{before:?} {after:?}");
    }
});
