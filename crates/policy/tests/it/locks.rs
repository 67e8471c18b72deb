//! What layers lock: modes and models.

use policy::{Decision, Layer, LayerName, Policy};
use protocol::{Mode, RefusalCode};

use crate::{policy, shell};

fn locked(mode: Mode) -> Layer {
    Layer { locked_mode: Some(mode), ..Layer::new(LayerName::Managed) }
}

#[test]
fn modes_are_locked_and_disabled() {
    let disabled = Layer { disable_full_auto: true, ..Layer::new(LayerName::Managed) };
    let open = Policy::default();
    let no_full_auto = policy([disabled]);
    let only_ask = policy([locked(Mode::Ask)]);
    for mode in Mode::ALL {
        assert_eq!(open.check_mode(mode), Ok(()));
        assert_eq!(no_full_auto.check_mode(mode).is_ok(), mode != Mode::FullAuto, "{mode}");
        assert_eq!(only_ask.check_mode(mode).is_ok(), mode == Mode::Ask, "{mode}");
    }
    let refusal = no_full_auto.check_mode(Mode::FullAuto).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::LockedByPolicy);
    assert_eq!(refusal.message, "the managed settings disable the mode 'full-auto'");
}

#[test]
fn a_forbidden_mode_gains_nothing() {
    let disabled = Layer { disable_full_auto: true, ..Layer::new(LayerName::Managed) };
    let verdict = policy([disabled]).judge(Mode::FullAuto, &shell("touch x"));
    assert_eq!(verdict.decision, Decision::Ask);
    let verdict = policy([locked(Mode::Plan)]).judge(Mode::FullAuto, &shell("touch x"));
    assert_eq!(verdict.decision, Decision::Deny);
    let verdict = policy([locked(Mode::FullAuto)]).judge(Mode::Ask, &shell("touch x"));
    assert_eq!(verdict.decision, Decision::Ask, "a lock never widens");
}

#[test]
fn models_are_listed() {
    let layer = |name, models: &[&str]| Layer {
        models: Some(models.iter().map(|model| (*model).to_owned()).collect()),
        ..Layer::new(name)
    };
    let policy = policy([
        layer(LayerName::Managed, &["anthropic/*", "openai/gpt-5"]),
        layer(LayerName::User, &["anthropic/claude-sonnet-4-6", "openai/*"]),
    ]);
    for (model, expected) in [
        ("anthropic/claude-sonnet-4-6", true),
        ("anthropic/claude-opus-4-6", false),
        ("openai/gpt-5", true),
        ("openai/gpt-5-mini", false),
        ("gemini/pro", false),
    ] {
        assert_eq!(policy.check_model(model).is_ok(), expected, "{model}");
    }
    let refusal = policy.check_model("gemini/pro").unwrap_err();
    assert_eq!(refusal.code, RefusalCode::ModelNotAllowed);
    assert!(refusal.message.contains("anthropic/*, openai/gpt-5"), "{}", refusal.message);
}

#[test]
fn of_two_locks_the_tighter_holds() {
    let remote = Layer { locked_mode: Some(Mode::Plan), ..Layer::new(LayerName::Remote) };
    let policy = policy([locked(Mode::AutoEdit), remote]);
    for mode in Mode::ALL {
        assert_eq!(policy.check_mode(mode).is_ok(), mode == Mode::Plan, "{mode}");
    }
    let refusal = policy.check_mode(Mode::AutoEdit).unwrap_err();
    let expected = "the remote policy settings lock the mode to 'plan'; 'auto-edit' is refused";
    assert_eq!(refusal.message, expected);
}

#[test]
fn every_governing_layer_locks() {
    for name in [LayerName::Managed, LayerName::Remote, LayerName::Pushed] {
        let layer = Layer {
            disable_full_auto: true,
            disable_persist: true,
            locked_mode: Some(Mode::Ask),
            models: Some(vec!["a/*".into()]),
            ..Layer::new(name)
        };
        let policy = policy([layer]);
        assert!(policy.check_mode(Mode::FullAuto).is_err() && !policy.may_persist());
        assert!(policy.check_model("b/c").unwrap_err().message.contains(&name.to_string()));
        let keys =
            ["disableFullAuto", "models.allowed", "permissions.allowPersist", "permissions.mode"];
        assert_eq!(policy.locked_keys(), keys);
    }
    let open = Policy::default();
    assert!(open.may_persist() && open.locked_keys().is_empty());
}

fn touch(policy: &Policy, mode: Mode) -> Decision {
    policy.judge(mode, &shell("touch a")).decision
}

#[test]
fn an_empty_list_lets_nothing_be_allowed() {
    let rules = vec!["run_shell(touch *)".parse().unwrap()];
    let user = Layer { allow: rules, ..Layer::new(LayerName::User) };
    for name in [LayerName::Managed, LayerName::Remote, LayerName::Pushed] {
        let open = policy([Layer::new(name), user.clone()]);
        assert_eq!(touch(&open, Mode::Ask), Decision::Allow);
        let list = Layer { is_allow_list: true, ..Layer::new(name) };
        let closed = policy([list, user.clone()]);
        assert_eq!(touch(&closed, Mode::Ask), Decision::Ask);
        assert_eq!(touch(&closed, Mode::FullAuto), Decision::Ask);
    }
    // Of a layer that does not govern it means nothing.
    let other = Layer { is_allow_list: true, ..Layer::new(LayerName::System) };
    assert_eq!(touch(&policy([other, user]), Mode::Ask), Decision::Allow);
}

#[test]
fn kept_rules_count_only_where_rules_may_be_kept() {
    let rules = vec!["run_shell(touch *)".parse().unwrap()];
    let kept = Layer { allow: rules, is_kept: true, ..Layer::new(LayerName::User) };
    let lock = Layer { disable_persist: true, ..Layer::new(LayerName::Remote) };
    assert_eq!(touch(&policy([kept.clone()]), Mode::Ask), Decision::Allow);
    for layers in [[kept.clone(), lock.clone()], [lock.clone(), kept.clone()]] {
        assert_eq!(touch(&policy(layers), Mode::Ask), Decision::Ask);
    }
    // What a settings file says is not kept.
    let written = Layer { is_kept: false, ..kept };
    assert_eq!(touch(&policy([written, lock]), Mode::Ask), Decision::Allow);
}
