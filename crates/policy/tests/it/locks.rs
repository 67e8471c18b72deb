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
