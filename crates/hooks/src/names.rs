//! The names by which existing hooks know tools, and what a call looks like under them.
//!
//! Hook scripts that people have already test for `Bash` and read `tool_input.file_path`. A
//! matcher with such a name gets the call in those words; what can fit no such name gets it in
//! the native ones.

#[cfg(test)]
mod tests;

use driver_api::HookedCall;
use serde_json::{Map, Value, json};

use crate::matcher::Matcher;

/// How many files of one patch a hook is told of, one after the other: a process each.
const FILES_MAX: usize = 32;

/// What is known of a tool under other names.
#[derive(Debug)]
struct Known {
    native: &'static str,
    /// Native aliases: a matcher that fits one fits the tool, which keeps its native words.
    aliases: &'static [&'static str],
    /// The names that existing hooks use, the most usual first.
    common: &'static [&'static str],
    /// Arguments that are called otherwise there: ours, theirs.
    renamed: &'static [(&'static str, &'static str)],
}

const PLAIN: Known = Known { native: "", aliases: &[], common: &[], renamed: &[] };
const OF_A_FILE: Known = Known { renamed: &[("path", "file_path")], ..PLAIN };
const OF_A_SHELL: Known = Known { renamed: &[("shell_id", "bash_id")], ..PLAIN };

const KNOWN: [Known; 16] = [
    Known {
        native: "run_shell",
        aliases: &["bash", "execute"],
        common: &["Bash"],
        renamed: &[("timeout_ms", "timeout"), ("background", "run_in_background")],
    },
    Known { native: "read_file", common: &["Read"], ..OF_A_FILE },
    Known { native: "write_file", common: &["Write"], ..OF_A_FILE },
    Known { native: "edit_file", common: &["Edit", "MultiEdit"], ..PLAIN },
    // Whoever watches edits watches patches too.
    Known { native: "apply_patch", common: &["Edit", "MultiEdit", "Write"], ..PLAIN },
    Known { native: "glob", common: &["Glob"], ..PLAIN },
    Known {
        native: "grep",
        aliases: &[],
        common: &["Grep"],
        renamed: &[
            ("output", "output_mode"),
            ("context", "-C"),
            ("case_insensitive", "-i"),
            ("limit", "head_limit"),
        ],
    },
    Known { native: "list_dir", common: &["LS"], ..PLAIN },
    Known { native: "web_fetch", common: &["WebFetch"], ..PLAIN },
    Known { native: "web_search", common: &["WebSearch"], ..PLAIN },
    Known {
        native: "delegate",
        aliases: &["task"],
        common: &["Task", "Agent"],
        renamed: &[
            ("task", "prompt"),
            ("agent", "subagent_type"),
            ("background", "run_in_background"),
        ],
    },
    Known { native: "todos", aliases: &["todo_write"], common: &["TodoWrite"], renamed: &[] },
    Known {
        native: "ask_question",
        aliases: &[],
        common: &["AskUserQuestion"],
        renamed: &[("multi_select", "multiSelect")],
    },
    Known { native: "exit_plan", common: &["ExitPlanMode"], ..PLAIN },
    Known { native: "shell_output", common: &["BashOutput"], ..OF_A_SHELL },
    Known { native: "shell_kill", common: &["KillShell", "KillBash"], ..PLAIN },
];

/// What a search shows, in our words and in theirs.
const GREP_OUTPUTS: [(&str, &str); 3] =
    [("files", "files_with_matches"), ("lines", "content"), ("counts", "count")];

/// A call in the words in which a hook is told of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// The name of the tool.
    pub(crate) tool: String,
    /// The arguments.
    pub(crate) input: Map<String, Value>,
    /// Whether these are the native words.
    pub(crate) is_native: bool,
}

/// Tells whether a matcher fits a tool, by whatever name.
pub(crate) fn fits(matcher: &Matcher, native: &str) -> bool {
    matcher.fits(native)
        || known(native).is_some_and(|known| {
            known.aliases.iter().chain(known.common).any(|name| matcher.fits(name))
        })
}

/// Tells whether a matcher fits any tool that exists. One that does not is misspelt, or waits
/// for a tool of an MCP server.
pub(crate) fn fits_any(matcher: &Matcher, text: &str) -> bool {
    text.contains("mcp") || KNOWN.iter().any(|known| fits(matcher, known.native))
}

