//! Finds the program of a simple command: behind assignments, keywords and wrappers.

use super::{Part, Script, Word, filter, interpreter, read_into, wrapper};

/// Adds a command to the script, and the commands that it runs in turn.
pub(super) fn add(script: &mut Script, mut part: Part, depth: usize) {
    if depth > super::DEPTH_MAX {
        return script.lose("its commands are nested too deeply");
    }
    if !strip_prefix(script, &mut part.words) {
        return;
    }
    let Some(first) = part.words.first() else { return };
    if first.is_unknown {
        script.lose("the name of a program is known only when it runs");
    } else if first.raw.starts_with('{') || first.raw.contains('}') {
        script.lose("it uses braces in the name of a program");
    }
    if let Some(Hidden { why, blocks }) = hidden(&part) {
        script.opaque.get_or_insert(why);
        if blocks {
            script.block(why);
        }
    }
    let inner = wrapper::inner(&part);
    if moves(&part, &inner) {
        script.moves();
    }
    script.add(part);
    match inner {
        wrapper::Inner::Nothing => {}
        wrapper::Inner::Command(words) => {
            script.block("it runs a command through another program");
            add(script, Part { words }, depth + 1);
        }
        wrapper::Inner::Script(text) => {
            script.block("it runs a command through another program");
            read_into(script, &text, depth + 1);
        }
        wrapper::Inner::Unclear(why) => script.lose(why),
    }
}

/// Tells whether a command changes the folder for what follows, or for the command that it runs.
/// A sourced file may do so.
fn moves(part: &Part, inner: &wrapper::Inner) -> bool {
    let arguments = part.words.get(1..).unwrap_or_default();
    let of_inner = match inner {
        wrapper::Inner::Command(words) => words.len(),
        _ => 0,
    };
    let own = arguments.get(..arguments.len().saturating_sub(of_inner)).unwrap_or_default();
    let has = |options: &[&str]| own.iter().any(|word| has_option(word, options));
    match part.base_name() {
        "cd" | "pushd" | "popd" | "." | "source" | "alias" | "chroot" | "nsenter" => true,
        "env" => has(&["-C", "--chdir"]),
        "sudo" => has(&["-D", "--chdir", "-R", "--chroot", "-i", "--login"]),
        "unshare" => has(&["-R", "--root", "-w", "--wd"]),
        "find" => has(&["-execdir", "-okdir"]),
        _ => false,
    }
}

