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

mod filter;
mod interpreter;
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
    /// Files that redirections write.
    pub(crate) writes: Vec<Write>,
    /// Why allow rules with a pattern do not apply.
    pub(crate) blocked: Option<&'static str>,
    /// Why deny rules cannot be decided.
    pub(crate) opaque: Option<&'static str>,
    /// The shells that run it: itself and its subshells.
    shells: Vec<Shell>,
    /// The shell whose commands are being read.
    shell: usize,
}

/// A file that a redirection writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// Its name as written; `None` when that, or the folder that it starts from, is known only
    /// when it runs.
    pub(crate) name: Option<String>,
    shell: usize,
}

/// A shell that runs a part of a line. Its folder is its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shell {
    /// The shell that it starts in, which stands before it in the list.
    parent: Option<usize>,
    /// Whether a command in it, or in one that it started in, may change the folder. In a loop
    /// that counts for what stands before as well.
    moves: bool,
}

impl Script {
    fn block(&mut self, why: &'static str) {
        self.blocked.get_or_insert(why);
    }

    fn obscure(&mut self, why: &'static str) {
        self.block(why);
        self.opaque.get_or_insert(why);
    }

    /// Notes that a command of the current shell may change the folder.
    fn moves(&mut self) {
        if let Some(shell) = self.shells.get_mut(self.shell) {
            shell.moves = true;
        }
    }

    /// Begins a subshell, and returns the shell to go back to.
    fn begin_shell(&mut self) -> usize {
        let parent = std::mem::replace(&mut self.shell, self.shells.len());
        self.shells.push(Shell { parent: Some(parent), moves: false });
        parent
    }

    /// Forgets the names of files that start from a folder that is not known.
    fn settle(&mut self) {
        for at in 0..self.shells.len() {
            let parent = self.shells.get(at).and_then(|shell| shell.parent);
            let is_moved = parent.and_then(|at| self.shells.get(at)).is_some_and(|it| it.moves);
            if let Some(shell) = self.shells.get_mut(at) {
                shell.moves |= is_moved;
            }
        }
        for write in &mut self.writes {
            let moves = self.shells.get(write.shell).is_none_or(|shell| shell.moves);
            write.name.take_if(|name| moves && !name.starts_with('/'));
        }
    }

    /// Notes that a command was lost: it may be any, one that changes the folder too.
    fn lose(&mut self, why: &'static str) {
        self.moves();
        self.obscure(why);
    }

    fn add(&mut self, part: Part) {
        if self.parts.len() >= PARTS_MAX {
            return self.lose("it has too many commands");
        }
        self.parts.push(part);
    }
}

/// Reads a command line. Never fails: what it cannot read it marks.
pub(crate) fn read(command: &str) -> Script {
    let mut script = Script { shells: vec![Shell::default()], ..Script::default() };
    read_into(&mut script, command, 0);
    script.settle();
    script
}

/// Reads a command line that stands inside another one.
fn read_into(script: &mut Script, command: &str, depth: usize) {
    if depth > DEPTH_MAX {
        return script.lose("its commands are nested too deeply");
    }
    if command.len() > COMMAND_BYTES_MAX {
        return script.lose("it is too long to be read");
    }
    reader::Reader::new(script, command, depth).run();
}

#[cfg(test)]
mod tests;
