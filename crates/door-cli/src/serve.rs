//! `narthex serve` and `narthex cortex`: say where the server is, and stop it when it should.

use std::fmt::Write;
use std::future::Future;

use serde_json::json;
use terminal::{Exit, Failure, Paint, escape};
use tokio::sync::oneshot;

use crate::args::{CortexArgs, Globals, ServeArgs};
use crate::door::{Room, print, print_json};
use crate::machine::{CortexFacts, Machine, Server, ServerFacts, TokenOrigin};
use crate::session::say_all;

/// How much of a path or an address is shown: the system lets none be longer.
const CHARS_MAX: usize = 4096;

/// Serves until somebody stops it.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: ServeArgs,
) -> Result<Exit, Failure> {
    let how = How { is_json: args.json_ready, ends_with_input: args.exit_on_stdin_close };
    let machine = room.machine;
    serve_prepared(room, how, machine.serve(globals, args)).await
}

/// Serves the cortex door until somebody stops it.
pub(crate) async fn cortex<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: CortexArgs,
) -> Result<Exit, Failure> {
    let how = How { is_json: args.json_ready, ends_with_input: args.exit_on_stdin_close };
    let machine = room.machine;
    serve_prepared(room, how, machine.cortex(globals, args)).await
}

/// How a server speaks with whoever started it.
#[derive(Clone, Copy)]
struct How {
    is_json: bool,
    ends_with_input: bool,
}

async fn serve_prepared<M: Machine>(
    room: &mut Room<'_, M>,
    How { is_json, ends_with_input }: How,
    preparing: impl Future<Output = Result<M::Server, Failure>>,
) -> Result<Exit, Failure> {
    let mut input_end = match ends_with_input {
        true => Some(room.desk.input.ended().map_err(|error| {
            Failure::failed(format!("watch standard input for its end: {error}"))
        })?),
        false => None,
    };
    // What is prepared does nothing yet, so that it ends by being dropped.
    let prepared = tokio::select! {
        biased;
        _ = room.desk.stops.next() => return Ok(Exit::Done),
        () = end_of(&mut input_end) => return Ok(Exit::Done),
        prepared = preparing => prepared,
    };
    let mut server = prepared?;
    let is_begun = tokio::select! {
        biased;
        _ = room.desk.stops.next() => false,
        () = end_of(&mut input_end) => false,
        () = server.begin() => true,
    };
    let served = match is_begun {
        true => serve(room, &mut server, &mut input_end, is_json).await,
        false => Ok(()),
    };
    // Whatever the reason, what runs in sessions ends as it should.
    let stopped = stop(room, &mut server).await;
    served.and(stopped).map(|()| Exit::Done)
}

/// Says where the server is, and waits for a reason to stop it.
async fn serve<M: Machine, S: Server>(
    room: &mut Room<'_, M>,
    server: &mut S,
    input_end: &mut Option<oneshot::Receiver<()>>,
    is_json: bool,
) -> Result<(), Failure> {
    announce(room, server.facts(), is_json)?;
    tokio::select! {
        biased;
        _ = room.desk.stops.next() => Ok(()),
        () = end_of(input_end) => Ok(()),
        failure = server.failed() => Err(failure),
    }
}

/// Stops the server, in order unless somebody asks a second time.
async fn stop<M: Machine, S: Server>(
    room: &mut Room<'_, M>,
    server: &mut S,
) -> Result<(), Failure> {
    if room.desk.console.facts().err_is_terminal {
        room.desk.console.say("stopping; running turns are interrupted (again: stops at once)");
    }
    tokio::select! {
        biased;
        _ = room.desk.stops.next() => Err(Failure::stopped()),
        stopped = server.stop() => stopped,
    }
}

/// Waits for the end of standard input, for ever where nobody wants to know.
async fn end_of(input: &mut Option<oneshot::Receiver<()>>) {
    match input {
        // Whoever reads it says so or is gone: both are the end.
        Some(end) => drop(end.await),
        None => std::future::pending().await,
    }
}

/// Says where the server is. A reader of standard output that has gone is no reason to stop.
fn announce<M>(
    room: &mut Room<'_, M>,
    facts: &ServerFacts,
    is_json: bool,
) -> Result<Exit, Failure> {
    let console = &mut room.desk.console;
    say_all(&facts.notices, console);
    if is_json {
        return print_json(console, &ready(facts));
    }
    let text = card(facts, console.data_paint());
    print(console, &text)
}

/// Makes the line that a launcher reads.
fn ready(facts: &ServerFacts) -> String {
    let mut record = json!({
        "type": "ready",
        "url": facts.url,
        "port": facts.port,
        "pid": facts.pid,
        "version": facts.version,
    });
    if let Some(fields) = record.as_object_mut() {
        // A token that somebody gave is not told again.
        if let (None, Some(token)) = (&facts.token_origin, &facts.token) {
            fields.insert("token".to_owned(), json!(token.expose()));
        }
        if let Some(cortex) = &facts.cortex {
            fields.insert("cortex".to_owned(), json!(format!("{}{}", facts.url, cortex.base)));
        }
    }
    record.to_string()
}

fn card(facts: &ServerFacts, paint: Paint) -> String {
    let line = |text: &str| escape::line(text, CHARS_MAX);
    let url = line(&facts.url);
    let mut text = format!("{}\n", paint.bold(&format!("narthex {} at {url}", facts.version)));
    let mut row = |name: &str, value: &str| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  {}  {value}", paint.dim(&format!("{name:<5}")));
    };
    match (&facts.token_origin, &facts.token) {
        (None, Some(token)) => row("token", token.expose()),
        (None, None) => row("token", "none: every program of this machine is let in"),
        (Some(TokenOrigin::Flag), _) => row("token", "the one of --token"),
        (Some(TokenOrigin::Variable(name)), _) => row("token", &format!("the one of ${name}")),
    }
    for (place, root) in facts.roots.iter().enumerate() {
        row(if place == 0 { "roots" } else { "" }, &line(root));
    }
    let model = facts.model.as_deref().map_or_else(|| "none set".to_owned(), line);
    row("mode", &format!("{} · model {model}", facts.mode));
    if let Some(CortexFacts { driver, isolation, preset, .. }) = &facts.cortex {
        row("apart", &format!("{isolation} isolation by driver {driver} · tools {preset}"));
    }
    if let Some(file) = &facts.file {
        row("file", &line(&file.display().to_string()));
    }
    if facts.taken_up > 0 {
        let sessions = stdx::plural(facts.taken_up, "session");
        row("took", &format!("up {sessions} with a cut turn, or waiting for an answer"));
    }
    let token = match (&facts.file, &facts.token_origin) {
        (Some(_), _) => "$(narthex token)".to_owned(),
        (None, None) => facts.token.as_ref().map(|it| it.expose().clone()).unwrap_or_default(),
        (None, Some(TokenOrigin::Variable(name))) => format!("${name}"),
        (None, Some(TokenOrigin::Flag)) => "YOUR_TOKEN".to_owned(),
    };
    let bearer = match token.as_str() {
        "" => String::new(),
        token => format!("-H \"Authorization: Bearer {token}\" "),
    };
    // The other door is served with folders, and this one without.
    if !facts.roots.is_empty() {
        row("docs", &format!("{url}/docs"));
        row("call", &format!("curl {bearer}{url}/v1/sessions"));
    }
    if let Some(cortex) = &facts.cortex {
        row("call", &format!("curl {bearer}{url}{}/health", cortex.base));
    }
    row("stop", "Ctrl-C");
    text
}
