//! Explanations: what each layer had to say, and that they agree with the judge.

use policy::{Call, Decision, Explanation, Layer, LayerName, List, Policy, Rule};
use proptest::prelude::*;
use protocol::{Effect, Mode};

use crate::{allow, ask, call, deny, path, policy, shell};

use Decision::{Allow, Ask, Deny};

/// The rule that decided, as `layer list rule`.
fn decisive(explanation: &Explanation) -> String {
    explanation.rule.as_ref().map_or("mode".to_owned(), |mention| {
        format!("{} {} {}", mention.layer.as_str(), mention.list.as_str(), mention.rule)
    })
}

fn with_say(explanation: &Explanation) -> Vec<&'static str> {
    let shares = explanation.layers.iter().filter(|share| share.has_say);
    shares.map(|share| share.layer.as_str()).collect()
}

#[test]
fn each_kind_of_layer_is_named_where_it_decides() {
    for name in LayerName::ALL {
        let word = name.as_str();
        for (layer, list, mode, expected) in [
            (deny(name, &["run_shell(git push *)"]), List::Deny, Mode::FullAuto, Deny),
            (ask(name, &["run_shell(git push *)"]), List::Ask, Mode::FullAuto, Ask),
            (allow(name, &["run_shell(git push *)"]), List::Allow, Mode::Ask, Allow),
        ] {
            let policy = policy([layer]);
            let explanation = policy.explain(mode, &shell("git push origin main"));
            if name.is_governing() && list == List::Allow {
                // It lists what may be allowed and grants nothing.
                assert_eq!((explanation.decision, decisive(&explanation)), (Ask, "mode".into()));
                assert_eq!(explanation.parts[0].rules[0].layer, name);
            } else {
                let rule = format!("{word} {} run_shell(git push *)", list.as_str());
                assert_eq!((explanation.decision, decisive(&explanation)), (expected, rule));
                assert!(explanation.reason.contains(&name.to_string()), "{}", explanation.reason);
                assert!(explanation.parts[0].rules[0].decides);
            }
            assert_eq!(with_say(&explanation), [word]);
        }
    }
}

#[test]
fn the_stronger_layer_wins_and_the_weaker_is_shown() {
    let policy = policy([
        ask(LayerName::Remote, &["run_shell(git push *)"]),
        allow(LayerName::User, &["run_shell(git *)"]),
        deny(LayerName::Project, &["run_shell(rm *)"]),
    ]);
    let explanation = policy.explain(Mode::Ask, &shell("git status && git push origin main"));
    assert_eq!((explanation.decision, explanation.parts.len()), (Ask, 2));
    assert_eq!(decisive(&explanation), "remote ask run_shell(git push *)");
    let [status, push] = &explanation.parts[..] else { panic!("two parts") };
    assert_eq!(
        (status.kind, status.text.as_str(), status.decision),
        ("command", "git status", Allow)
    );
    assert_eq!((push.text.as_str(), push.decision), ("git push origin main", Ask));
    let seen: Vec<_> = push.rules.iter().map(|it| (it.layer, it.list, it.decides)).collect();
    let expected = [(LayerName::Remote, List::Ask, true), (LayerName::User, List::Allow, false)];
    assert_eq!(seen, expected);
    assert_eq!(with_say(&explanation), ["remote", "user"]);
    let project = explanation.layers.iter().find(|it| it.layer == LayerName::Project).unwrap();
    assert_eq!(
        (project.is_present, project.has_say, project.rules, project.matching),
        (true, false, 1, 0)
    );
}

#[test]
fn what_the_mode_says_is_told() {
    let explanation = Policy::default().explain(Mode::Ask, &shell("ls"));
    assert_eq!((explanation.decision, decisive(&explanation)), (Ask, "mode".into()));
    assert_eq!(explanation.mode_says.reason, explanation.reason);
    assert!(!explanation.mode_says.is_final);
    assert!(explanation.layers.iter().all(|share| !share.is_present && !share.has_say));

    let allowing = policy([allow(LayerName::User, &["run_shell"])]);
    let explanation = allowing.explain(Mode::Plan, &shell("touch x"));
    assert_eq!((explanation.decision, decisive(&explanation)), (Deny, "mode".into()));
    assert!(explanation.mode_says.is_final);

    let layer = Layer { disable_full_auto: true, ..Layer::new(LayerName::Pushed) };
    let explanation = policy([layer]).explain(Mode::FullAuto, &shell("ls"));
    assert_eq!((explanation.mode, explanation.mode_in_force), (Mode::FullAuto, Mode::AutoEdit));
    assert_eq!(with_say(&explanation), ["pushed"]);
    let layer = Layer { locked_mode: Some(Mode::Plan), ..Layer::new(LayerName::Managed) };
    let explanation = policy([layer]).explain(Mode::Ask, &shell("make"));
    assert_eq!((explanation.mode_in_force, explanation.decision), (Mode::Plan, Deny));
    assert_eq!(with_say(&explanation), ["managed"]);
    assert_eq!(explanation.layers[0].locks, ["permissions.mode"]);
}

