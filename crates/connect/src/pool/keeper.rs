//! Keeps one server connected.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Clock, Ids};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::ClientLifecycleMode;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, Peer, QuitReason, RoleClient, RunningService,
    RunningServiceCancellationToken, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ServerState;
use super::Shelf;
use super::kept::{Kept, Way};
use crate::Launcher;
use crate::catalogue::Catalogue;
use crate::damping::{Damping, Spacing};
use crate::handler::Handler;
use crate::in_flight::InFlight;
use crate::link::Link;
use crate::stdio::{self, Warden};
use crate::trouble;
use crate::words::cut;

/// How long a server may take until it speaks: a program that is fetched first takes its time.
const CONNECT_WAIT: Duration = Duration::from_secs(60);

/// How long the list of tools may take.
const LIST_WAIT: Duration = Duration::from_secs(30);

/// How long a connection may take to close in peace.
const CLOSE_WAIT: Duration = Duration::from_secs(6);

/// What is said of a server that wants a person first.
const NOBODY: &str = "a person has to authorize access to it first";

/// Most characters of an error.
const ERROR_CHARS_MAX: usize = 1_000;

/// Keeps one server connected until it is stopped.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) kept: Arc<Kept>,
    pub(super) way: Way,
    pub(super) shelf: Arc<Shelf>,
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) tasks: TaskTracker,
}

/// A connection with all that belongs to it.
struct Open {
    service: RunningService<RoleClient, Handler>,
    warden: Option<Warden>,
    link: Arc<Link>,
    changed: Arc<Notify>,
}

/// A connection that is about to end.
struct Closing {
    cancel: RunningServiceCancellationToken,
    gone: BoxFuture<'static, Result<QuitReason, JoinError>>,
    clock: Arc<dyn Clock>,
}

impl Closing {
    /// Closes it in peace, as far as there is time for that.
    async fn close(self) {
        self.cancel.cancel();
        tokio::select! {
            _ = self.gone => {}
            () = self.clock.sleep(CLOSE_WAIT) => {}
        }
    }
}

/// Why no connection came about.
struct Failed {
    /// Whether a server of an older revision might fail so.
    may_be_old: bool,
    /// Whether nothing was started at all.
    is_unlaunched: bool,
    reason: String,
}

impl Failed {
    fn new(reason: impl Into<String>) -> Self {
        let reason = cut(&reason.into(), ERROR_CHARS_MAX);
        Self { may_be_old: false, is_unlaunched: false, reason }
    }
}

impl Keeper {
    /// Runs until the server is stopped.
    pub(super) async fn run(self) {
        let stop = self.kept.stop.clone();
        let mut damping = Damping::default();
        let mut era = Era::default();
        let mut last_trouble = "it was stopped".to_owned();
        loop {
            self.kept.set_state(ServerState::Connecting, None);
            let start = self.kept.clock.elapsed();
            let mut held = Duration::ZERO;
            let opened = tokio::select! {
                opened = self.open(&mut era) => opened,
                () = stop.cancelled() => break,
            };
            let reason = match opened {
                Ok(open) => {
                    let reason = self.hold(open).await;
                    held = self.kept.clock.elapsed() - start;
                    reason
                }
                // Its neuron is gone, or has no such program. It is tried anew when somebody
                // enters the neuron, and costs nothing until then.
                Err(failed) if failed.is_unlaunched && self.kept.inside.is_some() => {
                    let server = &self.kept.server.name;
                    tracing::info!(%server, reason = %failed.reason, "an MCP server cannot be \
                        started in a neuron");
                    last_trouble = format!("it cannot be started there: {}", failed.reason);
                    break;
                }
                Err(failed) => failed.reason,
            };
            if stop.is_cancelled() {
                break;
            }
            let (state, reason) = match self.is_refused() {
                true => (ServerState::Unauthorized, NOBODY.to_owned()),
                false => (ServerState::Waiting, reason),
            };
            self.kept.access.set_trouble(&reason);
            // Once for each trouble: whoever runs a server reads it, and not the same every minute.
            if self.kept.set_state(state, Some(reason.clone())) {
                let server = &self.kept.server.name;
                let state = state.as_str();
                tracing::warn!(%server, state, %reason, "an MCP server is not there");
            }
            let wait = damping.wait(held, self.ids.random());
            tokio::select! {
                () = self.kept.clock.sleep(wait) => {}
                () = self.kept.wake.notified() => damping = Damping::default(),
                () = stop.cancelled() => break,
            }
        }
        self.kept.access.set_trouble(&last_trouble);
        // Whoever waits for its return waits no longer.
        self.kept.stop.cancel();
        if self.kept.inside.is_some() {
            self.shelf.forget(&self.kept);
        }
        self.kept.set_state(ServerState::Stopped, None);
    }

    /// Tells whether the server wants a person before anything else helps.
    fn is_refused(&self) -> bool {
        self.kept.tokens.as_ref().is_some_and(|tokens| tokens.is_refused())
    }

