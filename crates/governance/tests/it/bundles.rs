//! Signed bundles: what is taken, what is refused and why.

use std::path::Path;

use governance::bundle::{
    self, Accepted, Bundle, Envelope, Reason, Rejection, Terms, keygen, sign, verify,
};
use governance::{Managed, PrivateKey, PublicKey};
use policy::{Call, Decision, Layer, LayerName, Policy};
use proptest::prelude::*;
use protocol::{Effect, Mode, Timestamp};
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T12:00:00Z";

fn shell(command: &str) -> Call<'_> {
    Call {
        tool: "run_shell",
        effect: Effect::Execute,
        command: Some(command),
        host: None,
        paths: &[],
        cwd: Path::new("/srv/app"),
        homes: None.into(),
    }
}

fn key(seed: u8) -> PrivateKey {
    keygen(&[seed; 32])
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A bundle of everyday, with changes.
fn made(changes: &Value) -> Value {
    let mut bundle = json!({
        "version": 3,
        "id": "acme",
        "issuedAt": "2026-11-01T00:00:00Z",
        "expiresAt": "2027-01-01T00:00:00Z",
        "settings": {"permissions": {"deny": ["run_shell(touch *)"]}, "disableFullAuto": true},
    });
    for (name, value) in changes.as_object().unwrap() {
        bundle[name] = value.clone();
    }
    bundle
}

fn signed(changes: &Value) -> Envelope {
    sign(&made(changes), &key(1)).unwrap()
}

/// An envelope whose bundle was never looked at by whoever signed it.
fn signed_blindly(bundle: Value) -> Envelope {
    // The signature of a bundle without settings, and the text of it replaced, would be wrong;
    // so the bundle is signed as another program signs it.
    let text = canonical(&bundle);
    let signing = ed25519_dalek::SigningKey::from_bytes(&[1; 32]);
    let signature = ed25519_dalek::Signer::sign(&signing, text.as_bytes()).to_bytes();
    Envelope { bundle, signature: Some(base64(&signature)), key_id: None }
}

/// RFC 8785 for what is used here: ASCII keys, whole numbers, texts.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let pairs = keys.iter().map(|key| format!("\"{key}\":{}", canonical(&map[*key])));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What a bundle is held against, with room for changes.
struct Stand {
    keys: Vec<PublicKey>,
    accepts_unsigned: bool,
    now: &'static str,
    in_force: Option<Bundle>,
    policy: Policy,
}

impl Default for Stand {
    fn default() -> Self {
        let keys = vec![key(1).public()];
        let policy = Policy::default();
        Self { keys, accepts_unsigned: false, now: NOW, in_force: None, policy }
    }
}

impl Stand {
    fn under(layer: Layer) -> Self {
        Self { policy: Policy::default().tighten(layer), ..Self::default() }
    }

    fn verify(&self, envelope: &Envelope) -> Result<Accepted, Rejection> {
        let terms = Terms {
            layer: LayerName::Pushed,
            keys: &self.keys,
            accepts_unsigned: self.accepts_unsigned,
            now: time(self.now),
            in_force: self.in_force.as_ref(),
            policy: &self.policy,
        };
        verify(envelope, &terms)
    }

    fn reason(&self, envelope: &Envelope) -> Reason {
        let rejection = self.verify(envelope).unwrap_err();
        assert!(!rejection.message.is_empty() && !rejection.message.ends_with('.'));
        rejection.reason
    }
}

#[test]
fn a_signed_bundle_tightens() {
    let envelope = Envelope::parse(&signed(&json!({})).to_value().to_string()).unwrap();
    let accepted = Stand::default().verify(&envelope).unwrap();
    assert_eq!(accepted.signed_by, Some(key(1).public()));
    assert_eq!((accepted.bundle.version, accepted.bundle.id.as_str()), (3, "acme"));
    assert_eq!(accepted.bundle.expires_at, Some(time("2027-01-01T00:00:00Z")));
    assert!(accepted.stripped_keys.is_empty());
    let before = Policy::default();
    let after = before.tighten(accepted.layer);
    let decide = |policy: &Policy, command| policy.judge(Mode::FullAuto, &shell(command)).decision;
    assert_eq!(decide(&before, "touch x"), Decision::Allow);
    assert_eq!(decide(&after, "touch x"), Decision::Deny);
    assert_eq!(decide(&after, "ls"), Decision::Ask, "full-auto is disabled");
    let refusal = after.check_mode(Mode::FullAuto).unwrap_err();
    assert_eq!(refusal.message, "the pushed policy settings disable the mode 'full-auto'");
}

#[test]
fn who_signed_it_is_looked_at_first() {
    let good = signed(&json!({}));
    let stand = Stand::default();
    let with = |signature: Option<&str>, key_id: Option<&str>| Envelope {
        signature: signature.map(str::to_owned),
        key_id: key_id.map(str::to_owned),
        ..good.clone()
    };
    let stranger = sign(&made(&json!({})), &key(2)).unwrap();
    let other = signed(&json!({"version": 4})).signature;
    let own_id = key(1).public().id();
    let table = [
        (with(None, None), Reason::Unsigned),
        (with(Some(""), None), Reason::BadSignature),
        (with(Some("AAAA"), None), Reason::BadSignature),
        (with(Some("not base64!"), None), Reason::BadSignature),
        (with(other.as_deref(), None), Reason::BadSignature),
        (with(other.as_deref(), Some(&own_id)), Reason::BadSignature),
        (stranger.clone(), Reason::UnknownKey),
        (with(stranger.signature.as_deref(), None), Reason::BadSignature),
        // A stranger is not told that the bundle is over.
        (
            sign(&made(&json!({"expiresAt": "2026-11-02T00:00:00Z"})), &key(2)).unwrap(),
            Reason::UnknownKey,
        ),
    ];
    for (envelope, reason) in table {
        assert_eq!(stand.reason(&envelope), reason, "{:?}", envelope.signature);
    }
    let keyless = Stand { keys: Vec::new(), ..Stand::default() };
    assert_eq!(keyless.reason(&good), Reason::UnknownKey);
    // The name of a key is a hint: the right signature counts whatever it says.
    assert!(stand.verify(&with(good.signature.as_deref(), Some("our-key"))).is_ok());
}

#[test]
fn a_trusted_host_needs_no_signature_but_no_wrong_one() {
    let stand = Stand { accepts_unsigned: true, keys: Vec::new(), ..Stand::default() };
    let unsigned = Envelope { signature: None, key_id: None, ..signed(&json!({})) };
    assert_eq!(stand.verify(&unsigned).unwrap().signed_by, None);
    let empty = Envelope { signature: Some(String::new()), ..unsigned.clone() };
    assert_eq!(stand.reason(&empty), Reason::BadSignature);
    let stand = Stand { accepts_unsigned: true, ..Stand::default() };
    let wrong = Envelope { signature: signed(&json!({"id": "x"})).signature, ..unsigned };
    assert_eq!(stand.reason(&wrong), Reason::BadSignature);
}

#[test]
fn time_counts() {
    let stand = Stand::default();
    for (issued, expires, expected) in [
        ("2026-11-30T12:04:59Z", "2027-01-01T00:00:00Z", None),
        ("2026-11-30T12:05:01Z", "2027-01-01T00:00:00Z", Some(Reason::NotYetValid)),
        ("2026-11-01T00:00:00Z", "2026-11-30T12:00:00Z", Some(Reason::Expired)),
        ("2026-11-01T00:00:00Z", "2026-11-30T12:00:00.001Z", None),
        ("2026-11-30T14:00:00+02:00", "2026-11-30T15:00:00+02:00", None),
    ] {
        let envelope = signed(&json!({"issuedAt": issued, "expiresAt": expires}));
        let reason = stand.verify(&envelope).err().map(|rejection| rejection.reason);
        assert_eq!(reason, expected, "{issued} {expires}");
    }
    assert!(stand.verify(&signed(&json!({"expiresAt": null}))).is_ok());
}

#[test]
fn what_is_no_bundle_is_malformed() {
    let stand = Stand::default();
    for changes in [
        json!({"version": 0}),
        json!({"version": "3"}),
        json!({"version": 3.5}),
        json!({"id": ""}),
        json!({"id": "x".repeat(201)}),
        json!({"id": "a\u{1b}[2J"}),
        json!({"issuedAt": "yesterday"}),
        json!({"issuedAt": null}),
        json!({"expiresAt": 5}),
        json!({"settings": []}),
        json!({"more": true}),
        json!({"settings": {"permissions": {"denies": []}}}),
        json!({"settings": {"permissions": {"deny": ["x("]}}}),
        json!({"settings": {"disableFulAuto": true}}),
        json!({"settings": {"disableFullAuto": 1}}),
        json!({"settings": {"model": "a/b"}}),
    ] {
        let bundle = made(&changes);
        assert_eq!(stand.reason(&signed_blindly(bundle.clone())), Reason::Malformed, "{changes}");
        assert_eq!(sign(&bundle, &key(1)).unwrap_err().reason, Reason::Malformed, "{changes}");
    }
    // Nobody signs what has ended before it began; to whoever is sent it, it has expired.
    let bundle = made(&json!({"expiresAt": "2026-10-01T00:00:00Z"}));
    assert_eq!(sign(&bundle, &key(1)).unwrap_err().reason, Reason::Malformed);
    assert_eq!(stand.reason(&signed_blindly(bundle)), Reason::Expired);
    let text = signed(&json!({})).to_value().to_string();
    let twice = text.replacen("\"version\":3", "\"version\":3,\"version\":4", 1);
    for text in ["", "[]", "{}", r#"{"bundle": {}, "sig": ""}"#, &twice, &text[..text.len() - 1]] {
        let reason = Envelope::parse(text).map_err(|rejection| rejection.reason);
        assert_eq!(reason.err(), Some(Reason::Malformed), "{text}");
    }
    let long = format!("{text}{}", " ".repeat(bundle::ENVELOPE_BYTES_MAX));
    assert_eq!(Envelope::parse(&long).unwrap_err().reason, Reason::Malformed);
    // Whatever a host is trusted with, it has to speak of what is understood.
    let stand = Stand { accepts_unsigned: true, ..Stand::default() };
    let unsigned = Envelope { bundle: json!({"version": 1}), signature: None, key_id: None };
    assert_eq!(stand.reason(&unsigned), Reason::Malformed);
}

#[test]
fn an_older_bundle_and_another_of_the_same_version_are_stale() {
    let in_force = Bundle::from_value(&made(&json!({}))).unwrap();
    let stand = Stand { in_force: Some(in_force), ..Stand::default() };
    for (changes, expected) in [
        (json!({}), None),
        (json!({"version": 4}), None),
        (json!({"version": 2}), Some(Reason::Stale)),
        (json!({"expiresAt": "2028-01-01T00:00:00Z"}), Some(Reason::Stale)),
        (json!({"id": "other", "version": 1}), None),
    ] {
        let reason = stand.verify(&signed(&changes)).err().map(|rejection| rejection.reason);
        assert_eq!(reason, expected, "{changes}");
    }
}

#[test]
fn what_no_bundle_may_set_is_taken_out_and_named() {
    let envelope = signed_blindly(made(&json!({"settings": {
        "disableFullAuto": true,
        "remotePolicyUrl": "https://evil.example",
        "remotePolicyPublicKey": key(2).public().to_string(),
        "embed": {"trustHostPolicy": true, "hostPolicyPublicKeys": []},
        "hooks": {"Stop": []},
    }})));
    let accepted = Stand::default().verify(&envelope).unwrap();
    let expected = [
        "remotePolicyUrl",
        "remotePolicyPublicKey",
        "embed.trustHostPolicy",
        "embed.hostPolicyPublicKeys",
        "hooks",
    ];
    assert_eq!(accepted.stripped_keys, expected);
    let layer = Layer { disable_full_auto: true, ..Layer::new(LayerName::Pushed) };
    assert_eq!(accepted.layer, layer);
    // Whoever signs is told before anybody is sent it.
    let message = sign(&envelope.bundle, &key(1)).unwrap_err().message;
    assert!(message.contains("no bundle may set remotePolicyUrl"), "{message}");
}

#[test]
fn a_bundle_that_names_what_a_stronger_layer_does_not_let_is_widening() {
    let managed = || Layer::new(LayerName::Managed);
    let locked = |mode| Layer { locked_mode: Some(mode), ..managed() };
    let models = |models: &[&str]| Layer {
        models: Some(models.iter().map(|model| (*model).to_owned()).collect()),
        ..managed()
    };
    let mode = |mode: &str| json!({"settings": {"permissions": {"mode": mode}}});
    let allowed = |models: &[&str]| json!({"settings": {"models": {"allowed": models}}});
    let no_full_auto = Layer { disable_full_auto: true, ..managed() };
    let table = [
        (locked(Mode::Ask), mode("auto-edit"), true),
        (locked(Mode::Ask), mode("ask"), false),
        (locked(Mode::Ask), mode("plan"), false),
        (locked(Mode::FullAuto), mode("full-auto"), false),
        (no_full_auto.clone(), mode("full-auto"), true),
        (no_full_auto.clone(), mode("auto-edit"), false),
        (managed(), mode("full-auto"), true),
        (models(&["anthropic/*"]), allowed(&["anthropic/claude-sonnet-4-6"]), false),
        (models(&["anthropic/*"]), allowed(&["anthropic/claude-*"]), false),
        (models(&["anthropic/*"]), allowed(&["anthropic/*", "openai/gpt-5"]), true),
        (models(&["anthropic/*"]), allowed(&["*"]), true),
        (models(&["a/b"]), allowed(&[]), false),
        (managed(), allowed(&["*"]), false),
        // A false says nothing, so it widens nothing.
        (no_full_auto, json!({"settings": {"disableFullAuto": false}}), false),
        // Allow rules grant nothing, so none is too wide.
        (
            Layer { deny: vec!["run_shell(touch *)".parse().unwrap()], ..managed() },
            json!({"settings": {"permissions": {"allow": ["run_shell(touch *)"]}}}),
            false,
        ),
    ];
    for (layer, changes, is_widening) in table {
        let verified = Stand::under(layer.clone()).verify(&signed(&changes));
        let reason = verified.err().map(|rejection| rejection.reason);
        assert_eq!(reason, is_widening.then_some(Reason::Widening), "{changes} under {layer:?}");
    }
    // Weaker layers do not bind a bundle.
    let user = Layer { locked_mode: Some(Mode::Ask), ..Layer::new(LayerName::User) };
    assert!(Stand::under(user).verify(&signed(&mode("auto-edit"))).is_ok());
}

#[test]
fn reasons_have_stable_names() {
    let names = Reason::ALL.map(Reason::as_str);
    let expected = [
        "unsigned",
        "bad_signature",
        "unknown_key",
        "expired",
        "not_yet_valid",
        "malformed",
        "stale",
        "widening",
    ];
    assert_eq!(names, expected);
    let rejection = Stand::default().verify(&Envelope { signature: None, ..signed(&json!({})) });
    assert_eq!(rejection.unwrap_err().to_string(), "unsigned: it has no signature");
}

#[test]
fn white_space_and_the_order_of_keys_do_not_count() {
    let envelope = signed(&json!({}));
    let mut backwards = serde_json::Map::new();
    for (key, value) in envelope.bundle.as_object().unwrap().iter().rev() {
        backwards.insert(key.clone(), value.clone());
    }
    let other = Envelope { bundle: Value::Object(backwards), ..envelope };
    let text = serde_json::to_string_pretty(&other.to_value()).unwrap();
    assert!(Stand::default().verify(&Envelope::parse(&text).unwrap()).is_ok());
}

#[test]
fn no_byte_of_what_is_signed_can_be_changed() {
    let envelope = signed(&json!({}));
    let good = canonical(&envelope.bundle).into_bytes();
    let mut bundles = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 7);
        // What is still JSON is another bundle, and no other bundle has the signature.
        let bundle = String::from_utf8(bytes).ok().and_then(|it| serde_json::from_str(&it).ok());
        let Some(bundle) = bundle else { continue };
        assert_ne!(bundle, envelope.bundle);
        let text = Envelope { bundle, ..envelope.clone() }.to_value().to_string();
        let verified = Envelope::parse(&text).and_then(|it| Stand::default().verify(&it));
        let reason = verified.unwrap_err().reason;
        assert!(matches!(reason, Reason::BadSignature | Reason::Malformed), "{at}: {reason}");
        bundles += 1;
    }
    assert!(bundles > 100, "most changes leave a bundle: {bundles}");
}

