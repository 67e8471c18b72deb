//! `edit_file`: pieces of text replaced, all or none.

mod nearest;
mod replace;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, Located, Tool, ToolContext, ToolError, ToolHost, ToolOutcome, ToolSpec,
    Workspace, WorkspaceError,
};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::change::{self, FileChange};
use crate::limit::FILE_BYTES_MAX;
use crate::seen::{Check, LOOK_AHEAD};
use crate::text_file::{self, TextFile};
use crate::{arguments, place, seen};
use replace::Miss;

/// How many edits one call may have; each searches the whole file.
const EDITS_MAX: usize = 200;

/// The tool.
#[derive(Debug)]
pub(crate) struct EditFile {
    spec: ToolSpec,
}

impl Default for EditFile {
    fn default() -> Self {
        let spec = arguments::spec(
            "edit_file",
            "Replaces exact pieces of a file that was read before. All edits are applied in order, \
             or none. `old` must occur exactly once (add lines around it), or `all` replaces each; \
             leave out line numbers. One edit: also as `old_string`, `new_string`, `replace_all`.",
            json!({
                "path": {"type": "string"},
                "edits": {"type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "properties": {
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                        "all": {"type": "boolean"}
                    },
                    "required": ["old", "new"],
                    "additionalProperties": false
                }},
                "old_string": {"type": "string"},
                "new_string": {"type": "string"},
                "replace_all": {"type": "boolean"}
            }),
            &["path"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    path: &'a str,
    #[serde(borrow, default)]
    edits: Option<Vec<Edit<'a>>>,
    /// A single edit, as many models have learned to spell it.
    old_string: Option<&'a str>,
    new_string: Option<&'a str>,
    replace_all: Option<bool>,
}

impl<'a> Arguments<'a> {
    fn parse(input: &'a Map<String, Value>) -> Result<(&'a str, Vec<Edit<'a>>), ToolError> {
        let Self { path, edits, old_string, new_string, replace_all } = arguments::parse(input)?;
        let edits = match (edits, old_string, new_string) {
            (Some(edits), None, None) if replace_all.is_none() => edits,
            (None, Some(old), Some(new)) => vec![Edit { old, new, all: replace_all }],
            _ => {
                let right = "expected either edits, or old_string and new_string";
                return Err(ToolError::Invalid(right.to_owned()));
            }
        };
        match edits.len() {
            0 => Err(ToolError::Invalid("edits is empty: name at least one".to_owned())),
            1..=EDITS_MAX => Ok((path, edits)),
            count => Err(ToolError::Invalid(format!("{count} edits are more than {EDITS_MAX}"))),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    all: Option<bool>,
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Write
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let (path, _) = Arguments::parse(input)?;
        place::facts_of(path, Access::Write, workspace).await
    }

    fn refuses(&self, facts: &CallFacts, host: &dyn ToolHost) -> Option<String> {
        seen::unread(facts, host)
    }

    async fn preview(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        workspace: &dyn Workspace,
    ) -> Option<String> {
        let planned = Planned::make(input, facts, workspace, LOOK_AHEAD).await.ok()?;
        change::preview(&[planned.into_change()])
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let is_known = |file: &Located, bytes: &[u8]| seen::require_seen(context, file, bytes);
        let planned = Planned::make(input, facts, &*context.workspace, &is_known).await;
        let planned = match planned {
            Err(ToolError::Workspace(WorkspaceError::NotFound(_))) => {
                let error = place::missing(place::judged(facts, 0)?, context).await;
                return Err(ToolError::Invalid(format!("{error}; use write_file for a new file")));
            }
            planned => planned?,
        };
        let Planned { file, name, before, after, bytes } = &planned;
        let stamp = seen::stamp(&file.real, bytes);
        if before.text == *after {
            let text = format!("the edits cancel each other out; {name} is unchanged");
            return Ok(ToolOutcome { files: vec![stamp], ..ToolOutcome::text(text) });
        }
        context.workspace.write(file, bytes).await?;
        let lines = change::changed_lines(&before.text, after);
        let text = format!("edited {name}: {lines}");
        Ok(ToolOutcome {
            display: Some(change::display(&[planned.into_change()])),
            files: vec![stamp],
            ..ToolOutcome::text(text)
        })
    }
}

/// What a call does to the file as it is.
#[derive(Debug)]
struct Planned<'a> {
    file: &'a Located,
    name: String,
    before: TextFile,
    after: String,
    /// `after` as it will lie in the file.
    bytes: Vec<u8>,
}

impl<'a> Planned<'a> {
    /// Works a call out; changes nothing. `check` sees the file before anything else is said of
    /// it, and may refuse.
    async fn make(
        input: &Map<String, Value>,
        facts: &'a CallFacts,
        workspace: &dyn Workspace,
        check: Check<'_>,
    ) -> Result<Self, ToolError> {
        let (_, edits) = Arguments::parse(input)?;
        let file = place::judged(facts, 0)?;
        let name = place::shown(workspace, &file.real);
        let found = workspace.read(file, FILE_BYTES_MAX).await?.bytes;
        check(file, &found)?;
        let before = text_file::decode(found)
            .map_err(|kind| ToolError::Invalid(format!("{name} is not a text: {kind}")))?;
        let after = apply(&before.text, &edits).map_err(|(number, miss)| {
            let count = edits.len();
            let which =
                if count == 1 { String::new() } else { format!("edit {number} of {count}: ") };
            ToolError::Invalid(format!("{which}{}\nnothing was changed in {name}", miss.text))
        })?;
        let bytes = before.encoding.encode(&after);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let limit = stdx::bytes(FILE_BYTES_MAX);
            return Err(ToolError::Invalid(format!("{name} would grow beyond {limit}")));
        }
        Ok(Self { file, name, before, after, bytes })
    }

    fn into_change(self) -> FileChange {
        let after = TextFile { text: self.after, encoding: self.before.encoding };
        let (old, new) = (Some(self.before.readable()), Some(after.readable()));
        FileChange { name: self.name, old, new }
    }
}

/// Applies edits one after the other; the number of the edit that fails comes with its miss.
fn apply(text: &str, edits: &[Edit<'_>]) -> Result<String, (usize, Miss)> {
    let mut text = text.to_owned();
    for (index, edit) in edits.iter().enumerate() {
        text = replace::replace(&text, *edit).map_err(|miss| (index + 1, miss))?;
    }
    Ok(text)
}
