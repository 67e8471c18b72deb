//! Policies and explanations in the words of the door.

use door_cli::{
    ExplainedCall, ExplainedPart, ExplainedRule, PolicyInForce, PolicyLayer, PolicyWord,
};
use governance::bundle::Bundle;
use narthex::governed::{KeptRules, Remote};
use narthex::{Layer, LayerName, Policy};
use policy::{Decision, Explanation, List, Mention, PartExplanation};
use serde_json::{Value, json};

use crate::settings::Settings;

/// Puts an explanation into words.
pub(super) fn explained(
    settings: &Settings,
    call: &str,
    (notice, voters): (Option<String>, Vec<String>),
    explanation: &Explanation,
) -> ExplainedCall {
    let mode = match explanation.mode == explanation.mode_in_force {
        true => format!("{} mode", explanation.mode),
        false => format!(
            "{} mode was asked for, the policy lets {} at most",
            explanation.mode, explanation.mode_in_force
        ),
    };
    let layers = explanation.layers.iter().map(|share| {
        let mut says = match (share.is_present, share.rules, share.matching) {
            (false, ..) => "none".to_owned(),
            (true, 0, _) => "no rules".to_owned(),
            (true, rules, 0) => {
                format!("{}, none speaks of it", stdx::plural(rules as u64, "rule"))
            }
            (true, rules, 1) => {
                format!("{}, 1 speaks of it", stdx::plural(rules as u64, "rule"))
            }
            (true, rules, matching) => {
                format!("{}, {matching} speak of it", stdx::plural(rules as u64, "rule"))
            }
        };
        if share.leaves_out {
            says.push_str("; what it lists leaves a part out");
        }
        if !share.locks.is_empty() {
            says.push_str(&format!("; locks {}", share.locks.join(", ")));
        }
        let source = if share.is_present { sources(settings, share.layer) } else { String::new() };
        let name = share.layer.as_str().to_owned();
        PolicyLayer { name, has_say: share.has_say, says, source }
    });
    let layers = layers.collect();
    let mut notices = settings.notices.clone();
    notices.extend(notice);
    let mut json = serde_json::to_value(explanation).unwrap_or(Value::Null);
    if let Some(json) = json.as_object_mut() {
        json.insert("alsoVote".to_owned(), voters.clone().into());
    }
    ExplainedCall {
        call: call.trim().to_owned(),
        word: word(explanation.decision),
        reason: explanation.reason.clone(),
        mode,
        mode_word: word(explanation.mode_says.decision),
        mode_reason: explanation.mode_says.reason.clone(),
        parts: explanation.parts.iter().map(part).collect(),
        layers,
        voters,
        notices,
        json,
    }
}

fn word(decision: Decision) -> PolicyWord {
    match decision {
        Decision::Allow => PolicyWord::Allow,
        Decision::Ask => PolicyWord::Ask,
        Decision::Deny => PolicyWord::Deny,
    }
}

fn part(part: &PartExplanation) -> ExplainedPart {
    ExplainedPart {
        kind: part.kind.to_owned(),
        text: part.text.clone(),
        word: word(part.decision),
        reason: part.reason.clone(),
        rules: part.rules.iter().map(rule).collect(),
    }
}

fn rule(mention: &Mention) -> ExplainedRule {
    let note = match (&mention.unsure, mention.list) {
        (Some(why), _) => format!("perhaps: {why}"),
        (None, List::Allow) if mention.layer.is_governing() => {
            "lists it: weaker layers may allow it".to_owned()
        }
        (None, _) => String::new(),
    };
    ExplainedRule {
        layer: mention.layer.as_str().to_owned(),
        word: match mention.list {
            List::Deny => PolicyWord::Deny,
            List::Ask => PolicyWord::Ask,
            List::Allow => PolicyWord::Allow,
        },
        rule: mention.rule.clone(),
        decides: mention.decides,
        note,
    }
}

/// Tells which layers new sessions have and where they come from.
pub(super) fn in_force(settings: &Settings, policy: &Policy) -> PolicyInForce {
    let mut layers = Vec::new();
    let mut rows = Vec::new();
    for name in LayerName::ALL {
        let mut of_name = policy.layers().filter(|layer| layer.name == name).peekable();
        if of_name.peek().is_none() {
            let says = "none".to_owned();
            layers.push(PolicyLayer {
                name: name.as_str().to_owned(),
                has_say: false,
                says,
                source: absent(settings, name),
            });
        }
        for layer in of_name {
            let source = match layer.is_kept {
                true => kept_file(settings, name),
                false => source(settings, name),
            };
            rows.push(json!({
                "layer": name,
                "source": source,
                "allow": texts(&layer.allow),
                "isAllowList": layer.is_allow_list,
                "isKept": layer.is_kept,
                "ask": texts(&layer.ask),
                "deny": texts(&layer.deny),
                "mode": layer.locked_mode,
                "disableFullAuto": layer.disable_full_auto,
                "allowPersist": !layer.disable_persist,
                "models": layer.models,
            }));
            let (name, says) = (name.as_str().to_owned(), says(layer));
            layers.push(PolicyLayer { name, has_say: true, says, source });
        }
    }
    let mut facts = vec![("mode".to_owned(), mode(settings, policy))];
    if let Some(remote) = &settings.remote {
        facts.push(("remote policy".to_owned(), remote.state()));
        if let Some(accepted) = remote.in_force() {
            facts.extend(bundle_facts(&accepted.bundle));
        }
    }
    let remote = settings.remote.as_ref().map(Remote::to_json);
    let json = json!({ "mode": settings.mode.value, "layers": rows, "remote": remote });
    PolicyInForce { layers, facts, notices: settings.notices.clone(), json }
}