#[test]
fn a_list_of_a_governing_layer_is_named_where_it_holds_back() {
    let policy = policy([
        allow(LayerName::Managed, &["run_shell(npm *)"]),
        allow(LayerName::Remote, &["run_shell(npm test *)", "run_shell(touch *)"]),
        allow(LayerName::User, &["run_shell"]),
    ]);
    for (command, expected, reason) in [
        ("npm test -- -w", Allow, "allowed by the rule run_shell of the user settings"),
        ("npm publish", Ask, "the remote policy settings do not list what the rule run_shell"),
        ("touch x", Ask, "the managed settings do not list what the rule run_shell"),
    ] {
        let explanation = policy.explain(Mode::FullAuto, &shell(command));
        assert_eq!(explanation.decision, expected, "{command}");
        assert!(explanation.reason.starts_with(reason), "{command}: {}", explanation.reason);
        assert_eq!(decisive(&explanation), "user allow run_shell", "{command}");
        assert_eq!(with_say(&explanation), ["managed", "remote", "user"]);
    }
    // Without a rule that grants it the mode decides, and says why it is narrower than its name.
    let explanation = policy.explain(Mode::FullAuto, &call("mcp__x__y", Effect::Execute, &[]));
    let expected = "auto-edit mode asks before commands: the managed settings do not list it, so \
                    full-auto mode counts as auto-edit";
    assert_eq!((explanation.decision, explanation.reason.as_str()), (Ask, expected));
    let left_out: Vec<_> = explanation.layers.iter().filter(|it| it.leaves_out).collect();
    assert_eq!(left_out.len(), 2);
}

#[test]
fn files_and_other_tools_are_explained_by_their_paths_and_names() {
    let policy = policy([
        deny(LayerName::System, &["write_file(secrets/**)"]),
        allow(LayerName::Flags, &["edit_file(src/**)"]),
        ask(LayerName::Session, &["mcp__git"]),
    ]);
    let paths = [path("/srv/app/src/a.rs", true), path("/srv/app/secrets/k", true)];
    let explanation = policy.explain(Mode::Ask, &call("edit_file", Effect::Write, &paths));
    assert_eq!((explanation.decision, explanation.parts.len()), (Deny, 2));
    assert_eq!(decisive(&explanation), "system deny write_file(secrets/**)");
    let of_part: Vec<_> = explanation
        .parts
        .iter()
        .map(|part| (part.kind, part.text.as_str(), part.decision))
        .collect();
    let expected = [("path", "/srv/app/src/a.rs", Allow), ("path", "/srv/app/secrets/k", Deny)];
    assert_eq!(of_part, expected);
    let explanation = policy.explain(Mode::FullAuto, &call("mcp__git__push", Effect::Write, &[]));
    assert_eq!((explanation.decision, explanation.parts[0].kind), (Ask, "whole"));
    assert_eq!(decisive(&explanation), "session ask mcp__git");
}

#[test]
fn a_fetch_is_judged_by_its_host() {
    let policy = policy([
        deny(LayerName::Managed, &["web_fetch(domain:evil.example)"]),
        allow(LayerName::User, &["web_fetch(domain:Docs.rs)"]),
    ]);
    for (host, expected) in [
        (Some("evil.example"), Deny),
        (Some("a.b.evil.example"), Deny),
        (Some("notevil.example"), Ask),
        (Some("evil.example."), Deny),
        (Some("docs.rs"), Allow),
        (Some("static.docs.rs"), Allow),
        (Some("docs.rs.evil.net"), Ask),
        // Who does not say where it goes may go anywhere.
        (None, Ask),
    ] {
        let call = Call { host, ..call("web_fetch", Effect::Network, &[]) };
        assert_eq!(policy.explain(Mode::Ask, &call).decision, expected, "{host:?}");
        let in_full_auto = policy.judge(Mode::FullAuto, &call).decision;
        let expected = if host.is_some() && expected == Ask { Allow } else { expected };
        assert_eq!(in_full_auto, expected, "{host:?}");
    }
}

