//! What is known of the program of a simple command.

use crate::script::{Part, Role, Word, is_listed};
use crate::wrapper::{self, Inner};
use crate::{UNKNOWN, assignment, filter, git, interpreter, runners};

/// What was found out about a command.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) role: Role,
    /// Why it may run a command that was not found.
    pub(crate) hidden: Option<&'static str>,
    /// Whether what it runs comes from its input, so that no rule can name it.
    pub(crate) reads_input: bool,
    /// Why nothing else of the line can be relied on.
    pub(crate) obscures: Option<&'static str>,
    pub(crate) folder: Folder,
}

/// Whether a command changes the folder for what follows, or for the command that it runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// It does not.
    Stays,
    /// What it runs may do so, and is trusted as it is.
    May,
    /// It goes to this one; `None` where that is not known.
    Goes(Option<String>),
}

/// Builtins that steer the shell alone.
const NEUTRAL: &str = "\
    : true false test [ cd pushd popd set export declare typeset local readonly unset shift \
    wait exit return break continue read";

/// Looks at a command.
pub(crate) fn examine(part: &Part, inner: &Inner) -> Examined {
    let name = part.base_name();
    let is_trusted = part.trusted_name() == name;
    let arguments = part.words.get(1..).unwrap_or_default();
    let role = match name {
        _ if !is_trusted => Role::Plain,
        _ if wrapper::is_transparent(name) => Role::Wrapper,
        _ if is_listed(NEUTRAL, part.program()) => Role::Neutral,
        _ => Role::Plain,
    };
    Examined {
        role,
        reads_input: interpreter::code(name, arguments) == interpreter::Code::Input
            || INPUT.contains(&name),
        hidden: hidden(part, name, arguments),
        obscures: obscures(name, arguments),
        folder: folder(part, inner),
    }
}

/// Programs that read commands from their input.
const INPUT: [&str; 4] = ["at", "batch", "entr", "busybox"];

/// A word of a builtin that sets a variable, or of `env` and the like.
fn sets_harmfully(word: &Word) -> bool {
    match assignment::split(&word.text) {
        Some((name, at)) => assignment::is_harmful(name, word.text.get(at..).unwrap_or_default()),
        // Under such a name a shell looks for a function.
        None => {
            let name = word.text.split_once('=').map_or("", |(name, _)| name);
            word.text.starts_with("BASH_FUNC_") || name.contains(['%', UNKNOWN])
        }
    }
}

/// Finds what takes the ground away from all other findings.
fn obscures(name: &str, arguments: &[Word]) -> Option<&'static str> {
    match name {
        "alias" if arguments.iter().any(|word| word.text.contains(['=', UNKNOWN])) => {
            Some("it gives a command another name")
        }
        "bind" if !arguments.is_empty() => Some("it binds keys to commands"),
        "shopt" => {
            let harmful = ["expand_aliases", "extglob", "sourcepath", "extdebug"];
            let is_harmful =
                |word: &Word| word.is_unknown() || harmful.contains(&word.text.as_str());
            arguments.iter().any(is_harmful).then_some("it changes how the shell reads")
        }
        "hash" if runners::has_danger("hash", arguments) => {
            Some("it gives a program another place")
        }
        "enable" if !arguments.is_empty() => Some("it changes the shell's own commands"),
        "let" => Some("it uses arithmetic that may run a command"),
        "export" | "declare" | "typeset" | "local" | "readonly" | "env" | "sudo" | "doas" => {
            let is_option = |word: &Word| word.text.starts_with(['-', '+']);
            // References to other variables, and functions.
            let is_odd = |word: &Word| {
                name != "env"
                    && name != "sudo"
                    && is_option(word)
                    && word.text.contains(['n', 'f', UNKNOWN])
            };
            let is_declaring = !matches!(name, "env" | "sudo" | "doas");
            let is_unknown = |word: &Word| {
                is_declaring && word.text.split('=').next().unwrap_or_default().contains(UNKNOWN)
            };
            let is_harmful = arguments.iter().any(|word| {
                sets_harmfully(word)
                    || is_declaring && (is_odd(word) || is_unknown(word) || word.text.contains('['))
            });
            is_harmful.then_some("it sets a variable that changes what is run")
        }
        "unset" | "read" | "mapfile" | "readarray" | "getopts" => {
            let is_harmful = |word: &Word| {
                let text = word.text.as_str();
                text.contains(['[', UNKNOWN])
                    || name != "unset" && assignment::is_harmful(text, &UNKNOWN.to_string())
                    || text == "PATH"
            };
            let mut is_value = false;
            let mut names = arguments.iter().filter(|word| {
                let options = ["-p", "-d", "-t", "-n", "-N", "-u", "-i", "-rp"];
                let is_option = name == "read" && options.contains(&word.text.as_str());
                !std::mem::replace(&mut is_value, is_option)
            });
            names.any(is_harmful).then_some("it sets a variable that changes what is run")
        }
        "set" => {
            let is_harmful = |word: &Word| {
                word.text.starts_with(['-', UNKNOWN]) && word.text.contains(['k', 'a', UNKNOWN])
            };
            let mut options = arguments.iter().take_while(|word| word.text != "--");
            options.any(is_harmful).then_some("it changes how the shell reads")
        }
        _ => None,
    }
}

