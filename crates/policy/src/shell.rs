//! Reads shell commands: which simple commands a line runs, and what cannot be told.
//!
//! This is a conservative reader and no grammar of bash: what it does not know it says so about,
//! and then a person is asked. A real parser is to take the place of this module; the rest of the
//! crate knows only [`read`], [`Script`], [`Part`] and [`Word`].
//!
//! Two findings are kept apart:
//!
//! - *blocked*: allow rules with a pattern do not apply, since something beside the commands
//!   happens (a redirection, a variable, a group, a wrapper);
//! - *opaque*: not even deny rules can be decided, since some command that may run was not found.

mod program;
mod reader;
mod wrapper;

/// The longest command that is read, in bytes. Longer ones are asked for; their cost stays small.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// How deep commands may stand in commands (`bash -c "bash -c …"`, substitutions).
const DEPTH_MAX: usize = 16;

/// How many simple commands are looked at. A line with more is asked for.
const PARTS_MAX: usize = 1000;

/// A word of a command, as far as it can be resolved without running anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written.
    pub(crate) raw: String,
    /// After quotes and backslashes.
    pub(crate) text: String,
    /// Whether any of it was quoted, so that it is no keyword, digit or assignment.
    pub(crate) is_quoted: bool,
    /// Whether a part of it is known only when it runs: expansions, globs, braces.
    pub(crate) is_unknown: bool,
    /// How many leading bytes of `raw` came before the first quote.
    bare_bytes: usize,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its words, without assignments before it and redirections.
    pub(crate) words: Vec<Word>,
}

impl Part {
    /// Returns the command as written, with white space collapsed.
    pub(crate) fn raw(&self) -> String {
        crate::rule::collapse(&join(&self.words, |word| &word.raw))
    }

    /// Returns the command after quotes and backslashes, and again with the program's bare name.
    pub(crate) fn resolved(&self) -> [String; 2] {
        let whole = join(&self.words, |word| &word.text);
        let rest = self.words.get(1..).unwrap_or_default();
        let named = match (self.base_name(), rest) {
            (name, []) => name.to_owned(),
            (name, rest) => format!("{name} {}", join(rest, |word| &word.text)),
        };
        [crate::rule::collapse(&whole), crate::rule::collapse(&named)]
    }

    /// Returns the program as written after quotes.
    pub(crate) fn program(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }

    /// Returns the last name of the program's path.
    pub(crate) fn base_name(&self) -> &str {
        let program = self.program();
        program.rsplit('/').next().unwrap_or(program)
    }

    /// Tells whether some argument is known only when it runs.
    pub(crate) fn has_unknown(&self) -> bool {
        self.words.iter().any(|word| word.is_unknown)
    }
}

fn join(words: &[Word], text: impl Fn(&Word) -> &String) -> String {
    words.iter().map(|word| text(word).as_str()).collect::<Vec<_>>().join(" ")
}

/// What a command line runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// Every simple command that was found: wrappers as well as what they run.
    pub(crate) parts: Vec<Part>,
    /// Files that redirections write; `None` for one whose name is known only when it runs.
    pub(crate) writes: Vec<Option<String>>,
    /// Why allow rules with a pattern do not apply.
    pub(crate) blocked: Option<&'static str>,
    /// Why deny rules cannot be decided.
    pub(crate) opaque: Option<&'static str>,
}

impl Script {
    fn block(&mut self, why: &'static str) {
        self.blocked.get_or_insert(why);
    }

    fn obscure(&mut self, why: &'static str) {
        self.block(why);
        self.opaque.get_or_insert(why);
    }

    fn add(&mut self, part: Part) {
        if self.parts.len() >= PARTS_MAX {
            return self.obscure("it has too many commands");
        }
        self.parts.push(part);
    }
}

/// Reads a command line. Never fails: what it cannot read it marks.
pub(crate) fn read(command: &str) -> Script {
    let mut script = Script::default();
    read_into(&mut script, command, 0);
    script
}

/// Reads a command line that stands inside another one.
fn read_into(script: &mut Script, command: &str, depth: usize) {
    if depth > DEPTH_MAX {
        return script.obscure("its commands are nested too deeply");
    }
    if command.len() > COMMAND_BYTES_MAX {
        return script.obscure("it is too long to be read");
    }
    reader::Reader::new(script, command, depth).run();
}

#[cfg(test)]
mod tests;
