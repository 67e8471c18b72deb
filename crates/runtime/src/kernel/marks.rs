//! Which recorded events doors show: how many there are up to a position, and where the newest of
//! them begin. An index with a mark every so often, so that neither needs the log to be read.

use protocol::event::EventClass;
use protocol::{EventKind, Seq};
use serde::{Deserialize, Serialize};

/// How many of the newest recorded events that doors show a replay has at least.
pub(crate) const WINDOW: u64 = 1_000;

/// One shown event in so many is marked; a replay has at most so many more than the window.
const STRIDE: u64 = 64;

/// Marks of one session: those of 65,000 events. Beyond, every second of the older ones goes.
const MARKS_MAX: usize = 1_024;

/// The newest marks, which stay as they are: more than the window has.
const MARKS_NEW: usize = 64;

/// The index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks {
    shown: u64,
    /// Positions of shown events, each with the number of those up to it.
    marks: Vec<(Seq, u64)>,
}

/// Where a replay begins at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The position.
    pub(crate) from: Seq,
    /// How many shown events are before it.
    pub(crate) before: u64,
}

/// Tells whether doors show recorded events of a kind.
pub(crate) fn is_shown(kind: EventKind) -> bool {
    matches!(kind.class(), EventClass::Public | EventClass::Server)
}

impl Marks {
    /// Takes note of a recorded event.
    pub(crate) fn note(&mut self, seq: Seq, kind: EventKind) {
        if !is_shown(kind) {
            return;
        }
        self.shown += 1;
        if self.shown.is_multiple_of(STRIDE) {
            self.marks.push((seq, self.shown));
        }
        if self.marks.len() > MARKS_MAX {
            let old = self.marks.len() - MARKS_NEW;
            let mut place = 0;
            self.marks.retain(|_| {
                place += 1;
                place > old || place % 2 == 0
            });
        }
    }

    /// Returns where the window begins.
    pub(crate) fn window(&self) -> Window {
        let before = self.shown.saturating_sub(WINDOW);
        let place = self.marks.partition_point(|(_, count)| *count <= before);
        let (from, before) = match place.checked_sub(1).and_then(|place| self.marks.get(place)) {
            Some((seq, count)) => (seq.next(), *count),
            None => (Seq(1), 0),
        };
        Window { from, before }
    }

    /// Returns the newest mark up to a position: where it is, and how many shown events there are
    /// up to it.
    pub(crate) fn up_to(&self, seq: Seq) -> (Seq, u64) {
        let place = self.marks.partition_point(|(at, _)| *at <= seq);
        let mark = place.checked_sub(1).and_then(|place| self.marks.get(place));
        mark.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every third event is for the core alone.
    fn kind(seq: u64) -> EventKind {
        if seq.is_multiple_of(3) { EventKind::ToolStarted } else { EventKind::Notice }
    }

    fn shown(range: impl Iterator<Item = u64>) -> u64 {
        range.filter(|seq| is_shown(kind(*seq))).count() as u64
    }

    #[test]
    fn the_window_has_the_newest_thousand_and_at_most_a_stride_more() {
        let mut marks = Marks::default();
        for last in 1..=4_000 {
            marks.note(Seq(last), kind(last));
            let Window { from, before } = marks.window();
            assert_eq!(before, shown(1..from.0), "{last}");
            let within = shown(from.0..=last);
            let all = shown(1..=last);
            assert!(within == all || (WINDOW..WINDOW + STRIDE).contains(&within), "{within}");
        }
    }

    #[test]
    fn marks_count_what_is_before_them_and_old_ones_thin_out() {
        let mut marks = Marks::default();
        let last = 300_000;
        for seq in 1..=last {
            marks.note(Seq(seq), kind(seq));
        }
        assert!(marks.marks.len() <= MARKS_MAX, "{}", marks.marks.len());
        for seq in [0, 1, 63, 96, 100, 5_000, 150_000, 299_000, last] {
            let (at, count) = marks.up_to(Seq(seq));
            assert!(at <= Seq(seq));
            assert_eq!(count, shown(1..=at.0), "up to {seq}");
        }
    }
}