fn mode(settings: &Settings, policy: &Policy) -> String {
    let mode = settings.mode.value;
    match (policy.locked_mode(), policy.check_mode(mode)) {
        (_, Err(refusal)) => format!("{mode}, refused: {}", refusal.message),
        (Some((layer, _)), Ok(())) => format!("{mode}, locked by the {layer}"),
        (None, Ok(())) => format!("{mode} ({})", settings.mode.origin),
    }
}

/// Says in short what a layer holds.
pub(super) fn says(layer: &Layer) -> String {
    let mut parts = Vec::new();
    for (list, rules) in [("deny", &layer.deny), ("ask", &layer.ask), ("allow", &layer.allow)] {
        match rules.len() {
            0 if list == "allow" && layer.is_allow_list => {
                parts.push("lets nothing be allowed".to_owned());
            }
            0 => {}
            count => parts.push(format!("{count} {list}")),
        }
    }
    if let Some(mode) = layer.locked_mode {
        parts.push(format!("locks mode {mode}"));
    }
    if layer.disable_full_auto {
        parts.push("disables full-auto".to_owned());
    }
    if layer.disable_persist {
        parts.push("keeps every \"always\" to its session".to_owned());
    }
    if let Some(models) = &layer.models {
        parts.push(format!("allows {}", stdx::plural(models.len() as u64, "model")));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn texts(rules: &[narthex::Rule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

/// Names the file of a layer of rules that were kept.
fn kept_file(settings: &Settings, layer: LayerName) -> String {
    let places = &settings.places;
    KeptRules::new(&places.home).file_of(layer, &places.cwd).display().to_string()
}

/// Says where all layers of a name come from.
fn sources(settings: &Settings, name: LayerName) -> String {
    let of_name = settings.policy.layers().filter(|layer| layer.name == name);
    let mut sources: Vec<String> = of_name
        .map(|layer| match layer.is_kept {
            true => kept_file(settings, name),
            false => source(settings, name),
        })
        .collect();
    if name == LayerName::Flags && sources.is_empty() {
        sources.push(source(settings, name));
    }
    sources.join(", ")
}

/// Says where a layer comes from.
fn source(settings: &Settings, layer: LayerName) -> String {
    let places = &settings.places;
    match layer {
        LayerName::Managed => {
            places.managed.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        }
        LayerName::Remote => {
            settings.remote.as_ref().map(|remote| remote.source()).unwrap_or_default()
        }
        LayerName::Pushed => "the host".to_owned(),
        LayerName::System => places.system.display().to_string(),
        LayerName::User => places.user.display().to_string(),
        LayerName::Project => {
            settings.project.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        }
        LayerName::Session => "the session".to_owned(),
        LayerName::Flags => "--allow and --deny".to_owned(),
    }
}

/// Says where a layer that is not there would come from, where that helps.
fn absent(settings: &Settings, layer: LayerName) -> String {
    match layer {
        LayerName::Managed => "no managed settings on this machine".to_owned(),
        LayerName::Remote => match &settings.remote {
            Some(remote) => remote.state(),
            None => "no remotePolicyUrl in the managed settings".to_owned(),
        },
        LayerName::Pushed => "a host may push one".to_owned(),
        LayerName::System => format!("no rules in {}", settings.places.system.display()),
        LayerName::User => format!("no rules in {}", settings.places.user.display()),
        LayerName::Project | LayerName::Session | LayerName::Flags => String::new(),
    }
}

/// Lists what a bundle says of itself.
pub(super) fn bundle_facts(bundle: &Bundle) -> Vec<(String, String)> {
    let expires = bundle.expires_at.map_or("never".to_owned(), |time| time.to_string());
    vec![
        ("bundle".to_owned(), format!("{} version {}", bundle.id, bundle.version)),
        ("issued".to_owned(), bundle.issued_at.to_string()),
        ("expires".to_owned(), expires),
    ]
}