/// Takes assignments and keywords away; false when the rest is no command.
fn strip_prefix(script: &mut Script, words: &mut Vec<Word>) -> bool {
    while let Some(first) = words.first() {
        if is_assignment(first) {
            script.block("it sets a variable");
            words.remove(0);
            continue;
        }
        // A quoted or escaped keyword is the name of a program.
        let keyword = if first.is_quoted { "" } else { first.raw.as_str() };
        match keyword {
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{" => {}
            "fi" | "done" | "}" => {
                if words.len() > 1 {
                    script.lose("its keywords cannot be read");
                }
            }
            "time" => {
                if words.get(1).is_some_and(|word| word.raw == "-p") {
                    words.remove(1);
                }
            }
            "for" | "select" => {
                script.block("it uses keywords");
                if words.iter().any(|word| word.raw == "do") {
                    script.lose("its keywords cannot be read");
                }
                return false;
            }
            "case" | "esac" | "function" | "coproc" | "in" => {
                script.lose("it uses keywords that are not followed");
                return true;
            }
            "[[" => {
                script.block("it uses keywords");
                return true;
            }
            _ => return true,
        }
        script.block("it uses keywords");
        words.remove(0);
    }
    false
}

/// Tells whether a word is `NAME=…`, `NAME+=…` or `NAME[…]=…`.
fn is_assignment(word: &Word) -> bool {
    let bare = word.raw.get(..word.bare_bytes).unwrap_or_default();
    let Some((name, _)) = bare.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Builtins that evaluate the subscript of an array, and with it any substitution inside quotes.
const EVALUATING: [&str; 15] = [
    "[",
    "[[",
    "declare",
    "export",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "return",
    "test",
    "typeset",
    "unset",
    "wait",
];

/// A command that may run another one that was not found.
struct Hidden {
    why: &'static str,
    /// Whether allow rules for the command itself do not reach so far: they name a program that
    /// people do not think of as running others.
    blocks: bool,
}

/// Finds commands that may run another one that was not found.
fn hidden(part: &Part) -> Option<Hidden> {
    let name = part.base_name();
    let arguments = part.words.get(1..).unwrap_or_default();
    if interpreter::reads_code(name, arguments) {
        let why = "it runs a program of another language";
        return Some(Hidden { why, blocks: false });
    }
    let has = |options: &[&str]| arguments.iter().any(|word| has_option(word, options));
    let surprises = match name {
        "git" => git_runs(arguments),
        "tar" => has(&["--to-command", "--checkpoint-action", "-I", "--use-compress-program"]),
        "sed" | "gsed" => filter::sed_runs(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => filter::awk_runs(arguments),
        "make" | "gmake" => has(&["--eval"]),
        "vi" | "vim" | "nvim" | "ex" | "view" => has(&["-c", "--cmd", "+", "-S", "-s"]),
        "emacs" => has(&["--eval", "-eval", "--execute", "-f", "--funcall"]),
        "gdb" | "lldb" => has(&["-ex", "--eval-command", "-iex", "-o", "--args"]),
        "psql" | "mysql" | "sqlite3" => arguments.iter().any(|word| {
            let words = ["\\!", ".shell", ".system", "system "];
            words.iter().any(|it| word.text.contains(it))
        }),
        "rg" => has(&["--pre", "--hostname-bin"]),
        "hash" => has(&["-p"]),
        "enable" => has(&["-f"]),
        "alias" | "bind" => !arguments.is_empty(),
        "complete" | "compgen" | "mapfile" | "readarray" => has(&["-C", "-F"]),
        "let" => true,
        "[[" => arguments.iter().any(|word| ARITHMETIC.contains(&word.text.as_str())),
        _ => false,
    };
    let evaluates = EVALUATING.contains(&name)
        && arguments.iter().any(|word| {
            word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`'))
        });
    if surprises || evaluates {
        return Some(Hidden { why: "it may run a command that was not found", blocks: true });
    }
    let runs_others = RUNNERS.contains(&name);
    runs_others.then_some(Hidden { why: "it runs a command that was not found", blocks: false })
}

/// Programs that run what their arguments or their input name in a way that is not followed.
const RUNNERS: [&str; 35] = [
    "at",
    "batch",
    "busybox",
    "bwrap",
    "cgexec",
    "dbus-run-session",
    "entr",
    "firejail",
    "linux32",
    "linux64",
    "ltrace",
    "numactl",
    "parallel",
    "pkexec",
    "proot",
    "proxychains",
    "proxychains4",
    "pwsh",
    "rlwrap",
    "rsh",
    "run0",
    "runuser",
    "screen",
    "setarch",
    "ssh",
    "start-stop-daemon",
    "su",
    "systemd-run",
    "tmux",
    "torsocks",
    "toybox",
    "unbuffer",
    "valgrind",
    "watch",
    "xvfb-run",
];

/// The operators of `[[` that evaluate both sides as arithmetic.
const ARITHMETIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Tells whether a word is one of the options, alone or with its value attached.
fn has_option(word: &Word, options: &[&str]) -> bool {
    options.iter().any(|option| {
        let Some(rest) = word.text.strip_prefix(option) else { return false };
        rest.is_empty() || rest.starts_with('=') || !option.starts_with("--")
    })
}

/// Tells whether a call of git runs a command that its arguments or settings name.
fn git_runs(arguments: &[Word]) -> bool {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first.text.as_str() {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                rest = after.get(1..).unwrap_or_default();
            }
            option if option.starts_with('-') => {
                if has_option(first, &["-c", "--config-env", "--exec-path"]) {
                    return true;
                }
            }
            command => {
                let has = |options: &[&str]| rest.iter().any(|word| has_option(word, options));
                return match command {
                    "rebase" => has(&["-x", "--exec"]),
                    "bisect" => rest.iter().any(|word| word.text == "run"),
                    "submodule" => rest.iter().any(|word| word.text == "foreach"),
                    "filter-branch" | "difftool" | "mergetool" => true,
                    "grep" => has(&["-O", "--open-files-in-pager"]),
                    "config" => rest.iter().any(|word| word.text.starts_with('!')),
                    _ => has(&["--exec", "--upload-pack", "--receive-pack"]),
                };
            }
        }
    }
    false
}
