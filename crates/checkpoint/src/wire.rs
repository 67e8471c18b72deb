//! Bytes of manifests: numbers of seven bits a byte, and byte strings with their length before.

use crate::hash::{self, Hash};

/// The most bytes that a number of 64 bits takes.
const NUMBER_BYTES_MAX: u32 = 10;

#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn of(head: &[u8]) -> Self {
        Self(head.to_vec())
    }

    pub(crate) fn number(&mut self, mut number: u64) -> &mut Self {
        while number >= 0x80 {
            self.0.push(low_byte(number) | 0x80);
            number >>= 7;
        }
        self.0.push(low_byte(number));
        self
    }

    /// A number below zero would take all ten bytes; here they are rare enough.
    pub(crate) fn signed(&mut self, number: i64) -> &mut Self {
        self.number(number.cast_unsigned())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn hash(&mut self, hash: &Hash) -> &mut Self {
        self.0.extend_from_slice(hash.as_bytes());
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

fn low_byte(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low & 0x7f
}

/// Reads what a [`Writer`] wrote; none for anything else.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn after(head: &[u8], bytes: &'a [u8]) -> Option<Self> {
        bytes.strip_prefix(head).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..NUMBER_BYTES_MAX {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(place * 7)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.number().map(u64::cast_signed)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(crate) fn hash(&mut self) -> Option<Hash> {
        self.take(hash::LENGTH).and_then(Hash::from_bytes)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut writer = Writer::of(b"head");
        for number in numbers {
            writer.number(number);
        }
        writer.signed(-5).bytes(b"\xff name").hash(&Hash::of(b"x"));
        let bytes = writer.finish();
        let mut reader = Reader::after(b"head", &bytes).unwrap();
        assert_eq!(numbers.map(|_| reader.number().unwrap()), numbers);
        assert_eq!(reader.signed(), Some(-5));
        assert_eq!(reader.bytes(), Some(b"\xff name".as_slice()));
        assert_eq!(reader.hash(), Some(Hash::of(b"x")));
        assert!(reader.is_empty());
    }

    #[test]
    fn what_is_cut_short_is_not_read() {
        let mut writer = Writer::default();
        writer.bytes(&[7; 300]);
        let bytes = writer.finish();
        for length in 0..bytes.len() {
            let mut reader = Reader::after(b"", &bytes[..length]).unwrap();
            assert_eq!(reader.bytes(), None, "{length}");
        }
        assert_eq!(Reader::after(b"", &[0xff; 12]).unwrap().number(), None);
    }
}
