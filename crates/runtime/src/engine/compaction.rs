//! Compaction: which part of a conversation a summary will stand for, and what it says.
//!
//! Pure: the session reads the log and asks the model; here is decided what they are about.

mod mechanical;
mod record;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use mechanical::put_together;
pub(crate) use record::{Record, shorten};
pub(crate) use words::{Parts, compose, instruction};

use protocol::event::PromptStarted;
use protocol::{EventBody, Seq};

use super::stored::Shown;
use super::weight;
use crate::kernel::{FREED_PERCENT_MIN, is_withdrawn};

/// How much of the room for messages those may have that stay word for word, in percent.
const TAIL_PERCENT: u64 = 25;

/// How much of the room the user's earlier prompts may have, word for word, in percent.
const PROMPTS_PERCENT: u64 = 10;

/// How much of the room the names of files may have, in percent.
const FILES_PERCENT: u64 = 2;

/// How much of the window the request for a summary may have, in percent.
const REQUEST_PERCENT: u64 = 50;

/// The longest summary that a model is asked for, in tokens; longer ones are hardly read.
const SUMMARY_TOKENS_MAX: u64 = 8_192;

/// The shortest limit of a summary, in tokens: less says nothing.
const SUMMARY_TOKENS_MIN: u64 = 1_024;

/// What a compaction is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The last position of the log.
    pub(crate) last: Seq,
    /// The size of the whole request, in tokens.
    pub(crate) size: u64,
    /// The bytes of instructions and tools.
    pub(crate) fixed: u64,
    /// The tokens that the model reads at most, as far as they are known.
    pub(crate) window: u64,
    /// Whether Narthex wants it, not a person.
    pub(crate) is_automatic: bool,
}

impl Frame {
    /// Returns the bytes that the text of a summary request may have.
    pub(crate) fn record_bytes(&self) -> u64 {
        weight::bytes_within(share(self.window, REQUEST_PERCENT))
    }

    /// Returns the bytes that the user's earlier prompts may have.
    pub(crate) fn prompt_bytes(&self) -> u64 {
        weight::bytes_within(share(self.room(), PROMPTS_PERCENT))
    }

    /// Returns the bytes that the names of files may have.
    pub(crate) fn file_bytes(&self) -> u64 {
        weight::bytes_within(share(self.room(), FILES_PERCENT))
    }

    /// Returns the limit of a summary, in tokens.
    pub(crate) fn summary_tokens(&self) -> u64 {
        (self.room() / 12).clamp(SUMMARY_TOKENS_MIN, SUMMARY_TOKENS_MAX)
    }

    /// Returns the tokens that are left for messages.
    fn room(&self) -> u64 {
        self.window.saturating_sub(weight::tokens(self.fixed))
    }
}

/// What will be summarised.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The last position that the summary stands for.
    pub(crate) through: Seq,
    /// The prompt that stays word for word although it lies before it.
    pub(crate) kept: Option<Seq>,
    /// The summary that stands there so far.
    pub(crate) earlier: Option<String>,
    /// What was said since, with where it stands.
    pub(crate) older: Vec<(Seq, EventBody)>,
    /// Tokens before.
    pub(crate) before: u64,
    /// Bytes of the whole request.
    bytes: u64,
    /// Bytes of it that stay.
    staying: u64,
}

impl Plan {
    /// Returns the bytes that the summary stands for.
    pub(crate) fn removed(&self) -> u64 {
        self.bytes.saturating_sub(self.staying)
    }

    /// Estimates the tokens of the request with a summary in place, on the scale of `before`.
    pub(crate) fn after(&self, summary: &str) -> u64 {
        scaled(self.staying + summary.len() as u64, self.before, self.bytes)
    }
}

