//! A workspace over a folder of this machine that says it is elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, Fault, FileStat, Located, Output, Process, Spawn, Workspace,
    WorkspaceError,
};
use tokio::sync::{mpsc, watch};

use super::process;

/// Files and processes of one folder.
#[derive(Clone, Debug)]
pub struct FolderWorkspace {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    env: Vec<(String, String)>,
    /// A folder of programs that are found before those of the machine.
    bin: Option<PathBuf>,
    /// Programs that are not there.
    hidden: BTreeSet<String>,
    over: Option<watch::Receiver<bool>>,
}

impl FolderWorkspace {
    /// Opens a folder.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn new(folder: &Path) -> Result<Self, WorkspaceError> {
        let cwd = folder.canonicalize().map_err(|error| failed(folder, error))?;
        let roots = vec![cwd.clone()];
        let (env, hidden) = (Vec::new(), BTreeSet::new());
        Ok(Self { cwd, roots, env, bin: None, hidden, over: None })
    }

    /// Sets variables of its commands.
    #[must_use]
    pub fn with_env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env.extend(env);
        self
    }

    /// Puts a folder of programs before those of the machine and takes some away.
    #[must_use]
    pub fn with_programs(mut self, bin: PathBuf, hidden: BTreeSet<String>) -> Self {
        self.bin = Some(bin);
        self.hidden = hidden;
        self
    }

    /// Ends its commands with a fault once the cell says so.
    pub(super) fn until(mut self, over: watch::Receiver<bool>) -> Self {
        self.over = Some(over);
        self
    }

    /// Makes another folder the working one.
    pub(super) async fn entered(mut self, cwd: Option<&str>) -> Result<Self, WorkspaceError> {
        if let Some(cwd) = cwd {
            let located = self.locate(cwd).await?;
            let is_folder = located.stat.is_some_and(|stat| stat.kind == EntryKind::Folder);
            if !is_folder {
                return Err(WorkspaceError::Unfit(format!("{cwd} is no folder")));
            }
            self.cwd = located.real;
        }
        Ok(self)
    }
}

fn failed(path: &Path, error: std::io::Error) -> WorkspaceError {
    let name = path.display().to_string();
    match error.kind() {
        std::io::ErrorKind::NotFound => WorkspaceError::NotFound(name),
        std::io::ErrorKind::PermissionDenied => WorkspaceError::Forbidden(name),
        _ => Fault::with(format!("use {name}"), error).into(),
    }
}

fn stat(path: &Path) -> Option<FileStat> {
    let facts = path.metadata().ok()?;
    let kind = if facts.is_dir() {
        EntryKind::Folder
    } else if facts.is_file() {
        EntryKind::File
    } else {
        EntryKind::Other
    };
    let modified_ns = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
    Some(FileStat { kind, size: facts.len(), mode: facts.permissions().mode(), modified_ns })
}

fn stat_of(path: &Path) -> Result<FileStat, WorkspaceError> {
    stat(path).ok_or_else(|| WorkspaceError::NotFound(path.display().to_string()))
}

#[async_trait]
impl Workspace for FolderWorkspace {
    fn cwd(&self) -> &Path {
        &self.cwd
    }

    fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        if path.is_empty() || path.contains('\0') {
            return Err(WorkspaceError::Unfit("the path is empty".to_owned()));
        }
        let mut real = self.cwd.join(path);
        let mut missing: Vec<OsString> = Vec::new();
        let mut real = loop {
            if let Ok(found) = real.canonicalize() {
                break found;
            }
            missing.extend(real.file_name().map(OsString::from));
            if !real.pop() {
                break PathBuf::from("/");
            }
        };
        real.extend(missing.into_iter().rev());
        let root = self.roots.iter().find(|root| real.starts_with(root)).cloned();
        Ok(Located { root, stat: stat(&real), real })
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let path = &file.real;
        let stat = stat_of(path)?;
        if stat.kind != EntryKind::File {
            return Err(WorkspaceError::Unfit(format!("{} is no file", path.display())));
        }
        if stat.size > limit {
            let path = path.display().to_string();
            return Err(WorkspaceError::TooLarge { path, size: stat.size, limit });
        }
        let bytes = std::fs::read(path).map_err(|error| failed(path, error))?;
        Ok(Contents { bytes, stat })
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        let path = &file.real;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| failed(path, error))?;
        }
        std::fs::write(path, bytes).map_err(|error| failed(path, error))?;
        stat_of(path)
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        std::fs::remove_file(&file.real).map_err(|error| failed(&file.real, error))
    }

    async fn spawn(
        &self,
        mut spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        let program = spawn.argv.first().cloned().unwrap_or_default();
        if self.hidden.contains(&program) {
            return Err(WorkspaceError::NotFound(program));
        }
        if spawn.stdin.len() > Spawn::STDIN_MAX {
            let (size, limit) = (spawn.stdin.len() as u64, Spawn::STDIN_MAX as u64);
            return Err(WorkspaceError::TooLarge { path: "stdin".to_owned(), size, limit });
        }
        let mut env: Vec<_> =
            self.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        if let Some(bin) = &self.bin {
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
            env.push(("PATH".to_owned(), Some(path)));
        }
        env.append(&mut spawn.env);
        spawn.env = env;
        let started = process::start(spawn, output, self.over.clone());
        started.map_err(|error| failed(Path::new(&program), error))
    }
}

/// Copies a folder's files and links into another folder.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Reads all files beneath a folder, by their path in it.
pub(super) fn files(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        for entry in std::fs::read_dir(folder.join(&inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                found.insert(path, std::fs::read(entry.path())?);
            }
        }
    }
    Ok(found)
}
