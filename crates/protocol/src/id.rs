//! Ids and positions. Positions are types, so that a log position is never taken for a frame.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

stdx::id_type!(
    /// A durable conversation.
    SessionId
);
stdx::id_type!(
    /// A prompt: what sets off one turn.
    PromptId
);
stdx::id_type!(
    /// A message of the transcript.
    MessageId
);
stdx::id_type!(
    /// A tool call, unique within its session.
    ToolCallId
);
stdx::id_type!(
    /// An interaction that waits for an answer.
    RequestId
);
stdx::id_type!(
    /// A point that a session can go back to: before one of its prompts.
    CheckpointId
);
stdx::id_type!(
    /// A captured tree of files: the hash of its manifest.
    TreeId
);

stdx::id_type!(
    /// A sandbox with a life of its own: 1 to 64 letters, digits, `_` and `-`.
    NeuronId
);

/// The 32 letters of core ids: Crockford's alphabet in lower case, without i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Encodes 128 bits (a UUIDv7) as the 26 letters of a core id; the order of the numbers is kept.
pub fn encode_id(bits: u128) -> String {
    (0..26)
        .rev()
        .map(|place| {
            let digit = (bits >> (place * 5)) & 31;
            let letter = usize::try_from(digit).ok().and_then(|i| ALPHABET.get(i));
            char::from(letter.copied().unwrap_or(b'0'))
        })
        .collect()
}

/// A position in a session's log: dense, from 1. `Seq(0)` is before the first event.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The number of a frame in a session's stream: recorded events and deltas alike.
///
/// A frame id is `(life - 1) * 2^32 + n`, so that no id is handed out twice even when a process
/// died before it could say how many deltas it had sent.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct FrameId(pub u64);

impl FrameId {
    /// Returns the first frame of a life.
    pub fn first_of(life: Life) -> Self {
        Self(u64::from(life.0.saturating_sub(1)) << 32 | 1)
    }

    /// Returns the frame after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How many times a session was opened after an unclean end, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Life(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_26_letters_and_keep_order() {
        let small = encode_id(1);
        let large = encode_id(u128::MAX);
        assert_eq!((small.len(), large.len()), (26, 26));
        assert!(small < large);
        assert_eq!(small, "00000000000000000000000001");
        assert_eq!(large, "7zzzzzzzzzzzzzzzzzzzzzzzzz");
    }

    #[test]
    fn frames_of_a_later_life_are_greater() {
        assert_eq!(FrameId::first_of(Life(1)), FrameId(1));
        assert_eq!(FrameId::first_of(Life(2)), FrameId((1 << 32) + 1));
    }
}
