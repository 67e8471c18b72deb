//! Which part of the log the model reads: what was rewound is cut out, what was compacted is
//! replaced by its summary. Both are a fold, so both can be taken back.

use protocol::Seq;
use protocol::event::{Compacted, Rewound};
use serde::{Deserialize, Serialize};

/// The part of the log that the model reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Positions that were rewound, from and to, both included; in order, apart from each other.
    cuts: Vec<(Seq, Seq)>,
    /// Compactions that hold, oldest first; only the newest counts.
    compactions: Vec<Compaction>,
}

/// A compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compaction {
    /// Where it was recorded.
    pub(crate) at: Seq,
    /// The last position that its summary stands for.
    pub(crate) through: Seq,
    /// The prompt that is kept word for word.
    pub(crate) kept: Option<Seq>,
    /// Tokens before it.
    pub(crate) before: u64,
    /// Where it was taken back.
    undone_at: Option<Seq>,
}

impl View {
    /// Takes a compaction.
    pub(crate) fn compacted(&mut self, at: Seq, compacted: &Compacted) {
        let Compacted { through, kept, before, .. } = *compacted;
        let undone_at = None;
        self.compactions.push(Compaction { at, through, kept, before, undone_at });
    }

    /// Takes the newest compaction back.
    pub(crate) fn uncompacted(&mut self, seq: Seq, at: Seq) {
        for compaction in self.compactions.iter_mut().filter(|compaction| compaction.at == at) {
            compaction.undone_at = Some(seq);
        }
    }

    /// Takes a rewinding.
    pub(crate) fn rewound(&mut self, at: Seq, rewound: &Rewound) {
        let Some(from) = rewound.from else { return };
        self.cuts.retain(|(first, _)| *first < from);
        self.cuts.push((from, at));
        // What was compacted in the part that is cut was never compacted.
        self.compactions.retain(|compaction| compaction.at < from);
        // And what was taken back there holds again.
        for compaction in &mut self.compactions {
            compaction.undone_at = compaction.undone_at.filter(|undone| *undone < from);
        }
    }

    /// Returns the compaction that counts.
    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        self.compactions.iter().rev().find(|compaction| compaction.undone_at.is_none())
    }

    /// Tells whether a position was rewound.
    pub(crate) fn is_cut(&self, seq: Seq) -> bool {
        self.cuts.iter().any(|(from, to)| (*from..=*to).contains(&seq))
    }

    /// Tells whether the model reads what stands at a position, leaving the summary aside.
    pub(crate) fn shows(&self, seq: Seq) -> bool {
        let is_summed = self
            .compaction()
            .is_some_and(|compaction| seq <= compaction.through && compaction.kept != Some(seq));
        !is_summed && !self.is_cut(seq)
    }
}
