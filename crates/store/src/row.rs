//! A log row on its way to and from the disk: the large body set apart, the sum that tells damage.

use std::sync::Arc;

use crc::{CRC_32_ISCSI, Crc, Table};
use protocol::{FrameId, Seq, Timestamp};

use crate::blob::BlobHash;
use crate::kind::KindCode;

/// A body of more bytes than this goes to a file: rows stay small enough that reading a page of
/// them never takes much memory, and a large output is not copied through the WAL.
pub(crate) const INLINE_BYTES_MAX: usize = 1 << 20;

/// Castagnoli's polynomial finds every burst of up to 32 bits; sixteen tables make it faster than
/// the disk. The tables cost 16 KiB once.
const CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// How many low bits of a row's id hold its seq; the bits above hold the session's key.
pub(crate) const SEQ_BITS: u32 = 36;
/// The greatest seq: 6.8e10 events a session.
pub(crate) const SEQ_MAX: i64 = (1 << SEQ_BITS) - 1;
/// The greatest session key: 1.3e8 sessions.
pub(crate) const KEY_MAX: i64 = (1 << (63 - SEQ_BITS)) - 1;

/// Returns the id of a row. Both parts are in range: the callers check.
pub(crate) fn event_id(key: i64, seq: i64) -> i64 {
    key << SEQ_BITS | seq
}

/// A row ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct StoredRow {
    pub(crate) seq: Seq,
    pub(crate) frame: FrameId,
    pub(crate) at: Timestamp,
    pub(crate) kind: KindCode,
    /// The body, or the name of the file that holds it.
    pub(crate) body: Arc<str>,
    /// The file and its contents, where the body is large.
    pub(crate) file: Option<(BlobHash, Arc<str>)>,
}

impl StoredRow {
    /// Returns the sum under which the row is stored for the session `key`.
    pub(crate) fn sum(&self, key: i64) -> i64 {
        let at = self.at.0;
        row_sum(event_id(key, self.seq.0.cast_signed()), self.kind, at, self.frame, &self.body)
    }
}

/// Returns the sum of a row's columns. It covers the id, so that a row that turns up in another
/// place is found out too.
pub(crate) fn row_sum(id: i64, kind: KindCode, at: i64, frame: FrameId, body: &str) -> i64 {
    let mut digest = CRC.digest();
    digest.update(&id.to_le_bytes());
    digest.update(&[kind.get()]);
    digest.update(&at.to_le_bytes());
    digest.update(&frame.0.to_le_bytes());
    digest.update(body.as_bytes());
    stored(digest.finalize())
}

/// Returns the sum of a snapshot.
pub(crate) fn snapshot_sum(key: i64, seq: i64, version: i64, bytes: &[u8]) -> i64 {
    let mut digest = CRC.digest();
    for part in [key, seq, version] {
        digest.update(&part.to_le_bytes());
    }
    digest.update(bytes);
    stored(digest.finalize())
}

/// Returns the sum of a letter.
pub(crate) fn letter_sum(key: i64, id: &str, body: &str) -> i64 {
    let mut digest = CRC.digest();
    digest.update(&key.to_le_bytes());
    digest.update(id.as_bytes());
    // No text holds this byte, so that the border between the two is part of the sum.
    digest.update(&[0xff]);
    digest.update(body.as_bytes());
    stored(digest.finalize())
}

/// Sums are stored with a sign, because SQLite keeps such numbers in four bytes.
fn stored(sum: u32) -> i64 {
    i64::from(sum.cast_signed())
}

#[cfg(test)]
mod tests {
    use protocol::EventKind;

    use super::*;

    #[test]
    fn every_column_changes_the_sum() {
        let kind = KindCode::new(EventKind::Done, false);
        let other = KindCode::new(EventKind::Notice, false);
        let sum = row_sum(event_id(1, 2), kind, 3, FrameId(4), "body");
        let others = [
            row_sum(event_id(2, 2), kind, 3, FrameId(4), "body"),
            row_sum(event_id(1, 3), kind, 3, FrameId(4), "body"),
            row_sum(event_id(1, 2), other, 3, FrameId(4), "body"),
            row_sum(event_id(1, 2), kind, 4, FrameId(4), "body"),
            row_sum(event_id(1, 2), kind, 3, FrameId(5), "body"),
            row_sum(event_id(1, 2), kind, 3, FrameId(4), "bodY"),
        ];
        assert!(others.iter().all(|other| *other != sum));
    }

    #[test]
    fn every_part_of_a_letter_changes_the_sum() {
        let sum = letter_sum(1, "ab", "c");
        let others = [letter_sum(2, "ab", "c"), letter_sum(1, "a", "bc"), letter_sum(1, "ab", "d")];
        assert!(others.iter().all(|other| *other != sum));
    }

    #[test]
    fn the_sum_is_the_published_one() {
        // The check value of CRC-32C over "123456789".
        assert_eq!(CRC.checksum(b"123456789"), 0xE306_9283);
    }
}