#[test]
fn no_byte_of_the_signature_can_be_changed() {
    use ::base64::Engine;
    let engine = ::base64::engine::general_purpose::STANDARD;
    let envelope = signed(&json!({}));
    let good = engine.decode(envelope.signature.as_ref().unwrap()).unwrap();
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let envelope = Envelope { signature: Some(engine.encode(bytes)), ..envelope.clone() };
        assert_eq!(Stand::default().reason(&envelope), Reason::BadSignature, "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bit_of_what_is_signed_can_be_changed(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let envelope = signed(&json!({}));
        let mut bytes = canonical(&envelope.bundle).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let bundle = String::from_utf8(bytes).ok().and_then(|it| serde_json::from_str(&it).ok());
        if let Some(bundle) = bundle {
            let changed = Envelope { bundle, ..envelope };
            prop_assert!(Stand::default().verify(&changed).is_err());
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        drop((Envelope::parse(&text), text.parse::<PublicKey>(), text.parse::<PrivateKey>()));
        drop(Managed::parse(&text));
    }
}

#[test]
fn how_far_a_source_had_come_is_known_after_its_time() {
    let old = signed(&json!({"expiresAt": "2026-11-02T00:00:00Z"}));
    let known = bundle::signed(&old, &[key(1).public()]).unwrap();
    assert_eq!((known.id.as_str(), known.version), ("acme", 3));
    let stranger = bundle::signed(&old, &[key(2).public()]).unwrap_err();
    assert_eq!(stranger.reason, Reason::UnknownKey);
    let mut unsigned = old;
    unsigned.signature = None;
    let refusal = bundle::signed(&unsigned, &[key(1).public()]).unwrap_err();
    assert_eq!(refusal.reason, Reason::Unsigned);
}