#[test]
fn an_explanation_is_json_with_stable_names() {
    let policy = policy([deny(LayerName::Managed, &["run_shell(git push *)"])]);
    let explanation = policy.explain(Mode::AutoEdit, &shell("git push"));
    let json = serde_json::to_value(&explanation).unwrap();
    for (pointer, expected) in [
        ("/tool", "run_shell"),
        ("/effect", "execute"),
        ("/mode", "auto-edit"),
        ("/modeInForce", "auto-edit"),
        ("/decision", "deny"),
        ("/by", "policy"),
        ("/rule/layer", "managed"),
        ("/rule/list", "deny"),
        ("/rule/rule", "run_shell(git push *)"),
        ("/modeSays/decision", "ask"),
        ("/parts/0/kind", "command"),
        ("/parts/0/rules/0/layer", "managed"),
        ("/layers/1/layer", "remote"),
    ] {
        assert_eq!(json.pointer(pointer).and_then(|it| it.as_str()), Some(expected), "{pointer}");
    }
    assert_eq!(json["layers"][0]["hasSay"], true);
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let texts = [
        "*",
        "run_shell",
        "run_shell(echo *)",
        "run_shell(touch *)",
        "run_shell(git push *)",
        "write_file",
        "write_file(src/**)",
        "edit_file(secrets)",
        "read_file(/etc/**)",
        "read_file(~/x)",
        "web_fetch(domain:a.b)",
        "mcp__s",
    ];
    let rule = prop::sample::select(texts.to_vec()).prop_map(|text| text.parse().unwrap());
    prop::collection::vec(rule, 0..3)
}

fn layer() -> impl Strategy<Value = Layer> {
    let name = prop::sample::select(LayerName::ALL.to_vec());
    let mode = prop::option::weighted(0.1, prop::sample::select(Mode::ALL.to_vec()));
    (name, rules(), rules(), rules(), any::<bool>(), mode).prop_map(
        |(name, allow, ask, deny, disable_full_auto, locked_mode)| Layer {
            allow,
            ask,
            deny,
            disable_full_auto: disable_full_auto && name.is_governing(),
            locked_mode,
            ..Layer::new(name)
        },
    )
}

/// Calls of every kind: commands, files, others.
fn with_call<T>(which: usize, use_it: impl FnOnce(&Call<'_>) -> T) -> T {
    const COMMANDS: [&str; 10] = [
        "echo a",
        "touch x",
        "echo a; touch x",
        "git push | cat",
        "echo $(touch x)",
        "echo a > src/x",
        "env touch x",
        "echo '",
        "cd y && echo a > z",
        "git push $X",
    ];
    let inside = [path("/srv/app/src/x", true)];
    let outside = [path("/etc/hosts", false)];
    let two = [path("/srv/app/src/x", true), path("/srv/app/secrets", true)];
    match COMMANDS.get(which) {
        Some(command) => use_it(&shell(command)),
        None => match which - COMMANDS.len() {
            0 => use_it(&call("write_file", Effect::Write, &inside)),
            1 => use_it(&call("read_file", Effect::Read, &outside)),
            2 => use_it(&call("apply_patch", Effect::Write, &two)),
            3 => use_it(&call("edit_file", Effect::Write, &[])),
            4 => use_it(&call("web_fetch", Effect::Network, &[])),
            5 => use_it(&call("exit_plan", Effect::Interact, &[])),
            _ => use_it(&call("mcp__s__t", Effect::Destructive, &[])),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn an_explanation_agrees_with_the_judge(
        layers in prop::collection::vec(layer(), 0..5),
        mode in prop::sample::select(Mode::ALL.to_vec()),
        which in 0_usize..17,
    ) {
        let policy = policy(layers);
        with_call(which, |call| {
            let verdict = policy.judge(mode, call);
            let explanation = policy.explain(mode, call);
            prop_assert_eq!(explanation.decision, verdict.decision);
            prop_assert_eq!(explanation.by, verdict.by);
            prop_assert_eq!(&explanation.reason, &verdict.reason);
            // The whole is as strict as its strictest part, and its rule is one that is shown.
            let strictest = explanation.parts.iter().map(|part| part.decision).max();
            prop_assert_eq!(strictest, Some(verdict.decision));
            if let Some(rule) = &explanation.rule {
                let shown = explanation.parts.iter().flat_map(|part| &part.rules);
                prop_assert!(shown.into_iter().any(|it| it.rule == rule.rule && it.decides));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_governing_layer_and_a_layer_without_allow_rules_never_widen(
        layers in prop::collection::vec(layer(), 0..4),
        added in layer(),
        mode in prop::sample::select(Mode::ALL.to_vec()),
        which in 0_usize..17,
    ) {
        let added = match added.name.is_governing() {
            true => added,
            false => Layer { allow: Vec::new(), ..added },
        };
        let before = policy(layers);
        let after = before.tighten(added);
        with_call(which, |call| {
            let (before, after) = (before.judge(mode, call), after.judge(mode, call));
            prop_assert!(after.decision >= before.decision, "{before:?} became {after:?}");
            Ok(())
        })?;
        for mode in Mode::ALL {
            // A tighter lock takes the place of a wider one: what opens then is tighter.
            if after.check_mode(mode).is_ok() && before.check_mode(mode).is_err() {
                let (_, locked) = before.locked_mode().unwrap();
                prop_assert!(mode < locked, "{mode} under {locked}");
            }
        }
    }
}
