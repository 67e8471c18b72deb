//! Every setting in one list, without secrets.

use door_cli::Setting;
use narthex::{Layer, LayerName};

use super::{KnownProvider, Origin, Settings, Sourced};

/// Lists every setting with its value and origin.
pub(crate) fn list(settings: &Settings) -> Vec<Setting> {
    let mut list = vec![
        one("home", quoted(&settings.places.home.display()), &settings.places.home_origin),
        optional("model", &settings.model, quoted),
        one("mode", quoted(&settings.mode.value), &settings.mode.origin),
        optional("append_system_prompt", &settings.append_system_prompt, quoted),
        one("max_turns", settings.max_turns.value.to_string(), &settings.max_turns.origin),
        one("agent_command", texts(&settings.agent_command.value), &settings.agent_command.origin),
        one(
            "retry.budget_ms",
            settings.retry_budget_ms.value.to_string(),
            &settings.retry_budget_ms.origin,
        ),
        optional("log.level", &settings.log_level, |level| quoted(&level.as_str())),
        optional("store", &settings.store, |path| quoted(&path.display())),
    ];
    for layer in settings.policy.layers() {
        rules(&mut list, layer, settings);
    }
    for known in &settings.providers {
        provider(&mut list, known);
    }
    list
}

fn one(key: &str, value: String, origin: &Origin) -> Setting {
    Setting { key: key.to_owned(), value, origin: origin.to_string() }
}

fn optional<T>(key: &str, value: &Sourced<Option<T>>, show: fn(&T) -> String) -> Setting {
    one(key, value.value.as_ref().map(show).unwrap_or_default(), &value.origin)
}

fn quoted(text: &(impl std::fmt::Display + ?Sized)) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn texts(list: &[String]) -> String {
    toml::Value::Array(list.iter().cloned().map(toml::Value::String).collect()).to_string()
}

fn rules(list: &mut Vec<Setting>, layer: &Layer, settings: &Settings) {
    let path = match layer.name {
        LayerName::Managed => settings.places.managed.clone().unwrap_or_default(),
        LayerName::System => settings.places.system.clone(),
        LayerName::User => settings.places.user.clone(),
        LayerName::Project | LayerName::Session | LayerName::Flags => {
            settings.places.cwd.join(".narthex/config.toml")
        }
    };
    let origin = Origin::File(layer.name, path);
    for (key, rules) in [("allow", &layer.allow), ("ask", &layer.ask), ("deny", &layer.deny)] {
        if !rules.is_empty() {
            let shown: Vec<String> = rules.iter().map(ToString::to_string).collect();
            list.push(one(&format!("permissions.{key}"), texts(&shown), &origin));
        }
    }
    if layer.disable_full_auto {
        list.push(one("disable_full_auto", "true".to_owned(), &origin));
    }
    if let Some(models) = &layer.models {
        list.push(one("models.allowed", texts(models), &origin));
    }
}

fn provider(list: &mut Vec<Setting>, known: &KnownProvider) {
    let key = |field: &str| format!("providers.{}.{field}", known.provider.name);
    list.push(one(&key("base_url"), quoted(&known.provider.base_url), &known.address));
    if let Some(origin) = &known.key {
        list.push(one(&key("key"), "(set)".to_owned(), origin));
    }
    for (name, _) in &known.provider.headers {
        let header = format!("headers.{name}");
        list.push(one(&key(&header), "(set)".to_owned(), &known.address));
    }
}
