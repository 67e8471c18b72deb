//! Sessions of other stores: their words are taken, their rights are not.

use driver_api::{Fault, LogRow};
use protocol::event::{Notice, NoticeLevel};
use protocol::{EventBody, FrameId, Life, Mode};
use runtime_api::Error;

use super::rules::check_each;
use crate::kernel::is_shown;

/// Takes out of an imported log what would act here: its folder becomes `cwd` and is in no neuron,
/// its mode at most `mode_max`, its tools become `tools`, its rules that allow and its instructions
/// for the model go; its rules that deny and the effects that are asked for stay. The numbering
/// stays dense, so that positions in the file are positions in the copy.
pub(crate) fn disarm(
    rows: &mut [LogRow],
    cwd: &str,
    mode_max: Mode,
    tools: &[String],
) -> Result<(), Error> {
    for row in rows {
        // What cannot be decoded is refused when the log is folded.
        let Ok(body) = EventBody::decode(row.kind, &row.body) else { continue };
        let disarmed: EventBody = match body {
            EventBody::SessionStart(mut start) => {
                cwd.clone_into(&mut start.cwd);
                start.mode = start.mode.min(mode_max);
                start.neuron = None;
                start.sandbox = None;
                start.tools = tools.to_vec();
                start.allow.clear();
                start.append_system_prompt = None;
                start.max_turns = None;
                // What forbids is kept, and must be understood: left out it would allow.
                check_each("log: deny", &start.deny)?;
                start.into()
            }
            EventBody::ModeChanged(mut changed) => {
                changed.mode = changed.mode.min(mode_max);
                changed.into()
            }
            EventBody::ToolsActivated(mut activated) => {
                activated.names.clear();
                activated.into()
            }
            EventBody::RequestResolved(mut resolved) if resolved.rule.is_some() => {
                resolved.rule = None;
                resolved.into()
            }
            EventBody::ContextSet(_) => Notice {
                level: NoticeLevel::Info,
                code: Some("imported".to_owned()),
                message: "instructions of the imported session were left out".to_owned(),
            }
            .into(),
            _ => continue,
        };
        row.kind = disarmed.kind();
        row.body =
            disarmed.encode().map_err(|error| Fault::with("encode an imported event", error))?;
    }
    Ok(())
}

/// Numbers the frames of a copied log anew: those of the log it comes from count what was shown
/// there, or may be anything.
pub(crate) fn number_frames(rows: &mut [LogRow]) {
    let mut next = FrameId::first_of(Life(1));
    for row in rows {
        row.frame = match is_shown(row.kind) {
            true => next,
            // What no door shows has the frame of what was shown before it.
            false => FrameId(next.0 - 1),
        };
        if is_shown(row.kind) {
            next = next.next();
        }
    }
}
