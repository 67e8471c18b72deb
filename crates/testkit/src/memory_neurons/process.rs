//! A process of a test: its tree is its process group.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use driver_api::{Exit, ExitStatus, Fault, Output, Process, Spawn, WorkspaceError};
use tokio::sync::{mpsc, watch};

/// Bytes of one piece of output.
const PIECE_BYTES: usize = 32 * 1024;

/// Starts a command; once `over` says so it ends with a fault.
#[allow(clippy::disallowed_methods, reason = "tests need processes without the sandbox")]
pub(super) fn start(
    spawn: Spawn,
    output: mpsc::Sender<Output>,
    over: Option<watch::Receiver<bool>>,
) -> std::io::Result<Box<dyn Process>> {
    let (program, arguments) = spawn.argv.split_first().ok_or_else(missing)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&spawn.cwd).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in &spawn.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command.spawn()?;
    let group = child.id();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let Some(mut stdin) = stdin {
        // Whoever does not read it closes it, which is no failure.
        std::thread::spawn(move || stdin.write_all(&spawn.stdin));
    }
    let pipes = [
        stdout.map(|pipe| forward(pipe, output.clone(), Output::Stdout)),
        stderr.map(|pipe| forward(pipe, output, Output::Stderr)),
    ];
    let killed = Arc::new(AtomicBool::new(false));
    let (sender, exit) = watch::channel(None);
    let was_killed = Arc::clone(&killed);
    std::thread::spawn(move || {
        let status = child.wait();
        let leftovers = members(group);
        signal("KILL", group);
        for pipe in pipes.into_iter().flatten() {
            let _panicked = pipe.join();
        }
        let status = match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, signal) => ExitStatus::Signal(signal.unwrap_or_default()),
            },
            Err(_) => ExitStatus::Code(-1),
        };
        let killed = was_killed.load(Ordering::SeqCst);
        sender.send_replace(Some(Exit { status, leftovers, killed }));
    });
    Ok(Box::new(Child { group, exit, killed, over }))
}

fn missing() -> std::io::Error {
    std::io::ErrorKind::NotFound.into()
}

fn forward(
    mut pipe: impl Read + Send + 'static,
    output: mpsc::Sender<Output>,
    wrap: fn(Bytes) -> Output,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let piece = buffer.get(..count).unwrap_or_default();
            if output.blocking_send(wrap(Bytes::copy_from_slice(piece))).is_err() {
                return;
            }
        }
    })
}

#[allow(clippy::disallowed_methods, reason = "tests need processes without the sandbox")]
fn signal(name: &str, group: u32) {
    let kill = format!("kill -{name} -{group} 2>/dev/null");
    let _gone = Command::new("sh").args(["-c", &kill]).status();
}

/// Counts the live processes of a group.
fn members(group: u32) -> u32 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats =
        processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let alive = stats.filter(|stat| {
        let mut fields =
            stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
        let state = fields.next();
        state != Some("Z") && fields.nth(1) == Some(group.to_string().as_str())
    });
    u32::try_from(alive.count()).unwrap_or(u32::MAX)
}

#[derive(Debug)]
struct Child {
    group: u32,
    exit: watch::Receiver<Option<Exit>>,
    killed: Arc<AtomicBool>,
    over: Option<watch::Receiver<bool>>,
}

#[async_trait]
impl Process for Child {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let over = self.over.as_mut();
        let is_over = async {
            match over {
                Some(over) => over.wait_for(|over| *over).await.map(|_| ()).unwrap_or_default(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            exit = self.exit.wait_for(Option::is_some) => {
                let exit = exit.ok().and_then(|exit| *exit);
                exit.ok_or_else(|| Fault::new("watch a process").into())
            }
            () = is_over => {
                signal("KILL", self.group);
                Err(Fault::new("watch a process of a neuron that is over").into())
            }
        }
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
