//! The agent that runs commands: the one beside this process, started when it is first needed and
//! again when it died, or the one of a neuron, to which one connects.

mod link;
mod process;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::agent::wire::{self, Step};
use driver_api::{Fault, Output, Process, Spawn, WorkspaceError};
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::link::Link;
use self::process::Pump;
use crate::environment::Environment;
use crate::neuron::{Door, Use};

/// How long a command may take to start. It takes a millisecond; a machine that swaps may need
/// seconds.
const START_TIME: Duration = Duration::from_secs(30);

/// How long [`Agent::close`] waits. The agent itself gives up after four seconds.
const CLOSE_TIME: Duration = Duration::from_secs(5);

const ENOENT: i32 = libc::ENOENT;

/// How to start an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The program and its arguments: `narthex-agent`, or narthex itself with `agent`.
    pub command: Vec<OsString>,
}

/// How one comes to an agent.
#[derive(Debug)]
enum Way {
    /// By starting it.
    Start {
        command: Vec<OsString>,
        /// How many files may be open in a command.
        open_files: Option<u64>,
    },
    /// By connecting to the neuron that it is the first process of.
    Connect(Arc<Door>),
}

/// The process that runs commands and owns their trees. A clone is another handle of the same.
///
/// When the last handle is dropped, or this process dies in whatever way, the agent ends every
/// tree and leaves.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    way: Way,
    link: Mutex<Option<Link>>,
    is_closed: AtomicBool,
    /// Cancelled to end what every agent runs that there ever was.
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Agent {
    /// Makes a handle. Nothing is started yet. Commands may have as many files open as this
    /// process may now: what it allows itself later is not theirs, since programs that look at
    /// every number up to their limit are slow with a high one, or fail.
    pub fn new(options: AgentOptions) -> Self {
        let open_files = getrlimit(Resource::Nofile).current;
        Self::by(Way::Start { command: options.command, open_files })
    }

    /// Makes a handle of a neuron's agent. What it runs ends when the last handle is dropped; the
    /// neuron itself lives on.
    pub(crate) fn of_neuron(door: Arc<Door>) -> Self {
        Self::by(Way::Connect(door))
    }

    fn by(way: Way) -> Self {
        Self {
            shared: Arc::new(Shared {
                way,
                link: Mutex::new(None),
                is_closed: AtomicBool::new(false),
                closing: CancellationToken::new(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Starts the process in the background, so that the first command does not wait for it.
    /// Returns at once; a failure shows with the first command. Outside of a runtime this does
    /// nothing.
    pub fn prestart(&self) {
        if tokio::runtime::Handle::try_current().is_ok() {
            let agent = self.clone();
            self.shared.tasks.spawn(async move {
                if let Err(error) = agent.link().await {
                    tracing::warn!(%error, "agent could not be started ahead");
                }
            });
        }
    }

    /// Ends every tree and waits until the agent has left, for at most five seconds. No command
    /// can be started afterwards.
    pub async fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Release);
        // Those that were given up for others, too.
        self.shared.closing.cancel();
        let link = self.shared.link.lock().await.take();
        if let Some(link) = link
            && tokio::time::timeout(CLOSE_TIME, link.close()).await.is_err()
        {
            tracing::warn!("agent did not leave in time");
        }
    }

    /// Returns the process id of the running agent, if there is one that was started here.
    pub async fn pid(&self) -> Option<u32> {
        self.shared.link.lock().await.as_ref().filter(|link| link.is_alive()).and_then(Link::pid)
    }

    /// Starts a command of a workspace.
    pub(crate) async fn spawn_in(
        &self,
        cwd: &Path,
        environment: &Environment,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        check_input(spawn.stdin.len())?;
        let cwd = cwd.join(&spawn.cwd);
        let env = environment.of_command(&cwd, &spawn.env)?;
        if let Some(word) = spawn.argv.iter().find(|word| word.contains('\0')) {
            return Err(WorkspaceError::Unfit(format!("{word:?} contains a NUL byte")));
        }
        let argv = spawn.argv.into_iter().map(String::into_bytes).collect();
        let cwd = OsString::from(cwd).as_bytes().to_vec();
        self.spawn(wire::Spawn { argv, cwd, env, stdin: spawn.stdin }, output).await
    }

    /// Starts a command. Its output goes to `output` piece by piece.
    async fn spawn(
        &self,
        spawn: wire::Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        let program = shown(spawn.argv.first().map_or(b"".as_slice(), Vec::as_slice));
        let cwd = shown(&spawn.cwd);
        let link = self.link().await?;
        let (id, requests, events) = link.register()?;
        let mut frame = Vec::new();
        // The length of the input was checked before, so it is the rest that is too long.
        wire::Request::Spawn(spawn).encode(id, &mut frame).map_err(|_| too_long(&program))?;
        let silent = link.silent().clone();
        let (pump, process) = Pump::new(id, (requests, silent), events, output);
        let (started, is_started) = oneshot::channel();
        // Dropping this future from here on drops the process, which ends the tree.
        let _task = self.shared.tasks.spawn(pump.run(frame, started));
        match tokio::time::timeout(START_TIME, is_started).await {
            Ok(Ok(Ok(()))) => Ok(Box::new(process)),
            Ok(Ok(Err((step, errno)))) => Err(refusal(step, errno, &program, &cwd)),
            Ok(Err(_)) => {
                // A neuron that does not run any more is told as that.
                if matches!(self.shared.way, Way::Connect(_)) {
                    self.link().await?;
                }
                Err(Fault::new(format!("agent died while it started {program}")).into())
            }
            Err(_) => {
                // Somebody stopped it, or it hangs: the next command is another's.
                link.silent().cancel();
                Err(Fault::new(format!("agent did not start {program} in time")).into())
            }
        }
    }

    async fn link(&self) -> Result<Link, WorkspaceError> {
        let mut slot = self.shared.link.lock().await;
        let fit = |link: &&Link| link.is_alive() && !link.silent().is_cancelled();
        if let Some(link) = slot.as_ref().filter(fit) {
            return Ok(link.clone());
        }
        if self.shared.is_closed.load(Ordering::Acquire) {
            return Err(Fault::new("no command can be started: the agent is closed").into());
        }
        if let Some(death) = slot.as_ref().and_then(Link::death) {
            tracing::warn!(%death, "agent died, starting another");
        } else if slot.is_some() {
            tracing::warn!("agent did not answer in time, turning to another");
        }
        let around = (&self.shared.tasks, self.shared.closing.child_token());
        let link = match &self.shared.way {
            Way::Start { command, open_files } => Link::start(command, *open_files, around).await?,
            Way::Connect(door) => Link::connect(door.open(Use::Commands).await?, around),
        };
        Ok(slot.insert(link).clone())
    }
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

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn too_long(program: &str) -> WorkspaceError {
    WorkspaceError::Unfit(format!("the arguments and variables of {program} are too long"))
}

/// Says why a command does not run, so that nobody takes it for an exit.
fn refusal(step: Step, errno: i32, program: &str, cwd: &str) -> WorkspaceError {
    let what = match step {
        Step::Folder => cwd,
        Step::Program | Step::Launch => program,
    };
    match (step, errno) {
        (Step::Folder | Step::Program, libc::EACCES | libc::EPERM) => {
            WorkspaceError::Forbidden(what.to_owned())
        }
        (Step::Folder, ENOENT) => WorkspaceError::NotFound(what.to_owned()),
        (Step::Folder, libc::ENOTDIR) => WorkspaceError::Unfit(format!("{what} is not a folder")),
        // A script is there, but the program that its first line names is not.
        (Step::Program, ENOENT) if program.contains('/') && Path::new(program).exists() => {
            WorkspaceError::NotFound(format!("the interpreter of {what}"))
        }
        (Step::Program, ENOENT | libc::ENOTDIR) => WorkspaceError::NotFound(what.to_owned()),
        (Step::Program, libc::ENOEXEC) => {
            WorkspaceError::Unfit(format!("{what} is not a program of this machine"))
        }
        (Step::Program, libc::E2BIG) => too_long(what),
        (Step::Folder | Step::Program | Step::Launch, _) => {
            let source = std::io::Error::from_raw_os_error(errno);
            Fault::with(format!("start {program} in {cwd}"), source).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that becomes an agent which greets and then does nothing; each writes a line into
    /// a file.
    fn stopped(list: &Path) -> Vec<OsString> {
        let mut hello = Vec::new();
        let greeting = wire::Reply::Hello { version: wire::VERSION };
        greeting.encode(0, &mut hello).unwrap();
        let octal: String = hello.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let script = format!("printf '{octal}' >&0; echo x >>{}; exec sleep 1000", list.display());
        ["/bin/sh", "-c", &script].map(OsString::from).to_vec()
    }

    fn spawn() -> Spawn {
        let argv = vec!["true".to_owned()];
        Spawn { argv, cwd: "/".into(), env: Vec::new(), stdin: Vec::new() }
    }

    /// Waits until so many agents have greeted.
    async fn greeted(list: &Path, count: usize) {
        let all = async {
            while std::fs::read_to_string(list).unwrap_or_default().lines().count() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("no other was started");
    }

    #[tokio::test]
    async fn an_agent_that_starts_nothing_in_time_is_given_up_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        let agent = Agent::new(AgentOptions { command: stopped(&list) });
        let environment = Environment::new([], &[]);
        for count in 1..=2 {
            agent.link().await.unwrap();
            greeted(&list, count).await;
            tokio::time::pause();
            let (output, _pieces) = mpsc::channel(1);
            let started = agent.spawn_in(Path::new("/"), &environment, spawn(), output).await;
            let error = started.map(drop).unwrap_err().to_string();
            assert!(error.contains("did not start true in time"), "{error}");
            tokio::time::resume();
        }
        tokio::time::pause();
        let left = async {
            agent.close().await;
            agent.shared.tasks.close();
            agent.shared.tasks.wait().await;
        };
        tokio::time::timeout(Duration::from_secs(600), left).await.expect("an agent was left");
    }
}
