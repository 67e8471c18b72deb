//! The rule parser: no text makes it panic, and what can be read is shown so that it is read the
//! same again. Nothing that a rule says makes a verdict wider where it denies, nor narrower where
//! it allows.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use policy::{Call, Layer, LayerName, Policy, Rule, risk};
use protocol::{Effect, Mode};

const COMMANDS: [&str; 5] =
    ["ls", "cargo test -- -w", "git -C a push \"$X\"", "env A=1 make > out", "bash -c 'a; b'"];

fuzz_target!(|text: &str| {
    let Ok(rule) = text.parse::<Rule>() else { return };
    let shown = rule.to_string();
    let again: Rule = shown.parse().expect("what was read is shown so that it can be read");
    assert_eq!(again, rule, "{shown}");
    assert_eq!(again.to_string(), shown);
    assert_eq!(rule.pattern_text().is_some(), shown.contains('('));
    let _told = rule.unknown_tool();
    let with = |name, edit: fn(&mut Layer, Rule)| {
        let mut layer = Layer::new(name);
        edit(&mut layer, rule.clone());
        Policy::default().tighten(layer)
    };
    let allowing = with(LayerName::User, |layer, rule| layer.allow.push(rule));
    let denying = with(LayerName::User, |layer, rule| layer.deny.push(rule));
    let listing = with(LayerName::Managed, |layer, rule| layer.allow.push(rule));
    for command in COMMANDS {
        let call = Call {
            tool: "run_shell",
            effect: Effect::Execute,
            command: Some(command),
            host: None,
            paths: &[],
            cwd: Path::new("/work"),
            homes: Some(Path::new("/home/me")).into(),
        };
        let _risk = risk(&call);
        for mode in Mode::ALL {
            let plain = Policy::default().judge(mode, &call).decision;
            assert!(allowing.judge(mode, &call).decision <= plain, "{shown} {command}");
            assert!(denying.judge(mode, &call).decision >= plain, "{shown} {command}");
            assert!(listing.judge(mode, &call).decision >= plain, "{shown} {command}");
        }
    }
});
