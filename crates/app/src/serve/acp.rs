//! The door for editors, over the standard streams.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use connect::{Endpoint, HttpServer, OAuthClient, Origin, Scope, Server, ServerState, StdioServer};
use door_acp::{Access, Bringing, Brought, Login, Reach};
use door_cli::{Failure, Globals};
use narthex::{Handle, McpOptions, Narthex};
use outbound::{AllowedTarget, HeaderName, HeaderValue, Url};
use runtime_api::SharedTools;
use stdx::Secret;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::measures::Measures;
use super::running::Beside;
use crate::environment::Environment;
use crate::settings::{BUILT_IN, Settings, Want};
use crate::{logging, machine, model_choice, policy};

/// How long an orderly stop may take, as that of a server.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// Speaks with an editor until it is gone, or `stopped` is.
///
/// # Errors
/// Names the flag, setting or variable, and what would be right; or what failed.
pub(super) async fn speak(
    globals: &Globals,
    environment: &Environment,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Failure> {
    let settings = Settings::load(Want { globals, environment })?;
    let log = logging::to_stderr(&settings)?;
    for notice in &settings.notices {
        tracing::warn!("{notice}");
    }
    let measures = Measures::begin(&settings.telemetry)?;
    let agent = machine::agent(&settings, globals)?;
    let way = Arc::new(Way {
        globals: globals.clone(),
        environment: environment.clone(),
        measures: measures.clone(),
        allow: settings.network_allow.clone(),
        defer_threshold: usize::try_from(settings.mcp.defer_threshold.value).unwrap_or(usize::MAX),
        found: Mutex::new(Found::of(settings, &measures).await?),
        renewing: tokio::sync::Mutex::default(),
    });
    let stop = CancellationToken::new();
    let _stopping = Beside::start({
        let stop = stop.clone();
        async move {
            // Whoever could stop it does so by going.
            drop(stopped.await);
            stop.cancel();
        }
    });
    let options = door_acp::Options { version: env!("CARGO_PKG_VERSION"), agent };
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    let access: Arc<dyn Access> = Arc::clone(&way) as Arc<dyn Access>;
    let served = Box::pin(door_acp::serve(options, access, streams, stop)).await;
    let ended = tokio::time::timeout(STOP_WAIT, async {
        way.house().close().await;
        measures.finish().await;
    });
    let is_over = ended.await.is_ok();
    log.now();
    if !is_over {
        let limit = stdx::duration(STOP_WAIT);
        return Err(Failure::failed(format!("stopping took longer than {limit}")));
    }
    match served {
        // A client that does not read any more is gone, as one that says nothing more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("speak with the editor: {error}")))
        }
        _ => Ok(()),
    }
}

/// How long a session that begins waits for the MCP servers that its editor brings: those that take
/// longer bring it no tools.
const BRING_WAIT: Duration = Duration::from_secs(5);

/// How long one call of a tool of theirs may take, as those of the settings where nothing is said.
const CALL_WAIT: Duration = Duration::from_secs(60);

/// The house, and whether its sessions have a model.
struct Found {
    house: Arc<Narthex>,
    lacks: Option<String>,
    /// Keeps the remote policy in force.
    _policy: Option<Beside<()>>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("lacks", &self.lacks).finish_non_exhaustive()
    }
}

impl Found {
    /// Builds a house.
    async fn of(mut settings: Settings, measures: &Measures) -> Result<Self, Failure> {
        let remote = policy::hold(&mut settings).await?;
        let (model, lacks) = match model(&settings).await {
            Ok(model) => (Some(model), None),
            Err(what) => (settings.model.value.clone(), Some(what)),
        };
        let mode = settings.mode.value;
        let asked = settings.asked_model().cloned();
        let mut options = machine::options(settings.clone(), model, mode);
        options.observers = vec![measures.observer()];
        options.mcp = machine::mcp(&settings);
        let house =
            narthex::build(options).await.map_err(|error| Failure::failed(error.to_string()))?;
        for notice in house.notices() {
            tracing::warn!("{notice}");
        }
        let checked = house.handle().check_settings(Some(mode), asked.as_deref());
        if let Err(error) = checked {
            house.close().await;
            return Err(error.into());
        }
        let policies = house.policies();
        let policy = remote.map(|remote| {
            Beside::start(remote.keep_in_force(move |policy| policies.replace(policy)))
        });
        Ok(Self { house: Arc::new(house), lacks, _policy: policy })
    }
}

