//! What a mode says where no rule decides.

use std::path::Path;

use protocol::event::DeniedBy;
use protocol::{Effect, Mode};

use crate::{Call, Decision, Verdict};

/// Returns the refusal of plan mode, which no rule lifts.
pub(crate) fn refusal(mode: Mode, effect: Effect) -> Option<Verdict> {
    let what = match (mode, effect) {
        (Mode::Plan, Effect::Write) => "edits",
        (Mode::Plan, Effect::Execute) => "commands",
        (Mode::Plan, Effect::Destructive) => "what cannot be undone",
        _ => return None,
    };
    let reason = format!("refused: plan mode only looks, it runs no {what}");
    Some(Verdict::new(Decision::Deny, DeniedBy::Mode, reason))
}

/// Returns what the mode says to a call that no rule covers.
pub(crate) fn verdict(mode: Mode, call: &Call<'_>, effect: Effect) -> Verdict {
    let ask = |reason: String| Verdict::new(Decision::Ask, DeniedBy::Mode, reason);
    let allow = |reason: String| Verdict::new(Decision::Allow, DeniedBy::Mode, reason);
    if effect == Effect::Interact {
        return allow("questions to a person are not asked for".into());
    }
    if mode == Mode::FullAuto {
        return allow("full-auto mode runs what no rule forbids".into());
    }
    if !call.is_inside() {
        return ask(format!("{mode} mode asks before it touches a path outside the folder"));
    }
    match effect {
        Effect::Read => allow(format!("{mode} mode runs reads inside the folder")),
        Effect::Write if mode == Mode::AutoEdit && has_written_path(call) => {
            let written = call.paths.iter().filter(|path| path.is_write);
            let beneath = |real| Path::strip_prefix(real, call.cwd).unwrap_or(real);
            match written.map(|path| beneath(path.real)).find_map(acts) {
                Some(name) => {
                    ask(format!("{name} decides what other programs run, so it is asked"))
                }
                None => allow("auto-edit mode runs edits inside the folder".into()),
            }
        }
        Effect::Write => ask(format!("{mode} mode asks before edits")),
        Effect::Execute => ask(format!("{mode} mode asks before commands")),
        Effect::Network => ask(format!("{mode} mode asks before it uses the network")),
        Effect::Destructive => ask(format!("{mode} mode asks before what cannot be undone")),
        Effect::Interact => allow("questions to a person are not asked for".into()),
    }
}

/// An edit that names no path may be anywhere.
fn has_written_path(call: &Call<'_>) -> bool {
    call.paths.iter().any(|path| path.is_write)
}

/// Files and folders whose contents other programs run or obey without being asked: an edit there
/// is more than an edit.
const ACTING: [&str; 6] = [".git", ".narthex", ".envrc", ".mcp.json", ".vscode", ".githooks"];

/// Returns the part of a path that makes it act.
pub(crate) fn acts(path: &Path) -> Option<&'static str> {
    let names = path.components().filter_map(|part| part.as_os_str().to_str());
    let acting = |name: &str| ACTING.into_iter().find(|acting| acting.eq_ignore_ascii_case(name));
    names.into_iter().find_map(acting)
}

#[cfg(test)]
mod tests {
    use crate::{Call, Decision, PathUse, Policy};

    use super::*;

    fn decision(path: &str) -> Decision {
        let paths = [PathUse { real: Path::new(path), is_write: true, is_inside: true }];
        let call = Call {
            tool: "write_file",
            effect: Effect::Write,
            command: None,
            host: None,
            paths: &paths,
            cwd: Path::new("/w"),
            homes: crate::Homes::default(),
        };
        Policy::default().judge(Mode::AutoEdit, &call).decision
    }

    #[test]
    fn auto_edit_asks_before_it_writes_what_other_programs_obey() {
        for path in ["/w/.git/hooks/pre-commit", "/w/a/.GIT/config", "/w/.envrc", "/w/.mcp.json"] {
            assert_eq!(decision(path), Decision::Ask, "{path}");
        }
        for path in ["/w/a.txt", "/w/.gitignore", "/w/.github/workflows/ci.yml"] {
            assert_eq!(decision(path), Decision::Allow, "{path}");
        }
    }
}
