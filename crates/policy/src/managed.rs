//! Managed settings: the JSON file with which an organisation governs a machine.

use std::str::FromStr;

use protocol::Mode;
use serde_json::{Map, Value};

use crate::{Layer, LayerName, Rule};

/// The most rules of one list. A longer one is a mistake of a program that wrote the file.
const RULES_MAX: usize = 1000;

/// Keys of the same file that other parts of the program read.
const KEYS_OF_OTHERS: [&str; 6] = [
    "remotePolicyUrl",
    "remotePolicyPublicKey",
    "remotePolicyRefreshMs",
    "remotePolicyRequired",
    "embed",
    "hooks",
];

impl Layer {
    /// Reads the managed settings.
    ///
    /// The keys are `disableFullAuto`, `permissions` (`mode`, `allow`, `ask`, `deny`) and `models`
    /// (`allowed`); keys of remote policies, hosts and hooks are left to their readers.
    ///
    /// # Errors
    /// A text that names the key. A file that governs is not half read: a misspelt key would be a
    /// rule that does not hold.
    pub fn from_managed_json(text: &str) -> Result<Layer, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
        let settings = object(&value, "the settings")?;
        let mut layer = Layer::new(LayerName::Managed);
        for (key, value) in settings {
            match key.as_str() {
                "disableFullAuto" => {
                    layer.disable_full_auto =
                        value.as_bool().ok_or_else(|| format!("'{key}' must be true or false"))?;
                }
                "permissions" => permissions(&mut layer, object(value, "'permissions'")?)?,
                "models" => models(&mut layer, object(value, "'models'")?)?,
                other if KEYS_OF_OTHERS.contains(&other) => {}
                other => return Err(format!("unknown key '{other}'")),
            }
        }
        Ok(layer)
    }
}

fn permissions(layer: &mut Layer, permissions: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in permissions {
        let name = format!("permissions.{key}");
        match key.as_str() {
            "mode" => layer.locked_mode = Some(read::<Mode>(&name, value)?),
            "allow" => layer.allow = rules(&name, value)?,
            "ask" => layer.ask = rules(&name, value)?,
            "deny" => layer.deny = rules(&name, value)?,
            _ => return Err(format!("unknown key '{name}'")),
        }
    }
    Ok(())
}

fn models(layer: &mut Layer, models: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in models {
        let name = format!("models.{key}");
        match key.as_str() {
            "allowed" => layer.models = Some(list(&name, value)?),
            _ => return Err(format!("unknown key '{name}'")),
        }
    }
    Ok(())
}

fn rules(name: &str, value: &Value) -> Result<Vec<Rule>, String> {
    let texts = list(name, value)?;
    Rule::parse_all(&texts).map_err(|error| format!("'{name}': {error}"))
}

fn list(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("'{name}' must be a list of texts");
    let values = value.as_array().ok_or_else(wrong)?;
    if values.len() > RULES_MAX {
        return Err(format!("'{name}' has more than {RULES_MAX} entries"));
    }
    values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

fn read<T: FromStr<Err = String>>(name: &str, value: &Value) -> Result<T, String> {
    let text = value.as_str().ok_or_else(|| format!("'{name}' must be a text"))?;
    text.parse().map_err(|error| format!("'{name}': {error}"))
}

fn object<'v>(value: &'v Value, name: &str) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{name} must be an object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let layer = Layer::from_managed_json(
            r#"{"disableFullAuto": true, "embed": {"trustHostPolicy": false},
                "permissions": {"mode": "ask", "allow": ["run_shell(npm *)"],
                                "ask": ["web_fetch"], "deny": ["bash(touch *)"]},
                "models": {"allowed": ["anthropic/*"]}}"#,
        );
        let expected = Layer {
            allow: vec!["run_shell(npm *)".parse().unwrap()],
            ask: vec!["web_fetch".parse().unwrap()],
            deny: vec!["run_shell(touch *)".parse().unwrap()],
            disable_full_auto: true,
            locked_mode: Some(Mode::Ask),
            models: Some(vec!["anthropic/*".into()]),
            ..Layer::new(LayerName::Managed)
        };
        assert_eq!(layer, Ok(expected));
        assert_eq!(Layer::from_managed_json("{}"), Ok(Layer::new(LayerName::Managed)));
    }

    #[test]
    fn errors_name_the_key() {
        for (text, expected) in [
            ("", "not valid JSON"),
            ("[]", "the settings must be an object"),
            (r#"{"disableFulAuto": true}"#, "unknown key 'disableFulAuto'"),
            (r#"{"disableFullAuto": "yes"}"#, "'disableFullAuto' must be true or false"),
            (r#"{"permissions": {"denies": []}}"#, "unknown key 'permissions.denies'"),
            (r#"{"permissions": {"deny": "x"}}"#, "'permissions.deny' must be a list of texts"),
            (r#"{"permissions": {"deny": [1]}}"#, "'permissions.deny' must be a list of texts"),
            (r#"{"permissions": {"deny": ["x("]}}"#, "'permissions.deny': rule 'x('"),
            (r#"{"permissions": {"mode": "auto"}}"#, "'permissions.mode': unknown mode 'auto'"),
            (r#"{"models": {"allow": []}}"#, "unknown key 'models.allow'"),
        ] {
            let error = Layer::from_managed_json(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