    /// Reaches the server. Dropping the future ends what was begun.
    async fn open(&self, era: &mut Era) -> Result<Open, Failed> {
        let opened = self.open_as(era).await;
        let is_program = matches!(self.way, Way::Program(_));
        match opened {
            // A program is started anew for it, and only after a wait: it may be broken.
            Err(failed) if era.failed(failed.may_be_old) && !is_program => self.open_as(era).await,
            opened => opened,
        }
    }

    async fn open_as(&self, era: &mut Era) -> Result<Open, Failed> {
        let in_flight = Arc::new(InFlight::default());
        let changed = Arc::new(Notify::new());
        let handler = Handler {
            server: self.kept.server.name.clone(),
            in_flight: Arc::clone(&in_flight),
            changed: Arc::clone(&changed),
        };
        if let Some(tokens) = &self.kept.tokens {
            // What was refused before may be allowed now.
            tokens.set_refused(false);
        }
        let mut warden = None;
        let lifecycle = era.lifecycle();
        let served = async {
            match &self.way {
                Way::None(reason) => return Err(Failed::new(reason)),
                Way::Program(program) => {
                    let inside = self.kept.inside.as_ref().map(|inside| inside.workspace());
                    let launched = self.launcher.launch(program, inside.as_ref()).await;
                    let child = launched.map_err(|fault| Failed {
                        is_unlaunched: true,
                        ..Failed::new(fault.to_string())
                    })?;
                    let clock = Arc::clone(&self.kept.clock);
                    let (streams, watching) = stdio::watch_over(child, clock, &self.tasks);
                    warden = Some(watching);
                    begin(handler, streams, lifecycle).await
                }
                Way::Http { wire, url } => {
                    let config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(url));
                    let http = StreamableHttpClientTransport::with_client(wire.clone(), config);
                    begin(handler, http, lifecycle).await
                }
            }
            .map_err(|error| failed(&error))
        };
        let served = tokio::select! {
            served = served => served,
            () = self.kept.clock.sleep(CONNECT_WAIT) => {
                let limit = CONNECT_WAIT.as_secs();
                Err(Failed::new(format!("it did not begin to speak within {limit} s")))
            }
        };
        match served {
            Ok(service) => {
                era.speaks(service.peer());
                let link = Arc::new(Link {
                    server: self.kept.server.name.clone(),
                    peer: service.peer().clone(),
                    in_flight,
                    broken: CancellationToken::new(),
                    tasks: self.tasks.clone(),
                    clock: Arc::clone(&self.kept.clock),
                    call_timeout: self.kept.server.call_timeout,
                });
                Ok(Open { service, warden, link, changed })
            }
            Err(mut failed) => {
                if let Some(mut warden) = warden {
                    let words = warden.last_words(&*self.kept.clock).await;
                    let reason = format!("{}: {words}", failed.reason);
                    failed.reason = cut(&reason, ERROR_CHARS_MAX);
                    warden.end().await;
                }
                Err(failed)
            }
        }
    }

    /// Holds a connection until it is lost, is of no use any more, or the server is stopped.
    /// Returns why.
    fn hold(&self, open: Open) -> BoxFuture<'_, String> {
        self.held(open).boxed()
    }

    async fn held(&self, open: Open) -> String {
        let Open { service, warden, link, changed } = open;
        let (cancel, clock) = (service.cancellation_token(), Arc::clone(&self.kept.clock));
        let mut gone = service.waiting().boxed();
        let mut is_gone = false;
        let reason = tokio::select! {
            reason = self.serve(&link, &changed) => reason,
            quit = &mut gone => {
                is_gone = true;
                match quit {
                    Ok(QuitReason::Closed) => "the connection was closed".to_owned(),
                    Ok(_) => "the connection was ended".to_owned(),
                    Err(error) => format!("the connection failed inside: {error}"),
                }
            }
            () = link.broken.cancelled() => "the connection failed during a call".to_owned(),
            () = self.kept.stop.cancelled() => "it was stopped".to_owned(),
        };
        self.kept.access.set_trouble(&reason);
        self.kept.access.link.send_replace(None);
        link.broken.cancel();
        let Some(mut warden) = warden else {
            if !is_gone {
                self.tasks.spawn(self.retired(link, Closing { cancel, gone, clock }));
            }
            return reason;
        };
        if !is_gone {
            Closing { cancel, gone, clock }.close().await;
        }
        let words = match self.kept.stop.is_cancelled() {
            true => None,
            false => Some(warden.last_words(&*self.kept.clock).await),
        };
        warden.end().await;
        match words {
            Some(words) => cut(&format!("{reason}: {words}"), ERROR_CHARS_MAX),
            None => reason,
        }
    }

    /// Closes a connection over HTTP once the calls on it have ended: they do not depend on the
    /// one that failed.
    fn retired(&self, link: Arc<Link>, closing: Closing) -> BoxFuture<'static, ()> {
        let stop = self.kept.stop.clone();
        let limit = self.kept.server.call_timeout;
        async move {
            tokio::select! {
                () = link.in_flight.drained() => {}
                () = closing.clock.sleep(limit) => {}
                () = stop.cancelled() => {}
            }
            closing.close().await;
        }
        .boxed()
    }

    /// Lists the tools, offers the connection, and lists anew when they change. Returns why that
    /// came to an end.
    ///
    /// Boxed, since the compiler cannot tell by itself that all of it may move between threads.
    fn serve<'a>(&'a self, link: &'a Arc<Link>, changed: &'a Notify) -> BoxFuture<'a, String> {
        self.served(link, changed).boxed()
    }

    async fn served(&self, link: &Arc<Link>, changed: &Notify) -> String {
        if let Err(reason) = self.list(link).await {
            return reason;
        }
        self.kept.access.link.send_replace(Some(Arc::clone(link)));
        self.kept.set_state(ServerState::Connected, None);
        let listening = self.listen(&link.peer, changed);
        tokio::pin!(listening);
        let (clock, mut spacing) = (&self.kept.clock, Spacing::default());
        loop {
            let listed_at = clock.elapsed();
            tokio::select! {
                () = changed.notified() => {}
                () = &mut listening => {}
            }
            let wait = spacing.wait(clock.elapsed().saturating_sub(listed_at));
            tokio::select! {
                () = clock.sleep(wait) => {}
                () = &mut listening => {}
            }
            if let Err(reason) = self.list(link).await {
                return reason;
            }
        }
    }

    async fn list(&self, link: &Link) -> Result<(), String> {
        let listed = tokio::select! {
            listed = link.list() => listed,
            () = self.kept.clock.sleep(LIST_WAIT) => {
                return Err(format!("it did not list its tools within {} s", LIST_WAIT.as_secs()));
            }
        };
        let tools = listed.map_err(|error| {
            format!("it did not list its tools: {}", trouble::of_request(&error))
        })?;
        // What speaks for a server inside of a neuron may have been put there by whoever works in
        // it.
        let is_trusted = self.kept.server.origin.is_trusted() && self.kept.inside.is_none();
        let part = &self.kept.part;
        self.kept.set_tools(Catalogue::read(part, is_trusted, tools));
        Ok(())
    }

    /// Listens for changes at a server of the newest revision, for ever; at others the handler is
    /// told of them.
    async fn listen(&self, peer: &Peer<RoleClient>, changed: &Notify) {
        let info = peer.peer_info();
        let tells = info.is_some_and(|info| {
            let tools = info.capabilities.tools.as_ref();
            !info.protocol_version.has_initialize()
                && tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        if !tells {
            return std::future::pending().await;
        }
        let mut damping = Damping::default();
        let mut is_first = true;
        loop {
            let start = self.kept.clock.elapsed();
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut subscription) = peer.listen(filter).await {
                // What changed while nobody listened is not told again.
                if !std::mem::replace(&mut is_first, false) {
                    changed.notify_one();
                }
                while let Ok(Some(_)) = subscription.next().await {
                    changed.notify_one();
                }
            }
            let held = self.kept.clock.elapsed() - start;
            self.kept.clock.sleep(damping.wait(held, self.ids.random())).await;
        }
    }
}

