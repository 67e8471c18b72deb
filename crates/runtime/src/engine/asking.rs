//! Asking the model: the request, its limit, and how long it is tried again.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Model, ModelError, ModelErrorKind, ModelRequest, ToolSpec};

use crate::kernel::{State, Transcript};

/// The first pause after a failure; it doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause, unless the provider asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often a stream that made no sense is tried again: more would be blind repetition.
const MALFORMED_MAX: u32 = 3;

/// Bytes of text per token at the most: below this estimate a request surely does not fit.
const BYTES_PER_TOKEN: u64 = 8;

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
        output_schema: None,
        cache_key: session.to_owned(),
    }
}

/// Says why a request cannot fit the model's window, before anybody pays for finding out. Counts
/// what the provider counted last time, and what came since at its lowest possible price.
pub(crate) fn overflow(state: &State, request: &ModelRequest, model: &dyn Model) -> Option<String> {
    let window = model.info().context_window?;
    let tokens = if state.context_tokens > 0 {
        state.context_tokens + state.context_grown / BYTES_PER_TOKEN
    } else {
        let fixed = request.system.len() as u64
            + request.tools.iter().map(|tool| tool.description.len() as u64).sum::<u64>();
        (fixed + state.context_grown) / BYTES_PER_TOKEN
    };
    (tokens >= window).then(|| {
        format!(
            "the conversation has at least {tokens} tokens and {} reads {window}: start a new \
             session, or use a model with a larger window",
            model.info().id
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
