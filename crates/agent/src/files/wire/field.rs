//! The fields of frames, one after the other.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Facts, WireError};
use crate::files::Kind;

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    // One over `u32` makes a frame that is over the limit anyway, so that it never leaves.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn put_path(out: &mut Vec<u8>, path: &Path) {
    put_bytes(out, path.as_os_str().as_bytes());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn put_option<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    put: impl FnOnce(&mut Vec<u8>, T),
) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

pub(super) fn put_facts(out: &mut Vec<u8>, facts: &Facts) {
    out.push(match facts.kind {
        Kind::File => 1,
        Kind::Folder => 2,
        Kind::Link => 3,
        Kind::Other => 4,
    });
    out.extend_from_slice(&facts.size.to_le_bytes());
    out.extend_from_slice(&facts.mode.to_le_bytes());
    out.extend_from_slice(&facts.modified_ns.to_le_bytes());
}

/// What was not read yet of a frame.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(kind: u8, rest: &'a [u8]) -> Self {
        Self { kind, rest }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let len = self.u32()? as usize;
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.malformed())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn path(&mut self) -> Result<PathBuf, WireError> {
        Ok(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    pub(super) fn text(&mut self) -> Result<String, WireError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| self.malformed())
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(self.malformed()),
        }
    }

    pub(super) fn facts(&mut self) -> Result<Facts, WireError> {
        let kind = match self.u8()? {
            1 => Kind::File,
            2 => Kind::Folder,
            3 => Kind::Link,
            4 => Kind::Other,
            _ => return Err(self.malformed()),
        };
        let (size, mode) = (self.u64()?, self.u32()?);
        Ok(Facts { kind, size, mode, modified_ns: self.array().map(i128::from_le_bytes)? })
    }

    /// Takes all that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }

    fn malformed(&self) -> WireError {
        WireError::Malformed(self.kind)
    }
}
