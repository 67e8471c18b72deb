//! How plans and answers are written down: fields one after the other, numbers little-endian,
//! texts and paths as bytes behind their length, as in [`crate::wire`].

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::layer::{Layer, Layers};
use super::plan::{
    Answer, Base, BaseFolder, Egress, Failure, Folder, FolderWrites, HostId, Limits, MESSAGE_MAX,
    Missing, Plan, Probe, Report, ShownFile,
};

/// The version of all of it: both ends are installed together, and a stranger is told apart.
const VERSION: u16 = 1;

/// A message that cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It is longer than [`MESSAGE_MAX`].
    #[error("a message of {0} bytes is over the limit of {MESSAGE_MAX}")]
    TooLong(usize),
    /// It was written by another version.
    #[error(
        "the message is of version {0}, expected {VERSION}: install narthex and its agent anew"
    )]
    Version(u16),
    /// Its fields end too early, go on too long, or have a value that does not exist.
    #[error("the message is malformed")]
    Malformed,
}

type Read<T> = Result<T, CodecError>;

/// Something that can be written down and read again.
trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Read<Self>;
}

fn encode(value: &impl Field) -> Read<Vec<u8>> {
    let mut out = VERSION.to_le_bytes().to_vec();
    value.put(&mut out);
    if out.len() > MESSAGE_MAX { Err(CodecError::TooLong(out.len())) } else { Ok(out) }
}

fn decode<T: Field>(bytes: &[u8]) -> Read<T> {
    if bytes.len() > MESSAGE_MAX {
        return Err(CodecError::TooLong(bytes.len()));
    }
    let mut rest = bytes;
    let version = u16::from_le_bytes(array(&mut rest)?);
    if version != VERSION {
        return Err(CodecError::Version(version));
    }
    let value = T::take(&mut rest)?;
    if rest.is_empty() { Ok(value) } else { Err(CodecError::Malformed) }
}

macro_rules! message {
    ($($name:ident),*) => {$(
        impl $name {
            /// Writes it down.
            ///
            /// # Errors
            /// [`CodecError::TooLong`].
            pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
                encode(self)
            }

            /// Reads what [`Self::encode`] wrote.
            ///
            /// # Errors
            /// [`CodecError`].
            pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
                decode(bytes)
            }
        }
    )*};
}

message!(Plan, Answer, Probe);

fn array<const N: usize>(from: &mut &[u8]) -> Read<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>().ok_or(CodecError::Malformed)?;
    *from = rest;
    Ok(*taken)
}

macro_rules! number {
    ($($name:ty),*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Read<Self> {
                Ok(Self::from_le_bytes(array(from)?))
            }
        }
    )*};
}

number!(u8, u32, i32, u64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::Malformed),
        }
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // One over `u32` makes a message that is over the limit anyway, so that it never leaves.
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).put(out);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Read<&'a [u8]> {
    let len = u32::take(from)? as usize;
    let (taken, rest) = from.split_at_checked(len).ok_or(CodecError::Malformed)?;
    *from = rest;
    Ok(taken)
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        String::from_utf8(take_bytes(from)?.to_vec()).map_err(|_| CodecError::Malformed)
    }
}

impl Field for PathBuf {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(Path::as_os_str(self).as_bytes(), out);
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        Ok(OsString::from_vec(take_bytes(from)?.to_vec()).into())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        let count = u32::take(from)? as usize;
        // Each item has at least one byte, so a count beyond that is a lie; no memory for it.
        if count > from.len() {
            return Err(CodecError::Malformed);
        }
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl Field for Layers {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        Layers::from_bits(u32::take(from)?).ok_or(CodecError::Malformed)
    }
}

impl Field for Layer {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u8).put(out);
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        let index = u8::take(from)? as usize;
        Layer::ALL.get(index).copied().ok_or(CodecError::Malformed)
    }
}

impl Field for FolderWrites {
    fn put(&self, out: &mut Vec<u8>) {
        (*self == FolderWrites::Through).put(out);
    }

    fn take(from: &mut &[u8]) -> Read<Self> {
        Ok(if bool::take(from)? { FolderWrites::Through } else { FolderWrites::Layer })
    }
}

/// A structure whose fields are written in the order in which they are named.
macro_rules! structure {
    ($name:ident { $($field:ident),* }) => {
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Read<Self> {
                Ok(Self { $($field: Field::take(from)?),* })
            }
        }
    };
}

structure!(BaseFolder { path, is_mapped });
structure!(Folder { path, writes });
structure!(HostId { uid, gid });
structure!(Limits { memory_bytes, pids, cpu_millis, disk_bytes });
structure!(Egress { folder, socket });
structure!(ShownFile { outside, inside });
structure!(Plan {
    name,
    layers,
    base,
    layer,
    disk,
    folder,
    home,
    host_id,
    limits,
    cgroup_parents,
    egress,
    files
});
structure!(Missing { layer, reason });
structure!(Report { pid, layers, missing, cgroups, workspace, is_in_memory });
structure!(Failure { step, errno, cause });
structure!(Probe { layers, missing, landlock_abi });

/// An enumeration of two variants with one field each.
macro_rules! either {
    ($name:ident { $first:ident, $second:ident }) => {
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $name::$first(value) => {
                        out.push(1);
                        value.put(out);
                    }
                    $name::$second(value) => {
                        out.push(2);
                        value.put(out);
                    }
                }
            }

            fn take(from: &mut &[u8]) -> Read<Self> {
                match u8::take(from)? {
                    1 => Field::take(from).map($name::$first),
                    2 => Field::take(from).map($name::$second),
                    _ => Err(CodecError::Malformed),
                }
            }
        }
    };
}

either!(Base { Host, Root });
either!(Answer { Up, Failed });
