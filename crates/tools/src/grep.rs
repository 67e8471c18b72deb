//! `grep`: text in files, by a regular expression.

mod elsewhere;
mod report;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, EntryKind, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace,
};
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{arguments, place, walk};
use report::Report;

/// How many lines or files one call shows where the model sets no limit.
const RESULTS_DEFAULT: usize = 200;

/// The most that it may ask for; the limit of characters mostly comes first.
const RESULTS_MAX: usize = 2_000;

/// The most lines of context on each side.
const CONTEXT_MAX: usize = 20;

/// Memory for one file's search: a line, or a whole file when a match may span lines.
const HEAP_BYTES_MAX: usize = 64 << 20;

/// The compiled size of a pattern, so that a hostile one cannot take the memory.
const REGEX_BYTES_MAX: usize = 10 << 20;

/// The tool.
#[derive(Debug)]
pub(crate) struct Grep {
    spec: ToolSpec,
}

impl Default for Grep {
    fn default() -> Self {
        let spec = arguments::spec(
            "grep",
            "Searches file contents with a regular expression (Rust syntax: no lookaround, literal \
             braces as \\{). Honours .gitignore, skips binary files.",
            json!({
                "pattern": {"type": "string"},
                "path": {
                    "type": "string",
                    "description": "Folder or file; default: the working folder."
                },
                "glob": {
                    "type": "string",
                    "description": "Only files whose names match, e.g. *.rs"
                },
                "output": {
                    "type": "string",
                    "enum": ["lines", "files", "counts"],
                    "description": "Default: lines."
                },
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 20,
                    "description": "Lines around each match."
                },
                "case_insensitive": {"type": "boolean"},
                "multiline": {
                    "type": "boolean",
                    "description": "Lets a match span lines; . matches newlines."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 2000,
                    "description": "Matching lines or files; default 200."
                }
            }),
            &["pattern"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    pattern: &'a str,
    path: Option<&'a str>,
    glob: Option<&'a str>,
    output: Option<OutputKind>,
    context: Option<usize>,
    case_insensitive: Option<bool>,
    multiline: Option<bool>,
    limit: Option<usize>,
}

/// What a result lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputKind {
    #[default]
    Lines,
    Files,
    Counts,
}

#[async_trait]
impl Tool for Grep {
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
        let path = arguments.path.unwrap_or(".");
        let facts = place::facts_of(path, Access::Read, workspace).await?;
        let pattern = arguments.pattern;
        let summary = match facts.summary.as_str() {
            "." => pattern.to_owned(),
            folder => format!("{pattern} in {folder}"),
        };
        Ok(CallFacts { summary, ..facts })
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let place = place::judged(facts, 0)?;
        if place.stat.is_none() {
            return Err(place::missing(place, context).await);
        }
        let is_file = place.stat.is_some_and(|stat| stat.kind == EntryKind::File);
        let search = Search {
            root: place.real.clone(),
            is_file,
            cwd: context.workspace.cwd().to_owned(),
            glob: arguments.glob.map(walk::glob).transpose()?,
            matcher: matcher(&arguments)?,
            is_multiline: arguments.multiline == Some(true),
            context: arguments.context.unwrap_or(0).min(CONTEXT_MAX),
            kind: arguments.output.unwrap_or_default(),
            limit: arguments.limit.unwrap_or(RESULTS_DEFAULT).clamp(1, RESULTS_MAX),
            guard: walk::Guard::new(&context.host),
        };
        if !context.workspace.is_local() {
            return Ok(elsewhere::run(search, place, context).await?.outcome());
        }
        let cancel = context.cancel.clone();
        let report = walk::blocking(move || search.run(&cancel)).await?;
        Ok(report.outcome())
    }
}

