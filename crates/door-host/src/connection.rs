//! One connection: the handshake, then requests as they come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jsonrpc::{Call, ErrorObject, Id, Inbox, Peer};
use native_wire::limited::Object;
use runtime_api::{Lends, SharedLender};
use serde_json::{Value, json};
use stdx::Secret;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::Instrument;

use crate::activity::Activity;
use crate::capabilities::{Capabilities, Models};
use crate::door::{Door, Host, Inner};
use crate::error::{initialised_before, invalid, not_initialised, shutting_down, wrong_token};
use crate::fields::put;
use crate::lender::{HostLender, HostTokens};
use crate::method::{self, Outcome};
use crate::params::{self, Initialize};
use crate::version;

/// How long a connection of a socket may take to say who it is.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Requests of one connection that are worked on at once; then it is not read any further.
const WORKING_MAX: usize = 256;

/// Modes that sessions may have, as far as they are not locked.
const MODES: [&str; 4] = ["ask", "auto-edit", "plan", "full-auto"];

impl Door {
    /// Serves one connection until the host has said its last, or the door is closed. With a token
    /// the host has to show it, within ten seconds.
    pub async fn serve<R, W>(&self, reader: R, writer: W, token: Option<&Secret<String>>)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let door = &self.0;
        let number = door.number();
        let span = tracing::info_span!("host", connection = number);
        let (peer, mut inbox, outbox) = jsonrpc::open(reader, writer);
        let (over, closing) = (door.over.clone(), peer.clone());
        let writing = async move {
            let writing = outbox.run();
            tokio::pin!(writing);
            tokio::select! {
                () = &mut writing => return,
                () = over.cancelled() => closing.close(),
            }
            writing.await;
        };
        door.tasks.spawn(writing.instrument(span.clone()));
        let served = async {
            let handshake = handshake(door, number, &peer, &mut inbox, token);
            let host = match token {
                Some(_) => timeout(HANDSHAKE_WAIT, handshake).await.ok().flatten(),
                None => handshake.await,
            };
            let Some(host) = host else {
                tracing::info!("a connection ended without a handshake");
                peer.close();
                return;
            };
            work(door, &host, &mut inbox).await;
            door.leave(number);
            if token.is_some() {
                peer.close();
            }
        };
        served.instrument(span).await;
    }
}

/// Waits for `initialize`; none when the connection ended, or the token was wrong.
async fn handshake<R: AsyncRead + Unpin>(
    door: &Arc<Inner>,
    number: u64,
    peer: &Peer,
    inbox: &mut Inbox<R>,
    token: Option<&Secret<String>>,
) -> Option<Arc<Host>> {
    loop {
        let Call { id, method, params } = inbox.next().await?;
        let Some(id) = id else { continue };
        if method != "initialize" {
            peer.answer(&id, Err(not_initialised())).await;
            continue;
        }
        if let Some(token) = token
            && !shows(&params, token)
        {
            peer.answer(&id, Err(wrong_token())).await;
            return None;
        }
        match initialize(door, number, peer, params) {
            Ok((host, answer)) => {
                let host = Arc::new(host);
                enter(door, &host);
                peer.answer(&id, Ok(answer)).await;
                return Some(host);
            }
            Err(error) => peer.answer(&id, Err(error)).await,
        }
    }
}

/// Tells whether the params show the token. Looked at before anything else of them.
fn shows(params: &Value, token: &Secret<String>) -> bool {
    let shown = params.pointer("/auth/token").and_then(Value::as_str).unwrap_or_default();
    shown.as_bytes().ct_eq(token.expose().as_bytes()).into()
}

