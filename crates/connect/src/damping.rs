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

/// How long changes of a list are gathered before it is asked for: several come together.
const GATHER: Duration = Duration::from_millis(100);

/// How far apart a list is asked for at least whose changes keep coming, at first.
const APART_FIRST: Duration = Duration::from_secs(1);

/// The same in the end: what is found half a minute later is found soon enough.
const APART_LONGEST: Duration = Duration::from_secs(30);

/// After how long without a change the next one counts as the first again.
const CALM: Duration = Duration::from_secs(60);

/// Spaces out how often a list is asked for that is said to have changed.
#[derive(Debug)]
pub(crate) struct Spacing {
    next: Duration,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { next: GATHER }
    }
}

impl Spacing {
    /// Returns how long to wait with a list. `calm` is how long there was no change since it was
    /// asked for before.
    pub(crate) fn wait(&mut self, calm: Duration) -> Duration {
        if calm >= CALM {
            self.next = GATHER;
        }
        let wait = self.next;
        self.next = (wait * 2).clamp(APART_FIRST, APART_LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_keeps_changing_is_asked_for_less_and_less() {
        let mut spacing = Spacing::default();
        let waits: Vec<_> = (0..8).map(|_| spacing.wait(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [100, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(spacing.wait(Duration::from_secs(59)).as_secs(), 30);
        assert_eq!(spacing.wait(Duration::from_secs(60)).as_millis(), 100);
    }

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
