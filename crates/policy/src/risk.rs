//! How much a person should think before allowing a call.

use protocol::{Effect, Risk};

use crate::Call;
use crate::judge::Case;
use crate::shell::{Part, Script};

/// Commands that only look, with the words that follow them where that matters.
const LOOKING: [&str; 38] = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "pwd",
    "echo",
    "printf",
    "true",
    "false",
    "test",
    "[",
    "which",
    "file",
    "stat",
    "du",
    "df",
    "date",
    "uname",
    "whoami",
    "id",
    "grep",
    "rg",
    "sort",
    "uniq",
    "cut",
    "tr",
    "diff",
    "cmp",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "git status",
    "git diff",
    "git log",
    "git show",
    "cargo check",
];

/// Commands whose harm stays.
const HARMFUL: [&str; 32] = [
    "rm",
    "rmdir",
    "shred",
    "dd",
    "mkfs",
    "fdisk",
    "parted",
    "mount",
    "umount",
    "sudo",
    "doas",
    "su",
    "chown",
    "chmod",
    "kill",
    "pkill",
    "killall",
    "reboot",
    "shutdown",
    "systemctl",
    "crontab",
    "ssh",
    "scp",
    "rsync",
    "git push",
    "git reset",
    "git clean",
    "git checkout",
    "npm publish",
    "cargo publish",
    "docker",
    "kubectl",
];

/// Says how much a person should think before allowing the call. A hint for the card that asks:
/// no verdict depends on it.
#[must_use]
pub fn risk(call: &Call<'_>) -> Risk {
    let case = Case::new(call);
    match case.effect {
        Effect::Interact => Risk::Low,
        Effect::Read if call.is_inside() => Risk::Low,
        Effect::Read => Risk::Medium,
        Effect::Write if call.is_inside() && !call.paths.is_empty() => Risk::Low,
        Effect::Write | Effect::Destructive => Risk::High,
        Effect::Network => Risk::Medium,
        Effect::Execute => case.script.as_ref().map_or(Risk::Medium, of_script),
    }
}

fn of_script(script: &Script) -> Risk {
    let is_any = |names: &[&str], part: &Part| names.iter().any(|name| starts_with(part, name));
    if script.opaque.is_some() || script.parts.iter().any(|part| is_any(&HARMFUL, part)) {
        return Risk::High;
    }
    let only_looks = script.parts.iter().all(|part| is_any(&LOOKING, part));
    if only_looks && script.writes.is_empty() { Risk::Low } else { Risk::Medium }
}

/// Tells whether a command begins with these words.
fn starts_with(part: &Part, words: &str) -> bool {
    let texts = std::iter::once(part.base_name())
        .chain(part.words.iter().skip(1).map(|word| word.text.as_str()));
    words.split(' ').zip(texts.chain(std::iter::repeat(""))).all(|(wanted, word)| wanted == word)
}
