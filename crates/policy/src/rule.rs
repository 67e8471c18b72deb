//! Rules: `tool` or `tool(pattern)`.

use std::fmt;
use std::str::FromStr;

use crate::place::Place;
use crate::tool_name::{self, FileTools, UnknownTool, canonical};
use crate::wildcard::Wildcard;

/// The longest rule, in bytes. People read rules in questions, and no sensible one is longer.
const RULE_BYTES_MAX: usize = 1000;

/// A permission rule.
///
/// Aliases of tools are replaced and white space in shell patterns is collapsed when a rule is
/// read, so that equal rules are equal and [`Display`](fmt::Display) writes what is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    tool: String,
    pattern: Pattern,
    /// The text between the brackets; `None` for a bare name.
    text: Option<String>,
}

/// What a rule's pattern says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Every use of the tool.
    Any,
    /// Commands.
    Shell(ShellPattern),
    /// Files.
    Place(Place),
    /// A host and the hosts beneath it.
    Domain(Domain),
}

/// A host and the hosts beneath it, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain(String);

impl Domain {
    /// Tells whether a host is the domain or lies beneath it.
    pub(crate) fn covers(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let rest = host.strip_suffix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

/// A pattern over one simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellPattern {
    whole: Wildcard,
    /// `npm test` for `npm test *`.
    bare: Option<Wildcard>,
}

impl ShellPattern {
    fn new(text: &str) -> Self {
        Self { whole: Wildcard::new(text), bare: text.strip_suffix(" *").map(Wildcard::new) }
    }

    /// Tells whether a command, with its white space collapsed, fits.
    pub(crate) fn matches(&self, command: &str) -> bool {
        let command = command.as_bytes();
        self.whole.matches(command) || self.bare.as_ref().is_some_and(|it| it.matches(command))
    }
}

/// What is wrong with the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule '{rule}': {what}")]
pub struct RuleError {
    /// The text, cut when it is long.
    pub rule: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl Rule {
    /// Returns the native name of the tool, `*` for every tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the pattern as it is written, if there is one.
    #[must_use]
    pub fn pattern_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Says that no tool has the rule's name, so that a misspelt rule is told and not silently
    /// without effect. Names of MCP servers and their tools count as known.
    #[must_use]
    pub fn unknown_tool(&self) -> Option<UnknownTool> {
        tool_name::unknown(&self.tool)
    }

    /// Returns the pattern.
    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Reads a list of rules.
    ///
    /// # Errors
    /// The first rule that cannot be read.
    pub fn parse_all<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Rule>, RuleError> {
        texts.iter().map(|text| text.as_ref().parse()).collect()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{}({text})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let fail = |what: String| RuleError { rule: text.chars().take(80).collect(), what };
        if text.is_empty() {
            return Err(fail("is empty; expected for example run_shell(npm test *)".into()));
        }
        if text.len() > RULE_BYTES_MAX {
            let length = text.len();
            return Err(fail(format!(
                "has {length} bytes, more than the {RULE_BYTES_MAX} allowed"
            )));
        }
        let Some((name, rest)) = text.split_once('(') else {
            let tool = tool(text).map_err(fail)?;
            return Ok(Rule { tool, pattern: Pattern::Any, text: None });
        };
        let Some(inner) = rest.strip_suffix(')') else {
            return Err(fail("the bracket after the tool name is not closed at the end".into()));
        };
        let tool = tool(name).map_err(fail)?;
        let (pattern, inner) = pattern(&tool, inner).map_err(fail)?;
        Ok(Rule { tool, pattern, text: Some(inner) })
    }
}

/// Reads a tool name.
fn tool(name: &str) -> Result<String, String> {
    if name == "*" {
        return Ok("*".into());
    }
    if name.is_empty() {
        return Err("the tool name before the bracket is missing".into());
    }
    // The names of MCP servers and their tools are the servers' own.
    if let Some(rest) = name.strip_prefix("mcp__") {
        let server = rest.split("__").next().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if server.is_empty() || !rest.chars().all(fits) || rest.ends_with("__") {
            return Err(format!("'{name}' is no mcp__server or mcp__server__tool"));
        }
        return Ok(name.into());
    }
    if name.chars().any(|c| c.is_ascii_uppercase()) {
        let lower = name.to_ascii_lowercase();
        return Err(format!("tool names are lower-case; did you mean '{}'", canonical(&lower)));
    }
    let wrong = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '_'));
    if let Some(wrong) = wrong {
        return Err(format!("the tool name '{name}' must not contain '{wrong}'"));
    }
    Ok(canonical(name).into())
}

/// Reads the text between the brackets, and returns it as it is kept.
fn pattern(tool: &str, text: &str) -> Result<(Pattern, String), String> {
    // Other blanks of Unicode are parts of names and words.
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() {
        return Err("the brackets are empty; leave them out to mean every use".into());
    }
    if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return Err("the pattern contains a control character".into());
    }
    match tool {
        "run_shell" => {
            let text = collapse(text);
            let pattern = match text.as_str() {
                "*" => Pattern::Any,
                other => Pattern::Shell(ShellPattern::new(other)),
            };
            Ok((pattern, text))
        }
        "web_fetch" => {
            let Some(domain) = text.strip_prefix("domain:") else {
                return Err("a pattern of web_fetch is domain:HOST".into());
            };
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            if domain.is_empty() || !domain.chars().all(fits) || domain.starts_with('.') {
                return Err(format!(
                    "'{domain}' is no host name; the hosts beneath one are covered without a star"
                ));
            }
            let domain = domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase();
            Ok((Pattern::Domain(Domain(domain)), text.to_ascii_lowercase()))
        }
        name if FileTools::of(name).is_some() => {
            Ok((Pattern::Place(Place::new(text)?), text.to_owned()))
        }
        _ if text == "*" => Ok((Pattern::Any, text.to_owned())),
        name => Err(match tool_name::unknown(name) {
            Some(unknown) => unknown.to_string(),
            None => format!("'{name}' takes no pattern; write '{name}' alone"),
        }),
    }
}

/// Replaces each run of white space by one space and trims the ends.
///
/// White space is what separates words for a shell. Other blanks of Unicode are parts of words
/// there, and must not make a strange program look like a well-known one with an argument.
pub(crate) fn collapse(text: &str) -> String {
    let words = text.split([' ', '\t', '\n']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
