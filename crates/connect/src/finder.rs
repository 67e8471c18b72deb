//! `mcp_find_tools`: the one tool that is offered in place of too many.

use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    CallFacts, Place, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace,
};
use protocol::{Effect, NeuronId};
use serde_json::{Map, Value, json};

use crate::pool::Shelf;
use crate::words::cut;

/// The name of the tool.
pub(crate) const NAME: &str = "mcp_find_tools";

/// Most tools that one search finds and activates: each goes out with every request from then on.
const FOUND_MAX: usize = 10;

/// Most characters of a description that a result shows; the model sees the whole once the tool
/// is offered.
const DESCRIPTION_CHARS_MAX: usize = 300;

/// Most characters of a query.
const QUERY_CHARS_MAX: usize = 500;

/// Most servers that the description names.
const SERVERS_SHOWN_MAX: usize = 20;

/// The tool, for one place.
#[derive(Debug)]
pub(crate) struct Finder {
    spec: ToolSpec,
    shelf: Arc<Shelf>,
    site: Site,
}

/// A place that is kept.
#[derive(Debug)]
enum Site {
    Folder(String),
    Neuron(NeuronId),
}

impl Site {
    fn of(place: Place<'_>) -> Self {
        match place {
            Place::Folder(folder) => Self::Folder(folder.to_owned()),
            Place::Neuron(neuron) => Self::Neuron(neuron.clone()),
        }
    }

    fn place(&self) -> Place<'_> {
        match self {
            Self::Folder(folder) => Place::Folder(folder),
            Self::Neuron(neuron) => Place::Neuron(neuron),
        }
    }
}

impl Finder {
    /// Makes the tool for the servers that a place is offered.
    pub(crate) fn new(shelf: Arc<Shelf>, place: Place<'_>) -> Self {
        let servers = shelf.server_names(place);
        let mut shown = servers.iter().take(SERVERS_SHOWN_MAX).cloned().collect::<Vec<_>>();
        if servers.len() > SERVERS_SHOWN_MAX {
            shown.push("others".to_owned());
        }
        // The names as configured, connected or not: the prompt stays the same meanwhile.
        let description = format!(
            "Finds tools of the MCP servers ({}) and makes them callable from the next step on. \
             Say what you want to do in a few words, or a tool's name.",
            shown.join(", ")
        );
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description,
            input_schema: json!({
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": false,
            }),
        };
        Self { spec, shelf, site: Site::of(place) }
    }
}

#[async_trait]
impl Tool for Finder {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        _workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let query = query(input)?;
        Ok(CallFacts {
            effect: Effect::Read,
            summary: format!("find MCP tools: {}", cut(query, 200)),
            paths: Vec::new(),
            command: None,
        })
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        _facts: &CallFacts,
        _context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let query = query(input)?;
        let tools = self.shelf.offered(self.site.place());
        let specs: Vec<&ToolSpec> = tools.iter().map(|tool| tool.spec()).collect();
        let found = search(query, &specs);
        if found.is_empty() {
            let count = stdx::plural(specs.len() as u64, "tool");
            let text = format!("no tool fits {query:?} among {count}: try other words");
            return Ok(ToolOutcome::text(text));
        }
        let mut text = String::from("callable from the next step on:");
        for spec in &found {
            let line = spec.description.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!("\n- {}: {}", spec.name, cut(&line, DESCRIPTION_CHARS_MAX)));
        }
        let activates = found.iter().map(|spec| spec.name.clone()).collect();
        Ok(ToolOutcome { activates, ..ToolOutcome::text(text) })
    }
}

fn query(input: &Map<String, Value>) -> Result<&str, ToolError> {
    let query = input.get("query").and_then(Value::as_str).unwrap_or_default().trim();
    if query.is_empty() {
        return Err(ToolError::Invalid("query: say what you want to do".to_owned()));
    }
    if query.chars().count() > QUERY_CHARS_MAX {
        let reason = format!("query: at most {QUERY_CHARS_MAX} characters");
        return Err(ToolError::Invalid(reason));
    }
    Ok(query)
}

/// Returns the tools that fit best, best first. Where some have all words of the query, those that
/// have only some of them are left out.
fn search<'a>(query: &str, specs: &[&'a ToolSpec]) -> Vec<&'a ToolSpec> {
    let words = terms(query);
    let mut scored: Vec<(usize, usize, &ToolSpec)> = Vec::new();
    for spec in specs {
        if spec.name == query {
            return vec![spec];
        }
        let name = terms(&spec.name);
        let description = terms(&spec.description);
        let (mut hits, mut score) = (0, 0);
        for word in &words {
            let of = |terms: &[String]| {
                let whole = terms.iter().any(|term| term == word);
                let part = word.len() > 2 && terms.iter().any(|term| term.contains(word.as_str()));
                if whole { 3 } else { usize::from(part) }
            };
            let worth = of(&name) * 2 + of(&description);
            hits += usize::from(worth > 0);
            score += worth;
        }
        if hits > 0 {
            scored.push((hits, score, spec));
        }
    }
    if scored.iter().any(|(hits, _, _)| *hits == words.len()) {
        scored.retain(|(hits, _, _)| *hits == words.len());
    }
    // A stable sort: equals stay in the order in which they are offered.
    scored.sort_by_key(|(hits, score, _)| std::cmp::Reverse((*hits, *score)));
    scored.into_iter().take(FOUND_MAX).map(|(_, _, spec)| spec).collect()
}

/// Returns the words of a text in small letters; `createIssue` has two.
fn terms(text: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in text.chars() {
        let starts = !last.is_alphanumeric() || (last.is_lowercase() && c.is_uppercase());
        if c.is_alphanumeric() {
            if starts || terms.is_empty() {
                terms.push(String::new());
            }
            if let Some(term) = terms.last_mut() {
                term.extend(c.to_lowercase());
            }
        }
        last = c;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Vec<String> {
        let spec = |(name, description): (&str, &str)| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: json!({}),
        };
        let specs: Vec<ToolSpec> = [
            ("mcp__echo__echo_01", "Repeats its text; number 01 of echo"),
            ("mcp__echo__echo_03", "Repeats its text; number 03 of echo"),
            ("mcp__git-hub__createIssue", "Opens an issue in a repository"),
            ("mcp__git-hub__listIssues", "Lists the issues of a repository"),
        ]
        .map(spec)
        .into();
        let specs: Vec<&ToolSpec> = specs.iter().collect();
        search(query, &specs).into_iter().map(|spec| spec.name.clone()).collect()
    }

    #[test]
    fn all_words_beat_some_and_names_beat_descriptions() {
        for (query, expected) in [
            ("echo_03", vec!["mcp__echo__echo_03"]),
            ("mcp__echo__echo_01", vec!["mcp__echo__echo_01"]),
            ("create an issue", vec!["mcp__git-hub__createIssue"]),
            ("issue", vec!["mcp__git-hub__createIssue", "mcp__git-hub__listIssues"]),
            ("ISSUES", vec!["mcp__git-hub__listIssues"]),
            ("weather", vec![]),
            ("!?", vec![]),
        ] {
            assert_eq!(found(query), expected, "{query}");
        }
    }

    #[test]
    fn words_are_cut_where_a_reader_sees_them() {
        assert_eq!(terms("mcp__git-hub__createIssue2"), ["mcp", "git", "hub", "create", "issue2"]);
    }
}