/// Returns the call as a hook with this matcher is told of it: once, or once for each file of a
/// patch; nothing when the matcher does not fit.
///
/// # Errors
/// A patch of more than [`FILES_MAX`] files.
pub(crate) fn views(matcher: &Matcher, call: &HookedCall) -> Result<Vec<View>, String> {
    let common: Vec<&str> = known(&call.tool)
        .map(|known| known.common.iter().copied().filter(|name| matcher.fits(name)).collect())
        .unwrap_or_default();
    let Some(first) = common.first().copied() else {
        if !fits(matcher, &call.tool) {
            return Ok(Vec::new());
        }
        let (tool, input) = (call.tool.clone(), call.input.clone());
        return Ok(vec![View { tool, input, is_native: true }]);
    };
    match call.tool.as_str() {
        "apply_patch" => patch(first, call),
        "edit_file" => {
            let is_single = edits(&call.input).len() == 1;
            let wanted = if is_single { "Edit" } else { "MultiEdit" };
            let name = if common.contains(&wanted) { wanted } else { first };
            Ok(vec![view(name, edit(name, call))])
        }
        _ => Ok(vec![view(first, renamed(call))]),
    }
}

/// Returns what a tool's argument is called where existing hooks read it.
pub(crate) fn argument_of(native: &str, theirs: &str) -> Option<&'static str> {
    let renamed = known(native)?.renamed;
    renamed.iter().find_map(|(ours, other)| (*other == theirs).then_some(*ours))
}

/// Translates the value of a search's output, back into our words.
pub(crate) fn grep_output(theirs: &Value) -> Value {
    let found = GREP_OUTPUTS.into_iter().find(|(_, other)| *theirs == *other);
    found.map_or_else(|| theirs.clone(), |(ours, _)| Value::from(ours))
}

fn known(native: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.native == native)
}

fn view(name: &str, input: Map<String, Value>) -> View {
    View { tool: name.to_owned(), input, is_native: false }
}

/// The file that a call is about: where it really lies, so that no link hides it.
fn file(call: &HookedCall) -> Value {
    match call.paths.as_slice() {
        [path] => Value::from(path.as_str()),
        _ => call.input.get("path").cloned().unwrap_or_default(),
    }
}

fn renamed(call: &HookedCall) -> Map<String, Value> {
    let names = known(&call.tool).map_or(&[] as &[_], |known| known.renamed);
    let mut input = Map::new();
    for (key, value) in &call.input {
        let name = names.iter().find_map(|(ours, theirs)| (ours == key).then_some(*theirs));
        let value = match (call.tool.as_str(), name) {
            (_, Some("file_path")) => file(call),
            ("grep", Some("output_mode")) => {
                let found = GREP_OUTPUTS.into_iter().find(|(ours, _)| *value == *ours);
                found.map_or_else(|| value.clone(), |(_, theirs)| Value::from(theirs))
            }
            _ => value.clone(),
        };
        input.insert(name.unwrap_or(key).to_owned(), value);
    }
    if call.tool == "ask_question" {
        return Map::from_iter([("questions".to_owned(), json!([input]))]);
    }
    input
}

fn edits(input: &Map<String, Value>) -> &[Value] {
    input.get("edits").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An edit as the tool for one piece or for several has it. The one for one piece gets several as
/// one text as well, so that a hook that looks for something there finds it.
fn edit(name: &str, call: &HookedCall) -> Map<String, Value> {
    let edits = edits(&call.input);
    let mut input = Map::from_iter([("file_path".to_owned(), file(call))]);
    if name == "Edit" {
        let joined = |key: &str| {
            let pieces = edits.iter().filter_map(|edit| edit.get(key)?.as_str());
            Value::from(pieces.collect::<Vec<_>>().join("\n"))
        };
        input.insert("old_string".to_owned(), joined("old"));
        input.insert("new_string".to_owned(), joined("new"));
        let is_all = |edit: &Value| edit.get("all").and_then(Value::as_bool) == Some(true);
        input.insert("replace_all".to_owned(), edits.iter().any(is_all).into());
    }
    if name == "MultiEdit" || edits.len() > 1 {
        let theirs = |edit: &Value| {
            json!({
                "old_string": edit.get("old"),
                "new_string": edit.get("new"),
                "replace_all": edit.get("all").and_then(Value::as_bool).unwrap_or_default(),
            })
        };
        input.insert("edits".to_owned(), edits.iter().map(theirs).collect());
    }
    input
}

/// A patch, once for each file that it touches: a hook knows one file per call.
fn patch(name: &str, call: &HookedCall) -> Result<Vec<View>, String> {
    if call.paths.len() > FILES_MAX {
        let count = call.paths.len();
        return Err(format!("a patch of {count} files is more than hooks are told of"));
    }
    let text = call.input.get("patch").cloned().unwrap_or_default();
    let arguments = |path: &str| {
        let input = match name {
            "Write" => json!({"file_path": path, "content": text}),
            "MultiEdit" => json!({
                "file_path": path,
                "edits": [{"old_string": "", "new_string": text, "replace_all": false}],
            }),
            _ => json!({
                "file_path": path, "old_string": "", "new_string": text, "replace_all": false,
            }),
        };
        if let Value::Object(map) = input { map } else { Map::new() }
    };
    if call.paths.is_empty() {
        return Ok(vec![view(name, arguments(""))]);
    }
    Ok(call.paths.iter().map(|path| view(name, arguments(path))).collect())
}
