//! A server as a process, the clients that it is measured with, and the model behind it.

pub(crate) mod client;
pub(crate) mod floor;
pub(crate) mod model;
pub(crate) mod script;
pub(crate) mod viewer;
mod wire;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::memory;
use crate::program::{MODEL, Place, Subject, bare, said};
use crate::summary::ms;

/// The token of the server.
const TOKEN: &str = "bench-token-0123456789abcdef0123456789abcdef";

/// How long a server may take to stop once it is told to.
const STOP_MAX: Duration = Duration::from_secs(30);

/// How many milliseconds a tick of the kernel's processor times has.
const TICK_MS: f64 = 10.0;

/// A running server. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    /// Kept open: a server whose output is closed may mind.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// From just before the process was started until its ready line had come.
    pub(crate) ready_ms: f64,
}

impl Served {
    /// Starts a server and waits for its ready line.
    ///
    /// # Errors
    /// When it cannot be started or says something else.
    pub(crate) fn start(subject: &Subject, place: &Place, model: SocketAddr) -> Result<Self> {
        let mut command = match subject {
            Subject::Floor => {
                let mut command = bare(&std::env::current_exe().context("find this program")?);
                command.arg("--as-server").arg(place.recording());
                command
            }
            Subject::Narthex(program) => {
                let mut command = bare(program);
                command.args(["serve", "--port", "0", "--json-ready", "--exit-on-stdin-close"]);
                command.args(["--max-sessions", "10000", "--mode", "full-auto"]);
                command.args(["--model", MODEL]);
                command.env("NARTHEX_HOME", place.home()).env("NARTHEX_SERVER_TOKEN", TOKEN);
                command.env("ANTHROPIC_BASE_URL", format!("http://{model}"));
                command.env("ANTHROPIC_API_KEY", "bench");
                command
            }
        };
        let errors = File::create(place.output("stderr")).context("make a file for the errors")?;
        command.current_dir(place.work()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.stderr(errors).spawn().context("start a server")?;
        let mut stdout = BufReader::new(child.stdout.take().context("no output of the server")?);
        let mut line = String::new();
        stdout.read_line(&mut line).context("read the ready line")?;
        let ready_ms = ms(started.elapsed());
        let port = serde_json::from_str::<Value>(&line)
            .ok()
            .and_then(|ready| u16::try_from(ready.get("port")?.as_u64()?).ok());
        let Some(port) = port else {
            bail!("no ready line but '{line}'; it said: {}", said(place));
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self { child, _stdout: stdout, address, ready_ms })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The resident memory of the server and its agent, in KiB.
    pub(crate) fn resident_kib(&self) -> f64 {
        let agents: f64 = memory::agents(self.pid()).into_iter().map(memory::resident).sum();
        (memory::resident(self.pid()) + agents) * 1024.0
    }

    /// The processor time of the server and its agent until now, in milliseconds, without that of
    /// the commands that the agent ran.
    pub(crate) fn cpu_ms(&self) -> f64 {
        let own = std::iter::once(self.pid()).chain(memory::agents(self.pid()));
        own.map(cpu_ms).sum()
    }

    /// How often the server and its agent gave the processor back until now: how often they woke.
    pub(crate) fn wakes(&self) -> f64 {
        let own = std::iter::once(self.pid()).chain(memory::agents(self.pid()));
        own.map(wakes).sum()
    }

    /// Tells the server to stop and waits for its end.
    ///
    /// # Errors
    /// When it does not end, or not well.
    pub(crate) fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait().context("wait for a server")? {
                if !status.success() {
                    bail!("a server ended with {status}");
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("a server did not stop within {} s", STOP_MAX.as_secs())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn cpu_ms(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(')').map(|(_, after)| after).unwrap_or_default();
    // User and system time, the fields 14 and 15 of the line.
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * TICK_MS
}

fn wakes(pid: u32) -> f64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let count = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    threads.flatten().map(|thread| count(thread.path())).sum()
}
