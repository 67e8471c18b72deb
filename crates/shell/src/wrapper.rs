//! Programs that run another command: which one.

mod search;

use crate::script::{Part, UNKNOWN, Word, is_listed};

/// What a program runs in turn.
#[derive(Debug)]
pub(crate) enum Inner {
    /// Nothing that is known of.
    Nothing,
    /// Commands, each with the place of its program among the words of the wrapper.
    Commands(Vec<(usize, Vec<Word>)>),
    /// A command line.
    Script {
        text: String,
        /// The last word that it stands in.
        at: usize,
        /// Whether a process of its own runs it.
        is_own_shell: bool,
    },
    /// Something that cannot be told.
    Unclear(&'static str),
}

/// A script that is the text of one word.
fn script(word: &Word, at: usize) -> Inner {
    if word.is_unknown() {
        return Inner::Unclear("the commands of a shell are known only when it runs");
    }
    Inner::Script { text: word.text.clone(), at, is_own_shell: true }
}

/// How to find the command in the arguments of a wrapper.
#[derive(Clone, Copy)]
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word when it is not attached.
    valued: &'static str,
    /// Options without a value.
    flags: &'static str,
    /// How many words stand before the command.
    before: usize,
    /// Whether `NAME=value` words stand before the command.
    assigns: bool,
}

const fn wrapper(name: &'static str, valued: &'static str, flags: &'static str) -> Wrapper {
    Wrapper { name, valued, flags, before: 0, assigns: false }
}

const WRAPPERS: [Wrapper; 26] = [
    Wrapper {
        assigns: true,
        ..wrapper("env", "-u --unset -C --chdir", "- -i --ignore-environment -v --debug")
    },
    Wrapper {
        before: 1,
        ..wrapper(
            "timeout",
            "-s --signal -k --kill-after",
            "--preserve-status --foreground -v --verbose -f -p",
        )
    },
    wrapper("nice", "-n --adjustment", ""),
    wrapper("nohup", "", ""),
    wrapper("setsid", "", "-c --ctty -f --fork -w --wait"),
    wrapper("stdbuf", "-i --input -o --output -e --error", ""),
    wrapper("time", "-f --format", "-p -v -q"),
    wrapper("coproc", "", ""),
    wrapper("command", "", "-p"),
    wrapper("builtin", "", ""),
    wrapper("exec", "-a", "-c -l"),
    Wrapper {
        assigns: true,
        ..wrapper(
            "sudo",
            "-u --user -g --group -h -p -C -r -t -T -D -R",
            "-E -H -n -k -b -A -S -P --preserve-env",
        )
    },
    wrapper("doas", "-u -C", "-n"),
    wrapper("ionice", "-c --class -n --classdata", "-t --ignore"),
    Wrapper { before: 1, ..wrapper("chrt", "", "-b -f -i -o -r") },
    Wrapper { before: 1, ..wrapper("taskset", "", "-c --cpu-list") },
    Wrapper {
        before: 1,
        ..wrapper(
            "flock",
            "-w --wait --timeout -E --conflict-exit-code",
            "-n --nb --nonblock -x -e --exclusive -s --shared -u --unlock -o --close -F \
            --no-fork --verbose",
        )
    },
    Wrapper { before: 1, ..wrapper("chroot", "--userspec --groups", "--skip-chdir") },
    wrapper(
        "prlimit",
        "-p --pid -o --output",
        "--core --data --nice --fsize --sigpending --memlock --rss --nofile --msgqueue \
            --rtprio --stack --cpu --nproc --as --locks --rttime --noheadings --raw \
            --verbose",
    ),
    wrapper(
        "setpriv",
        "--ambient-caps --inh-caps --bounding-set --ruid --euid --reuid --rgid --egid \
            --regid --groups --securebits --pdeathsig --selinux-label --apparmor-profile",
        "--clear-groups --keep-groups --init-groups --no-new-privs --nnp --reset-env",
    ),
    wrapper("fakeroot", "-l --lib -f --faked -s -i -b", "-u"),
    wrapper(
        "nsenter",
        "-t --target -S --setuid -G --setgid",
        "-a --all -m --mount -u --uts -i --ipc -n --net -p --pid -U --user -C --cgroup \
            -T --time -r --root -w --wd -F --no-fork -e --env --preserve-credentials",
    ),
    wrapper(
        "xargs",
        "-n -I -P -L -s -d -E -a --max-args --max-procs",
        "-0 -r -t -x --null --no-run-if-empty --verbose -0r -r0",
    ),
    wrapper("strace", "-e -p -s", "-f -c -q -v"),
    wrapper(
        "unshare",
        "--map-user --map-group --propagation --setgroups -S --setuid -G --setgid -R \
            --root -w --wd --monotonic --boottime",
        "-r --map-root-user -c --map-current-user -m --mount -u --uts -i --ipc -n \
            --net -p --pid -U --user -C --cgroup -T --time -f --fork --mount-proc \
            --kill-child --keep-caps",
    ),
    wrapper("caffeinate", "-t", "-d -i -m -s -u"),
];

