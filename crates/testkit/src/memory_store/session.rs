//! One session on the disk.

use driver_api::{
    Fault, LETTER_BYTES_MAX, LETTER_ID_BYTES_MAX, LETTERS_MAX, Letter, LogRow, SessionHead,
    Snapshot, StoreError,
};
use protocol::{Seq, SessionId, Timestamp};

/// Everything that is kept of a session.
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) cwd: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) head: SessionHead,
    pub(super) rows: Vec<LogRow>,
    /// Kept beside the rows, so that damage to them shows.
    pub(super) last_seq: Seq,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) letters: Vec<Letter>,
    pub(super) generation: u64,
    pub(super) owner: Option<u32>,
}

impl Session {
    /// Adds rows that follow the last one.
    pub(super) fn push(&mut self, id: &SessionId, rows: Vec<LogRow>) -> Result<(), StoreError> {
        let mut expected = self.last_seq;
        for row in &rows {
            expected = expected.next();
            if row.seq != expected {
                return Err(StoreError::Fault(Fault::new(format!(
                    "append to {id}: row {} stands where {} is due",
                    row.seq.0, expected.0
                ))));
            }
        }
        self.updated_at = rows.last().map_or(self.updated_at, |row| row.at);
        self.last_seq = expected;
        self.rows.extend(rows);
        Ok(())
    }

    /// Adds a letter, or says why it is not taken.
    pub(super) fn post(&mut self, letter: Letter) -> Result<(), &'static str> {
        if letter.body.len() > LETTER_BYTES_MAX || letter.id.len() > LETTER_ID_BYTES_MAX {
            return Err("it is too large");
        }
        match self.letters.iter().find(|waiting| waiting.id == letter.id) {
            Some(waiting) if *waiting == letter => return Ok(()),
            Some(_) => return Err("another of its id waits already"),
            None => {}
        }
        if self.letters.len() >= LETTERS_MAX {
            return Err("no more may wait");
        }
        self.letters.push(letter);
        Ok(())
    }
}
