//! What a line runs: its parts, and what cannot be told.

/// Stands in a text for a run of characters that is known only when the line runs. Lines that
/// contain it are not read, so it has no other meaning.
pub const UNKNOWN: char = '\u{10FFFF}';

/// Stands in a text for a blank inside a word, so that it cannot be taken for the end of one.
pub const BLANK: char = '\u{10FFFE}';

/// A word of a command, as far as it can be resolved without running anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// As written.
    pub raw: String,
    /// After quotes, backslashes and braces, with [`UNKNOWN`] for expansions. Globs stand as
    /// they are.
    pub text: String,
    /// As `text`, with [`UNKNOWN`] for globs too, where there are any.
    pub(crate) loose: Option<String>,
    /// Whether any of it was quoted.
    pub is_quoted: bool,
    /// Whether it may become several words, or none, when it runs.
    pub may_split: bool,
    /// Whether its first character is none that begins an option, whatever the rest will be.
    pub(crate) starts_safely: bool,
}

impl Word {
    /// Tells whether a part of it is known only when it runs: an expansion or a glob.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.loose.is_some() || self.text.contains(UNKNOWN)
    }

    /// Returns the text with [`UNKNOWN`] for all that is known only when it runs.
    #[must_use]
    pub fn loose(&self) -> &str {
        self.loose.as_deref().unwrap_or(&self.text)
    }

    /// Tells whether it may be another option when it runs than it is as it stands.
    pub(crate) fn may_be_option(&self) -> bool {
        let loose = self.loose();
        let name = loose.split('=').next().unwrap_or(loose);
        !self.starts_safely && loose.starts_with(UNKNOWN)
            || loose.starts_with('-') && name.contains(UNKNOWN)
    }

    /// Makes a word that is known only when the line runs.
    pub(crate) fn unknown() -> Self {
        let text = UNKNOWN.to_string();
        Word { raw: "$".into(), text, may_split: true, ..Word::default() }
    }
}

/// How a command takes part in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It has to be judged by itself.
    #[default]
    Plain,
    /// It does no more than run the commands behind it, which are parts of their own.
    Wrapper,
    /// It steers the shell alone and does nothing to the world: `cd`, `test`, `set`.
    Neutral,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its words, without assignments before it and redirections.
    pub words: Vec<Word>,
    /// The part that runs it, where that is a command of the line; it stands before this one.
    pub behind: Option<usize>,
    /// How it takes part.
    pub role: Role,
    /// Why it may run a command that was not found, or change what others mean.
    pub hidden: Option<&'static str>,
    /// How many of its leading words a rule has to name for it to speak of what stands behind it
    /// too, or of the program that one of the words is. 0 where there is nothing behind.
    pub named: usize,
}

impl Part {
    /// Returns the command as written.
    #[must_use]
    pub fn raw(&self) -> String {
        join(self.words.iter().map(|word| word.raw.clone()))
    }

    /// Returns the program as written after quotes.
    #[must_use]
    pub fn program(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }

    /// Returns the last name of the program's path.
    #[must_use]
    pub fn base_name(&self) -> &str {
        base_name(self.program())
    }

    /// Returns the program's name as far as it may be trusted: the last name of a path in a
    /// folder of the system, else the whole text.
    #[must_use]
    pub fn trusted_name(&self) -> &str {
        trusted_name(self.program())
    }

    /// Tells whether some word is known only when it runs.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.words.iter().any(Word::is_unknown)
    }

    /// Returns the words that say what the program does, without the options of the program
    /// itself that stand before its sub-command and do no harm: `git --no-pager log` is `git log`.
    #[must_use]
    pub fn without_harmless_options(&self) -> Vec<&Word> {
        crate::git::without_harmless_options(self)
    }

    /// Returns every way to read the command when any option before the sub-command is passed
    /// over: the first is the command itself.
    #[must_use]
    pub fn readings(&self) -> Vec<Vec<&Word>> {
        crate::git::readings(self)
    }
}

/// Tells whether a list of words, divided by blanks, holds a word.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Folders whose programs count as the programs of their names.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

fn trusted_name(program: &str) -> &str {
    match program.rsplit_once('/') {
        Some((folder, name)) if SYSTEM_FOLDERS.contains(&folder) && !name.is_empty() => name,
        _ => program,
    }
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}

/// A file that a redirection opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its name after quotes; `None` when that, or the folder that it starts from, is known only
    /// when it runs.
    pub name: Option<String>,
    /// Whether it is written; else it is read.
    pub is_write: bool,
    pub(crate) shell: usize,
}

/// What a command line runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command that was found: wrappers as well as what they run.
    pub parts: Vec<Part>,
    /// Files that redirections write and read. `/dev/null` and joined descriptors are none.
    pub writes: Vec<Write>,
    /// The folders that it changes to; `None` for one that is known only when it runs.
    pub folders: Vec<Option<String>>,
    /// Why rules for single commands do not reach: something beside the commands happens.
    pub blocked: Option<&'static str>,
    /// Why the line cannot be decided: some command that may run was not found.
    pub opaque: Option<&'static str>,
    /// The shells that run it: itself and its subshells.
    pub(crate) shells: Vec<Shell>,
}

/// A shell that runs a part of a line. Its folder is its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shell {
    /// The shell that it starts in, which stands before it in the list.
    pub(crate) parent: Option<usize>,
    /// Whether a command in it, or in one that it started in, may change the folder. In a loop
    /// that counts for what stands before as well.
    pub(crate) moves: bool,
}

impl Script {
    pub(crate) fn block(&mut self, why: &'static str) {
        self.blocked.get_or_insert(why);
    }

    pub(crate) fn obscure(&mut self, why: &'static str) {
        self.block(why);
        self.opaque.get_or_insert(why);
    }

    /// Notes that a command was lost: it may be any, one that changes the folder too.
    pub(crate) fn lose(&mut self, why: &'static str, shell: usize) {
        self.moves(shell);
        self.obscure(why);
    }

    /// Notes that a command of a shell may change the folder.
    pub(crate) fn moves(&mut self, shell: usize) {
        if let Some(shell) = self.shells.get_mut(shell) {
            shell.moves = true;
        }
    }

    /// Adds a shell that starts in another one.
    pub(crate) fn subshell(&mut self, parent: usize) -> usize {
        self.shells.push(Shell { parent: Some(parent), moves: false });
        self.shells.len() - 1
    }

    /// Forgets the names of files that start from a folder that is not known.
    pub(crate) fn settle(&mut self) {
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
}
