//! From `main` to the exit code.

use std::ffi::OsString;
use std::io::{BufReader, IsTerminal, Write};
use std::num::NonZero;
use std::process::ExitCode;

use door_cli::{Cli, Command, Exit, Stop, StreamFacts, Streams};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::environment::Environment;
use crate::machine::Program;

/// The command that makes this program the workspace agent. It comes before everything else: the
/// agent forks, so nothing may have started a thread.
const AGENT_COMMAND: &str = "agent";

/// The fewest threads of a server: one request that computes must not hold up all others.
const WORKERS_MIN: usize = 2;
/// The most: what a server does is wait, and each thread has memory of its own.
const WORKERS_MAX: usize = 4;

/// Runs the program on its arguments, the first of which is its own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|first| first == AGENT_COMMAND) && args.len() <= 3 {
        return agent::run_as(args.get(2).map(OsString::as_os_str));
    }
    report_panics();
    let cli = match door_cli::parse(args) {
        Ok(cli) => cli,
        Err(exit) => return exit.code().into(),
    };
    let environment = Environment::of_process();
    let streams = streams(&environment);
    let runtime = match runtime_for(&cli) {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start: {error}")),
    };
    let exit = runtime.block_on(async {
        let (sender, stops) = door_cli::Stops::channel();
        if let Err(error) = listen(&sender) {
            return Err(format!("listen to signals: {error}"));
        }
        // All commands' states together are too large for the stack.
        Ok(Box::pin(door_cli::run(cli, &Program::new(environment), streams, stops)).await)
    });
    // A thread may still wait for standard input; it has nothing to lose.
    runtime.shutdown_background();
    match exit {
        Ok(exit) => exit.code().into(),
        Err(message) => fail(&message),
    }
}

/// Makes the runtime. A server has as many threads as it has cores, within reason; everything else
/// starts faster with one.
fn runtime_for(cli: &Cli) -> std::io::Result<Runtime> {
    let mut runtime = match &cli.command {
        Some(Command::Serve(_) | Command::Cortex(_) | Command::Acp(_) | Command::Host(_)) => {
            let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, NonZero::get);
            let mut runtime = Builder::new_multi_thread();
            runtime.worker_threads(cores.clamp(WORKERS_MIN, WORKERS_MAX));
            runtime
        }
        _ => Builder::new_current_thread(),
    };
    runtime.enable_all().build()
}

fn fail(message: &str) -> ExitCode {
    complain(message);
    Exit::Failed.code().into()
}

/// Says what is wrong before the door has its streams, and after it gave up. Nobody is told when
/// that cannot be written: a closed pipe must not turn one panic into two.
fn complain(message: &str) {
    drop(writeln!(std::io::stderr(), "narthex: {message}"));
}

/// Makes a panic one line that says what to report, in place of a page of frames.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic
            .payload_as_str()
            .unwrap_or("no message")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
        let version = env!("CARGO_PKG_VERSION");
        tracing::error!("panic{place}: {what}");
        complain(&format!(
            "this is a bug (version {version}{place}): {what}; please report it with the output \
             of: narthex doctor --json"
        ));
    }));
}

/// Hands the signals that ask for an end to the door.
fn listen(stops: &mpsc::Sender<Stop>) -> std::io::Result<()> {
    let asked = [
        (SignalKind::interrupt(), Stop::Interrupt),
        (SignalKind::terminate(), Stop::Terminate),
        (SignalKind::hangup(), Stop::Terminate),
    ];
    for (kind, stop) in asked {
        let mut signals = signal(kind)?;
        let stops = stops.clone();
        #[allow(clippy::disallowed_methods, reason = "lives as long as the program itself")]
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // A full queue holds more stops than the door will ever need.
                let _ = stops.try_send(stop);
            }
        });
    }
    Ok(())
}

fn streams(environment: &Environment) -> Streams {
    let (input, out, err) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let is_dumb = environment.variable("TERM").is_some_and(|terminal| terminal == "dumb");
    let facts = StreamFacts {
        input_is_terminal: input.is_terminal(),
        has_line_editor: input.is_terminal() && !is_dumb,
        out_is_terminal: out.is_terminal(),
        err_is_terminal: err.is_terminal(),
        is_dumb,
        no_color: environment.variable("NO_COLOR").is_some(),
        force_color: environment.variable("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
        width: door_cli::terminal_width(),
    };
    Streams {
        input: Box::new(BufReader::new(input)),
        out: Box::new(out),
        err: Box::new(err),
        forget: Box::new(door_cli::forget_typed),
        facts,
    }
}
