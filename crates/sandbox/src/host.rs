//! The workspace of a folder of this machine: no isolation, only exactness.

mod beneath;
mod locate;
mod replace;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::agent::wire;
use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, Fault, FileStat, Located, Output, Process, Spawn, Workspace,
    WorkspaceError,
};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, statat, unlinkat};
use rustix::io::Errno;
use tokio::sync::mpsc;

use self::beneath::Place;
use self::locate::Locator;
use crate::agent::Agent;
use crate::environment::Environment;

/// How many bytes a file that is written may have: far above any source file, far below what
/// would hurt, since it is held in memory.
const WRITE_MAX: u64 = 64 << 20;

/// Which folder, and what is special about it.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The working folder; must exist.
    pub cwd: PathBuf,
    /// The folders that belong to the workspace; each must exist. The working folder is added
    /// where none of them contains it.
    pub roots: Vec<PathBuf>,
    /// Variables to set (or, with `None`, to remove) on top of this process's own, of which
    /// commands get all but the secrets.
    pub env: Vec<(String, Option<String>)>,
}

/// Opens a folder of this machine as a workspace. Its commands are run by `agent`.
///
/// # Errors
/// [`WorkspaceError::NotFound`], [`WorkspaceError::Unfit`] or [`WorkspaceError::Forbidden`] when
/// the working folder or a root is not a folder that can be entered.
pub fn host(options: HostOptions, agent: Agent) -> Result<Arc<dyn Workspace>, WorkspaceError> {
    let HostOptions { cwd, roots: named, env } = options;
    let cwd = real_folder(&cwd)?;
    let mut roots = Vec::new();
    for root in named {
        let root = real_folder(&root)?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    // The working folder lies beneath the first root: that is part of the contract.
    match roots.iter().position(|root| cwd.starts_with(root)) {
        Some(place) => roots.get_mut(..=place).unwrap_or_default().rotate_right(1),
        None => roots.insert(0, cwd.clone()),
    }
    let environment = Environment::new(std::env::vars_os(), env);
    let home = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let locator = Arc::new(Locator { cwd, roots, home });
    Ok(Arc::new(Host { locator, environment, agent }))
}

fn real_folder(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let shown = path.display().to_string();
    let real = path.canonicalize().map_err(|error| refusal(&error, "open", &shown))?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(WorkspaceError::Unfit(format!("{shown} is not a folder")))
    }
}

#[derive(Debug)]
struct Host {
    locator: Arc<Locator>,
    environment: Environment,
    agent: Agent,
}

#[async_trait]
impl Workspace for Host {
    fn cwd(&self) -> &Path {
        &self.locator.cwd
    }

    fn roots(&self) -> &[PathBuf] {
        &self.locator.roots
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        let (locator, path) = (Arc::clone(&self.locator), path.to_owned());
        aside(move || locator.locate(&path)).await
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let file = file.clone();
        aside(move || read(&file, limit)).await
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        check_size(file, bytes.len() as u64, WRITE_MAX)?;
        let (file, bytes) = (file.clone(), bytes.to_vec());
        aside(move || replace::replace(&file, &bytes, None)).await
    }

    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        check_size(file, bytes.len() as u64, WRITE_MAX)?;
        let (file, bytes) = (file.clone(), bytes.to_vec());
        aside(move || replace::replace(&file, &bytes, Some(mode))).await
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        let file = file.clone();
        aside(move || remove(&file)).await
    }

    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        check_input(spawn.stdin.len())?;
        let cwd = self.locator.cwd.join(&spawn.cwd);
        let env = self.environment.of_command(&cwd, &spawn.env)?;
        if let Some(word) = spawn.argv.iter().find(|word| word.contains('\0')) {
            return Err(WorkspaceError::Unfit(format!("{word:?} contains a NUL byte")));
        }
        let argv = spawn.argv.into_iter().map(String::into_bytes).collect();
        let cwd = OsString::from(cwd).as_bytes().to_vec();
        self.agent.spawn(wire::Spawn { argv, cwd, env, stdin: spawn.stdin }, output).await
    }
}

