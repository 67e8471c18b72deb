//! Tool names as rules and calls spell them.

use std::fmt;

/// The native tools, those of later parts of the program too: a rule may be written before the
/// tool is there.
const NATIVE: [&str; 25] = [
    "read_file",
    "list_dir",
    "glob",
    "grep",
    "write_file",
    "edit_file",
    "apply_patch",
    "run_shell",
    "shell_output",
    "shell_kill",
    "web_fetch",
    "web_search",
    "delegate",
    "todos",
    "ask_question",
    "exit_plan",
    "compact_history",
    "connect",
    "workflow",
    "mcp_find_tools",
    "process_start",
    "process_list",
    "process_output",
    "process_kill",
    "elevated",
];

/// Tools that run a command line as `run_shell` does: what a rule says of `run_shell` holds for
/// them.
const COMMANDS: [&str; 2] = ["process_start", "elevated"];

/// The tool whose every call is asked for.
const ELEVATED: &str = "elevated";

/// Other names of native tools, which rules and calls may use.
const ALIASES: [(&str, &str); 7] = [
    ("task", "delegate"),
    ("todo_write", "todos"),
    ("bash", "run_shell"),
    ("execute", "run_shell"),
    ("read", "read_file"),
    ("write", "write_file"),
    ("edit", "edit_file"),
];

/// Names under which people may know a tool. A rule does not hold by them; they only say what was
/// meant.
const MEANT: [(&str, &str); 9] = [
    ("ls", "list_dir"),
    ("find", "glob"),
    ("shell", "run_shell"),
    ("fetch", "web_fetch"),
    ("search", "web_search"),
    ("fs_read", "read_file"),
    ("fs_write", "write_file"),
    ("fs_list", "list_dir"),
    ("fs_search", "grep"),
];

/// How alike a name has to be to be offered: half of its letters may differ.
const LIKENESS_MIN: f64 = 0.5;

/// Returns the native name of a tool: an alias is replaced, any other name is returned as it is.
///
/// `task` is `delegate`, `todo_write` is `todos`, `bash` and `execute` are `run_shell`, and `read`,
/// `write` and `edit` are `read_file`, `write_file` and `edit_file`.
#[must_use]
pub fn canonical(name: &str) -> &str {
    ALIASES
        .into_iter()
        .find_map(|(alias, native)| (alias == name).then_some(native))
        .unwrap_or(name)
}

/// A rule's tool name that no tool has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTool {
    /// The name.
    pub name: String,
    /// The native name that may have been meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no tool is named '{}'", self.name)?;
        self.nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean '{nearest}'?"))
    }
}

/// Looks a rule's tool name up; `None` for one that exists. Names of MCP tools and their servers
/// are the servers' own.
pub(crate) fn unknown(name: &str) -> Option<UnknownTool> {
    if name == "*" || name.starts_with("mcp__") || NATIVE.contains(&canonical(name)) {
        return None;
    }
    let meant = MEANT.into_iter().find_map(|(other, native)| (other == name).then_some(native));
    Some(UnknownTool { name: name.to_owned(), nearest: meant.or_else(|| nearest(name, &NATIVE)) })
}

/// Returns the name that is most like a misspelt one, where any is alike.
#[must_use]
pub fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKENESS_MIN).then_some(best)
}

/// The tools whose calls are about files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileTools {
    /// They look.
    Read,
    /// They change.
    Write,
}

impl FileTools {
    /// Returns the family of a native tool, if it has one.
    pub(crate) fn of(tool: &str) -> Option<Self> {
        match tool {
            "read_file" | "list_dir" | "glob" | "grep" => Some(FileTools::Read),
            "write_file" | "edit_file" | "apply_patch" => Some(FileTools::Write),
            _ => None,
        }
    }
}

/// Tells whether every call of a tool is asked for, whatever lets it run.
#[must_use]
pub fn is_always_asked(name: &str) -> bool {
    name == ELEVATED
}

/// Tells whether a rule's tool name covers a call's. Both are native names.
pub(crate) fn covers(rule: &str, call: &str) -> bool {
    if rule == "*" || rule == call || (rule == "run_shell" && COMMANDS.contains(&call)) {
        return true;
    }
    // `mcp__server` stands for all tools of the server.
    rule.starts_with("mcp__") && call.strip_prefix(rule).is_some_and(|rest| rest.starts_with("__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_tool_has_is_told_with_the_nearest() {
        let table = [
            ("raed_file", Some("read_file")),
            ("run_shel", Some("run_shell")),
            ("ls", Some("list_dir")),
            ("shell", Some("run_shell")),
            ("web_serach", Some("web_search")),
            ("launch_rocket", None),
        ];
        for (name, nearest) in table {
            let found = unknown(name).unwrap();
            assert_eq!((found.name.as_str(), found.nearest), (name, nearest));
        }
        for name in NATIVE.into_iter().chain(["*", "mcp__x", "mcp__x__y", "task", "bash", "read"]) {
            assert_eq!(unknown(name), None, "{name}");
        }
        let text = unknown("raed_file").map(|it| it.to_string());
        assert_eq!(text.unwrap(), "no tool is named 'raed_file'; did you mean 'read_file'?");
    }
}
