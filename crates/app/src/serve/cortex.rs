//! The cortex door: as a server of its own, and beside others.

mod places;
mod plan;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use door_cli::{CortexArgs, CortexFacts, Failure, Globals, ServerFacts, TokenOrigin};
use door_cortex::BASE;
use driver_api::{Clock, SystemClock};
use http_kit::{OneToken, Tokens};
use narthex::{Handle, Narthex};
use runtime_api::NeuronHandle;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub(super) use self::plan::CortexPlan;
use self::plan::ServerPlan;
use super::measures::Measures;
use super::running::{Beside, Opening, Running};
use super::{address, allow_many_files, choose_model};
use crate::environment::Environment;
use crate::settings::TOKEN;
use crate::{logging, machine, policy};

/// As whom the token of the door comes in.
const CALLER: &str = "owner";

/// The door, with what it is made of.
#[derive(Debug)]
pub(super) struct CortexDoor {
    plan: CortexPlan,
    handle: Handle,
    neurons: NeuronHandle,
    tokens: Option<Arc<dyn Tokens>>,
    is_loopback: bool,
}

impl CortexPlan {
    /// Makes the door of a house that has neurons.
    ///
    /// # Errors
    /// When the settings' mode is locked away.
    pub(super) fn door(
        self,
        house: &Narthex,
        tokens: Option<Arc<dyn Tokens>>,
        is_loopback: bool,
    ) -> Result<CortexDoor, Failure> {
        let handle = house.handle();
        handle.check_settings(Some(self.mode), None)?;
        let neurons = house.neurons().ok_or_else(|| Failure::failed("there are no neurons"))?;
        Ok(CortexDoor { plan: self, handle, neurons, tokens, is_loopback })
    }
}

impl CortexDoor {
    /// Says what people want to know of it. Looks what this machine can do.
    pub(super) async fn facts(&self) -> CortexFacts {
        let driver = self.plan.neurons.driver;
        let isolation = self.neurons.isolation(Some(driver)).await;
        for reason in &isolation.reasons {
            tracing::warn!(driver = driver.as_str(), "neurons: {reason}");
        }
        CortexFacts {
            base: BASE,
            driver: driver.as_str(),
            isolation: isolation.level.as_str(),
            preset: self.plan.preset_name,
        }
    }

    /// Makes its routes.
    fn routes(self, measures: &Measures, stopping: CancellationToken) -> Router {
        let Self { plan, handle, neurons, tokens, is_loopback } = self;
        let options = door_cortex::Options {
            version: env!("CARGO_PKG_VERSION"),
            tokens,
            is_loopback,
            limits: plan.limits,
            proxies: plan.proxies,
            preset: plan.preset,
            session_ttl: plan.session_ttl,
            agent: plan.agent,
            mode: Some(plan.mode),
            asks_for: plan.asks_for,
            driver: Some(plan.neurons.driver),
            places: Some(Arc::new(plan.places)),
            now: Arc::new(|| SystemClock::default().now()),
            stopping,
        };
        measures.counted(door_cortex::router(options, handle, neurons))
    }

    /// Puts it before other routes: whatever begins with its base is its own.
    pub(super) fn before(
        self,
        others: Router,
        measures: &Measures,
        stopping: CancellationToken,
    ) -> Router {
        let own = self.routes(measures, stopping);
        // Not as a route of the others: what is wrong below the base is worded by this door.
        Router::new().fallback(move |request: Request| {
            let mut routes =
                if is_own(request.uri().path()) { own.clone() } else { others.clone() };
            async move { routes.call(request).await }
        })
    }
}

/// Tells whether a path lies below the base.
fn is_own(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Prepares a server of this door alone.
///
/// # Errors
/// Names the variable, flag, setting or port, and what would be right.
pub(super) async fn prepare(
    globals: &Globals,
    args: CortexArgs,
    environment: &Environment,
) -> Result<Running, Failure> {
    let ServerPlan { mut settings, address, globals } =
        Box::pin(ServerPlan::make(globals, args, environment)).await?;
    let log = logging::to_stderr(&settings)?;
    let listener = address::bind(address, &settings.places.home).await?;
    let bound = listener
        .local_addr()
        .map_err(|error| Failure::failed(format!("ask for the port: {error}")))?;
    let remote = policy::hold(&mut settings).await?;
    // What governs may have come just now.
    let plan = CortexPlan::make(&settings, &globals, environment)?;
    let mut facts = facts(&plan, &settings, bound);
    facts.model = choose_model(&settings, &mut facts.notices).await;
    let measures = Measures::begin(&settings.telemetry)?;
    let mut options = machine::options(settings.clone(), facts.model.clone(), plan.mode);
    options.observers = vec![measures.observer()];
    options.mcp = machine::mcp(&settings);
    options.neurons = Some(plan.neurons.clone());
    let house =
        narthex::build(options).await.map_err(|error| Failure::failed(error.to_string()))?;
    facts.notices.extend(house.notices().iter().cloned());
    allow_many_files();
    let tokens = settings.cortex.token.as_ref().map(|token| {
        let tokens: Arc<dyn Tokens> = Arc::new(OneToken::new(token, CALLER));
        tokens
    });
    let door = plan.door(&house, tokens, address::is_loopback(bound.ip()));
    let checked = door.and_then(|door| {
        house.handle().check_settings(None, settings.asked_model().map(String::as_str))?;
        Ok(door)
    });
    let door = match checked {
        Ok(door) => door,
        Err(failure) => {
            house.close().await;
            return Err(failure);
        }
    };
    facts.cortex = Some(door.facts().await);
    let policies = house.policies();
    let remote = remote
        .map(|remote| Beside::start(remote.keep_in_force(move |policy| policies.replace(policy))));
    let counted = measures.clone();
    Ok(Running {
        facts,
        house,
        opening: Some(Opening {
            routes: Box::new(move |stopping| door.routes(&counted, stopping)),
            listener,
            which: None,
        }),
        stopping: CancellationToken::new(),
        listener: Beside::none(),
        beside: remote.into_iter().collect(),
        announcement: None,
        measures,
        log,
    })
}

fn facts(
    plan: &CortexPlan,
    settings: &crate::settings::Settings,
    bound: SocketAddr,
) -> ServerFacts {
    let token = settings.cortex.token.clone();
    ServerFacts {
        url: address::url(bound),
        port: bound.port(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        token_origin: token.is_some().then(|| TokenOrigin::Variable(TOKEN.to_owned())),
        token,
        roots: Vec::new(),
        mode: plan.mode,
        model: None,
        file: None,
        taken_up: 0,
        cortex: None,
        notices: super::beyond_this_machine(bound)
            .into_iter()
            .chain(settings.notices.iter().cloned())
            .collect(),
    }
}
