//! Programs with sub-commands: options that stand before them, and what makes git run others.

use crate::UNKNOWN;
use crate::runners::has_option;
use crate::script::{Part, Word};

/// Options of git itself whose value is the next word when it is not attached.
const GIT_VALUED: [&str; 8] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// Options of git itself without a value.
const GIT_FLAGS: [&str; 12] = [
    "-p",
    "--paginate",
    "-P",
    "--no-pager",
    "--bare",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--no-optional-locks",
    "--no-advice",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--icase-pathspecs",
];

/// Options of programs that stand before the sub-command and do no harm.
const HARMLESS: [(&str, &[&str]); 8] = [
    (
        "git",
        &[
            "--no-pager",
            "-P",
            "--no-optional-locks",
            "--literal-pathspecs",
            "--glob-pathspecs",
            "--icase-pathspecs",
            "--no-replace-objects",
            "--no-advice",
        ],
    ),
    ("cargo", &["-q", "--quiet", "-v", "-vv", "--verbose", "--locked", "--offline", "--frozen"]),
    ("npm", &["--silent", "-s", "--no-color", "--color=false", "--quiet"]),
    ("pnpm", &["--silent", "-s", "-r", "--recursive", "-w"]),
    ("yarn", &["--silent", "-s"]),
    ("pip", &["-q", "--quiet", "--disable-pip-version-check", "--no-input"]),
    ("uv", &["-q", "--quiet", "--offline", "--no-progress"]),
    ("go", &[]),
];

/// Programs whose first argument that is no option is a command of their own.
const WITH_SUBCOMMAND: [&str; 24] = [
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "pip",
    "pip3",
    "uv",
    "go",
    "docker",
    "podman",
    "kubectl",
    "helm",
    "gh",
    "glab",
    "poetry",
    "terraform",
    "systemctl",
    "apt",
    "apt-get",
    "brew",
    "rustup",
    "hg",
    "svn",
];

/// Settings of git that change nothing but what is shown or who is named.
const SETTINGS: [&str; 14] = [
    "color.",
    "core.quotepath=",
    "core.quotePath=",
    "user.name=",
    "user.email=",
    "advice.",
    "core.pager=cat",
    "commit.gpgsign=false",
    "tag.gpgsign=false",
    "commit.gpgSign=false",
    "init.defaultBranch=",
    "log.",
    "diff.renames=",
    "gc.auto=0",
];

/// Returns how many words of an option before the sub-command do no harm: 0 where it may.
fn harmless(program: &str, words: &[Word]) -> usize {
    let Some((first, after)) = words.split_first() else { return 0 };
    let text = first.text.as_str();
    if first.is_unknown() {
        return 0;
    }
    let known = HARMLESS.iter().find(|(name, _)| *name == program);
    if known.is_some_and(|(_, options)| options.contains(&text)) {
        return 1;
    }
    let value = after.first();
    match (program, text) {
        ("cargo", _) if text.starts_with('+') && text.len() > 1 => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            usize::from(text.chars().skip(1).all(is_name))
        }
        ("cargo", "--color") => 2,
        ("cargo" | "git", _) if text.starts_with("--color=") => 1,
        ("git", "-C")
        | ("npm" | "yarn", "--prefix" | "--cwd")
        | ("pnpm", "-C" | "--dir")
        | ("go", "-C") => 2 * usize::from(value.is_some_and(is_inside)),
        ("git", "-c") => {
            let is_shown = |word: &Word| {
                !word.is_unknown()
                    && SETTINGS.iter().any(|setting| match setting.ends_with(['.', '=']) {
                        true => word.text.starts_with(setting),
                        false => word.text == *setting,
                    })
            };
            2 * usize::from(value.is_some_and(is_shown))
        }
        _ => 0,
    }
}

/// Tells whether a folder lies beneath the one that the command starts in, by its name.
fn is_inside(word: &Word) -> bool {
    let text = word.text.as_str();
    !word.is_unknown()
        && !text.starts_with(['/', '~', '-'])
        && !text.is_empty()
        && text.split('/').all(|name| name != "..")
}

pub(crate) fn without_harmless_options(part: &Part) -> Vec<&Word> {
    let Some((program, mut rest)) = part.words.split_first() else { return Vec::new() };
    loop {
        let count = harmless(part.trusted_name(), rest);
        match rest.get(count..) {
            Some(after) if count > 0 => rest = after,
            _ => break,
        }
    }
    std::iter::once(program).chain(rest).collect()
}

/// How many words may be read as the sub-command, when options of which nothing is known stand
/// before it.
const READINGS_MAX: usize = 8;

