//! What both grammars have to agree on.

/// The commands of one line, without those inside substitutions: these are lines of their own.
///
/// Texts are as written, but for line ends that a backslash takes away. Everything stands in the
/// order of the line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Assignments and words of each simple command.
    pub(crate) commands: Vec<Command>,
    /// Sign and target of each redirection.
    pub(crate) redirections: Vec<(String, String)>,
    /// End mark and text of each here-document.
    pub(crate) documents: Vec<(String, String)>,
    /// The words of here-strings.
    pub(crate) strings: Vec<String>,
    /// The names of functions.
    pub(crate) functions: Vec<String>,
    /// Variable and words of each `for`.
    pub(crate) loops: Vec<Vec<String>>,
    /// Word and patterns of each `case`.
    pub(crate) choices: Vec<Vec<String>>,
    /// How many `[[` there are.
    pub(crate) tests: usize,
    /// How many `((` there are, in `for ((` too.
    pub(crate) sums: usize,
}

/// A simple command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) assignments: Vec<String>,
    pub(crate) words: Vec<String>,
}

/// Takes out the line ends that a backslash takes away.
pub(crate) fn joined(text: &str) -> String {
    text.replace("\\\n", "")
}

/// A here-document's text as both grammars show it.
pub(crate) fn document(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches('\t'));
    joined(&lines.collect::<Vec<_>>().join("\n"))
}
