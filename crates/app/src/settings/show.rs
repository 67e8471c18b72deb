//! Every setting in one list, without secrets.

use door_cli::Setting;
use narthex::governed::KeptRules;
use narthex::{Layer, LayerName};

use super::providers::shown_url;
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
        optional("log.filter", &settings.log_filter, quoted),
        one("log.format", quoted(settings.log_format.value.as_str()), &settings.log_format.origin),
        optional("store", &settings.store, |path| quoted(&path.display())),
    ];
    list.extend(settings.bounds.list());
    list.extend(settings.server.list());
    list.extend(settings.cortex.list());
    list.extend(settings.neurons.list());
    list.extend(settings.mcp.list());
    list.extend(settings.telemetry.list());
    for (origin, places) in &settings.network_files {
        list.push(one("network.allow", texts(places), origin));
    }
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

pub(super) fn texts(list: &[String]) -> String {
    toml::Value::Array(list.iter().cloned().map(toml::Value::String).collect()).to_string()
}

fn rules(list: &mut Vec<Setting>, layer: &Layer, settings: &Settings) {
    let places = &settings.places;
    let path = match layer.name {
        name if layer.is_kept => KeptRules::new(&places.home).file_of(name, &places.cwd),
        LayerName::Managed => places.managed.clone().unwrap_or_default(),
        LayerName::Remote | LayerName::Pushed => {
            settings.remote.as_ref().map(|remote| remote.file().to_owned()).unwrap_or_default()
        }
        LayerName::System => places.system.clone(),
        LayerName::User => places.user.clone(),
        LayerName::Project | LayerName::Session | LayerName::Flags => {
            settings.project.clone().unwrap_or_default()
        }
    };
    let origin = Origin::File(layer.name, path);
    for (key, rules) in [("allow", &layer.allow), ("ask", &layer.ask), ("deny", &layer.deny)] {
        let is_list = key == "allow" && layer.is_allow_list;
        if !rules.is_empty() || is_list {
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
    list.push(one(&key("base_url"), quoted(&shown_url(&known.provider.base_url)), &known.address));
    if let Some(origin) = &known.key {
        list.push(one(&key("key"), "(set)".to_owned(), origin));
    }
    for (name, _) in &known.provider.headers {
        let header = format!("headers.{name}");
        list.push(one(&key(&header), "(set)".to_owned(), &known.address));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use door_cli::Globals;

    use super::super::Want;
    use super::*;
    use crate::Environment;

    #[test]
    fn values_name_their_real_file_and_show_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["home", "project/.git", "project/.narthex", "project/src"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let project = top.join("project/.narthex/config.toml");
        fs::write(&project, "[permissions]\ndeny = [\"web_fetch\"]\n").unwrap();
        let user = "[network]\nallow = [\"localhost:8080\"]\n\
                    [providers.openai]\nbase_url = \"https://me:pass@box/v1\"\nkey = \"sk\"\n";
        fs::write(top.join("home/config.toml"), user).unwrap();
        let home = top.join("home").display().to_string();
        let mut environment =
            Environment::new(&top.join("project/src"), &[("NARTHEX_HOME", home.as_str())]);
        fs::create_dir_all(top.join("etc")).unwrap();
        fs::write(top.join("etc/config.toml"), "[network]\nallow = [\"10.0.0.0/8\"]\n").unwrap();
        environment.system = top.join("etc");
        let globals = Globals::default();
        let want = Want { globals: &globals, environment: &environment };
        let list = list(&Settings::load(want).unwrap());
        let find = |key: &str| list.iter().find(|setting| setting.key == key).unwrap();
        let path = project.display().to_string();
        assert!(find("permissions.deny").origin.ends_with(&path), "{list:?}");
        let places = list.iter().filter(|setting| setting.key == "network.allow");
        let places: Vec<(&str, bool)> =
            places.map(|it| (it.value.as_str(), it.origin.ends_with("etc/config.toml"))).collect();
        assert_eq!(places, [("[\"10.0.0.0/8\"]", true), ("[\"localhost:8080\"]", false)]);
        assert_eq!(find("providers.openai.base_url").value, "\"https://…@box/v1\"");
        assert_eq!(find("providers.openai.key").value, "(set)");
    }
}
