//! One clock for all threads of the bench, whose times can stand in texts.

use std::sync::OnceLock;
use std::time::Instant;

static BEGUN: OnceLock<Instant> = OnceLock::new();

/// Returns the nanoseconds since the first call.
pub(crate) fn nanos() -> u64 {
    u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Writes the time into a text, so that whoever gets it can tell how old it is.
pub(crate) fn stamp() -> String {
    format!("@{:016}@", nanos())
}

/// Returns the times that stand in a text.
pub(crate) fn stamps(text: &str) -> impl Iterator<Item = u64> {
    text.split('@').skip(1).step_by(2).filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_again() {
        let before = nanos();
        let text = format!("{{\"text\":\"{}{} end\"}}", stamp(), stamp());
        let found: Vec<u64> = stamps(&text).collect();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|at| (before..=nanos()).contains(at)), "{found:?}");
    }
}