/// Builtins that evaluate the subscript of an array, and with it any substitution inside quotes.
const EVALUATING: [&str; 8] = ["[", "test", "printf", "return", "unset", "wait", "exit", "shift"];

/// Finds commands that may run another one that was not found.
fn hidden(part: &Part, name: &str, arguments: &[Word]) -> Option<&'static str> {
    if interpreter::code(name, arguments) != interpreter::Code::None {
        return Some("it runs a program of another language");
    }
    let found = match name {
        "git" => git::runs(part),
        "sed" | "gsed" => filter::sed_runs(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => filter::awk_runs(arguments),
        "find" | "gfind" => find_surprises(arguments),
        "psql" | "mysql" | "sqlite3" => arguments.iter().any(|word| {
            let words = ["\\!", ".shell", ".system", "system ", ".load", "load_extension", "|"];
            words.iter().any(|it| word.text.contains(it)) || word.is_unknown()
        }),
        "socat" => arguments.iter().any(|word| {
            let text = word.text.to_ascii_uppercase();
            ["EXEC:", "SYSTEM:", "SHELL:"].iter().any(|it| text.contains(it)) || word.is_unknown()
        }),
        "printf" => runners::printf_sets(arguments),
        _ => runners::has_danger(name, arguments),
    };
    if found {
        return Some("it may run a command that was not found, or write a file");
    }
    let evaluates = EVALUATING.contains(&name)
        && arguments.iter().enumerate().any(|(at, word)| {
            let before = at.checked_sub(1).and_then(|at| arguments.get(at));
            let is_named = before.is_some_and(|it| it.text == "-v" || it.is_unknown());
            let is_subscript = word.text.contains('[') && word.text.contains(['$', '`']);
            is_subscript || is_named && word.text.contains([UNKNOWN, '['])
        });
    if evaluates {
        return Some("it may run a command that was not found, or write a file");
    }
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let runs_others = is_listed(runners::RUNNERS, name) || is_listed(runners::RUNNERS, bare);
    runs_others.then_some("it runs a command that was not found")
}

/// `find` may delete and write as well, and a word that is known only when it runs may say so.
fn find_surprises(arguments: &[Word]) -> bool {
    let mut is_value = false;
    arguments.iter().any(|word| {
        let text = word.text.as_str();
        let was_value = std::mem::replace(&mut is_value, false);
        is_value = matches!(
            text,
            "-name"
                | "-iname"
                | "-path"
                | "-ipath"
                | "-regex"
                | "-iregex"
                | "-wholename"
                | "-lname"
                | "-type"
                | "-mtime"
                | "-newer"
                | "-size"
                | "-maxdepth"
                | "-mindepth"
                | "-user"
                | "-perm"
                | "-printf"
                | "-mmin"
                | "-group"
        );
        if was_value {
            return false;
        }
        matches!(text, "-delete" | "-fprint" | "-fprint0" | "-fprintf" | "-fls" | "-files0-from")
            || word.may_be_option()
    })
}

/// Tells whether a command changes the folder. A sourced file may do so.
fn folder(part: &Part, inner: &Inner) -> Folder {
    let arguments = part.words.get(1..).unwrap_or_default();
    let own = match inner {
        Inner::Commands(commands) => commands.first().map_or(0, |(at, _)| at.saturating_sub(1)),
        _ => arguments.len(),
    };
    let own = arguments.get(..own).unwrap_or_default();
    let has = |options: &[&str]| own.iter().any(|word| runners::has_option(word, options));
    let goes = match part.base_name() {
        "cd" | "pushd" => return Folder::Goes(target(arguments)),
        // It goes back to where the line was.
        "popd" => return Folder::Goes(Some(".".into())),
        "." | "source" | "alias" => return Folder::May,
        "chroot" | "nsenter" => true,
        "env" => has(&["-C", "--chdir"]),
        "sudo" => has(&["-D", "--chdir", "-R", "--chroot", "-i", "--login"]),
        "unshare" => has(&["-R", "--root", "-w", "--wd"]),
        "find" if has(&["-execdir", "-okdir"]) => return Folder::May,
        _ => false,
    };
    if goes { Folder::Goes(None) } else { Folder::Stays }
}

/// The folder that `cd` names.
fn target(arguments: &[Word]) -> Option<String> {
    let mut words =
        arguments.iter().filter(|word| !matches!(word.text.as_str(), "-P" | "-L" | "--"));
    let word = words.next()?;
    let is_known = words.next().is_none()
        && !word.is_unknown()
        && !word.text.starts_with(['-', '+'])
        && (word.is_quoted || !word.text.starts_with('~'))
        && !word.text.is_empty();
    is_known.then(|| word.text.clone())
}
