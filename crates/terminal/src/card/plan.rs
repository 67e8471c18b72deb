//! The card of a plan.

use protocol::Mode;
use protocol::event::{Answer, PlanRequest};

use super::{Look, begin, end, markdown, put};

/// How many lines of a plan a card shows: what fits on two screens.
pub(super) const ON_CARD: usize = 80;
/// How many lines are shown where all of it is asked for.
pub(super) const WHOLE: usize = 2_000;

/// Draws what is asked.
pub(super) fn body(card: &mut String, request: &PlanRequest, look: Look, limit: usize) {
    begin(card, "a plan", &[], look);
    let lines = markdown::lines(&request.plan, look.paint);
    for line in lines.iter().take(limit) {
        put(card, format!("    {line}").trim_end());
    }
    if lines.len() > limit {
        let rest = lines.len() - limit;
        let words =
            format!("    … {rest} more lines: narthex approvals show {}", request.request_id);
        put(card, &look.paint.dim(&words));
    }
    end(card, request.expires_at, "rejects it", look);
}

/// Says what one can answer.
pub(super) fn keys(card: &mut String, has_full_auto: bool) {
    let full_auto = if has_full_auto { " · f in full-auto" } else { "" };
    put(card, &format!("    y approve, going on in mode ask · a in auto-edit{full_auto}"));
    put(card, "    n reject · or say what to change");
}

/// Reads what was said; none when it was nothing, or a letter that is no key.
pub(super) fn read(said: &str, has_full_auto: bool) -> Option<Answer> {
    let approved = |mode| Some(Answer::Approved { mode: Some(mode) });
    match said.to_ascii_lowercase().as_str() {
        "" => None,
        "y" | "yes" => approved(Mode::Ask),
        "a" => approved(Mode::AutoEdit),
        "f" if has_full_auto => approved(Mode::FullAuto),
        "n" | "no" => Some(Answer::Rejected { feedback: None }),
        slip if slip.chars().count() == 1 => None,
        _ => {
            let words = super::permission::words_after_no(said).to_owned();
            Some(Answer::Rejected { feedback: Some(words) })
        }
    }
}