/// Reads who a host is, and makes it known.
fn initialize(
    door: &Arc<Inner>,
    number: u64,
    peer: &Peer,
    params: Value,
) -> Result<(Host, Value), ErrorObject> {
    if door.stopping.is_cancelled() {
        return Err(shutting_down());
    }
    // What speaks another version may well look otherwise.
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let chosen = version::choose(asked)?;
    let asked: Initialize = params::read(params)?;
    let Object(client) = &asked.client_info;
    tracing::info!(name = client.name.as_str(), version = client.version.as_str(), "a host");
    let Object(capabilities) = asked.capabilities;
    lend_models(door, number, &capabilities)?;
    let lends = capabilities.lends();
    let lender = (lends != Lends::default())
        .then(|| SharedLender::new(Arc::new(HostLender { peer: peer.clone(), lends })));
    let surroundings = &door.options.surroundings;
    let mut policy = json!({"locked": surroundings.locked()});
    if let Some(source) = surroundings.policy_source() {
        put(&mut policy, "source", source);
    }
    let answer = json!({
        "protocolVersion": chosen,
        "agentInfo": {"name": "narthex", "version": door.options.version},
        "capabilities": {
            "sessions": {"load": true, "fork": true, "rewind": true},
            "modes": MODES,
            "images": true,
        },
        "policy": policy,
    });
    let activity = capabilities.wants_activity().then(Activity::default);
    let peer = peer.clone();
    let watched = Mutex::default();
    Ok((Host { number, peer, capabilities, lender, activity, watched }, answer))
}

/// Lets models be asked where the host says.
fn lend_models(
    door: &Arc<Inner>,
    number: u64,
    capabilities: &Capabilities,
) -> Result<(), ErrorObject> {
    let Some(Object(Models { endpoint, exclusive, .. })) = &capabilities.models else {
        return Ok(());
    };
    let Some(Object(endpoint)) = endpoint else {
        return match exclusive {
            false => Ok(()),
            true => Err(invalid("capabilities.models.endpoint: is missing, exclusive needs one")),
        };
    };
    let tokens = HostTokens { door: Arc::downgrade(door), connection: number };
    let lent = door.options.surroundings.lend_models(endpoint, *exclusive, Arc::new(tokens));
    lent.map_err(|what| invalid(format!("capabilities.models.endpoint: {what}")))
}

fn enter(door: &Arc<Inner>, host: &Arc<Host>) {
    door.enter(Arc::clone(host));
    if host.activity.is_some() {
        let host = Arc::clone(host);
        door.tasks.spawn(async move {
            if let Some(activity) = &host.activity {
                activity.tell(&host.peer).await;
            }
        });
    }
}

/// Works on what the host asks, several requests at once, until it has said its last.
async fn work<R: AsyncRead + Unpin>(door: &Arc<Inner>, host: &Arc<Host>, inbox: &mut Inbox<R>) {
    let places = Arc::new(Semaphore::new(WORKING_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some(Call { id, method, params }) = inbox.next().await else { return };
        // Nothing that a host may tell needs no answer; what it tells of its own is passed over.
        let Some(id) = id else { continue };
        let (door, host) = (Arc::clone(door), Arc::clone(host));
        let tasks = door.tasks.clone();
        let answering = async move {
            answer(door, host, id, &method, params).await;
            drop(place);
        };
        tasks.spawn(answering.in_current_span());
    }
}

async fn answer(door: Arc<Inner>, host: Arc<Host>, id: Id, method: &str, params: Value) {
    let outcome = match method {
        "initialize" => Err(initialised_before()),
        method => method::call(&door, &host, method, params).await,
    };
    match outcome {
        Ok(Outcome::Answer(answer)) => host.peer.answer(&id, Ok(answer)).await,
        Ok(Outcome::Stream(answer, stream)) => {
            host.peer.answer(&id, Ok(answer)).await;
            let tasks = door.tasks.clone();
            tasks.spawn(stream.run(door, host).in_current_span());
        }
        Ok(Outcome::Stop(grace)) => {
            host.peer.answer(&id, Ok(json!({}))).await;
            door.stop(grace);
        }
        Err(error) => host.peer.answer(&id, Err(error)).await,
    }
}
