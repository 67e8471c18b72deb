//! What a neuron asks for, in the log of this program.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver_api::{Clock, EgressAudit, EgressEvent};
use protocol::NeuronId;

/// Lines of one neuron within [`WINDOW`]: what people and package managers ask for is there one by
/// one, and a neuron that asks in a loop neither fills the disk nor pushes other lines out.
const LINES_MAX: u64 = 20;

/// In which time lines are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Writes what one neuron asks for into the log. No event holds a secret.
#[derive(Debug)]
pub(crate) struct EgressLog {
    neuron: NeuronId,
    clock: Arc<dyn Clock>,
    pace: Mutex<Pace>,
}

/// How many lines there were, and what has none.
#[derive(Debug, Default)]
struct Pace {
    begun: Duration,
    lines: u64,
    unsaid: Unsaid,
}

/// Requests without a line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unsaid {
    passed: u64,
    refused: u64,
}

impl Pace {
    /// Takes a request. Tells whether it has a line, and what is to be said before it of those that
    /// had none.
    fn take(&mut self, now: Duration, is_refused: bool) -> (bool, Unsaid) {
        let mut unsaid = Unsaid::default();
        if now.saturating_sub(self.begun) >= WINDOW {
            unsaid = std::mem::take(&mut self.unsaid);
            (self.begun, self.lines) = (now, 0);
        }
        if self.lines < LINES_MAX {
            self.lines += 1;
            return (true, unsaid);
        }
        match is_refused {
            true => self.unsaid.refused += 1,
            false => self.unsaid.passed += 1,
        }
        (false, unsaid)
    }
}

impl EgressLog {
    pub(crate) fn new(neuron: NeuronId, clock: Arc<dyn Clock>) -> Self {
        let pace = Pace { begun: clock.elapsed(), ..Pace::default() };
        Self { neuron, clock, pace: Mutex::new(pace) }
    }

    fn sum_up(&self, Unsaid { passed, refused }: Unsaid) {
        let neuron = &self.neuron;
        if refused > 0 {
            tracing::warn!(target: "egress", %neuron, passed, refused, "more requests, in a sum");
        } else if passed > 0 {
            tracing::info!(target: "egress", %neuron, passed, "more requests, in a sum");
        }
    }
}

impl EgressAudit for EgressLog {
    fn saw(&self, event: &EgressEvent) {
        let now = self.clock.elapsed();
        let (has_line, unsaid) = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.take(now, event.refused.is_some())
        };
        self.sum_up(unsaid);
        if !has_line {
            return;
        }
        let EgressEvent { neuron, method, host, port, .. } = event;
        let address = event.address.map(|address| address.to_string()).unwrap_or_default();
        match &event.refused {
            Some(why) => tracing::warn!(
                target: "egress", %neuron, method, host, port, address, why, "refused"
            ),
            None => tracing::info!(
                target: "egress", %neuron, method, host, port, address, status = event.status,
                credential = event.has_credential, "let through"
            ),
        }
    }
}

impl Drop for EgressLog {
    fn drop(&mut self) {
        let unsaid = self.pace.get_mut().unwrap_or_else(PoisonError::into_inner).unsaid;
        self.sum_up(unsaid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neuron_that_asks_in_a_loop_has_a_few_lines_and_a_sum() {
        let mut pace = Pace::default();
        let at = |second: u64| Duration::from_secs(second);
        let lines = (0..1_000).filter(|_| pace.take(at(1), true).0).count();
        assert_eq!(lines, 20);
        assert_eq!(pace.take(at(9), false), (false, Unsaid::default()));
        // What had no line is said before the first one of the next window, once.
        assert_eq!(pace.take(at(10), true), (true, Unsaid { passed: 1, refused: 980 }));
        assert_eq!(pace.take(at(11), true), (true, Unsaid::default()));
        // Whoever asks now and then has every line.
        assert!((0..1_000).all(|turn| pace.take(at(20 + turn), true) == (true, Unsaid::default())));
    }
}
