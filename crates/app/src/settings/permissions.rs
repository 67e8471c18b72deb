//! Rules of settings files, as layers of a policy.

use std::path::Path;

use door_cli::Failure;
use narthex::{Layer, LayerName, Policy, Rule};

use super::document::{Document, Permissions};
use super::{Origin, Project};

/// Makes the policy of the files. Session rules and flags come with each session.
pub(super) fn policy(
    from_files: [(&Document, &Origin); 2],
    project: Option<&Project>,
) -> Result<Policy, Failure> {
    let mut policy = Policy::default();
    for (document, origin) in from_files {
        if let Origin::File(name, path) = origin {
            policy = tighten(&policy, *name, &document.permissions, path)?;
        }
    }
    if let Some(project) = project {
        let permissions = match project.is_trusted {
            true => project.document.permissions.clone(),
            // Whoever wrote the file, what it forbids can do no harm.
            false => Permissions {
                deny: project.document.permissions.deny.clone(),
                ..Permissions::default()
            },
        };
        policy = tighten(&policy, LayerName::Project, &permissions, &project.path)?;
    }
    Ok(policy)
}

fn tighten(
    policy: &Policy,
    name: LayerName,
    permissions: &Permissions,
    path: &Path,
) -> Result<Policy, Failure> {
    if *permissions == Permissions::default() {
        return Ok(policy.clone());
    }
    let rules = |key: &str, texts: &[String]| {
        parse(texts).map_err(|problem| wrong_rule(path, key, &problem))
    };
    Ok(policy.tighten(Layer {
        allow: rules("allow", &permissions.allow)?,
        ask: rules("ask", &permissions.ask)?,
        deny: rules("deny", &permissions.deny)?,
        ..Layer::new(name)
    }))
}

/// Checks the rules of a file that nobody trusts: only what it forbids could hold.
///
/// # Errors
/// Names the file and the rule.
pub(super) fn check_deny(document: &Document, path: &Path) -> Result<(), Failure> {
    parse(&document.permissions.deny)
        .map(drop)
        .map_err(|problem| wrong_rule(path, "deny", &problem))
}

fn wrong_rule(path: &Path, key: &str, problem: &str) -> Failure {
    Failure::usage(format!("{}: permissions.{key}: {problem}", path.display()))
}

fn parse(texts: &[String]) -> Result<Vec<Rule>, String> {
    texts.iter().map(|text| text.parse::<Rule>().map_err(|error| error.to_string())).collect()
}

/// Checks the rules of a flag before anything is started, and tells of those that never apply.
pub(super) fn check(flag: &str, texts: &[String]) -> Result<Vec<String>, Failure> {
    let rules = parse(texts).map_err(|problem| Failure::usage(format!("{flag}: {problem}")))?;
    let told = rules.iter().filter_map(|rule| {
        let unknown = rule.unknown_tool()?;
        Some(format!("{flag} '{rule}' never applies: {unknown}"))
    });
    Ok(told.collect())
}

/// Tells of rules whose tool does not exist: such a rule is right in form and never applies, which
/// is seldom what was meant.
pub(super) fn unknown_tools(policy: &Policy) -> Vec<String> {
    let lists = |layer: &'_ Layer| {
        let lists = [("deny", &layer.deny), ("ask", &layer.ask), ("allow", &layer.allow)];
        let name = layer.name;
        let told = lists.into_iter().flat_map(move |(list, rules)| {
            rules.iter().filter_map(move |rule| {
                let unknown = rule.unknown_tool()?;
                Some(format!("the {list} rule '{rule}' of the {name} never applies: {unknown}"))
            })
        });
        told.collect::<Vec<_>>()
    };
    policy.layers().flat_map(lists).collect()
}