/// Wrappers that start a shell on their input when no command is named.
const SHELLS_ALONE: &str = "chroot fakeroot nsenter unshare";

/// Wrappers that do no more than run the command behind them: rules look through these.
const TRANSPARENT: &str = "\
    env timeout nice nohup setsid stdbuf time command builtin exec ionice chrt taskset xargs \
    caffeinate eval trap watch coproc";

/// Shells, which run the text of an argument.
const SHELLS: &str = "bash sh dash zsh ksh ash fish csh tcsh mksh lksh yash rbash";

/// Tells whether rules look through a program to what it runs.
pub(crate) fn is_transparent(name: &str) -> bool {
    is_listed(TRANSPARENT, name) || is_listed(SHELLS, name)
}

/// Finds what a command runs in turn.
pub(crate) fn inner(part: &Part) -> Inner {
    let arguments = part.words.get(1..).unwrap_or_default();
    match part.base_name() {
        name if is_listed(SHELLS, name) => shell(arguments),
        "script" | "su" | "runuser" => option_script(arguments),
        "eval" => joined(arguments, 1, false),
        "watch" => watch(arguments),
        "parallel" => parallel(arguments),
        "trap" => match arguments.first() {
            Some(first) if first.is_unknown() => {
                Inner::Unclear("a trap is not known before it runs")
            }
            Some(first) if !first.text.starts_with('-') && arguments.len() > 1 => {
                Inner::Script { text: first.text.clone(), at: 1, is_own_shell: false }
            }
            _ => Inner::Nothing,
        },
        "find" | "gfind" => search::find(arguments),
        "fd" | "fdfind" => search::fd(arguments),
        name => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, arguments),
            None => Inner::Nothing,
        },
    }
}

fn wrapped(wrapper: &Wrapper, arguments: &[Word]) -> Inner {
    let mut rest = arguments;
    let mut replaced: Option<&str> = None;
    while let Some((first, after)) = rest.split_first() {
        if first.is_unknown() && first.text.starts_with(['-', UNKNOWN]) {
            return Inner::Unclear("an argument of a wrapper is known only when it runs");
        }
        let text = first.text.as_str();
        if text == "--" {
            rest = after;
            break;
        }
        if wrapper.assigns && !text.starts_with(['-', '=']) && text.contains('=') {
            rest = after;
        } else if !text.starts_with('-') {
            break;
        } else if is_listed(wrapper.valued, text) {
            if text == "-I" {
                replaced = after.first().map(|word| word.text.as_str());
            }
            rest = after.get(1..).unwrap_or_default();
        } else if is_listed(wrapper.flags, text) || is_attached(wrapper, text) {
            if wrapper.name == "xargs" && text.starts_with("-I") {
                replaced = text.strip_prefix("-I");
            }
            rest = after;
        } else if wrapper.name == "command" && matches!(text, "-v" | "-V") {
            return Inner::Nothing;
        } else {
            return Inner::Unclear("an option of a wrapper is not known");
        }
    }
    // An assignment may follow `--` too.
    while wrapper.assigns && rest.first().is_some_and(|word| word.text.contains('=')) {
        rest = rest.get(1..).unwrap_or_default();
    }
    let before = rest.get(..wrapper.before).unwrap_or_default();
    if before.iter().any(|word| word.may_split) {
        return Inner::Unclear("an argument of a wrapper is known only when it runs");
    }
    let rest = rest.get(wrapper.before..).unwrap_or_default();
    let at = 1 + arguments.len() - rest.len();
    match rest {
        [] if is_listed(SHELLS_ALONE, wrapper.name) => {
            Inner::Unclear("a shell reads its commands from its input")
        }
        [] => Inner::Nothing,
        [option, rest @ ..] if wrapper.name == "flock" && option.text.starts_with('-') => {
            match (option.text.as_str(), rest) {
                ("-c" | "--command", [text]) => script(text, at + 1),
                _ => Inner::Unclear("the command of a wrapper cannot be read"),
            }
        }
        words => {
            let mut words = words.to_vec();
            match replaced {
                Some(name) if wrapper.name == "xargs" => replace(&mut words, name, false),
                _ if wrapper.name == "xargs" => words.push(Word::unknown()),
                _ => {}
            }
            Inner::Commands(vec![(at, words)])
        }
    }
}

/// Puts something that is known only when it runs in the place of a name.
fn replace(words: &mut [Word], name: &str, starts_safely: bool) {
    let unknown = UNKNOWN.to_string();
    for word in words.iter_mut().filter(|word| !name.is_empty() && word.text.contains(name)) {
        let starts_safely = starts_safely && word.text.starts_with(name);
        word.text = word.text.replace(name, &unknown);
        word.loose = word.loose.take().map(|loose| loose.replace(name, &unknown));
        word.starts_safely = starts_safely;
    }
}

