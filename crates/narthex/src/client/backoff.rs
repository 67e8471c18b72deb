//! How long to wait before another attempt.

use std::time::Duration;

use driver_api::{Ids, SystemIds};
use tokio::time::Instant;

use super::{ClientError, ClientOptions};

/// The longest wait that a server may ask for: beyond it the caller decides.
const ASKED_MAX: Duration = Duration::from_secs(60);

/// When there were enough failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// After so many attempts, the first one too.
    Attempts(u32),
    /// After so long without anything that went on.
    Time(Duration),
}

/// Waits that double, with full jitter, so that many clients of a server that comes back do not
/// come all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    options: ClientOptions,
    patience: Patience,
    failures: u32,
    failing_since: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(options: ClientOptions, patience: Patience) -> Self {
        Self { options, patience, failures: 0, failing_since: None }
    }

    /// Forgets the failures: something went on.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.failing_since = None;
    }

    /// Takes a failure that may pass: waits before the next attempt, or gives up.
    ///
    /// # Errors
    /// The failure itself, where there were enough, or where the server asks for too much time.
    pub(super) async fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let asked = error.retry_after();
        let wait = asked.unwrap_or_else(|| self.wait(SystemIds.random()));
        self.failures = self.failures.saturating_add(1);
        let is_enough = match self.patience {
            Patience::Attempts(count) => self.failures >= count,
            Patience::Time(length) => since.elapsed() + wait >= length,
        };
        if is_enough || wait > ASKED_MAX {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Returns the next wait: a random part of the step.
    fn wait(&self, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let step = self.options.backoff_first.saturating_mul(factor).min(self.options.backoff_max);
        let nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random % nanos.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ApiError;

    fn failure(retry_after: Option<u64>) -> ClientError {
        let retry_after = retry_after.map(Duration::from_secs);
        let (code, message) = (String::new(), String::new());
        ApiError { status: 503, code, message, request_id: None, retry_after }.into()
    }

    fn backoff(patience: Patience) -> Backoff {
        Backoff::new(ClientOptions::default(), patience)
    }

    #[test]
    fn waits_are_any_part_of_steps_that_double_up_to_the_longest() {
        let mut backoff = backoff(Patience::Attempts(5));
        let steps = [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000];
        for (failures, step) in [0, 1, 2, 3, 4, 5, 40].into_iter().zip(steps) {
            backoff.failures = failures;
            assert_eq!(backoff.wait(0), Duration::ZERO);
            assert_eq!(backoff.wait(step * 1_000_000), Duration::from_millis(step));
            assert_eq!(backoff.wait(step * 1_000_000 + 1), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_tried_five_times() {
        let mut backoff = backoff(Patience::Attempts(ClientOptions::default().attempts_max));
        let mut attempts = 1;
        while backoff.after(failure(None)).await.is_ok() {
            attempts += 1;
        }
        assert_eq!(attempts, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_tries_for_a_time_and_anew_once_something_went_on() {
        let mut backoff = backoff(Patience::Time(ClientOptions::default().give_up_after));
        for _ in 0..2 {
            let start = Instant::now();
            while backoff.after(failure(None)).await.is_ok() {}
            let took = start.elapsed();
            assert!(took > Duration::from_secs(100) && took < Duration::from_secs(120), "{took:?}");
            backoff.reset();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_gets_the_time_that_it_asks_for_up_to_a_minute() {
        let mut backoff = backoff(Patience::Attempts(5));
        let start = Instant::now();
        assert!(backoff.after(failure(Some(60))).await.is_ok());
        assert_eq!(start.elapsed(), Duration::from_secs(60));
        assert!(backoff.after(failure(Some(61))).await.is_err());
        assert_eq!(start.elapsed(), Duration::from_secs(60), "told at once");
    }
}