/// Chooses the model of new sessions; where several can be used, the first: an editor lets people
/// take another at any time.
///
/// # Errors
/// What to do, where there is none.
async fn model(settings: &Settings) -> Result<String, String> {
    let failure = match model_choice::choose(settings).await {
        Ok(choice) => return Ok(choice.model),
        Err(failure) => failure,
    };
    let is_open = settings.model.value.is_none();
    let first = model_choice::with_keys(settings).into_iter().next().filter(|_| is_open);
    first.ok_or(failure.message)
}

/// The way to a model, which may be found later than the editor starts the program.
#[derive(Debug)]
struct Way {
    globals: Globals,
    environment: Environment,
    measures: Measures,
    /// Private places that servers may be reached at beside those that they name themselves.
    allow: Vec<AllowedTarget>,
    defer_threshold: usize,
    found: Mutex<Found>,
    /// One search at a time.
    renewing: tokio::sync::Mutex<()>,
}

impl Way {
    fn house(&self) -> Arc<Narthex> {
        Arc::clone(&self.found.lock().unwrap_or_else(PoisonError::into_inner).house)
    }
}

#[async_trait]
impl Access for Way {
    fn handle(&self) -> Handle {
        self.house().handle()
    }

    fn lacks(&self) -> Option<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).lacks.clone()
    }

    async fn renew(&self) -> Result<(), String> {
        let _one = self.renewing.lock().await;
        if self.lacks().is_none() {
            return Ok(());
        }
        let want = Want { globals: &self.globals, environment: &self.environment };
        let settings = Settings::load(want).map_err(|failure| failure.message)?;
        model(&settings).await?;
        // Two houses in one home would take each other for strangers. No session is open in this
        // one: there was no model for any.
        self.house().close().await;
        let found = Found::of(settings, &self.measures).await.map_err(|failure| failure.message)?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    async fn bring(&self, servers: Vec<Brought>, cwd: &str) -> Result<Bringing, String> {
        let servers: Result<Vec<Server>, String> =
            servers.into_iter().enumerate().map(|(place, it)| server(place, it)).collect();
        let (mut servers, mut notices) = (servers?, Vec::new());
        if self.globals.no_mcp {
            notices
                .push("MCP servers of the editor are not started, since --no-mcp says so".into());
            servers.clear();
        }
        let mut options = McpOptions::new(servers, cwd);
        options.defer_threshold = self.defer_threshold;
        options.allow.clone_from(&self.allow);
        let pool = self.house().bring(options);
        pool.settled(BRING_WAIT).await;
        for status in pool.status() {
            if status.state != ServerState::Connected {
                let why = status.error.unwrap_or_else(|| status.state.as_str().to_owned());
                notices.push(format!("the MCP server {} of the editor: {why}", status.name));
            }
        }
        Ok(Bringing { tools: SharedTools::new(pool), notices })
    }

    fn logins(&self) -> Vec<Login> {
        let with_key = BUILT_IN.iter().filter(|known| known.key_variable.is_some());
        with_key
            .map(|known| Login {
                provider: known.name.to_owned(),
                args: vec!["--login".to_owned(), known.name.to_owned()],
            })
            .collect()
    }
}

/// Makes a server of what an editor says. It is the word of whoever sits there, as settings are.
fn server(place: usize, brought: Brought) -> Result<Server, String> {
    let wrong = |field: String, what: &str| format!("[{place}].{field}: {what}");
    let endpoint = match brought.reach {
        Reach::Program { command, args, env } => {
            let scope = Scope::Host;
            Endpoint::Stdio(StdioServer { command, args, env, cwd: None, scope })
        }
        Reach::Http { url, headers } => {
            let right = "expected an address that begins with http:// or https://";
            let url: Url = url.parse().map_err(|_| wrong("url".to_owned(), right))?;
            if !matches!(url.scheme(), "http" | "https") {
                return Err(wrong("url".to_owned(), right));
            }
            let header = |(at, (name, value)): (usize, (String, Secret<String>))| {
                let name: HeaderName = name.parse().map_err(|_| {
                    wrong(format!("headers[{at}].name"), "expected the name of a header")
                })?;
                let value = HeaderValue::from_str(value.expose()).map_err(|_| {
                    wrong(format!("headers[{at}].value"), "expected visible letters")
                })?;
                Ok((name, Secret::new(value)))
            };
            let headers: Result<Vec<_>, String> =
                headers.into_iter().enumerate().map(header).collect();
            let (headers, oauth) = (headers?, OAuthClient::default());
            Endpoint::Http(HttpServer { url, headers, oauth })
        }
    };
    let (name, origin) = (brought.name, Origin::Settings);
    Ok(Server { name, origin, endpoint, call_timeout: CALL_WAIT })
}
