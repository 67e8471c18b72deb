//! What the program is asked for.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench [OPTIONS]

  --rounds N      how often each figure is measured; the subjects take turns (default 5)
  --only A,B      some of: start, steps, memory, session; server, or some of its
                  idle, requests, fan, latency, residents, crowd, history; neurons
  --steps N       tool calls of a run (default 50)
  --events N      events of the long session, about (default 10000)
  --narthex FILE  the program (default: narthex beside this one)
  --folder DIR    where homes and work folders are made (default: the temporary folder)
  --slow          the parts of the server that take minutes: sleep, 1,000 sessions
  --floor-only    the floor and this machine alone, without the program";

/// A part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From the start of a process to its first request.
    Start,
    /// Time per step.
    Steps,
    /// Memory of a run.
    Memory,
    /// A long session: its size, opening and replay.
    Session,
    /// The server's start, and what it costs when nobody asks for anything.
    Idle,
    /// Requests a second.
    Requests,
    /// One session, many viewers.
    Fan,
    /// How old a delta is when a viewer has it.
    Latency,
    /// Memory of a session in the server.
    Residents,
    /// Many sessions that take steps at once.
    Crowd,
    /// Replay, and a stored session after a restart.
    History,
    /// Neurons beside other sandboxes.
    Neurons,
}

impl Part {
    const ALL: [(&str, Part); 12] = [
        ("start", Part::Start),
        ("steps", Part::Steps),
        ("memory", Part::Memory),
        ("session", Part::Session),
        ("idle", Part::Idle),
        ("requests", Part::Requests),
        ("fan", Part::Fan),
        ("latency", Part::Latency),
        ("residents", Part::Residents),
        ("crowd", Part::Crowd),
        ("history", Part::History),
        ("neurons", Part::Neurons),
    ];

    /// The name of all parts that measure the server.
    const SERVER: &str = "server";

    pub(crate) const OF_SERVER: [Part; 7] = [
        Part::Idle,
        Part::Requests,
        Part::Fan,
        Part::Latency,
        Part::Residents,
        Part::Crowd,
        Part::History,
    ];
}

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) steps: usize,
    pub(crate) events: usize,
    pub(crate) narthex: Option<PathBuf>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) floor_only: bool,
    pub(crate) is_slow: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 5,
            parts: Part::ALL.iter().map(|(_, part)| *part).collect(),
            steps: 50,
            events: 10_000,
            narthex: None,
            folder: None,
            floor_only: false,
            is_slow: false,
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Show the help.
    Help,
    /// Measure.
    Measure(Options),
    /// Be the floor: send recorded requests to a server. Started by this program itself.
    Floor { address: String, recording: PathBuf },
    /// Be the floor of a server. Started by this program itself.
    FloorServer { recording: PathBuf },
}

/// Reads the arguments.
///
/// # Errors
/// A text that names the argument.
pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Task> {
    let mut options = Options::default();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "-h" | "--help" => return Ok(Task::Help),
            "--as-floor" => {
                let (address, recording) = (value()?, PathBuf::from(value()?));
                return Ok(Task::Floor { address, recording });
            }
            "--as-server" => {
                return Ok(Task::FloorServer { recording: PathBuf::from(value()?) });
            }
            "--rounds" => options.rounds = count(&argument, &value()?)?,
            "--steps" => options.steps = count(&argument, &value()?)?,
            "--events" => options.events = count(&argument, &value()?)?,
            "--narthex" => options.narthex = Some(PathBuf::from(value()?)),
            "--folder" => options.folder = Some(PathBuf::from(value()?)),
            "--slow" => options.is_slow = true,
            "--floor-only" => options.floor_only = true,
            "--only" => options.parts = parts(&value()?)?,
            other => bail!("does not know '{other}'; --help lists the options"),
        }
    }
    Ok(Task::Measure(options))
}

fn count(name: &str, text: &str) -> Result<usize> {
    let count = text.parse().with_context(|| format!("{name} {text}: expected a number"))?;
    if count == 0 {
        bail!("{name} must be at least 1");
    }
    Ok(count)
}

fn parts(text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name == Part::SERVER {
            parts.extend(Part::OF_SERVER);
            continue;
        }
        let found = Part::ALL.iter().find(|(known, _)| *known == name);
        let known = Part::ALL.map(|(known, _)| known).join(", ");
        let (_, part) = found.with_context(|| format!("no part '{name}': {known}, or server"))?;
        parts.push(*part);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(text: &str) -> Result<Task> {
        read(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let expected = Options {
            rounds: 3,
            parts: vec![Part::Steps, Part::Start],
            floor_only: true,
            ..Options::default()
        };
        let read = task("--rounds 3 --only steps,start --floor-only").unwrap();
        assert_eq!(read, Task::Measure(expected));
        assert_eq!(task("").unwrap(), Task::Measure(Options::default()));
        let server = Options {
            parts: [&[Part::Start], &Part::OF_SERVER[..]].concat(),
            is_slow: true,
            ..Options::default()
        };
        assert_eq!(task("--only start,server --slow").unwrap(), Task::Measure(server));
    }

    #[test]
    fn errors_name_the_argument() {
        for (text, expected) in [
            ("--round 3", "--round"),
            ("--rounds", "needs a value"),
            ("--rounds x", "--rounds x"),
            ("--steps 0", "at least 1"),
            ("--only idles", "no part 'idles'"),
        ] {
            let error = format!("{:#}", task(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
