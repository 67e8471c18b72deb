//! Asking the model: the request, its limit, and how long it is tried again.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{ModelError, ModelErrorKind, ModelInfo, ModelRequest, ToolSpec};

use super::weight;
use crate::kernel::{State, Transcript};

/// The first pause after a failure; it doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause, unless the provider asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often a stream that made no sense is tried again: more would be blind repetition.
const MALFORMED_MAX: u32 = 3;

/// The attempts at one model call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// How many have failed.
    pub(crate) failed: u32,
    /// How many of them made no sense.
    malformed: u32,
    /// When the first one failed.
    since: Option<Duration>,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait that long, then ask again.
    Retry(Duration),
    /// Tell the user.
    GiveUp,
}

impl Attempts {
    /// Counts a failure and says what to do. The budget is time, not attempts.
    pub(crate) fn after(
        &mut self,
        error: &ModelError,
        now: Duration,
        budget: Duration,
        random: u64,
    ) -> Next {
        self.failed += 1;
        self.malformed += u32::from(error.kind == ModelErrorKind::Malformed);
        let since = *self.since.get_or_insert(now);
        if !error.kind.is_retryable() || self.malformed > MALFORMED_MAX {
            return Next::GiveUp;
        }
        let doubled = PAUSE_FIRST.saturating_mul(1 << self.failed.saturating_sub(1).min(10));
        let ceiling = doubled.min(PAUSE_MAX);
        // Half of the pause is fixed and half is drawn, so that many callers spread out.
        let half_ms = u64::try_from(ceiling.as_millis() / 2).unwrap_or(u64::MAX).max(1);
        let drawn = Duration::from_millis(half_ms + random % half_ms);
        let pause = drawn.max(error.retry_after.unwrap_or_default());
        let spent = now.saturating_sub(since);
        if spent + pause > budget { Next::GiveUp } else { Next::Retry(pause) }
    }
}

/// Builds the request of a step.
pub(crate) fn request(
    transcript: &Transcript,
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    session: &str,
) -> ModelRequest {
    ModelRequest {
        system,
        tools,
        messages: transcript.messages(),
        max_output: None,
        effort: None,
        output: None,
        cache_key: session.to_owned(),
    }
}

/// Says why nothing that is left out of a request would make it fit the model's window, before
/// anybody pays for finding out: its instructions and tools alone are too long, or the prompt with
/// them is. Counts everything at its lowest possible price.
pub(crate) fn hopeless(state: &State, request: &ModelRequest, model: &ModelInfo) -> Option<String> {
    let window = model.context_window?;
    let (system, tools) = (request.system.len() as u64, weight::tools(&request.tools));
    let name = &model.id;
    if weight::tokens_least(system + tools) >= window {
        let (system, tools) = (weight::tokens(system), weight::tokens(tools));
        return Some(format!(
            "the instructions (about {system} tokens, files such as AGENTS.md among them) and the \
             tools (about {tools} tokens) alone do not fit {name}, which reads {window}: shorten \
             the instructions, or use a model with a larger window"
        ));
    }
    let prompt = state.turn.as_ref().map_or(0, |turn| turn.prompt_bytes);
    (weight::tokens_least(system + tools + prompt) >= window).then(|| {
        let tokens = weight::tokens_least(prompt);
        format!(
            "the prompt has at least {tokens} tokens and {name} reads {window}, instructions and \
             tools included: shorten it, or name a file that can be read in parts"
        )
    })
}

/// Says why a request as it stands cannot fit the model's window. Counts what the provider counted
/// last time, and what nobody has counted at its lowest possible price.
pub(crate) fn overflow(state: &State, request: &ModelRequest, model: &ModelInfo) -> Option<String> {
    let window = model.context_window?;
    let tokens = match state.is_counted {
        true => state.context_tokens.saturating_add(weight::tokens_least(state.context_grown)),
        false => weight::tokens_least(weight::request(request)),
    };
    (tokens >= window).then(|| {
        format!(
            "the conversation has at least {tokens} tokens and {} reads {window}: /compact \
             summarises it; or start a new session, or use a model with a larger window",
            model.id
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: ModelErrorKind) -> ModelError {
        ModelError::new(kind, "trouble")
    }

    #[test]
    fn pauses_grow_and_stay_within_the_budget() {
        let budget = Duration::from_secs(120);
        let mut attempts = Attempts::default();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        while let Next::Retry(pause) =
            attempts.after(&failure(ModelErrorKind::Overloaded), now, budget, 7)
        {
            pauses.push(pause);
            now += pause;
        }
        assert!(pauses.len() > 6, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX), "{pauses:?}");
        assert!(now <= budget, "{now:?}");
    }

    #[test]
    fn the_providers_wish_is_honoured_within_the_budget() {
        let mut attempts = Attempts::default();
        let mut error = failure(ModelErrorKind::RateLimited);
        error.retry_after = Some(Duration::from_secs(40));
        let budget = Duration::from_secs(60);
        let next = attempts.after(&error, Duration::ZERO, budget, 0);
        assert_eq!(next, Next::Retry(Duration::from_secs(40)));
        let next = attempts.after(&error, Duration::from_secs(40), budget, 0);
        assert_eq!(next, Next::GiveUp);
    }

    #[test]
    fn what_cannot_help_is_not_tried_again() {
        let budget = Duration::from_secs(120);
        for kind in [ModelErrorKind::Unauthorized, ModelErrorKind::ContextOverflow] {
            let next = Attempts::default().after(&failure(kind), Duration::ZERO, budget, 0);
            assert_eq!(next, Next::GiveUp, "{kind:?}");
        }
    }
}
