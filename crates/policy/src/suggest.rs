//! Rules that a person may want to add when a call is asked for.

use std::path::Path;

use crate::Rule;
use crate::judge::Case;
use crate::shell::{Part, Role, Script, UNKNOWN};
use crate::tool_name::FileTools;
use crate::wildcard::escape;

/// Programs for which a rule over all their uses is too wide to be offered: they run whatever
/// they are told, reach far away, or destroy.
const NEVER_WHOLE: [&str; 56] = [
    "bash", "sh", "zsh", "dash", "fish", "ksh", "python", "python2", "python3", "ipython", "node",
    "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "awk", "gawk", "sed", "rm", "rmdir",
    "dd", "chmod", "chown", "kill", "pkill", "killall", "curl", "wget", "ssh", "scp", "rsync",
    "find", "fd", "source", ".", "eval", "trap", "docker", "podman", "kubectl", "sudo", "doas",
    "su", "env", "xargs", "npx", "bunx", "uvx", "pipx", "tee", "ln", "mv", "crontab",
];

/// Programs whose first argument is a command of their own.
const WITH_SUBCOMMAND: [&str; 23] = [
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "go",
    "docker",
    "kubectl",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "make",
    "just",
    "gh",
    "dotnet",
    "mvn",
    "gradle",
    "rustup",
    "deno",
    "bun",
    "terraform",
    "helm",
];

/// Sub-commands that run what the next word names, so that this word belongs to the rule.
const RUNNING: [(&str, &str); 9] = [
    ("npm", "run"),
    ("pnpm", "run"),
    ("yarn", "run"),
    ("bun", "run"),
    ("uv", "run"),
    ("poetry", "run"),
    ("docker", "compose"),
    ("gh", "pr"),
    ("gh", "issue"),
];

/// Sub-commands for which no rule over all their uses is offered.
const NEVER_AFTER: [(&str, &[&str]); 6] = [
    ("git", &["push", "reset", "clean", "checkout", "config", "rebase", "filter-branch"]),
    ("docker", &["run", "exec", "rm", "system"]),
    ("kubectl", &["exec", "delete", "apply", "run"]),
    ("cargo", &["publish", "install", "run"]),
    ("npm", &["exec", "publish", "x", "config", "set"]),
    ("gh", &["api", "secret", "auth"]),
];

/// Returns the rules, narrowest first.
pub(crate) fn rules(case: &Case<'_>) -> Vec<String> {
    let mut rules = match &case.script {
        Some(script) => shell(script, case.call.is_inside()),
        None if FileTools::of(case.tool).is_some() => files(case),
        None => vec![case.tool.to_owned()],
    };
    // What cannot be read back is no rule, and one that leaves a part of the call out is no help.
    rules.retain(|rule| rule.parse().is_ok_and(|rule| case.is_granted_by(&rule)));
    rules.dedup();
    rules
}

/// How many rules are offered for a line of several commands: more nobody reads in a question.
const PARTS_MAX: usize = 3;

/// Returns a rule for each command of a line that `is_covered` does not cover yet, for lines that
/// no single rule covers. Each helps a little, and the next question is about less.
pub(crate) fn of_parts(case: &Case<'_>, is_covered: impl Fn(&Part) -> bool) -> Vec<String> {
    let Some(script) = &case.script else { return Vec::new() };
    if script.blocked.is_some() || script.opaque.is_some() || !case.call.is_inside() {
        return Vec::new();
    }
    let open = script
        .parts
        .iter()
        .filter(|part| part.role == Role::Plain && part.hidden.is_none() && !is_covered(part));
    let rules = open.filter_map(prefix).map(|text| format!("run_shell({} *)", escape(&text)));
    let mut rules: Vec<String> = rules.collect();
    rules.retain(|rule| rule.parse::<Rule>().is_ok());
    rules.dedup();
    rules.truncate(PARTS_MAX);
    rules
}

fn shell(script: &Script, is_inside: bool) -> Vec<String> {
    if script.blocked.is_some() || !is_inside {
        return Vec::new();
    }
    // What only steers the shell or runs others goes along with what it is there for.
    let is_own = |part: &&Part| part.role == Role::Plain;
    let mut own = script.parts.iter().filter(is_own);
    let first = own.next().or_else(|| script.parts.first());
    let Some(first) = first.filter(|part| part.hidden.is_none()) else { return Vec::new() };
    let raw = first.raw();
    // A rule's white space is collapsed when it is read.
    let is_spelled = crate::rule::collapse(&raw) == raw && !raw.contains(UNKNOWN);
    let mut patterns: Vec<String> = is_spelled.then(|| escape(&raw)).into_iter().collect();
    patterns.extend(prefix(first).map(|prefix| format!("{} *", escape(&prefix))));
    patterns.into_iter().map(|text| format!("run_shell({text})")).collect()
}

/// Returns the beginning of a command that says what it does: `npm test` of `npm test -- -w`,
/// `npm run build` of `npm run build`.
fn prefix(part: &Part) -> Option<String> {
    let words = part.without_harmless_options();
    let program = words.first()?;
    let name = part.trusted_name();
    if name != program.raw || name.contains('/') && !name.starts_with("./") {
        return None;
    }
    if !WITH_SUBCOMMAND.contains(&name) {
        return (!NEVER_WHOLE.contains(&name)).then(|| name.to_owned());
    }
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
    };
    let named = |at: usize| {
        let word = words.get(at)?;
        (!word.is_quoted && is_name(&word.raw)).then_some(word.raw.as_str())
    };
    // The bare program alone says nothing where it has commands of its own.
    let command = named(1)?;
    let never = NEVER_AFTER.iter().find(|(program, _)| *program == name);
    if never.is_some_and(|(_, commands)| commands.contains(&command)) {
        return None;
    }
    if RUNNING.contains(&(name, command)) {
        return named(2).map(|script| format!("{name} {command} {script}"));
    }
    Some(format!("{name} {command}"))
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
