//! Tests of the managed settings' reader.

use super::*;

const KEY: &str = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";

#[test]
fn every_key_is_read() {
    let text = format!(
        r#"{{"disableFullAuto": true, "hooks": {{"Stop": []}},
            "embed": {{"trustHostPolicy": true, "hostPolicyPublicKeys": ["{KEY}"]}},
            "permissions": {{"mode": "ask", "allow": ["run_shell(npm *)"], "ask": ["web_fetch"],
                             "deny": ["bash(touch *)"], "allowPersist": false}},
            "models": {{"allowed": ["anthropic/*"]}},
            "remotePolicyUrl": "https://policy.example/narthex.json",
            "remotePolicyPublicKey": "{KEY}", "remotePolicyRefreshMs": 60000,
            "remotePolicyRequired": true}}"#
    );
    let key: PublicKey = KEY.parse().unwrap();
    let expected = Managed {
        layer: Layer {
            allow: vec!["run_shell(npm *)".parse().unwrap()],
            is_allow_list: true,
            ask: vec!["web_fetch".parse().unwrap()],
            deny: vec!["run_shell(touch *)".parse().unwrap()],
            disable_full_auto: true,
            disable_persist: true,
            locked_mode: Some(Mode::Ask),
            models: Some(vec!["anthropic/*".into()]),
            ..Layer::new(LayerName::Managed)
        },
        remote_key: Some(key),
        remote: Some(RemotePolicy {
            url: "https://policy.example/narthex.json".into(),
            key,
            refresh_ms: 60_000,
            is_required: true,
        }),
        embed: Embed { host_keys: vec![key], trust_host: true },
        hooks: Some(serde_json::json!({"Stop": []})),
    };
    assert_eq!(Managed::parse(&text), Ok(expected));
    let empty = Managed::parse("{}").unwrap();
    assert_eq!(empty.layer, Layer::new(LayerName::Managed));
    assert_eq!((empty.remote, empty.embed), (None, Embed::default()));
}

#[test]
fn an_empty_list_is_a_list() {
    let managed = Managed::parse(r#"{"permissions": {"allow": []}}"#).unwrap();
    assert!(managed.layer.is_allow_list && managed.layer.allow.is_empty());
    let none = Managed::parse(r#"{"permissions": {"deny": []}}"#).unwrap();
    assert!(!none.layer.is_allow_list);
}

#[test]
fn a_fetch_has_a_key_and_a_period() {
    let with_url =
        format!(r#"{{"remotePolicyUrl": "https://a.example/", "remotePolicyPublicKey": "{KEY}"}}"#);
    let remote = Managed::parse(&with_url).unwrap().remote.unwrap();
    assert_eq!((remote.refresh_ms, remote.is_required), (REFRESH_MS, false));
    // The key alone is for pushed bundles.
    let key_alone = Managed::parse(&format!(r#"{{"remotePolicyPublicKey": "{KEY}"}}"#)).unwrap();
    assert_eq!((key_alone.host_keys().len(), key_alone.remote), (1, None));
}

#[test]
fn errors_name_the_key() {
    for (text, expected) in [
        ("", "not valid JSON"),
        ("[]", "the settings must be an object"),
        (r#"{"disableFullAuto": true, "disableFullAuto": false}"#, "stands twice"),
        (r#"{"disableFulAuto": true}"#, "unknown key 'disableFulAuto'; did you mean 'disableFullA"),
        (r#"{"disableFullAuto": "yes"}"#, "'disableFullAuto' must be true or false"),
        (r#"{"permissions": {"denies": []}}"#, "'permissions.denies'; did you mean 'permissions.d"),
        (r#"{"permissions": {"deny": "x"}}"#, "'permissions.deny' must be a list of texts"),
        (r#"{"permissions": {"deny": [1]}}"#, "'permissions.deny' must be a list of texts"),
        (r#"{"permissions": {"deny": ["x("]}}"#, "'permissions.deny': rule 'x('"),
        (r#"{"permissions": {"mode": "auto"}}"#, "'permissions.mode': unknown mode 'auto'"),
        (r#"{"permissions": {"allowPersist": 0}}"#, "'permissions.allowPersist' must be true or"),
        (
            r#"{"models": {"allow": []}}"#,
            "unknown key 'models.allow'; did you mean 'models.allowed",
        ),
        (r#"{"remotePolicyUrl": "https://a.example"}"#, "needs 'remotePolicyPublicKey'"),
        (r#"{"remotePolicyUrl": "ftp://a.example"}"#, "must begin with https://"),
        (r#"{"remotePolicyRequired": true}"#, "needs 'remotePolicyUrl'"),
        (r#"{"remotePolicyRefreshMs": 5}"#, "from 1000 to 2419200000"),
        (r#"{"remotePolicyPublicKey": "abc"}"#, "'remotePolicyPublicKey': not a public key"),
        (r#"{"embed": {"hostPolicyPublicKeys": ["abc"]}}"#, "PublicKeys': not a public key"),
        (r#"{"embed": {"trustHost": true}}"#, "unknown key 'embed.trustHost'; did you mean"),
        (r#"{"colour": true}"#, "unknown key 'colour'; known here: disableFullAuto, permissions"),
    ] {
        let error = Managed::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
