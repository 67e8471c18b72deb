//! Work on files below roots: where a path really leads, and reading, writing, removing and
//! listing exactly what was found there.
//!
//! Narthex calls these functions itself for folders of its own machine. Inside of a neuron
//! [`serve`] does the same for whoever connects, over the frames of [`wire`]: there is one
//! implementation, wherever a folder is.

mod beneath;
mod fact;
mod listing;
mod locate;
mod refusal;
mod replace;
mod service;
pub mod wire;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use rustix::fs::{AtFlags, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;

use self::beneath::Place;
pub use self::fact::{Facts, Kind};
pub use self::listing::{Entry, LIST_MAX, Listing, list};
pub use self::locate::Locator;
pub use self::refusal::FileError;
pub use self::replace::write;
pub use self::service::serve;

/// How many bytes a file that is written may have: far above any source file, far below what
/// would hurt, since it is held in memory.
pub const WRITE_MAX: u64 = 64 << 20;

/// A path after all links were followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The real absolute path.
    pub real: PathBuf,
    /// The real root that it lies beneath; absent where it lies beneath none.
    pub root: Option<PathBuf>,
}

impl Target {
    /// Returns the path relative to its root, or the whole path where it has none.
    pub fn shown(&self) -> String {
        let inner = self.root.as_ref().and_then(|root| self.real.strip_prefix(root).ok());
        match inner {
            Some(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Some(path) => path.display().to_string(),
            None => self.real.display().to_string(),
        }
    }
}

/// Reads a file of at most `limit` bytes and the facts of what was opened.
///
/// # Errors
/// [`FileError::NotFound`], [`FileError::Unfit`] for what is no file, [`FileError::TooLarge`],
/// [`FileError::Raced`] where a link has come up on the way since it was located.
pub fn read(file: &Target, limit: u64) -> Result<(Facts, Vec<u8>), FileError> {
    let shown = file.shown();
    // Without NONBLOCK a named pipe would hold up the open itself.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let place = Place::of(file)?;
    let open = place.open(flags).map_err(|error| place.refusal(error, "read"))?;
    let facts = Facts::of(&fstat(&open).map_err(|error| place.refusal(error, "read"))?);
    refusal::check_kind(facts.kind, &shown)?;
    refusal::check_size(&shown, facts.size, limit)?;
    let mut bytes = Vec::with_capacity(usize::try_from(facts.size).unwrap_or_default());
    // One byte more than allowed tells a file that has grown, or that has no size of its own.
    let mut source = File::from(open).take(limit.saturating_add(1));
    source.read_to_end(&mut bytes).map_err(|error| FileError::of_io(&error, "read", &shown))?;
    refusal::check_size(&shown, bytes.len() as u64, limit)?;
    Ok((facts, bytes))
}

/// Removes a file.
///
/// # Errors
/// As [`read`].
pub fn remove(file: &Target) -> Result<(), FileError> {
    let place = Place::of(file)?;
    let told = |error: Errno| place.refusal(error, "remove");
    let (folder, name) = place.folder().map_err(told)?;
    let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(told)?;
    refusal::check_kind(Facts::of(&stat).kind, &file.shown())?;
    unlinkat(&folder, name, AtFlags::empty()).map_err(told)
}