pub(crate) fn readings(part: &Part) -> Vec<Vec<&Word>> {
    let mut readings = vec![part.words.iter().collect::<Vec<_>>()];
    let Some((program, mut rest)) = part.words.split_first() else { return readings };
    let name = part.base_name();
    if !WITH_SUBCOMMAND.contains(&name) {
        return readings;
    }
    // Each word that is no option may be the sub-command, as long as only options and what may
    // be their values stand before it.
    let mut may_be_value = false;
    while let Some((first, after)) = rest.split_first() {
        if readings.len() > READINGS_MAX {
            break;
        }
        let text = first.text.as_str();
        let is_option = text.starts_with('-') || name == "cargo" && text.starts_with('+');
        if !is_option {
            readings.push(std::iter::once(program).chain(rest).collect());
            if !may_be_value {
                break;
            }
        }
        let takes_value = name != "git" || !GIT_FLAGS.contains(&text);
        may_be_value = is_option && !text.contains('=') && takes_value;
        rest = after;
    }
    readings
}

/// Sub-commands of git whose options may run a program, so that a word that is known only when
/// it runs may be such an option.
const OPEN: [&str; 15] = [
    "archive",
    "bisect",
    "clone",
    "config",
    "diff",
    "fetch",
    "format-patch",
    "grep",
    "log",
    "ls-remote",
    "pull",
    "push",
    "rebase",
    "show",
    "submodule",
];

/// Tells whether a call of git runs a command that its arguments or settings name, or writes
/// where nobody looks.
pub(crate) fn runs(part: &Part) -> bool {
    let mut rest = part.words.get(1..).unwrap_or_default();
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        // It may be any option, or any sub-command.
        if first.is_unknown() {
            return true;
        }
        match harmless("git", rest) {
            0 => {}
            count => {
                rest = rest.get(count..).unwrap_or_default();
                continue;
            }
        }
        if text.starts_with("-c") || has_option(first, &["--config-env", "--exec-path"]) {
            // `--exec-path` alone only shows where.
            return text != "--exec-path";
        }
        if GIT_VALUED.contains(&text) {
            rest = after.get(1..).unwrap_or_default();
        } else if text.starts_with('-') {
            rest = after;
        } else {
            return subcommand_runs(text, after);
        }
    }
    false
}

fn subcommand_runs(command: &str, arguments: &[Word]) -> bool {
    let options: Vec<&Word> = arguments.iter().take_while(|word| word.text != "--").collect();
    let has = |names: &[&str]| options.iter().any(|word| has_option(word, names));
    let is_unknown = || arguments.iter().any(Word::is_unknown);
    if OPEN.contains(&command) && options.iter().any(|word| word.may_be_option()) {
        return true;
    }
    // `ext::COMMAND` is an address that runs one.
    if arguments.iter().any(|word| word.text.starts_with("ext::")) {
        return true;
    }
    match command {
        "rebase" => has(&["-x", "--exec"]),
        "bisect" => is_unknown() || arguments.iter().any(|word| word.text == "run"),
        "submodule" => is_unknown() || arguments.iter().any(|word| word.text == "foreach"),
        "filter-branch" | "difftool" | "mergetool" | "hook" | "send-email" | "instaweb" => true,
        "grep" => has(&["-O", "--open-files-in-pager"]),
        "config" => arguments.iter().any(sets_command),
        "diff" | "log" | "show" | "format-patch" | "stash" => has(&["--ext-diff", "--output"]),
        "clone" => has(&["--upload-pack", "-u", "-c", "--config", "--template"]),
        "init" => has(&["--template"]),
        "archive" => has(&["--exec", "--remote", "-o", "--output"]),
        "push" => has(&["--receive-pack", "--exec"]),
        "fetch" | "pull" | "ls-remote" | "fetch-pack" => has(&["--upload-pack", "--exec"]),
        "commit" | "add" | "status" | "branch" | "checkout" | "switch" | "restore" => false,
        _ => has(&["--exec", "--upload-pack", "--receive-pack"]),
    }
}

/// Tells whether a word names a setting from which git takes a command, or a command itself.
fn sets_command(word: &Word) -> bool {
    let text = word.text.to_ascii_lowercase();
    const ENDS: [&str; 12] = [
        "pager",
        "editor",
        "command",
        "cmd",
        "program",
        "helper",
        "textconv",
        "clean",
        "smudge",
        "process",
        "driver",
        "hookspath",
    ];
    const STARTS: [&str; 7] =
        ["alias.", "include.", "includeif.", "filter.", "core.fsmonitor", "core.ask", "pager."];
    text.starts_with('!')
        || text.contains(UNKNOWN)
        || STARTS.iter().any(|start| text.starts_with(start))
        || text.contains('.') && ENDS.iter().any(|end| text.ends_with(end))
        || matches!(text.as_str(), "-e" | "--edit")
}
