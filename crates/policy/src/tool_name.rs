//! Tool names as rules and calls spell them.

/// Returns the native name of a tool: an alias is replaced, any other name is returned as it is.
///
/// `task` is `delegate`, `todo_write` is `todos`, and `bash` and `execute` are `run_shell`.
#[must_use]
pub fn canonical(name: &str) -> &str {
    match name {
        "task" => "delegate",
        "todo_write" => "todos",
        "bash" | "execute" => "run_shell",
        other => other,
    }
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

/// Tells whether a rule's tool name covers a call's. Both are native names.
pub(crate) fn covers(rule: &str, call: &str) -> bool {
    if rule == "*" || rule == call {
        return true;
    }
    // `mcp__server` stands for all tools of the server.
    rule.starts_with("mcp__") && call.strip_prefix(rule).is_some_and(|rest| rest.starts_with("__"))
}
