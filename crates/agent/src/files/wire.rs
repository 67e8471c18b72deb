//! The frames between narthex and the file service of a neuron.
//!
//! A frame is a header of [`HEADER_LEN`] bytes (length of the rest as `u32`, kind as `u8`) and its
//! fields. Numbers are little-endian; paths are bytes. The service says [`Reply::Hello`] first;
//! after that each request has exactly one reply, in their order.

mod field;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use self::field::{Fields, put_bytes, put_facts, put_option, put_path, put_text};
use super::{Entry, Facts, FileError, Listing, Locator, Target, WRITE_MAX};

/// The version that the service names in its first frame. Both ends must speak the same.
pub const VERSION: u16 = 1;

/// How many bytes a header has.
pub const HEADER_LEN: usize = 5;

/// How many bytes of a file one frame carries, read or written: what may be written at all.
#[allow(clippy::cast_possible_truncation, reason = "64 MiB fit every usize")]
pub const BODY_MAX: usize = WRITE_MAX as usize;

/// How many bytes a frame may have after its header: a whole file, and room for what is said
/// about it: a path, or the roots of a workspace, each of which has at most 4 KiB.
pub const FRAME_MAX: usize = BODY_MAX + (1 << 20);

/// How many roots a workspace may have.
pub const ROOTS_MAX: usize = 128;

const LOCATE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE: u8 = 0x03;
const REMOVE: u8 = 0x04;
const LIST: u8 = 0x05;
const HELLO: u8 = 0x81;
const LOCATED: u8 = 0x82;
const CONTENTS: u8 = 0x83;
const WRITTEN: u8 = 0x84;
const REMOVED: u8 = 0x85;
const LISTED: u8 = 0x86;
const REFUSED: u8 = 0x87;

/// A frame that cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is longer than [`FRAME_MAX`].
    #[error("frame of {0} bytes is over the limit of {FRAME_MAX}")]
    TooLong(usize),
    /// Its kind is unknown.
    #[error("frame of unknown kind {0:#04x}")]
    Unknown(u8),
    /// Its fields end too early, go on too long, or have a value that does not exist.
    #[error("frame of kind {0:#04x} is malformed")]
    Malformed(u8),
}

/// What stands before the fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How many bytes follow.
    pub len: usize,
    /// The kind of frame.
    pub kind: u8,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn parse(bytes: [u8; HEADER_LEN]) -> Result<Self, WireError> {
        let [a, b, c, d, kind] = bytes;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > FRAME_MAX {
            return Err(WireError::TooLong(len));
        }
        Ok(Self { len, kind })
    }
}

/// What the service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Where a path leads.
    Locate {
        /// What it is relative to.
        from: Locator,
        /// The path.
        path: String,
    },
    /// Read a file.
    Read {
        /// The file.
        file: Target,
        /// How many bytes it may have; more than [`BODY_MAX`] is never sent.
        limit: u64,
    },
    /// Write a file.
    Write {
        /// The file.
        file: Target,
        /// The permission bits of a file that was not there.
        mode: Option<u32>,
        /// What it will hold.
        bytes: &'a [u8],
    },
    /// Remove a file.
    Remove {
        /// The file.
        file: Target,
    },
    /// List a folder.
    List {
        /// The folder.
        folder: Target,
        /// How many entries to send.
        limit: u32,
    },
}

/// What the service says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The first frame.
    Hello {
        /// The version that the service speaks.
        version: u16,
    },
    /// Where a path leads, and what is there.
    Located(Target, Option<Facts>),
    /// What was read.
    Contents(Facts, Vec<u8>),
    /// It was written.
    Written(Facts),
    /// It was removed.
    Removed,
    /// What lies in a folder.
    Listed(Listing),
    /// It was not done.
    Refused(FileError),
}

impl<'a> Request<'a> {
    /// Appends this request.
    ///
    /// # Errors
    /// [`WireError::TooLong`]; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Request::Locate { from, path } => frame(out, LOCATE, |out| {
                put_path(out, &from.cwd);
                field::put_count(out, from.roots.len());
                for root in &from.roots {
                    put_path(out, root);
                }
                put_option(out, from.home.as_deref(), put_path);
                put_text(out, path);
            }),
            Request::Read { file, limit } => frame(out, READ, |out| {
                put_target(out, file);
                out.extend_from_slice(&limit.to_le_bytes());
            }),
            Request::Write { file, mode, bytes } => frame(out, WRITE, |out| {
                put_target(out, file);
                put_option(out, *mode, |out, mode| out.extend_from_slice(&mode.to_le_bytes()));
                out.extend_from_slice(bytes);
            }),
            Request::Remove { file } => frame(out, REMOVE, |out| put_target(out, file)),
            Request::List { folder, limit } => frame(out, LIST, |out| {
                put_target(out, folder);
                out.extend_from_slice(&limit.to_le_bytes());
            }),
        }
    }

    /// Reads the fields of a request.
    ///
    /// # Errors
    /// [`WireError::Unknown`], [`WireError::Malformed`].
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new(kind, payload);
        let request = match kind {
            LOCATE => {
                let cwd = fields.path()?;
                let count = fields.u32()? as usize;
                if count > ROOTS_MAX {
                    return Err(WireError::Malformed(kind));
                }
                let roots = (0..count).map(|_| fields.path()).collect::<Result<_, _>>()?;
                let home = fields.option(Fields::path)?;
                let path = fields.text()?;
                Request::Locate { from: Locator { cwd, roots, home }, path }
            }
            READ => Request::Read { file: target(&mut fields)?, limit: fields.u64()? },
            WRITE => Request::Write {
                file: target(&mut fields)?,
                mode: fields.option(Fields::u32)?,
                bytes: fields.rest(),
            },
            REMOVE => Request::Remove { file: target(&mut fields)? },
            LIST => Request::List { folder: target(&mut fields)?, limit: fields.u32()? },
            _ => return Err(WireError::Unknown(kind)),
        };
        fields.end()?;
        Ok(request)
    }
}