/// Runs file work where it may block.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Fault::with("work on files", error))?
}

fn read(file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
    let shown = file.shown();
    // Without NONBLOCK a named pipe would hold up the open itself.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let place = Place::of(file)?;
    let open = place.open(flags).map_err(|error| place.refusal(error, "read"))?;
    let stat = stat_of(&fstat(&open).map_err(|error| place.refusal(error, "read"))?);
    check_kind(stat.kind, &shown)?;
    check_size(file, stat.size, limit)?;
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default());
    // One byte more than allowed tells a file that has grown, or that has no size of its own.
    let mut source = File::from(open).take(limit.saturating_add(1));
    source.read_to_end(&mut bytes).map_err(|error| refusal(&error, "read", &shown))?;
    check_size(file, bytes.len() as u64, limit)?;
    Ok(Contents { bytes, stat })
}

fn remove(file: &Located) -> Result<(), WorkspaceError> {
    let place = Place::of(file)?;
    let told = |error: Errno| place.refusal(error, "remove");
    let (folder, name) = place.folder().map_err(told)?;
    let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(told)?;
    check_kind(stat_of(&stat).kind, &file.shown())?;
    unlinkat(&folder, name, AtFlags::empty()).map_err(told)
}

fn check_kind(kind: EntryKind, shown: &str) -> Result<(), WorkspaceError> {
    match kind {
        EntryKind::File => Ok(()),
        EntryKind::Folder => Err(WorkspaceError::Unfit(format!("{shown} is a folder"))),
        EntryKind::Other => {
            Err(WorkspaceError::Unfit(format!("{shown} is a device, pipe or socket, not a file")))
        }
        // All links were followed when the path was located.
        EntryKind::Link => Err(WorkspaceError::Raced(shown.to_owned())),
    }
}

fn check_size(file: &Located, size: u64, limit: u64) -> Result<(), WorkspaceError> {
    if size > limit {
        return Err(WorkspaceError::TooLarge { path: file.shown(), size, limit });
    }
    Ok(())
}

fn check_input(len: usize) -> Result<(), WorkspaceError> {
    // What the contract promises is what the frames carry.
    const { assert!(Spawn::STDIN_MAX == wire::STDIN_MAX) };
    if len > Spawn::STDIN_MAX {
        let (size, limit) = (len as u64, Spawn::STDIN_MAX as u64);
        return Err(WorkspaceError::TooLarge { path: "standard input".to_owned(), size, limit });
    }
    Ok(())
}

fn stat_of(stat: &Stat) -> FileStat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    #[allow(clippy::useless_conversion, reason = "the fields differ between architectures")]
    let (seconds, nanoseconds) = (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec));
    FileStat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        modified_ns: seconds * 1_000_000_000 + nanoseconds,
    }
}

/// Says why the system refused something.
fn refusal(error: &std::io::Error, what: &str, shown: &str) -> WorkspaceError {
    let Some(errno) = Errno::from_io_error(error) else {
        return Fault::new(format!("{what} {shown}: {error}")).into();
    };
    match errno {
        Errno::NOENT => WorkspaceError::NotFound(shown.to_owned()),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => WorkspaceError::Forbidden(shown.to_owned()),
        Errno::ISDIR => WorkspaceError::Unfit(format!("{shown} is a folder")),
        Errno::NOTDIR => {
            WorkspaceError::Unfit(format!("{shown} lies below something that is not a folder"))
        }
        Errno::NAMETOOLONG => WorkspaceError::Unfit(format!("{shown} is too long for a path")),
        Errno::INVAL => WorkspaceError::Unfit(format!("{shown} is no possible path")),
        Errno::NXIO | Errno::NODEV => {
            WorkspaceError::Unfit(format!("{shown} is a device, pipe or socket, not a file"))
        }
        _ => Fault::new(format!("{what} {shown}: {error}")).into(),
    }
}

/// A name as the system takes it.
type Name<'a> = &'a OsStr;
