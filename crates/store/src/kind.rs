//! The numbers under which kinds of events are stored.
//!
//! A number is for ever: it is never changed and never given to another kind.

use protocol::EventKind;

/// Set where the body of a row stands in a file.
const IN_FILE: u8 = 128;

/// A kind as it is stored, with the mark of a body in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindCode(u8);

impl KindCode {
    /// Encodes a kind.
    pub(crate) fn new(kind: EventKind, in_file: bool) -> Self {
        Self(code(kind) | if in_file { IN_FILE } else { 0 })
    }

    /// Returns the stored number.
    pub(crate) fn get(self) -> u8 {
        self.0
    }

    /// Reads a stored number. What kind it stands for is another question.
    pub(crate) fn from_stored(stored: i64) -> Option<Self> {
        u8::try_from(stored).ok().map(Self)
    }

    /// Returns the kind, or nothing where this program knows none of that number.
    pub(crate) fn kind(self) -> Option<EventKind> {
        let wanted = self.0 & !IN_FILE;
        EventKind::ALL.iter().copied().find(|kind| code(*kind) == wanted)
    }

    /// Tells whether the body stands in a file.
    pub(crate) fn is_in_file(self) -> bool {
        self.0 & IN_FILE != 0
    }
}

/// Returns the number of a kind, from 1, below 128.
fn code(kind: EventKind) -> u8 {
    match kind {
        EventKind::SessionStart => 1,
        EventKind::TurnStart => 2,
        EventKind::TextDelta => 3,
        EventKind::ThinkingDelta => 4,
        EventKind::AssistantMessage => 5,
        EventKind::ToolCall => 6,
        EventKind::ToolStarted => 7,
        EventKind::ToolProgress => 8,
        EventKind::ToolResult => 9,
        EventKind::ToolDenied => 10,
        EventKind::Retry => 11,
        EventKind::Compacted => 12,
        EventKind::Usage => 13,
        EventKind::Notice => 14,
        EventKind::ModeChanged => 15,
        EventKind::ModelChanged => 16,
        EventKind::PermissionRequest => 17,
        EventKind::RequestResolved => 18,
        EventKind::PromptQueued => 19,
        EventKind::PromptStarted => 20,
        EventKind::PromptFinished => 21,
        EventKind::SessionUpdated => 22,
        EventKind::SessionClosed => 23,
        EventKind::Done => 24,
        EventKind::ContextSet => 25,
        EventKind::ContextAdded => 26,
        EventKind::CompactionUndone => 27,
        EventKind::CheckpointMade => 28,
        EventKind::ChangesRecorded => 29,
        EventKind::Rewound => 30,
        EventKind::QuestionRequest => 31,
        EventKind::PlanRequest => 32,
        EventKind::ToolsActivated => 33,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The schema and a statement of `read.rs` name these numbers.
    #[test]
    fn the_kind_with_an_index_of_its_own_keeps_its_numbers() {
        let codes = [false, true].map(|in_file| KindCode::new(EventKind::Usage, in_file).get());
        assert_eq!(codes, [13, 141]);
    }

    #[test]
    fn every_kind_has_a_number_of_its_own_and_comes_back() {
        let codes: BTreeSet<u8> = EventKind::ALL.iter().map(|kind| code(*kind)).collect();
        assert_eq!(codes.len(), EventKind::ALL.len());
        assert!(codes.iter().all(|code| (1..IN_FILE).contains(code)));
        for kind in EventKind::ALL {
            for in_file in [false, true] {
                let stored = KindCode::new(*kind, in_file);
                assert_eq!(KindCode::from_stored(i64::from(stored.get())), Some(stored));
                assert_eq!((stored.kind(), stored.is_in_file()), (Some(*kind), in_file));
            }
        }
        for unknown in [0, 127, 128, 255] {
            assert_eq!(KindCode::from_stored(unknown).unwrap().kind(), None);
        }
        assert_eq!(KindCode::from_stored(-1), None);
        assert_eq!(KindCode::from_stored(256), None);
    }
}
