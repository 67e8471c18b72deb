//! Commands that only look.

use crate::script::{Part, Script, Word, is_listed};

/// Programs that only look, whatever their arguments are.
const ALWAYS: &str = "\
    ls cat head tail wc pwd echo true false : test [ which type stat du df uname whoami id \
    groups grep egrep fgrep uniq cut tr diff cmp comm basename dirname realpath readlink nl \
    od hexdump strings md5sum sha1sum sha256sum tac rev fold column seq ps printf";

/// Programs that only look where none of these options stands.
const UNLESS: [(&str, &[&str]); 13] = [
    ("sort", &["-o", "--output", "-T", "--compress-program", "--files0-from"]),
    ("rg", &["--pre", "--hostname-bin", "-z", "--search-zip"]),
    ("tree", &["-o"]),
    ("file", &["-C", "-m", "-z", "-Z"]),
    ("date", &["-s", "--set"]),
    ("jq", &["-n", "--rawfile", "--slurpfile", "-f", "--from-file", "-L"]),
    ("find", &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fls", "-fprintf"]),
    ("xxd", &["-r"]),
    ("base64", &[]),
    ("cal", &[]),
    ("nproc", &[]),
    ("free", &[]),
    ("uptime", &[]),
];

/// Sub-commands of programs that only look.
const SUBCOMMANDS: [(&str, &str); 23] = [
    ("git", "status"),
    ("git", "diff"),
    ("git", "log"),
    ("git", "show"),
    ("git", "blame"),
    ("git", "ls-files"),
    ("git", "ls-tree"),
    ("git", "rev-parse"),
    ("git", "describe"),
    ("git", "shortlog"),
    ("git", "grep"),
    ("git", "cat-file"),
    ("git", "merge-base"),
    ("git", "rev-list"),
    ("git", "count-objects"),
    ("cargo", "metadata"),
    ("cargo", "tree"),
    ("go", "version"),
    ("go", "list"),
    ("npm", "ls"),
    ("npm", "view"),
    ("pip", "list"),
    ("pip", "show"),
];

/// Tells whether a command only looks: it changes nothing and runs nothing else. What it looks at
/// is another question.
#[must_use]
pub fn looks(part: &Part) -> bool {
    if part.hidden.is_some() || part.named > 0 {
        return false;
    }
    let name = part.trusted_name();
    let words = part.without_harmless_options();
    let arguments = words.get(1..).unwrap_or_default();
    let options = || arguments.iter().take_while(|word| word.text != "--");
    if is_listed(ALWAYS, name) {
        // `printf -v` sets a variable, `tail -f` only waits.
        let sets = name == "printf" && options().any(|word| word.text.starts_with("-v"));
        let writes_second = matches!(name, "uniq" | "xxd") && plain(arguments) > 1;
        return !sets && !writes_second;
    }
    if let Some((_, without)) = UNLESS.iter().find(|(program, _)| *program == name) {
        let is_set = |word: &&Word| without.iter().any(|option| word.text.starts_with(option));
        let is_open = !without.is_empty() && options().any(|word| word.may_be_option());
        // `date 0101…` sets the clock.
        let sets = name == "date" && arguments.iter().any(|it| !it.text.starts_with(['+', '-']));
        return !options().any(is_set) && !is_open && !sets;
    }
    let is_version = |word: &&Word| matches!(word.text.as_str(), "--version" | "-V");
    if arguments.len() == 1 && arguments.first().is_some_and(is_version) {
        return true;
    }
    let Some(command) = arguments.first() else { return false };
    SUBCOMMANDS.contains(&(name, command.text.as_str()))
        && !options().any(|word| word.text.starts_with("--output") || word.text == "--textconv")
}

fn plain(arguments: &[&Word]) -> usize {
    arguments.iter().filter(|word| !word.text.starts_with('-')).count()
}

/// Tells whether a whole line only looks: every command of it does, it writes nothing, and
/// nothing in it is in doubt.
#[must_use]
pub fn only_looks(script: &Script) -> bool {
    script.opaque.is_none()
        && script.blocked.is_none()
        && !script.parts.is_empty()
        && script.writes.iter().all(|write| !write.is_write)
        && script.folders.is_empty()
        && script.parts.iter().all(looks)
}