/// Chooses what is summarised; none where there is nothing, or too little to be of any help.
///
/// The cut is right before an answer of the model, so that every call stays with its result and
/// the roles alternate; it is as early as the limit of what stays word for word allows. Where even
/// the newest answer with its results is beyond that limit, everything is summarised.
pub(crate) fn plan(shown: Vec<Shown>, frame: &Frame) -> Option<Plan> {
    let (earlier, items) = heard(shown);
    let weights: Vec<u64> = items.iter().map(|(_, body)| weight_of(body)).collect();
    let summed = earlier.as_ref().map_or(0, |text| text.len() as u64);
    let bytes = (frame.fixed + summed + weights.iter().sum::<u64>()).max(1);
    let tail_max = match frame.is_automatic {
        true => share(frame.room(), TAIL_PERCENT),
        // Whoever asks for it in a short conversation wants that one shorter.
        false => share(frame.room().min(frame.size), TAIL_PERCENT),
    };
    let mut tail = weights.iter().sum::<u64>();
    let mut cut = items.len();
    for (index, weight) in weights.iter().enumerate() {
        if is_border(&items, index) && scaled(tail, frame.size, bytes) <= tail_max {
            cut = index;
            break;
        }
        tail -= weight;
    }
    let through = match items.get(cut) {
        Some((seq, _)) => Seq(seq.0.saturating_sub(1)),
        None => frame.last,
    };
    let newest = items.iter().rposition(|(_, body)| is_prompt(body)).filter(|at| *at < cut);
    let kept = newest.and_then(|at| items.get(at)).map(|(seq, _)| *seq);
    let kept_bytes = newest.and_then(|at| weights.get(at)).copied().unwrap_or(0);
    let tail: u64 = weights.iter().skip(cut).sum();
    let mut older = items;
    older.truncate(cut);
    older.retain(|(seq, _)| Some(*seq) != kept);
    let staying = frame.fixed + tail + kept_bytes;
    let is_of_help = u128::from(bytes - staying) * 100 >= u128::from(bytes) * FREED_PERCENT_MIN;
    if older.is_empty() || (frame.is_automatic && !is_of_help) {
        return None;
    }
    Some(Plan { through, kept, earlier, older, before: frame.size, bytes, staying })
}

/// Takes what the model has heard: withdrawn prompts go, and what says nothing.
fn heard(shown: Vec<Shown>) -> (Option<String>, Vec<(Seq, EventBody)>) {
    let mut earlier = None;
    let mut items: Vec<(Seq, EventBody)> = Vec::with_capacity(shown.len());
    for piece in shown {
        match piece {
            Shown::Summary(_, _, text) => earlier = Some(text),
            Shown::Event(seq, _, body) => match &*body {
                EventBody::Done(done) if is_withdrawn(&done.result) => {
                    let at = items.iter().rposition(|(_, body)| is_prompt(body));
                    let is_unanswered =
                        |at: &usize| !items.iter().skip(*at).any(|(_, body)| is_answer(body));
                    if let Some(at) = at.filter(is_unanswered) {
                        items.truncate(at);
                    }
                }
                _ if weight_of(&body) > 0 => items.push((seq, *body)),
                _ => {}
            },
        }
    }
    (earlier, items)
}

/// Tells whether a cut may be right before an item: it is an answer that follows words of the
/// user or results. Two answers in a row belong together.
fn is_border(items: &[(Seq, EventBody)], index: usize) -> bool {
    let at = |index: usize| items.get(index).is_some_and(|(_, body)| is_answer(body));
    index > 0 && at(index) && !at(index - 1)
}

fn is_prompt(body: &EventBody) -> bool {
    matches!(body, EventBody::PromptStarted(PromptStarted { command: None, .. }))
}

fn is_answer(body: &EventBody) -> bool {
    matches!(body, EventBody::AssistantMessage(_))
}

/// Returns the bytes that an event adds to a request; zero for what no model reads.
fn weight_of(body: &EventBody) -> u64 {
    let said = |content: &[protocol::Block]| match content.iter().all(protocol::Block::is_blank) {
        true => 0,
        false => weight::blocks(content),
    };
    match body {
        EventBody::PromptStarted(started) if started.command.is_none() => said(&started.content),
        EventBody::AssistantMessage(message) => said(&message.content),
        EventBody::ToolResult(result) => weight::blocks(&result.output),
        EventBody::ToolDenied(denied) => denied.reason.len() as u64 + 1,
        EventBody::ContextAdded(added) => (added.source.len() + added.text.len()) as u64 + 1,
        _ => 0,
    }
}

/// Returns a share of a number of tokens.
fn share(tokens: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(tokens) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Returns bytes as tokens, on the scale on which `whole` bytes are `size` tokens.
fn scaled(bytes: u64, size: u64, whole: u64) -> u64 {
    let scaled = u128::from(bytes) * u128::from(size) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
