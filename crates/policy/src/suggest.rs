//! Rules that a person may want to add when a call is asked for.

use std::path::Path;

use crate::judge::Case;
use crate::shell::{Part, Script};
use crate::tool_name::FileTools;
use crate::wildcard::escape;

/// Programs for which a rule over all their uses is too wide to be offered: they run whatever
/// they are told, or destroy.
const NEVER_WHOLE: [&str; 30] = [
    "bash", "sh", "zsh", "dash", "fish", "python", "python3", "node", "deno", "bun", "perl",
    "ruby", "php", "lua", "awk", "sed", "rm", "dd", "chmod", "chown", "kill", "curl", "wget",
    "ssh", "find", "source", ".", "eval", "docker", "kubectl",
];

/// Programs whose first argument is a command of their own.
const WITH_SUBCOMMAND: [&str; 16] = [
    "git", "cargo", "npm", "pnpm", "yarn", "go", "docker", "kubectl", "pip", "uv", "poetry",
    "make", "gh", "dotnet", "mvn", "gradle",
];

/// Returns the rules, narrowest first.
pub(crate) fn rules(case: &Case<'_>) -> Vec<String> {
    let mut rules = match &case.script {
        Some(script) => shell(script, case.call.is_inside()),
        None if FileTools::of(case.tool).is_some() => files(case),
        None => vec![case.tool.to_owned()],
    };
    // What cannot be read back is no rule.
    rules.retain(|rule| rule.parse::<crate::Rule>().is_ok());
    rules.dedup();
    rules
}

fn shell(script: &Script, is_inside: bool) -> Vec<String> {
    if script.blocked.is_some() || !is_inside {
        return Vec::new();
    }
    let Some((first, others)) = script.parts.split_first() else { return Vec::new() };
    let mut patterns = vec![escape(&first.raw())];
    patterns.extend(prefix(first).map(|prefix| format!("{} *", escape(&prefix))));
    // One rule has to cover every command of a list.
    patterns.retain(|text| {
        let Ok(rule) = format!("run_shell({text})").parse::<crate::Rule>() else { return false };
        let crate::rule::Pattern::Shell(pattern) = rule.pattern() else { return false };
        others.iter().all(|part| pattern.matches(&part.raw()))
    });
    patterns.into_iter().map(|text| format!("run_shell({text})")).collect()
}

/// Returns the beginning of a command that says what it does: `npm test` of `npm test -- -w`.
fn prefix(part: &Part) -> Option<String> {
    let program = part.words.first()?;
    if program.is_quoted || NEVER_WHOLE.contains(&part.base_name()) && !has_subcommand(part) {
        return None;
    }
    if !has_subcommand(part) {
        // The bare program alone says nothing where it has commands of its own.
        let is_bare = WITH_SUBCOMMAND.contains(&part.base_name());
        return (!is_bare).then(|| program.raw.clone());
    }
    let command = part.words.get(1)?;
    Some(format!("{} {}", program.raw, command.raw))
}

fn has_subcommand(part: &Part) -> bool {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
    };
    WITH_SUBCOMMAND.contains(&part.base_name())
        && part.words.get(1).is_some_and(|word| !word.is_quoted && is_name(&word.raw))
}

fn files(case: &Case<'_>) -> Vec<String> {
    let paths: Vec<&Path> = case.call.paths.iter().map(|path| path.real).collect();
    let Some((first, others)) = paths.split_first() else { return Vec::new() };
    let mut rules = Vec::new();
    if others.is_empty() {
        rules.extend(pattern(first, case.call.cwd));
    }
    let is_beneath = |folder: &&Path| paths.iter().all(|path| path.starts_with(folder));
    let folder = first.ancestors().skip(1).find(is_beneath);
    // A rule for the whole disk is nothing to offer.
    if let Some(folder) = folder.filter(|folder| folder.parent().is_some()) {
        let pattern = pattern(folder, case.call.cwd);
        rules.extend(pattern.map(|text| match text.as_str() {
            "" => "**".to_owned(),
            text => format!("{text}/**"),
        }));
    }
    rules.into_iter().map(|text| format!("{}({text})", case.tool)).collect()
}

/// Spells a path as a pattern that matches it alone; none for names that are no text.
fn pattern(path: &Path, cwd: &Path) -> Option<String> {
    let text = match path.strip_prefix(cwd) {
        Ok(inner) => inner.to_str()?,
        Err(_) => path.to_str()?,
    };
    Some(escape(text))
}
