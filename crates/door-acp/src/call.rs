//! What a tool call looks like in an editor.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    Content, ContentBlock, Diff, ImageContent, ToolCallContent, ToolCallLocation, ToolKind,
};
use protocol::event::Display;
use protocol::{Block, Effect, Target};
use serde_json::{Map, Value};

use crate::unified::{self, Hunk};

/// Characters of a title: one line of an editor's panel.
const TITLE_CHARS_MAX: usize = 200;

/// Sorts a tool among the kinds that editors know.
pub(crate) fn kind_of(tool: &str, effect: Effect) -> ToolKind {
    match tool {
        "read_file" => ToolKind::Read,
        "list_dir" | "glob" | "grep" => ToolKind::Search,
        "write_file" | "edit_file" | "apply_patch" => ToolKind::Edit,
        "run_shell" | "elevated" | "process_start" => ToolKind::Execute,
        "web_fetch" | "web_search" => ToolKind::Fetch,
        "ask_question" => ToolKind::Think,
        "exit_plan" => ToolKind::SwitchMode,
        _ => match effect {
            Effect::Read => ToolKind::Read,
            Effect::Write => ToolKind::Edit,
            Effect::Execute => ToolKind::Execute,
            Effect::Network => ToolKind::Fetch,
            Effect::Interact | Effect::Destructive => ToolKind::Other,
        },
    }
}

/// Returns one line about a call.
pub(crate) fn title(tool: &str, target: &Target) -> String {
    let summary = one_line(&target.summary);
    match tool {
        _ if summary.is_empty() => tool.to_owned(),
        "run_shell" => summary,
        "exit_plan" => "Plan".to_owned(),
        "ask_question" => summary,
        _ => format!("{tool} {summary}"),
    }
}

/// Returns the first line of a text, cut where it is long.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let is_more = line.len() < text.trim().len();
    let cut: String = line.chars().take(TITLE_CHARS_MAX).collect();
    let is_cut = cut.len() < line.len() || is_more;
    if is_cut { format!("{cut}…") } else { cut }
}

/// Returns the places that a call is about.
pub(crate) fn locations(
    tool: &str,
    target: &Target,
    input: &Map<String, Value>,
    cwd: &Path,
) -> Vec<ToolCallLocation> {
    let offset = input.get("offset").and_then(Value::as_u64).filter(|_| tool == "read_file");
    let line = offset.and_then(|line| u32::try_from(line).ok());
    target.paths.iter().map(|path| ToolCallLocation::new(cwd.join(path)).line(line)).collect()
}

/// Returns the places of a diff, and its changes for an editor to draw.
pub(crate) fn changes(diff: &str, cwd: &Path) -> (Vec<ToolCallLocation>, Vec<ToolCallContent>) {
    let hunks = unified::hunks(diff, cwd);
    let mut places: Vec<(PathBuf, Option<u32>)> = Vec::new();
    for hunk in &hunks {
        if !places.iter().any(|(path, _)| *path == hunk.path) {
            places.push((hunk.path.clone(), hunk.line));
        }
    }
    let locations =
        places.into_iter().map(|(path, line)| ToolCallLocation::new(path).line(line)).collect();
    let content = hunks.into_iter().map(|Hunk { path, old, new, .. }| {
        ToolCallContent::Diff(Diff::new(path, new).old_text(old))
    });
    (locations, content.collect())
}

/// Returns what a call brought, for people.
pub(crate) fn output(
    tool: &str,
    output: &[Block],
    display: Option<&Display>,
    cwd: &Path,
) -> (Vec<ToolCallLocation>, Vec<ToolCallContent>) {
    if let Some(Display::Diff { diff, .. }) = display {
        let (locations, content) = changes(diff, cwd);
        if !content.is_empty() {
            return (locations, content);
        }
    }
    let is_plain = matches!(tool, "ask_question" | "exit_plan") || tool.contains("__");
    let content = output.iter().filter_map(|block| match block {
        Block::Text { text, .. } if text.trim().is_empty() => None,
        Block::Text { text, .. } if is_plain => Some(words(text.clone())),
        Block::Text { text, .. } => Some(words(fenced(text))),
        Block::Image(image) => Some(picture(&image.data, &image.mime_type)),
        _ => None,
    });
    (Vec::new(), content.collect())
}

/// Makes a piece of text.
pub(crate) fn words(text: impl Into<String>) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::from(text.into())))
}

fn picture(data: &str, mime_type: &str) -> ToolCallContent {
    let image = ImageContent::new(data.to_owned(), mime_type.to_owned());
    ToolCallContent::Content(Content::new(ContentBlock::Image(image)))
}

/// Puts text that is no Markdown between fences that it does not hold itself.
pub(crate) fn fenced(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for letter in text.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target(summary: &str, paths: &[&str]) -> Target {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Target { summary: summary.to_owned(), effect: Effect::Read, paths }
    }

    #[test]
    fn titles_are_one_line() {
        assert_eq!(title("run_shell", &target("npm test", &[])), "npm test");
        assert_eq!(title("run_shell", &target("a\nb", &[])), "a…");
        assert_eq!(title("read_file", &target("a.txt", &[])), "read_file a.txt");
        assert_eq!(title("mcp__x__y", &target("", &[])), "mcp__x__y");
        assert_eq!(one_line(&"ä".repeat(500)).chars().count(), TITLE_CHARS_MAX + 1);
    }

    #[test]
    fn kinds_follow_the_tool_and_else_its_effect() {
        assert_eq!(kind_of("edit_file", Effect::Write), ToolKind::Edit);
        assert_eq!(kind_of("mcp__x__y", Effect::Network), ToolKind::Fetch);
        assert_eq!(kind_of("mcp__x__y", Effect::Destructive), ToolKind::Other);
    }

    #[test]
    fn a_read_file_tells_its_line() {
        let input = json!({"path": "a", "offset": 7}).as_object().unwrap().clone();
        let places = locations("read_file", &target("a", &["/w/a"]), &input, Path::new("/w"));
        assert_eq!((places[0].path.to_str(), places[0].line), (Some("/w/a"), Some(7)));
    }

    #[test]
    fn a_diff_is_shown_in_place_of_words() {
        let display = Display::Diff {
            diff: "--- a/a\n+++ b/a\n@@ -3 +3 @@\n-x\n+y\n".to_owned(),
            added: 1,
            removed: 1,
        };
        let (places, content) =
            output("edit_file", &[Block::text("done")], Some(&display), Path::new("/w"));
        assert_eq!(places[0].line, Some(3));
        let ToolCallContent::Diff(diff) = &content[0] else { panic!("{content:?}") };
        assert_eq!((diff.old_text.as_deref(), diff.new_text.as_str()), (Some("x\n"), "y\n"));
    }

    #[test]
    fn fences_hold_whatever_is_inside() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced("a ``` b\n"), "````\na ``` b\n````");
    }
}
