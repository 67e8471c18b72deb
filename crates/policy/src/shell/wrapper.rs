//! Programs that run another command: which one.

use super::{Part, Word};

/// What a program runs in turn.
pub(super) enum Inner {
    /// Nothing that is known of.
    Nothing,
    /// A command.
    Command(Vec<Word>),
    /// A command line.
    Script(String),
    /// Something that cannot be told.
    Unclear(&'static str),
}

/// How to find the command in the arguments of a wrapper.
#[derive(Clone, Copy)]
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word when it is not attached.
    valued: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// How many words stand before the command.
    before: usize,
    /// Whether `NAME=value` words stand before the command.
    assigns: bool,
}

const fn wrapper(
    name: &'static str,
    valued: &'static [&'static str],
    flags: &'static [&'static str],
) -> Wrapper {
    Wrapper { name, valued, flags, before: 0, assigns: false }
}

const WRAPPERS: [Wrapper; 25] = [
    Wrapper {
        assigns: true,
        ..wrapper(
            "env",
            &["-u", "--unset", "-C", "--chdir"],
            &["-", "-i", "--ignore-environment", "-v", "--debug"],
        )
    },
    Wrapper {
        before: 1,
        ..wrapper(
            "timeout",
            &["-s", "--signal", "-k", "--kill-after"],
            &["--preserve-status", "--foreground", "-v", "--verbose", "-f", "-p"],
        )
    },
    wrapper("nice", &["-n", "--adjustment"], &[]),
    wrapper("nohup", &[], &[]),
    wrapper("setsid", &[], &["-c", "--ctty", "-f", "--fork", "-w", "--wait"]),
    wrapper("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], &[]),
    wrapper("time", &["-f", "--format", "-o", "--output"], &["-p", "-v", "-a", "-q"]),
    wrapper("command", &[], &["-p"]),
    wrapper("builtin", &[], &[]),
    wrapper("exec", &["-a"], &["-c", "-l"]),
    Wrapper {
        assigns: true,
        ..wrapper(
            "sudo",
            &["-u", "--user", "-g", "--group", "-h", "-p", "-C", "-r", "-t", "-T", "-D", "-R"],
            &["-E", "-H", "-n", "-k", "-b", "-A", "-S", "-P", "--preserve-env"],
        )
    },
    wrapper("doas", &["-u", "-C"], &["-n"]),
    wrapper("ionice", &["-c", "--class", "-n", "--classdata"], &["-t", "--ignore"]),
    Wrapper { before: 1, ..wrapper("chrt", &[], &["-b", "-f", "-i", "-o", "-r"]) },
    Wrapper { before: 1, ..wrapper("taskset", &[], &["-c", "--cpu-list"]) },
    Wrapper {
        before: 1,
        ..wrapper(
            "flock",
            &["-w", "--wait", "--timeout", "-E", "--conflict-exit-code"],
            &[
                "-n",
                "--nb",
                "--nonblock",
                "-x",
                "-e",
                "--exclusive",
                "-s",
                "--shared",
                "-u",
                "--unlock",
                "-o",
                "--close",
                "-F",
                "--no-fork",
                "--verbose",
            ],
        )
    },
    Wrapper { before: 1, ..wrapper("chroot", &["--userspec", "--groups"], &["--skip-chdir"]) },
    wrapper(
        "prlimit",
        &["-p", "--pid", "-o", "--output"],
        &[
            "--core",
            "--data",
            "--nice",
            "--fsize",
            "--sigpending",
            "--memlock",
            "--rss",
            "--nofile",
            "--msgqueue",
            "--rtprio",
            "--stack",
            "--cpu",
            "--nproc",
            "--as",
            "--locks",
            "--rttime",
            "--noheadings",
            "--raw",
            "--verbose",
        ],
    ),
    wrapper(
        "setpriv",
        &[
            "--ambient-caps",
            "--inh-caps",
            "--bounding-set",
            "--ruid",
            "--euid",
            "--reuid",
            "--rgid",
            "--egid",
            "--regid",
            "--groups",
            "--securebits",
            "--pdeathsig",
            "--selinux-label",
            "--apparmor-profile",
        ],
        &[
            "--clear-groups",
            "--keep-groups",
            "--init-groups",
            "--no-new-privs",
            "--nnp",
            "--reset-env",
        ],
    ),
    wrapper("fakeroot", &["-l", "--lib", "-f", "--faked", "-s", "-i", "-b"], &["-u"]),
    wrapper(
        "nsenter",
        &["-t", "--target", "-S", "--setuid", "-G", "--setgid"],
        &[
            "-a",
            "--all",
            "-m",
            "--mount",
            "-u",
            "--uts",
            "-i",
            "--ipc",
            "-n",
            "--net",
            "-p",
            "--pid",
            "-U",
            "--user",
            "-C",
            "--cgroup",
            "-T",
            "--time",
            "-r",
            "--root",
            "-w",
            "--wd",
            "-F",
            "--no-fork",
            "-e",
            "--env",
            "--preserve-credentials",
        ],
    ),
    wrapper(
        "xargs",
        &["-n", "-I", "-P", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs"],
        &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose"],
    ),
    wrapper("strace", &["-e", "-o", "-p", "-s"], &["-f", "-c", "-q", "-v"]),
    wrapper(
        "unshare",
        &[
            "--map-user",
            "--map-group",
            "--propagation",
            "--setgroups",
            "-S",
            "--setuid",
            "-G",
            "--setgid",
            "-R",
            "--root",
            "-w",
            "--wd",
            "--monotonic",
            "--boottime",
        ],
        &[
            "-r",
            "--map-root-user",
            "-c",
            "--map-current-user",
            "-m",
            "--mount",
            "-u",
            "--uts",
            "-i",
            "--ipc",
            "-n",
            "--net",
            "-p",
            "--pid",
            "-U",
            "--user",
            "-C",
            "--cgroup",
            "-T",
            "--time",
            "-f",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "--keep-caps",
        ],
    ),
    wrapper("caffeinate", &["-t"], &["-d", "-i", "-m", "-s", "-u"]),
];

/// Wrappers that start a shell on their input when no command is named.
const SHELLS_ALONE: [&str; 4] = ["chroot", "fakeroot", "nsenter", "unshare"];

/// Finds what a command runs in turn.
pub(super) fn inner(part: &Part) -> Inner {
    let arguments = part.words.get(1..).unwrap_or_default();
    match part.base_name() {
        "bash" | "sh" | "dash" | "zsh" | "ksh" | "ash" | "fish" => shell(arguments),
        "csh" | "tcsh" | "mksh" | "lksh" | "yash" | "rbash" => shell(arguments),
        "script" | "su" | "runuser" => option_script(arguments),
        "eval" => joined(arguments),
        "trap" => match arguments.first() {
            Some(first) if first.is_unknown => Inner::Unclear("a trap is not known before it runs"),
            Some(first) if !first.text.starts_with('-') => Inner::Script(first.text.clone()),
            _ => Inner::Nothing,
        },
        "find" | "fd" | "fdfind" => find(arguments),
        name => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, arguments),
            None => Inner::Nothing,
        },
    }
}

