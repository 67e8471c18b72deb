//! How much a person should think before allowing a call.

use protocol::{Effect, Risk};

use crate::Call;
use crate::judge::Case;
use crate::shell::{self, Part, Script};

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

/// Commands that delete or overwrite what nobody brings back, here or elsewhere.
const DESTRUCTIVE: [&str; 20] = [
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "dd",
    "mkfs",
    "wipefs",
    "fdisk",
    "parted",
    "truncate",
    "reboot",
    "shutdown",
    "git push",
    "git reset",
    "git clean",
    "npm publish",
    "npm unpublish",
    "cargo publish",
    "docker system",
    "kubectl delete",
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
    let is_harmful = |part: &Part| HARMFUL.iter().any(|words| starts_with(part, words));
    let is_hidden = script.parts.iter().any(|part| part.hidden.is_some());
    if script.opaque.is_some() || is_hidden || script.parts.iter().any(is_harmful) {
        return Risk::High;
    }
    if shell::only_looks(script) { Risk::Low } else { Risk::Medium }
}

/// Tells whether a script destroys something, or may: what cannot be read, or names its program in
/// a way that only running it shows, counts as well.
pub(crate) fn is_destructive(script: &Script) -> bool {
    let destroys = |part: &Part| {
        part.hidden.is_some() || DESTRUCTIVE.iter().any(|words| starts_with(part, words))
    };
    script.opaque.is_some() || script.parts.iter().any(destroys)
}

/// Tells whether a command begins with these words, by any way to read it.
fn starts_with(part: &Part, words: &str) -> bool {
    part.readings().iter().any(|reading| {
        let texts = std::iter::once(part.base_name())
            .chain(reading.iter().skip(1).map(|word| word.text.as_str()));
        words
            .split(' ')
            .zip(texts.chain(std::iter::repeat("")))
            .all(|(wanted, word)| wanted == word)
    })
}
