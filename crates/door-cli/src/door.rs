//! From a command line to its exit code.

use std::io::{BufRead, Write};

use protocol::Timestamp;
use runtime_api::Handle;
use terminal::{Console, Desk, Exit, Failure, Forget, Input, Stops, StreamFacts, escape};

use crate::args::{Cli, Command};
use crate::machine::Machine;
use crate::{
    acp, approvals, back, chat, config, connections, demo, doctor, host, login, manual, policy,
    prompt, serve, sessions, token, usage,
};

/// How long the runtime may take to close everything before the program ends without it.
const SHUTDOWN_WAIT: std::time::Duration = std::time::Duration::from_secs(10);

/// The standard streams, or what stands for them in a test.
pub struct Streams {
    /// Standard input.
    pub input: Box<dyn BufRead + Send>,
    /// Standard output.
    pub out: Box<dyn Write + Send>,
    /// Standard error.
    pub err: Box<dyn Write + Send>,
    /// Throws away what was typed and not yet read: nothing that was typed before a question may
    /// answer it.
    pub forget: Forget,
    /// What they are.
    pub facts: StreamFacts,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// What a command works with.
pub(crate) struct Room<'a, M> {
    pub(crate) machine: &'a M,
    pub(crate) desk: Desk,
    /// The runtime, once it was built: it is shut down at the end, however that comes.
    pub(crate) handle: Option<Handle>,
    pub(crate) now: fn() -> Timestamp,
}

impl<M> Room<'_, M> {
    /// Leaves the sessions as they are, as a process does that dies: what waits for a person goes
    /// on waiting, for whoever opens it next.
    pub(crate) fn leave_waiting(&mut self) {
        if let Some(handle) = self.handle.take() {
            // The last handle to go would close the sessions and stop their turns.
            std::mem::forget(handle);
        }
    }
}

/// Runs a command to its end.
pub async fn run<M: Machine>(cli: Cli, machine: &M, streams: Streams, stops: Stops) -> Exit {
    let Streams { input, out, err, forget, facts } = streams;
    let console = Console::new(out, err, facts, cli.globals.color.into());
    let desk = Desk { console, input: Input::plain(input, forget), stops };
    let mut room = Room { machine, desk, handle: None, now: M::now };
    let exit = match dispatch(cli, &mut room).await {
        Ok(exit) => exit,
        Err(failure) => {
            complain(&failure, &mut room.desk.console);
            failure.exit
        }
    };
    room.desk.console.rest();
    if let Some(handle) = room.handle.take() {
        let wait = tokio::time::timeout(SHUTDOWN_WAIT, handle.shutdown());
        tokio::select! {
            biased;
            // Whoever asks again while things are put away leaves at once.
            _ = room.desk.stops.next() => {}
            _ = wait => {}
        }
    }
    exit
}

async fn dispatch<M: Machine>(cli: Cli, room: &mut Room<'_, M>) -> Result<Exit, Failure> {
    let Cli { globals, print: print_prompt, options, command } = cli;
    match command {
        None => match print_prompt {
            Some(text) => prompt::run(room, &globals, Some(text), options).await,
            None => chat::start(room, &globals, &options).await,
        },
        Some(Command::Run(args)) => prompt::run(room, &globals, args.prompt, args.options).await,
        // A server's start is large, and no other command should carry it.
        Some(Command::Serve(args)) => Box::pin(serve::run(room, &globals, args)).await,
        Some(Command::Cortex(args)) => Box::pin(serve::cortex(room, &globals, args)).await,
        Some(Command::Acp(args)) => Box::pin(acp::run(room, &globals, args)).await,
        Some(Command::Host(args)) => Box::pin(host::run(room, &globals, args)).await,
        Some(Command::Token(args)) => token::run(room, &globals, &args),
        Some(Command::Resume { id }) => chat::resume(room, &globals, id).await,
        Some(Command::Demo) => demo::run(room, &globals).await,
        Some(Command::Sessions(args)) => sessions::run(room, &globals, args.action).await,
        Some(Command::Approvals(args)) => approvals::run(room, &globals, args.action).await,
        Some(Command::Undo(args)) => back::undo(room, &globals, args).await,
        Some(Command::Rewind(args)) => back::rewind(room, &globals, args).await,
        Some(Command::Usage(args)) => usage::run(room, &globals, &args).await,
        Some(Command::Doctor { json }) => doctor::run(room, &globals, json).await,
        Some(Command::Config(args)) => config::run(room, &globals, args.action),
        Some(Command::Policy(args)) => policy::run(room, &globals, args.action).await,
        Some(Command::Connections(args)) => Box::pin(connections::run(room, &globals, args)).await,
        Some(Command::Login { provider }) => login::run(room, &globals, &provider).await,
        Some(Command::Completions { shell }) => manual::completions(room, shell),
        Some(Command::Man { out }) => manual::pages(room, out.as_deref()),
        Some(Command::InternalSchema { schema }) => {
            let text = room.machine.schema(schema);
            print(&mut room.desk.console, &text)
        }
    }
}

fn complain(failure: &Failure, console: &mut Console) {
    if failure.message.is_empty() {
        return;
    }
    let sign = console.paint().bad("narthex:");
    let words = escape::text(&failure.message);
    console.say(&format!("{sign} {words}"));
}

/// Writes what a command is asked for. A reader that has heard enough is no failure.
pub(crate) fn print(console: &mut Console, text: &str) -> Result<Exit, Failure> {
    match console.data(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("write standard output: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}

/// Writes one line of JSON that a command is asked for.
pub(crate) fn print_json(console: &mut Console, json: &str) -> Result<Exit, Failure> {
    match console.json(json) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("write standard output: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}
