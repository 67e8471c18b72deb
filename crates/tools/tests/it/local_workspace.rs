//! A workspace on this machine, small enough to be read at once. The real one is another crate's.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, Exit, ExitStatus, Fault, FileStat, Located, Output, Process, Spawn,
    Workspace, WorkspaceError,
};
use tokio::sync::{mpsc, watch};

#[derive(Debug)]
pub(crate) struct LocalWorkspace {
    roots: Vec<PathBuf>,
    /// A file whose writing fails.
    pub(crate) broken: Mutex<Option<PathBuf>>,
    /// A file whose removal fails.
    pub(crate) stuck: Mutex<Option<PathBuf>>,
    /// Programs that are not there.
    pub(crate) missing: Mutex<Vec<String>>,
    pub(crate) is_remote: AtomicBool,
}

impl LocalWorkspace {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            roots: vec![folder.canonicalize().unwrap()],
            broken: Mutex::default(),
            stuck: Mutex::default(),
            missing: Mutex::default(),
            is_remote: AtomicBool::new(false),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.roots[0]
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
    Some(FileStat { kind, size: facts.len(), mode: facts.permissions().mode(), modified_ns: 0 })
}

#[async_trait]
impl Workspace for LocalWorkspace {
    fn cwd(&self) -> &Path {
        self.root()
    }

    fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    fn is_local(&self) -> bool {
        !self.is_remote.load(Ordering::Relaxed)
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        if path.is_empty() || path.contains('\0') {
            return Err(WorkspaceError::Unfit("the path is empty".to_owned()));
        }
        let mut real = self.root().join(path);
        let mut missing: Vec<OsString> = Vec::new();
        while real.canonicalize().is_err() {
            missing.push(real.file_name().unwrap().to_owned());
            real.pop();
        }
        let mut real = real.canonicalize().unwrap();
        real.extend(missing.into_iter().rev());
        let root = self.roots.iter().find(|root| real.starts_with(root)).cloned();
        Ok(Located { root, stat: stat(&real), real })
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let path = &file.real;
        let facts = path.metadata().map_err(|error| failed(path, error))?;
        if !facts.is_file() {
            return Err(WorkspaceError::Unfit(format!("{} is no file", path.display())));
        }
        if facts.len() > limit {
            let path = path.display().to_string();
            return Err(WorkspaceError::TooLarge { path, size: facts.len(), limit });
        }
        let bytes = std::fs::read(path).map_err(|error| failed(path, error))?;
        Ok(Contents { bytes, stat: stat(path).unwrap() })
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        let path = &file.real;
        if self.broken.lock().unwrap().as_ref() == Some(path) {
            return Err(WorkspaceError::Forbidden(path.display().to_string()));
        }
        let mode = path.metadata().ok().map(|facts| facts.permissions());
        std::fs::create_dir_all(path.parent().unwrap()).map_err(|error| failed(path, error))?;
        std::fs::write(path, bytes).map_err(|error| failed(path, error))?;
        if let Some(mode) = mode {
            std::fs::set_permissions(path, mode).unwrap();
        }
        Ok(stat(path).unwrap())
    }

    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        let is_new = !file.real.exists();
        self.write(file, bytes).await?;
        if is_new {
            std::fs::set_permissions(&file.real, PermissionsExt::from_mode(mode)).unwrap();
        }
        Ok(stat(&file.real).unwrap())
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        if self.stuck.lock().unwrap().as_ref() == Some(&file.real) {
            return Err(WorkspaceError::Forbidden(file.real.display().to_string()));
        }
        std::fs::remove_file(&file.real).map_err(|error| failed(&file.real, error))
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the tests of this crate need a process of their own"
    )]
    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        let program = &spawn.argv[0];
        if self.missing.lock().unwrap().contains(program) {
            return Err(WorkspaceError::NotFound(program.clone()));
        }
        let mut command = Command::new(program);
        command.args(&spawn.argv[1..]).current_dir(&spawn.cwd).process_group(0);
        let input = if spawn.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in &spawn.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().map_err(|error| failed(Path::new(program), error))?;
        let group = child.id();
        if let Some(mut pipe) = child.stdin.take() {
            // Nobody may read it.
            std::thread::spawn(move || drop(std::io::Write::write_all(&mut pipe, &spawn.stdin)));
        }
        let stdout = forward(child.stdout.take().unwrap(), output.clone(), Output::Stdout);
        let stderr = forward(child.stderr.take().unwrap(), output, Output::Stderr);
        let killed = Arc::new(AtomicBool::new(false));
        let (sender, exit) = watch::channel(None);
        let was_killed = killed.clone();
        std::thread::spawn(move || {
            let status = child.wait().unwrap();
            let leftovers = members(group);
            signal("KILL", group);
            stdout.join().unwrap();
            stderr.join().unwrap();
            let status = match status.code() {
                Some(code) => ExitStatus::Code(code),
                None => ExitStatus::Signal(status.signal().unwrap()),
            };
            let killed = was_killed.load(Ordering::SeqCst);
            sender.send_replace(Some(Exit { status, leftovers, killed }));
        });
        Ok(Box::new(Child { group, exit, killed }))
    }
}

fn forward(
    mut pipe: impl std::io::Read + Send + 'static,
    output: mpsc::Sender<Output>,
    wrap: fn(bytes::Bytes) -> Output,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let piece = wrap(bytes::Bytes::copy_from_slice(&buffer[..count]));
            if output.blocking_send(piece).is_err() {
                return;
            }
        }
    })
}

#[allow(clippy::disallowed_methods, reason = "the tests of this crate need a process of their own")]
fn signal(name: &str, group: u32) {
    let kill = format!("kill -{name} -{group} 2>/dev/null");
    Command::new("sh").args(["-c", &kill]).status().unwrap();
}

/// Counts the live processes of a group.
fn members(group: u32) -> u32 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats =
        processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let fields = stats.filter_map(|stat| {
        let rest = stat.rsplit_once(") ")?.1.to_owned();
        let fields: Vec<_> = rest.split(' ').map(str::to_owned).collect();
        (fields[0] != "Z" && fields[2] == group.to_string()).then_some(())
    });
    u32::try_from(fields.count()).unwrap()
}

#[derive(Debug)]
struct Child {
    group: u32,
    exit: watch::Receiver<Option<Exit>>,
    killed: Arc<AtomicBool>,
}

#[async_trait]
impl Process for Child {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let exit = self.exit.wait_for(Option::is_some).await.unwrap();
        Ok(exit.unwrap())
    }

    fn kill(&self, _grace: Duration) {
        self.killed.store(true, Ordering::SeqCst);
        signal("KILL", self.group);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit.borrow().is_none() {
            signal("KILL", self.group);
        }
    }
}
