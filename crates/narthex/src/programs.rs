//! Programs that live on beside sessions: those of MCP servers, started through the workspace
//! agent, which owns their whole tree and ends it when this process is gone.

mod inside;
mod saying;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connect::{Child, Launcher, StdioServer};
use driver_api::{Fault, Ids, Output, Spawn, Workspace};
use sandbox::{Agent, HostOptions};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use self::saying::{Heard, WORDS_BYTES_MAX, hear};

/// Pieces of output on their way: the workspace agent has a window of its own behind them.
const PIECES_MAX: usize = 16;

/// How long a program may take to open its input. It takes a millisecond; a machine that swaps may
/// need seconds.
const OPEN_WAIT: Duration = Duration::from_secs(20);

/// Between two looks whether it did.
const OPEN_PAUSE: Duration = Duration::from_millis(2);

/// Opens its first argument as standard input and becomes the program that the rest names.
const BECOME: &str = "input=$1; shift; exec \"$@\" <\"$input\"";

/// Starts programs through a workspace agent.
///
/// The agent hands a command what it reads in one piece. A program that is spoken with reads from
/// a named pipe instead, whose name is gone as soon as it is open.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) agent: Agent,
    /// Where pipes are made: private to this user.
    pub(crate) run: PathBuf,
    /// The folder of a program that names none.
    pub(crate) folder: PathBuf,
    /// Variables that no program sees unless its settings set them.
    pub(crate) hidden_env: Vec<String>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) tasks: TaskTracker,
}

#[async_trait]
impl Launcher for Programs {
    async fn launch(
        &self,
        server: &StdioServer,
        inside: Option<&Arc<dyn Workspace>>,
    ) -> Result<Child, Fault> {
        match inside {
            Some(workspace) => inside::launch(self, server, workspace).await,
            None => self.launch_here(server).await,
        }
    }
}

impl Programs {
    /// Starts a program on this machine.
    async fn launch_here(&self, server: &StdioServer) -> Result<Child, Fault> {
        let folder = server.cwd.as_ref().unwrap_or(&self.folder);
        let what = &server.command;
        if !is_there(what, folder, server) {
            return Err(Fault::new(format!(
                "the program {what} was not found: install it, or name its whole path in 'command'"
            )));
        }
        let options = HostOptions {
            cwd: folder.clone(),
            roots: Vec::new(),
            env: self.hidden_env.iter().map(|name| (name.clone(), None)).collect(),
        };
        let starting = |error| Fault::with(format!("start {what} in {}", folder.display()), error);
        let workspace = sandbox::host(options, self.agent.clone()).map_err(starting)?;
        let pipe = Pipe::make(&self.run, self.ids.random())
            .map_err(|error| Fault::with(format!("make a pipe for {what}"), error))?;
        let mut argv = ["/bin/sh", "-c", BECOME, "sh"].map(str::to_owned).to_vec();
        argv.push(pipe.0.display().to_string());
        argv.push(what.clone());
        argv.extend(server.args.iter().map(|arg| arg.expose().clone()));
        let (pieces, output) = mpsc::channel(PIECES_MAX);
        let spawn = Spawn { argv, cwd: folder.clone(), env: env_of(server), stdin: Vec::new() };
        let mut process = workspace.spawn(spawn, pieces).await.map_err(starting)?;
        let stdin = tokio::select! {
            opened = pipe.open() => {
                opened.map_err(|error| Fault::with(format!("open the input of {what}"), error))?
            }
            // It never opened its input; what it says about that is in its output.
            exit = process.wait() => {
                exit.map_err(starting)?;
                return Err(Fault::new(format!("{what} ended at once{}", last_words(output))));
            }
        };
        drop(pipe);
        let Heard { stdout, stderr, process } = hear(Vec::new(), output, process, &self.tasks);
        Ok(Child { stdin: Box::new(stdin), stdout, stderr, process })
    }
}

/// Returns the variables that a server's settings set.
fn env_of(server: &StdioServer) -> Vec<(String, Option<String>)> {
    let env = server.env.iter();
    env.map(|(name, value)| (name.clone(), Some(value.expose().clone()))).collect()
}

/// Tells whether a program can be found, as a shell would. What cannot be told counts as there:
/// starting it tells.
fn is_there(program: &str, folder: &Path, server: &StdioServer) -> bool {
    if program.contains('/') {
        return folder.join(program).exists();
    }
    let own = server.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = match own {
        Some((_, path)) => Some(path.expose().into()),
        None => std::env::var_os("PATH"),
    };
    let Some(path) = path.filter(|path| !path.is_empty()) else { return true };
    is_on(&path, program, folder)
}

fn is_on(path: &OsStr, program: &str, folder: &Path) -> bool {
    std::env::split_paths(path).any(|place| folder.join(place).join(program).is_file())
}

/// Returns what a program that ended said last.
fn last_words(mut output: mpsc::Receiver<Output>) -> String {
    let mut said = Vec::new();
    while let Ok(piece) = output.try_recv() {
        let (Output::Stdout(bytes) | Output::Stderr(bytes)) = piece;
        said.extend_from_slice(&bytes);
        said.truncate(WORDS_BYTES_MAX);
    }
    match String::from_utf8_lossy(&said).trim() {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

/// A named pipe. The name goes when this does.
#[derive(Debug)]
struct Pipe(PathBuf);

impl Pipe {
    fn make(folder: &Path, number: u64) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("program-{number:016x}.in"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode)?;
        Ok(Self(path))
    }

    /// Waits until the other side is open.
    async fn open(&self) -> io::Result<pipe::Sender> {
        let end = tokio::time::Instant::now() + OPEN_WAIT;
        loop {
            match pipe::OpenOptions::new().open_sender(&self.0) {
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) =>
                {
                    if tokio::time::Instant::now() > end {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    tokio::time::sleep(OPEN_PAUSE).await;
                }
                opened => return opened,
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "remove a pipe");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("bin/tool"), "").unwrap();
        let bin = folder.path().join("bin");
        assert!(is_on(bin.as_os_str(), "tool", folder.path()));
        assert!(is_on(OsStr::new("/nowhere:bin"), "tool", folder.path()));
        assert!(!is_on(bin.as_os_str(), "other", folder.path()));
        let server = StdioServer {
            command: String::new(),
            args: Vec::new(),
            env: vec![("PATH".to_owned(), stdx::Secret::new("/nowhere".to_owned()))],
            cwd: None,
            scope: connect::Scope::Host,
        };
        assert!(is_there("bin/tool", folder.path(), &server));
        assert!(!is_there("./tool", folder.path(), &server));
        assert!(!is_there("tool", folder.path(), &server));
    }

    #[tokio::test]
    async fn a_pipe_is_private_and_its_name_goes() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let pipe = Pipe::make(&folder.path().join("run"), 7).unwrap();
        let path = pipe.0.clone();
        let facts = std::fs::metadata(&path).unwrap();
        assert!(facts.file_type().is_fifo());
        assert_eq!(facts.permissions().mode() & 0o777, 0o600);
        let (opened, mut reader) = tokio::join!(pipe.open(), async {
            pipe::OpenOptions::new().open_receiver(&path).unwrap()
        });
        let mut sender = opened.unwrap();
        drop(pipe);
        assert!(!path.exists());
        sender.write_all(b"hello").await.unwrap();
        drop(sender);
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut text).await.unwrap();
        assert_eq!(text, "hello");
    }
}