impl Reply {
    /// Appends this reply.
    ///
    /// # Errors
    /// [`WireError::TooLong`]; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Reply::Hello { version } => {
                frame(out, HELLO, |out| out.extend_from_slice(&version.to_le_bytes()))
            }
            Reply::Located(target, facts) => frame(out, LOCATED, |out| {
                put_target(out, target);
                put_option(out, facts.as_ref(), put_facts);
            }),
            Reply::Contents(facts, bytes) => frame(out, CONTENTS, |out| {
                put_facts(out, facts);
                out.extend_from_slice(bytes);
            }),
            Reply::Written(facts) => frame(out, WRITTEN, |out| put_facts(out, facts)),
            Reply::Removed => frame(out, REMOVED, |_| ()),
            Reply::Listed(listing) => frame(out, LISTED, |out| {
                out.push(u8::from(listing.is_cut));
                field::put_count(out, listing.entries.len());
                for entry in &listing.entries {
                    put_bytes(out, entry.name.as_bytes());
                    put_facts(out, &entry.facts);
                }
            }),
            Reply::Refused(error) => frame(out, REFUSED, |out| put_error(out, error)),
        }
    }

    /// Reads the fields of a reply.
    ///
    /// # Errors
    /// [`WireError::Unknown`], [`WireError::Malformed`].
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new(kind, payload);
        let reply = match kind {
            HELLO => Reply::Hello { version: fields.u16()? },
            LOCATED => Reply::Located(target(&mut fields)?, fields.option(Fields::facts)?),
            CONTENTS => {
                let facts = fields.facts()?;
                Reply::Contents(facts, fields.rest().to_vec())
            }
            WRITTEN => Reply::Written(fields.facts()?),
            REMOVED => Reply::Removed,
            LISTED => Reply::Listed(listing(&mut fields)?),
            REFUSED => Reply::Refused(error(&mut fields)?),
            _ => return Err(WireError::Unknown(kind)),
        };
        fields.end()?;
        Ok(reply)
    }
}

fn put_target(out: &mut Vec<u8>, target: &Target) {
    put_path(out, &target.real);
    put_option(out, target.root.as_deref(), put_path);
}

fn target(fields: &mut Fields<'_>) -> Result<Target, WireError> {
    let real = fields.path()?;
    let root: Option<PathBuf> = fields.option(Fields::path)?;
    Ok(Target { real, root })
}

fn listing(fields: &mut Fields<'_>) -> Result<Listing, WireError> {
    let is_cut = fields.u8()? != 0;
    let count = fields.u32()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let name = OsString::from_vec(fields.bytes()?.to_vec());
        entries.push(Entry { name, facts: fields.facts()? });
    }
    Ok(Listing { entries, is_cut })
}

fn put_error(out: &mut Vec<u8>, error: &FileError) {
    let (kind, text) = match error {
        FileError::NotFound(text) => (1, text),
        FileError::Unfit(text) => (2, text),
        FileError::Forbidden(text) => (3, text),
        FileError::Raced(text) => (4, text),
        FileError::Failed(text) => (5, text),
        FileError::TooLarge { path, .. } => (6, path),
    };
    out.push(kind);
    put_text(out, text);
    if let FileError::TooLarge { size, limit, .. } = error {
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&limit.to_le_bytes());
    }
}

fn error(fields: &mut Fields<'_>) -> Result<FileError, WireError> {
    let kind = fields.u8()?;
    let text = fields.text()?;
    Ok(match kind {
        1 => FileError::NotFound(text),
        2 => FileError::Unfit(text),
        3 => FileError::Forbidden(text),
        4 => FileError::Raced(text),
        5 => FileError::Failed(text),
        6 => FileError::TooLarge { path: text, size: fields.u64()?, limit: fields.u64()? },
        _ => return Err(WireError::Malformed(REFUSED)),
    })
}

/// Appends a header, the fields, and then the length that they turned out to have.
fn frame(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    fields(out);
    let len = out.len() - start - HEADER_LEN;
    match (u32::try_from(len), out.get_mut(start..start + 4)) {
        (Ok(short), Some(place)) if len <= FRAME_MAX => {
            place.copy_from_slice(&short.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(WireError::TooLong(len))
        }
    }
}
