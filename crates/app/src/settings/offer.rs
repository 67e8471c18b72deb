//! What a project's files would change, for a person who decides whether to trust them.

use std::num::NonZeroU64;
use std::path::Path;

use door_cli::UntrustedFile;
use driver_api::Moment;
use narthex::HookSet;

use super::Settings;
use super::document::Document;

impl Settings {
    /// Notes what a file would change, with the text that would be trusted.
    pub(super) fn offer(&mut self, path: &Path, text: &str, summary: Vec<String>) {
        let file = UntrustedFile { path: path.to_owned(), text: text.to_owned(), summary };
        self.untrusted.get_or_insert_default().files.push(file);
    }
}

/// Lists what a settings file would change.
pub(super) fn of_document(document: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(document.model.iter().map(|model| format!("set the model to {model}")));
    lines.extend(document.mode.iter().map(|mode| format!("set the mode to {mode}, if tighter")));
    if document.append_system_prompt.is_some() {
        lines.push("give the model instructions of its own".to_owned());
    }
    let permissions = &document.permissions;
    lines.extend(permissions.allow.iter().map(|rule| format!("allow {rule} without asking")));
    lines.extend(permissions.ask.iter().map(|rule| format!("ask for {rule} in every mode")));
    let max_turns = document.max_turns;
    lines.extend(max_turns.map(|count| format!("let a turn take {count} steps, if fewer")));
    lines.extend(of_bounds(document));
    lines.extend(of_hooks(&document.hooks));
    if let Some(command) = &document.checks.command {
        lines.push(format!("run before each change: {}", command.join(" ")));
    }
    lines
}

/// Lists what bounds a turn and its conversation.
fn of_bounds(document: &Document) -> Vec<String> {
    let budget = &document.budget;
    let usd = |name: &str, value: Option<f64>| {
        value.map(|value| format!("limit {name} to {value} dollars, if lower"))
    };
    let count = |name: &str, value: Option<u64>, unit: &str| {
        value.map(|value| format!("limit {name} to {value} {unit}, if lower"))
    };
    let turn_ms = budget.turn_ms.map(NonZeroU64::get);
    let compaction = &document.compaction;
    let auto = compaction.auto.map(|is_on| match is_on {
        true => "summarise conversations by itself".to_owned(),
        false => "not summarise conversations by itself".to_owned(),
    });
    let at = compaction
        .at_percent
        .map(|percent| format!("summarise conversations at {percent} % of the model's window"));
    let lines = [
        usd("a turn", budget.turn_usd),
        count("a turn", budget.turn_tokens, "tokens"),
        count("a turn", turn_ms, "milliseconds"),
        usd("a session", budget.session_usd),
        count("a session", budget.session_tokens, "tokens"),
        usd("a day", budget.day_usd),
        count("a day", budget.day_tokens, "tokens"),
        auto,
        at,
    ];
    lines.into_iter().flatten().collect()
}

/// Lists the commands of hooks.
pub(super) fn of_hooks(set: &HookSet) -> Vec<String> {
    let mut lines = Vec::new();
    for moment in Moment::ALL {
        for group in set.groups(moment) {
            let of = match group.matcher.as_str() {
                "" | "*" => String::new(),
                matcher => format!(" of {matcher}"),
            };
            let commands = group.hooks.iter();
            lines.extend(
                commands.map(|hook| format!("run at {}{of}: {}", moment.as_str(), hook.command)),
            );
        }
    }
    lines
}
