//! Calls that bring the same result again and again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How often the same call with the same result is told to the model.
pub(crate) const TOLD_AT: u32 = 3;

/// How many pairs of call and result a turn remembers; beyond it counting begins anew.
const PAIRS_MAX: usize = 512;

/// How often each call of a turn brought the same result with nothing new in between.
///
/// A result that was not seen before is progress and sets the counts back: whoever edits a file
/// and runs the same failing test again is not going round in circles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeats {
    known: BTreeSet<(u64, u64)>,
    #[serde(with = "pairs")]
    counts: BTreeMap<(u64, u64), u32>,
    /// The pairs of the running step: a call that stands twice in one answer counts once.
    step: BTreeSet<(u64, u64)>,
    /// The highest count among the calls of the step.
    highest: u32,
}

impl Repeats {
    /// A new step begins.
    pub(crate) fn begin_step(&mut self) {
        self.step.clear();
        self.highest = 0;
    }

    /// Counts a result.
    pub(crate) fn note(&mut self, call: u64, result: u64) {
        let pair = (call, result);
        if !self.step.insert(pair) {
            return;
        }
        if self.known.len() >= PAIRS_MAX {
            self.known.clear();
            self.counts.clear();
        }
        if self.known.insert(pair) {
            self.counts.clear();
        }
        let count = self.counts.entry(pair).or_insert(0);
        *count += 1;
        self.highest = self.highest.max(*count);
    }

    /// Returns how often the newest step repeated itself.
    pub(crate) fn highest(&self) -> u32 {
        self.highest
    }

    /// Begins anew: a person let the turn go on.
    pub(crate) fn forgive(&mut self) {
        self.counts.clear();
        self.highest = 0;
    }
}

/// Counts in snapshots: JSON has no keys but strings, so they are a list.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<(u64, u64), u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        counts.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<(u64, u64), u32>, D::Error> {
        let list = Vec::<((u64, u64), u32)>::deserialize(deserializer)?;
        Ok(list.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_with_the_same_result_is_counted() {
        let mut repeats = Repeats::default();
        for expected in 1..=4 {
            repeats.begin_step();
            repeats.note(1, 10);
            assert_eq!(repeats.highest(), expected);
        }
        repeats.forgive();
        assert_eq!(repeats.highest(), 0);
        repeats.begin_step();
        repeats.note(1, 10);
        assert_eq!(repeats.highest(), 1);
    }

    #[test]
    fn the_same_call_twice_in_one_answer_counts_once() {
        let mut repeats = Repeats::default();
        repeats.begin_step();
        for _ in 0..4 {
            repeats.note(1, 10);
        }
        assert_eq!(repeats.highest(), 1);
    }

    #[test]
    fn two_calls_in_turns_are_a_circle_too() {
        let mut repeats = Repeats::default();
        for _ in 0..5 {
            repeats.begin_step();
            repeats.note(1, 10);
            repeats.note(2, 20);
        }
        assert!(repeats.highest() > TOLD_AT);
    }

    #[test]
    fn something_new_in_between_is_progress() {
        let mut repeats = Repeats::default();
        for edit in 0..10 {
            repeats.begin_step();
            repeats.note(100 + edit, 1);
            repeats.begin_step();
            repeats.note(1, 10);
            assert_eq!(repeats.highest(), 1);
        }
    }
}
