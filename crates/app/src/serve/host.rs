//! The door for applications that embed the program: over the standard streams, or at a socket.

mod desk;
mod socket;
mod token;

use std::time::Duration;

use door_cli::{Failure, Globals, HostArgs};
use door_host::Door;
use narthex::Narthex;
use stdx::Secret;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use self::desk::Desk;
use self::socket::Socket;
use super::measures::Measures;
use super::plan::PERMISSION_TIMEOUT_MS;
use super::running::Beside;
use super::{allow_many_files, choose_model};
use crate::environment::Environment;
use crate::settings::{Settings, Want};
use crate::{logging, machine, policy};

/// How long an orderly stop may take, as that of a server.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// Connections at a socket at once: a host has one, and another beside it when it comes again.
const CONNECTIONS_MAX: usize = 64;

/// How long nobody is let in after letting in failed: the machine is out of descriptors.
const REST: Duration = Duration::from_millis(200);

/// Where hosts come from.
enum Way {
    Streams,
    Socket { socket: Socket, listener: UnixListener, token: Secret<String> },
}

/// Serves a host until it is gone or asks for the end, or `stopped` is.
///
/// # Errors
/// Names the flag, file, setting or variable, and what would be right; or what failed.
pub(super) async fn serve(
    globals: &Globals,
    environment: &Environment,
    args: HostArgs,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Failure> {
    let mut settings = Settings::load(Want { globals, environment })?;
    settings.bounds.wait_for_answers(PERMISSION_TIMEOUT_MS);
    let way = way(&args, &settings).await?;
    let log = logging::to_stderr(&settings)?;
    for notice in &settings.notices {
        tracing::warn!("{notice}");
    }
    let remote = policy::hold(&mut settings).await?;
    let measures = Measures::begin(&settings.telemetry)?;
    let (house, desk) = build(&settings, &args, &measures).await?;
    let policies = house.policies();
    let _policy = remote
        .map(|remote| Beside::start(remote.keep_in_force(move |policy| policies.replace(policy))));
    let door = Door::new(door_host::Options {
        handle: house.handle(),
        agent: machine::agent(&settings, globals)?,
        mode: globals.mode,
        version: env!("CARGO_PKG_VERSION"),
        event_buffer: usize::try_from(args.event_buffer).unwrap_or(usize::MAX),
        grace: Duration::from_millis(args.grace.into()),
        surroundings: desk,
    });
    let asked = stopped;
    let was_stopped = match way {
        Way::Streams => over_streams(&door, asked).await,
        Way::Socket { socket, listener, token } => {
            let was_stopped = at_socket(&door, listener, token, asked).await;
            drop(socket);
            was_stopped
        }
    };
    tracing::info!("stopping");
    let end = async {
        house.close().await;
        door.close().await;
        measures.finish().await;
    };
    let is_over = timeout(STOP_WAIT, end).await.is_ok();
    tracing::info!(by_signal = was_stopped, "stopped");
    log.now();
    if is_over {
        return Ok(());
    }
    let limit = stdx::duration(STOP_WAIT);
    Err(Failure::failed(format!("stopping took longer than {limit}")))
}

/// Finds where hosts come from; a socket is open then.
async fn way(args: &HostArgs, settings: &Settings) -> Result<Way, Failure> {
    let Some(path) = &args.socket else { return Ok(Way::Streams) };
    let launched_in = &settings.places.launched_in;
    let token = match (&args.token_file, args.token_fd) {
        (Some(file), _) => token::of_file(&launched_in.join(file))?,
        (None, Some(descriptor)) => token::of_descriptor(descriptor).await?,
        (None, None) => {
            let what = "--socket needs a token: --token-file FILE or --token-fd N";
            return Err(Failure::usage(what));
        }
    };
    let (socket, listener) = Socket::open(&launched_in.join(path))?;
    Ok(Way::Socket { socket, listener, token })
}

/// Builds the house, and what the door asks about policy and models.
async fn build(
    settings: &Settings,
    args: &HostArgs,
    measures: &Measures,
) -> Result<(Narthex, std::sync::Arc<Desk>), Failure> {
    let mut notices = Vec::new();
    let model = choose_model(settings, &mut notices).await;
    for notice in notices {
        tracing::info!("{notice}");
    }
    let mut options = machine::options(settings.clone(), model.clone(), settings.mode.value);
    let slot = model::Slot::default();
    options.model_slot = Some(slot.clone());
    options.observers = vec![measures.observer()];
    options.sessions_max = Some(usize::try_from(args.max_sessions).unwrap_or(usize::MAX));
    options.mcp = machine::mcp(settings);
    let house =
        narthex::build(options).await.map_err(|error| Failure::failed(error.to_string()))?;
    for notice in house.notices() {
        tracing::warn!("{notice}");
    }
    // Only now: commands get the limit that held when their agent was set up.
    allow_many_files();
    let checked = house.handle().check_settings(Some(settings.mode.value), None);
    if let Err(error) = checked {
        house.close().await;
        return Err(error.into());
    }
    let desk = Desk::new(settings, &house, slot, model);
    Ok((house, std::sync::Arc::new(desk)))
}

/// Serves the standard streams. True when a signal ended it.
async fn over_streams(door: &Door, stopped: oneshot::Receiver<()>) -> bool {
    let served = door.clone();
    let mut serving = Beside::start(async move {
        served.serve(tokio::io::stdin(), tokio::io::stdout(), None).await;
    });
    tokio::select! {
        biased;
        _ = stopped => return true,
        _ = serving.end() => {}
        () = door.stopped() => {}
    }
    // What is asked meanwhile is answered.
    door.wind_down().await;
    false
}

/// Serves connections at a socket. True when a signal ended it.
async fn at_socket(
    door: &Door,
    listener: UnixListener,
    token: Secret<String>,
    stopped: oneshot::Receiver<()>,
) -> bool {
    let served = door.clone();
    let listening = Beside::start(async move { listen(&served, &listener, &token).await });
    tokio::select! {
        biased;
        _ = stopped => return true,
        () = door.stopped() => {}
    }
    door.wind_down().await;
    drop(listening);
    false
}

/// Lets hosts in.
async fn listen(door: &Door, listener: &UnixListener, token: &Secret<String>) {
    let connections = TaskTracker::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if connections.len() < CONNECTIONS_MAX => {
                let (door, token) = (door.clone(), token.clone());
                connections.spawn(async move {
                    let (reader, writer) = stream.into_split();
                    door.serve(reader, writer, Some(&token)).await;
                });
            }
            Ok(_) => {
                tracing::warn!("a connection was refused: there are {CONNECTIONS_MAX} already")
            }
            Err(error) => {
                tracing::warn!(%error, "let a host in");
                sleep(REST).await;
            }
        }
    }
}