fn wrapped(wrapper: &Wrapper, arguments: &[Word]) -> Inner {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        if first.is_unknown {
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
        } else if wrapper.valued.contains(&text) {
            rest = after.get(1..).unwrap_or_default();
        } else if wrapper.flags.contains(&text) || is_attached(wrapper, text) {
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
    match rest.get(wrapper.before..) {
        Some([]) | None if SHELLS_ALONE.contains(&wrapper.name) => {
            Inner::Unclear("a shell reads its commands from its input")
        }
        Some([]) | None => Inner::Nothing,
        Some([option, rest @ ..]) if wrapper.name == "flock" && option.text.starts_with('-') => {
            match (option.text.as_str(), rest) {
                ("-c" | "--command", [script]) if !script.is_unknown => {
                    Inner::Script(script.text.clone())
                }
                _ => Inner::Unclear("the command of a wrapper cannot be read"),
            }
        }
        Some(words) => {
            let mut words = words.to_vec();
            if wrapper.name == "xargs" {
                let text = "$".to_owned();
                words.push(Word { raw: text.clone(), text, is_unknown: true, ..Word::default() });
            }
            Inner::Command(words)
        }
    }
}

/// Tells whether an option has its value attached: `-n5`, `-oL`, `--signal=KILL`, `-5` of nice.
fn is_attached(wrapper: &Wrapper, text: &str) -> bool {
    if let Some((name, _)) = text.split_once('=')
        && name.starts_with("--")
    {
        return wrapper.valued.contains(&name) || wrapper.flags.contains(&name);
    }
    if text.starts_with("--") {
        return false;
    }
    let is_number = text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if wrapper.name == "nice" && is_number {
        return true;
    }
    let short = text.get(..2).unwrap_or_default();
    wrapper.valued.iter().any(|option| option.len() == 2 && *option == short)
}

/// `bash -c SCRIPT`, `sh -ec SCRIPT`, `bash FILE`.
fn shell(arguments: &[Word]) -> Inner {
    let mut takes_script = false;
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if first.is_unknown {
            return Inner::Unclear("an argument of a shell is known only when it runs");
        }
        rest = after;
        match text {
            "--norc" | "--noprofile" | "--login" | "--posix" => {}
            "-" | "--" => break,
            "-o" | "+o" | "-O" | "+O" => rest = after.get(1..).unwrap_or_default(),
            long if long.starts_with("--") => {
                return Inner::Unclear("an option of a shell is not known");
            }
            short if short.starts_with(['-', '+']) => {
                if short.contains(['o', 'O', 's']) {
                    return Inner::Unclear("an option of a shell is not known");
                }
                takes_script |= short.contains('c');
            }
            _ if takes_script => return Inner::Script(text.to_owned()),
            // A file with commands is a program like any other.
            _ => return Inner::Nothing,
        }
    }
    match rest.first() {
        Some(word) if takes_script && !word.is_unknown => Inner::Script(word.text.clone()),
        Some(_) if !takes_script => Inner::Nothing,
        _ => Inner::Unclear("a shell reads its commands from its input"),
    }
}

