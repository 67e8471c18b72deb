//! How long is waited before a lost server is tried again.

use std::time::Duration;

/// The first wait: a server that was restarted is back by then.
const FIRST: Duration = Duration::from_millis(500);

/// The longest wait: a person who repaired something is not kept waiting much longer.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a connection has to hold until the waits begin anew: one that breaks sooner is part
/// of the same trouble.
const HEALTHY: Duration = Duration::from_secs(60);

/// Doubles the wait with each failure.
#[derive(Debug)]
pub(crate) struct Damping {
    next: Duration,
}

impl Default for Damping {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Damping {
    /// Returns the next wait, between half and the whole of its step, so that the clients of a
    /// server that restarts do not come back all at once. `held` is how long the connection held,
    /// zero where none came about.
    pub(crate) fn wait(&mut self, held: Duration, random: u64) -> Duration {
        if held >= HEALTHY {
            self.next = FIRST;
        }
        let step = self.next;
        self.next = (step * 2).min(LONGEST);
        let half = step / 2;
        let half_ms = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_millis(random % (half_ms + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew_after_a_minute_of_health() {
        let mut damping = Damping::default();
        let mut most = || damping.wait(Duration::ZERO, 0).as_millis();
        let halves: Vec<_> = (0..9).map(|_| most()).collect();
        assert_eq!(halves, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(damping.wait(Duration::from_secs(59), 0).as_secs(), 30);
        assert_eq!(damping.wait(Duration::from_secs(60), 0).as_millis(), 250);
    }

    #[test]
    fn jitter_stays_within_the_step() {
        for random in [0, 1, 250, 251, u64::MAX] {
            let wait = Damping::default().wait(Duration::ZERO, random);
            assert!((250..=500).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