fn failed(error: &ClientInitializeError) -> Failed {
    use ClientInitializeError::{ConnectionClosed, ExpectedInitResponse, ExpectedInitResult};
    let may_be_old =
        matches!(error, ConnectionClosed(_) | ExpectedInitResponse(_) | ExpectedInitResult(_));
    Failed { may_be_old, ..Failed::new(trouble::of_start(error)) }
}

/// Begins to speak. Boxed, since the compiler cannot tell by itself that all of it may move between
/// threads.
fn begin(
    handler: Handler,
    transport: impl Transport<RoleClient> + 'static,
    lifecycle: ClientLifecycleMode,
) -> BoxFuture<'static, Result<RunningService<RoleClient, Handler>, ClientInitializeError>> {
    let end = CancellationToken::new();
    serve_client_with_lifecycle_and_ct(handler, transport, lifecycle, end).boxed()
}

/// Which revision a server speaks: asked for first, remembered afterwards.
#[derive(Debug, Default)]
struct Era {
    is_old: bool,
}

impl Era {
    fn lifecycle(&self) -> ClientLifecycleMode {
        if self.is_old {
            return ClientLifecycleMode::Initialize;
        }
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        }
    }

    fn speaks(&mut self, peer: &Peer<RoleClient>) {
        self.is_old = peer.peer_info().is_some_and(|info| info.protocol_version.has_initialize());
    }

    /// Takes note of a failure. Old programs may end at a question that they do not know, and
    /// some servers answer it with nothing; others are renewed meanwhile. Tells whether the other
    /// way was not tried yet and may help.
    fn failed(&mut self, may_be_old: bool) -> bool {
        self.is_old = may_be_old && !self.is_old;
        self.is_old
    }
}