/// `script -qc SCRIPT FILE`, `su USER --command SCRIPT`: the script is the value of an option.
fn option_script(arguments: &[Word]) -> Inner {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if word.is_unknown {
            break;
        }
        if let Some((name, value)) = text.split_once('=')
            && matches!(name, "--command" | "--session-command")
        {
            return Inner::Script(value.to_owned());
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
        return match rest.next() {
            _ if !attached.is_empty() => Inner::Script(attached.to_owned()),
            Some(script) if !script.is_unknown => Inner::Script(script.text.clone()),
            _ => break,
        };
    }
    Inner::Unclear("it starts a shell whose commands are not known")
}

/// The arguments of `eval`, which are read again as one line.
fn joined(arguments: &[Word]) -> Inner {
    if arguments.iter().any(|word| word.is_unknown) {
        return Inner::Unclear("the text of eval is known only when it runs");
    }
    let texts: Vec<_> = arguments.iter().map(|word| word.text.as_str()).collect();
    Inner::Script(texts.join(" "))
}

/// `find … -exec COMMAND ;` and the like of fd.
fn find(arguments: &[Word]) -> Inner {
    const EXECUTING: [&str; 8] =
        ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let is_executing =
        |word: &Word| EXECUTING.contains(&word.text.as_str()) || word.text.starts_with("--exec");
    let mut places = arguments.iter().enumerate().filter(|(_, word)| is_executing(word));
    let Some((at, _)) = places.next() else { return Inner::Nothing };
    if places.next().is_some() {
        return Inner::Unclear("find runs more than one command");
    }
    let words = arguments.get(at + 1..).unwrap_or_default();
    let command: Vec<Word> = words
        .iter()
        .take_while(|word| word.text != ";" && word.text != "+")
        .map(|word| Word { is_unknown: word.is_unknown || word.text.contains('{'), ..word.clone() })
        .collect();
    if command.is_empty() {
        return Inner::Unclear("the command of find cannot be read");
    }
    Inner::Command(command)
}
