//! Starts the subjects and waits for them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::memory::{Peak, Watch};
use crate::model_server::{Exchange, ModelServer};

/// How long a run may take before it is ended, and a tenth of a second per step on top.
const RUN_MAX: Duration = Duration::from_secs(60);

/// How often the end of a run is looked for. It bounds how exact the time of the end is.
const POLL: Duration = Duration::from_micros(500);

/// The model that the program is told to ask.
pub(crate) const MODEL: &str = "anthropic/bench-model";

/// The prompt that sets a run off.
const PROMPT: &str = "Take the steps that the script asks for.";

/// Where the subjects work.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// Makes a home and a small work folder.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(crate) fn new(beneath: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("narthex-bench-").tempdir_in(beneath);
        let folder = folder.with_context(|| format!("make a folder in {}", beneath.display()))?;
        let place = Self { folder };
        std::fs::create_dir_all(place.work().join("src")).context("make the work folder")?;
        std::fs::write(place.work().join("README.md"), "# A small project\n")?;
        std::fs::write(place.work().join("src/main.rs"), "fn main() {}\n")?;
        Ok(place)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn recording(&self) -> PathBuf {
        self.folder.path().join("requests")
    }

    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Who is measured.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// This program as the floor.
    Floor,
    /// The program.
    Narthex(PathBuf),
}

/// A run to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) place: &'a Place,
    /// How many tool calls the model asks for.
    pub(crate) steps: usize,
    /// Further flags of the program.
    pub(crate) flags: &'a [&'a str],
    /// Whether the memory is watched; that costs time.
    pub(crate) watches: bool,
    /// Whether the requests are kept.
    pub(crate) keeps_bodies: bool,
}

/// What a run showed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    /// One for each request, at least one.
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) peak: Peak,
}

impl Ran {
    /// From the start of the process to its first request, in milliseconds.
    pub(crate) fn start_ms(&self) -> f64 {
        self.exchanges.first().map_or(f64::NAN, |first| {
            crate::summary::ms(first.arrived.saturating_duration_since(self.started))
        })
    }

    /// From each answer to the next request, in milliseconds.
    pub(crate) fn turnarounds_ms(&self) -> Vec<f64> {
        let pairs = self.exchanges.iter().zip(self.exchanges.iter().skip(1));
        pairs
            .map(|(one, next)| crate::summary::ms(next.arrived.saturating_duration_since(one.sent)))
            .collect()
    }

    /// From the last answer to the end of the process, in milliseconds.
    pub(crate) fn end_ms(&self) -> f64 {
        self.exchanges.last().map_or(f64::NAN, |last| {
            crate::summary::ms(self.ended.saturating_duration_since(last.sent))
        })
    }
}

/// Makes a run.
///
/// # Errors
/// When the subject cannot be started, fails, hangs, or does not make the requests of the script.
pub(crate) fn run(server: &ModelServer, want: Want<'_>) -> Result<Ran> {
    server.begin(want.steps, want.keeps_bodies);
    let mut command = command(server, &want)?;
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {:?}", want.subject))?;
    let watch = want.watches.then(|| Watch::start(child.id()));
    let waited = wait(&mut child, want.steps);
    let ended = Instant::now();
    let peak = watch.map(Watch::stop).unwrap_or_default();
    let (exchanges, bodies) = server.end();
    let is_success = waited?;
    if !is_success || exchanges.len() != want.steps + 1 {
        bail!(
            "{:?} made {} of {} requests; it said: {}",
            want.subject,
            exchanges.len(),
            want.steps + 1,
            said(want.place)
        );
    }
    Ok(Ran { started, ended, exchanges, bodies, peak })
}

fn command(server: &ModelServer, want: &Want<'_>) -> Result<Command> {
    let place = want.place;
    let mut command = match want.subject {
        Subject::Floor => {
            let own = std::env::current_exe().context("find this program")?;
            let mut command = bare(&own);
            command.arg("--as-floor").arg(server.address().to_string()).arg(place.recording());
            command
        }
        Subject::Narthex(program) => {
            let steps = (want.steps + 1).to_string();
            let mut command = bare(program);
            command.args(["run", "--output-format", "stream-json", "--mode", "full-auto"]);
            command.args(["--model", MODEL, "--max-turns", &steps]).args(want.flags).arg(PROMPT);
            command.env("NARTHEX_HOME", place.home());
            command.env("ANTHROPIC_BASE_URL", format!("http://{}", server.address()));
            command.env("ANTHROPIC_API_KEY", "bench");
            command
        }
    };
    command.current_dir(place.work()).stdin(Stdio::null());
    let out = File::create(place.output("stdout")).context("make a file for the output")?;
    let err = File::create(place.output("stderr")).context("make a file for the errors")?;
    command.stdout(out).stderr(err);
    Ok(command)
}

/// A command with little in its environment, so that no setting of this machine counts.
pub(crate) fn bare(program: &Path) -> Command {
    #[allow(clippy::disallowed_methods, reason = "the subjects are started from outside")]
    let mut command = Command::new(program);
    command.env_clear().env("LANG", "C.UTF-8").env("TERM", "dumb");
    for name in ["PATH", "HOME", "USER"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Waits for the end; tells whether it was a good one.
fn wait(child: &mut Child, steps: usize) -> Result<bool> {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let limit = RUN_MAX + Duration::from_millis(100).saturating_mul(steps);
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for a subject")? {
            return Ok(status.success());
        }
        if start.elapsed() > limit {
            child.kill().context("end a subject that hangs")?;
            child.wait().context("wait for a subject that hung")?;
            bail!("a run took longer than {} s", limit.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the end of what a subject said, for the error.
pub(crate) fn said(place: &Place) -> String {
    let read = |name: &str| std::fs::read_to_string(place.output(name)).unwrap_or_default();
    let text = format!("{}\n{}", read("stdout"), read("stderr"));
    let skipped = text.chars().count().saturating_sub(2000);
    text.chars().skip(skipped).collect()
}
