//! What a mode says where no rule decides.

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
            allow("auto-edit mode runs edits inside the folder".into())
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