/// Tells whether an option has its value attached: `-n5`, `-oL`, `--signal=KILL`, `-5` of nice.
fn is_attached(wrapper: &Wrapper, text: &str) -> bool {
    if let Some((name, _)) = text.split_once('=')
        && name.starts_with("--")
    {
        return is_listed(wrapper.valued, name) || is_listed(wrapper.flags, name);
    }
    if text.starts_with("--") {
        return false;
    }
    let is_number = text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if wrapper.name == "nice" && is_number {
        return true;
    }
    let short = text.get(..2).unwrap_or_default();
    short.len() == 2 && is_listed(wrapper.valued, short)
}

/// `bash -c SCRIPT`, `sh -ec SCRIPT`, `bash FILE`.
fn shell(arguments: &[Word]) -> Inner {
    let mut takes_script = false;
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if first.may_be_option() || first.is_unknown() && takes_script {
            return Inner::Unclear("an argument of a shell is known only when it runs");
        }
        let at = 1 + arguments.len() - rest.len();
        rest = after;
        match text {
            "--norc" | "--noprofile" | "--login" | "--posix" => {}
            // They say something about the shell, or read without running.
            "--version" | "--help" => return Inner::Nothing,
            "-" | "--" => break,
            "-o" | "+o" | "-O" | "+O" => rest = after.get(1..).unwrap_or_default(),
            long if long.starts_with("--") => {
                return Inner::Unclear("an option of a shell is not known");
            }
            short if short.starts_with(['-', '+']) => {
                let letters = short.get(1..).unwrap_or_default();
                // `-euo pipefail`: the letter takes the next word.
                if letters.ends_with('o') && !letters.contains(['c', 'O', 's']) {
                    rest = after.get(1..).unwrap_or_default();
                } else if letters.contains(['o', 'O', 's', 'i']) || first.is_unknown() {
                    return Inner::Unclear("an option of a shell is not known");
                }
                takes_script |= letters.contains('c');
            }
            _ if takes_script => return script(first, at),
            // A file with commands is a program like any other.
            _ => return Inner::Nothing,
        }
    }
    match rest.first() {
        Some(word) if takes_script => script(word, 1 + arguments.len() - rest.len()),
        Some(word) if !word.may_split => Inner::Nothing,
        _ => Inner::Unclear("a shell reads its commands from its input"),
    }
}

/// `script -qc SCRIPT FILE`, `su USER --command SCRIPT`: the script is the value of an option.
fn option_script(arguments: &[Word]) -> Inner {
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        if word.is_unknown() {
            break;
        }
        if let Some((name, value)) = text.split_once('=')
            && matches!(name, "--command" | "--session-command")
        {
            let text = value.to_owned();
            return Inner::Script { text, at: index + 1, is_own_shell: true };
        }
        let is_long = matches!(text, "--command" | "--session-command");
        let is_short = !text.starts_with("--") && text.starts_with('-');
        let letters = text.get(1..).filter(|_| is_short).unwrap_or_default();
        let attached = match letters.split_once('c') {
            // The letters before it take no value.
            Some((before, attached)) if before.chars().all(|c| "aefqlmp".contains(c)) => attached,
            None if is_long => "",
            _ => continue,
        };
        return match arguments.get(index + 1) {
            _ if !attached.is_empty() => {
                Inner::Script { text: attached.to_owned(), at: index + 1, is_own_shell: true }
            }
            Some(text) => script(text, index + 2),
            None => break,
        };
    }
    Inner::Unclear("it starts a shell whose commands are not known")
}

/// The words from one on, which are read again as one line.
fn joined(arguments: &[Word], at: usize, is_own_shell: bool) -> Inner {
    if arguments.iter().any(Word::is_unknown) {
        return Inner::Unclear("its text is known only when it runs");
    }
    let texts: Vec<_> = arguments.iter().map(|word| word.text.as_str()).collect();
    let at = at + arguments.len().saturating_sub(1);
    Inner::Script { text: texts.join(" "), at, is_own_shell }
}

/// `watch -n 1 COMMAND`: the words are a line for a shell.
fn watch(arguments: &[Word]) -> Inner {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        rest = match first.text.as_str() {
            "-n" | "--interval" => after.get(1..).unwrap_or_default(),
            "-d" | "-t" | "-c" | "-g" | "-e" | "-b" | "--color" | "--differences" => after,
            text if text.starts_with(['-', UNKNOWN]) => {
                return Inner::Unclear("an option of a wrapper is not known");
            }
            _ => return joined(rest, 1 + arguments.len() - rest.len(), true),
        };
    }
    Inner::Nothing
}

/// `parallel COMMAND ::: …`: the words are a line for a shell, with what follows put into it.
fn parallel(arguments: &[Word]) -> Inner {
    let command: Vec<Word> =
        arguments.iter().take_while(|word| !word.text.starts_with(":::")).cloned().collect();
    match command.first() {
        Some(first) if first.text.starts_with('-') => {
            Inner::Unclear("an option of a wrapper is not known")
        }
        Some(_) => {
            let mut words = command;
            words.push(Word::unknown());
            Inner::Commands(vec![(1, words)])
        }
        None => Inner::Unclear("it reads its commands from its input"),
    }
}