fn matcher(arguments: &Arguments<'_>) -> Result<RegexMatcher, ToolError> {
    let is_multiline = arguments.multiline == Some(true);
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(arguments.case_insensitive == Some(true))
        .multi_line(true)
        .crlf(true)
        .size_limit(REGEX_BYTES_MAX)
        .dot_matches_new_line(is_multiline);
    // After `crlf`, which would name both characters: the searcher splits at newlines.
    builder.line_terminator((!is_multiline).then_some(b'\n'));
    builder.build(arguments.pattern).map_err(|error| {
        let pattern = arguments.pattern;
        let hint = if pattern.contains("\\n") && !is_multiline {
            "\nset multiline to let a match span lines"
        } else if pattern.contains(['{', '}']) {
            "\nwrite literal braces as \\{ and \\}"
        } else if pattern.contains("(?") {
            "\nlookaround and backreferences are not supported"
        } else {
            "\nescape literal characters such as ( ) [ ] * + ? with a backslash"
        };
        ToolError::Invalid(format!("the pattern cannot be read: {error}{hint}"))
    })
}

/// One search, ready to run on a thread of its own.
#[derive(Debug)]
struct Search {
    root: PathBuf,
    is_file: bool,
    cwd: PathBuf,
    glob: Option<GlobMatcher>,
    matcher: RegexMatcher,
    is_multiline: bool,
    context: usize,
    kind: OutputKind,
    limit: usize,
    guard: walk::Guard,
}

impl Search {
    fn run(&self, cancel: &CancellationToken) -> Report {
        let mut report = Report::new(self.kind, self.limit);
        let mut searcher = self.searcher();
        let mut walk = walk::builder(&self.root, &self.guard);
        walk.sort_by_file_path(Ord::cmp);
        for (visited, entry) in walk.build().enumerate() {
            if cancel.is_cancelled() {
                report.unseen.is_stopped = true;
                break;
            }
            if visited >= walk::VISITED_MAX {
                report.unseen.cut_at = Some(walk::VISITED_SHOWN);
                break;
            }
            let Ok(entry) = entry else {
                report.unseen.unreadable += 1;
                continue;
            };
            if !self.covers(entry.path(), entry.file_type().is_some_and(|kind| kind.is_file())) {
                continue;
            }
            if self.guard.hides(&entry) {
                report.unseen.hidden_files += 1;
                continue;
            }
            let search =
                |sink: &mut FileSink<'_>| searcher.search_path(&self.matcher, entry.path(), sink);
            self.search_file(entry.path(), &mut report, cancel, search);
            if report.is_full() {
                break;
            }
        }
        report.unseen.hidden_folders = self.guard.folders();
        report
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .multi_line(self.is_multiline)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(HEAP_BYTES_MAX))
            .binary_detection(BinaryDetection::quit(0))
            .build()
    }

    fn covers(&self, path: &Path, is_file: bool) -> bool {
        if self.is_file {
            return true;
        }
        let inner = path.strip_prefix(&self.root).unwrap_or(path);
        is_file && self.glob.as_ref().is_none_or(|glob| glob.is_match(inner))
    }

    fn search_file(
        &self,
        path: &Path,
        report: &mut Report,
        cancel: &CancellationToken,
        search: impl FnOnce(&mut FileSink<'_>) -> std::io::Result<()>,
    ) {
        let name = path.strip_prefix(&self.cwd).unwrap_or(path).display().to_string();
        report.begin_file(name);
        let mut sink = FileSink { report, cancel, is_binary: false };
        let searched = search(&mut sink);
        let is_binary = sink.is_binary;
        if searched.is_err() {
            report.unseen.unreadable += 1;
        }
        report.end_file(is_binary);
    }
}

/// Takes the matches of one file.
#[derive(Debug)]
struct FileSink<'a> {
    report: &'a mut Report,
    cancel: &'a CancellationToken,
    is_binary: bool,
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        for (number, line) in (found.line_number().unwrap_or(0)..).zip(found.lines()) {
            self.report.push_match(number, line);
        }
        Ok(self.report.wants_more() && !self.cancel.is_cancelled())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.report.push_context(line.line_number().unwrap_or(0), line.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.report.push_break();
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), Self::Error> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
