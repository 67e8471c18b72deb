//! `read_file`: a text with line numbers, or an image.

use std::fmt::Write as _;

use async_trait::async_trait;
use base64::Engine as _;
use driver_api::{
    Access, CallFacts, EntryKind, Fault, Located, Tool, ToolContext, ToolError, ToolOutcome,
    ToolSpec, Workspace, WorkspaceError,
};
use protocol::Effect;
use protocol::event::Display;
use protocol::{Block, Image};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::limit::{FILE_BYTES_MAX, OUTPUT_CHARS_MAX, grouped, head};
use crate::text_file::{self, TextFile};
use crate::{arguments, file_kind, place, seen};

/// Lines of one call where the model sets no limit.
const LINES_DEFAULT: usize = 2_000;

/// Characters of one line; longer ones are mostly generated and are cut.
const LINE_CHARS_MAX: usize = 2_000;

/// The largest image: what providers take.
const IMAGE_BYTES_MAX: usize = 5 << 20;

/// Room for the notes at the end of a result.
const NOTES_CHARS_MAX: usize = 400;

/// The tool.
#[derive(Debug)]
pub(crate) struct ReadFile {
    spec: ToolSpec,
}

impl Default for ReadFile {
    fn default() -> Self {
        let spec = arguments::spec(
            "read_file",
            "Reads a text file (with line numbers) or an image (png, jpeg, gif, webp). Long \
             files come in parts; the result says how to read on.",
            json!({
                "path": {
                    "type": "string",
                    "description": "Relative to the working folder, or absolute."
                },
                "offset": {"type": "integer", "minimum": 1, "description": "First line, from 1."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Lines to read; default 2000."
                }
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
    offset: Option<usize>,
    limit: Option<usize>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        place::facts_of(arguments.path, Access::Read, workspace).await
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let file = place::judged(facts, 0)?;
        let name = place::shown(&*context.workspace, &file.real);
        let bytes = read(file, &name, context).await?;
        let stamp = seen::stamp(&file.real, &bytes);
        if let Some(mime_type) = file_kind::image(&bytes) {
            return Ok(ToolOutcome { files: vec![stamp], ..image(mime_type, &bytes, context) });
        }
        if file_kind::is_pdf(&bytes) {
            return Err(ToolError::Invalid(format!(
                "{name} is a PDF, which cannot be shown here; run_shell with `pdftotext {name} -` \
                 prints its text where poppler is installed"
            )));
        }
        let size = bytes.len() as u64;
        let text = text_file::decode(bytes).map_err(|kind| {
            let size = stdx::bytes(size);
            ToolError::Invalid(format!("{name} is not a text: {kind}, {size}"))
        })?;
        let outcome = text_outcome(text, arguments.offset, arguments.limit)?;
        Ok(ToolOutcome { files: vec![stamp], ..outcome })
    }
}

async fn read(file: &Located, name: &str, context: &ToolContext) -> Result<Vec<u8>, ToolError> {
    if file.stat.is_some_and(|stat| stat.kind == EntryKind::Folder) {
        return Err(ToolError::Invalid(format!("{name} is a folder; use list_dir")));
    }
    if let Some(bytes) = lent(file, context).await? {
        return Ok(bytes);
    }
    match context.workspace.read(file, FILE_BYTES_MAX).await {
        Ok(contents) => Ok(contents.bytes),
        Err(WorkspaceError::NotFound(_)) => Err(place::missing(file, context).await),
        Err(WorkspaceError::TooLarge { size, .. }) => {
            let (size, limit) = (stdx::bytes(size), stdx::bytes(FILE_BYTES_MAX));
            Err(ToolError::Invalid(format!(
                "{name} has {size}, more than read_file takes ({limit}); use grep, or run_shell \
                 with sed -n '1,200p'"
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a long output of this session's, which lies on this machine though the workspace does not.
/// None for any other file.
async fn lent(file: &Located, context: &ToolContext) -> Result<Option<Vec<u8>>, ToolError> {
    let is_output = file.real.parent() == Some(&context.spill_dir);
    if context.workspace.is_local() || !is_output {
        return Ok(None);
    }
    let path = file.real.clone();
    let read = tokio::task::spawn_blocking(move || {
        let is_file = path.symlink_metadata()?.is_file();
        if is_file { std::fs::read(path).map(Some) } else { Ok(None) }
    });
    match read.await.map_err(|error| Fault::with("read a long output", error))? {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(bytes.map_err(|error| Fault::with("read a long output", error))?),
    }
}

fn image(mime_type: &str, bytes: &[u8], context: &ToolContext) -> ToolOutcome {
    let size = stdx::bytes(bytes.len() as u64);
    if !context.images {
        return ToolOutcome::error(format!(
            "this is an image ({mime_type}, {size}), and the model in use does not read images"
        ));
    }
    if bytes.len() > IMAGE_BYTES_MAX {
        let limit = stdx::bytes(IMAGE_BYTES_MAX as u64);
        return ToolOutcome::error(format!(
            "this image ({mime_type}, {size}) is larger than models take ({limit}); make it \
             smaller first"
        ));
    }
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    ToolOutcome {
        content: vec![Block::Image(Image { mime_type: mime_type.to_owned(), data })],
        display: Some(Display::Note { text: format!("{mime_type}, {size}") }),
        ..ToolOutcome::default()
    }
}

fn text_outcome(
    file: TextFile,
    offset: Option<usize>,
    limit: Option<usize>,
) -> Result<ToolOutcome, ToolError> {
    let note = file.encoding.note();
    let text = file.readable();
    let total = text.lines().count();
    let first = offset.unwrap_or(1).max(1);
    if total == 0 {
        return Ok(ToolOutcome::text("(the file is empty)"));
    }
    if first > total {
        let total = stdx::plural(total as u64, "line");
        return Err(ToolError::Invalid(format!(
            "offset {first} is past the end: the file has {total}"
        )));
    }
    let limit = limit.unwrap_or(LINES_DEFAULT);
    let (mut shown, mut chars, mut count) = (String::new(), 0, 0);
    for (number, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        let mut row = format!("{:>6}\t", number + 1);
        push_line(&mut row, line);
        let row_chars = row.chars().count();
        // At least one line always fits: a row is far shorter than the limit.
        if chars + row_chars > OUTPUT_CHARS_MAX - NOTES_CHARS_MAX {
            break;
        }
        chars += row_chars;
        count += 1;
        shown.push_str(&row);
    }
    let last = first + count - 1;
    let truncated = first > 1 || last < total;
    // Writing to a String cannot fail.
    if last < total {
        let next = last + 1;
        let _ = writeln!(shown, "(lines {first}-{last} of {total}; read on with offset={next})");
    }
    if let Some(note) = note {
        let _ = writeln!(shown, "({note})");
    }
    let lines = stdx::plural(count as u64, "line");
    Ok(ToolOutcome {
        truncated,
        display: Some(Display::Note { text: lines }),
        ..ToolOutcome::text(shown)
    })
}

fn push_line(row: &mut String, line: &str) {
    let kept = head(line, LINE_CHARS_MAX);
    row.push_str(kept);
    if let Some(rest) = line.get(kept.len()..)
        && !rest.is_empty()
    {
        let count = grouped(rest.chars().count() as u64);
        row.push_str(&format!(" … [{count} more characters in this line]"));
    }
    row.push('\n');
}
