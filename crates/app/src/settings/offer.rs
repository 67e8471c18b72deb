//! What a project's files would change, for a person who decides whether to trust them.

use std::path::Path;

use door_cli::UntrustedProject;
use driver_api::Moment;
use narthex::HookSet;

use super::Settings;
use super::document::Document;

impl Settings {
    /// Notes what a file would change.
    pub(super) fn offer(&mut self, path: &Path, lines: Vec<String>) {
        let offered = self
            .untrusted
            .get_or_insert_with(|| UntrustedProject { path: path.to_owned(), summary: Vec::new() });
        offered.summary.extend(lines);
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
    lines.extend(of_hooks(&document.hooks));
    if let Some(command) = &document.checks.command {
        lines.push(format!("run before each change: {}", command.join(" ")));
    }
    lines
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
