//! `narthex serve` and `narthex cortex`: the doors that speak HTTP, on one listener.

mod acp;
mod address;
mod admission;
mod announcement;
mod cortex;
mod doors;
mod host;
mod measures;
mod plan;
mod port_owner;
mod running;
mod token;
mod token_file;

use std::net::SocketAddr;
use std::sync::Arc;

use door_cli::{
    CortexArgs, Failure, FurtherDoor, Globals, HostArgs, NewToken, RunningServer, ServeArgs,
    ServerFacts, ServerMachine, TokenInfo,
};
use driver_api::{Clock, NeuronDriver, SystemClock};
use http_kit::Tokens;
use narthex::{Narthex, NeuronOptions};
use runtime_api::{AgentSettings, TakeUp};
use stdx::Secret;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::admission::Admission;
use self::announcement::{Announcement, Claim};
use self::cortex::CortexPlan;
use self::doors::Doors;
use self::measures::Measures;
use self::plan::Plan;
use self::running::{Beside, Opening, Running};
use crate::environment::Environment;
use crate::machine::{self, Program};
use crate::settings::{Places, Settings};
use crate::{logging, model_choice, policy};

pub(crate) use self::announcement::{ServerRecord, kept, running};
pub(crate) use self::port_owner::find as port_owner;

/// How many sessions are taken up at the start: more would all ask their models at once.
const TAKE_UP_MAX: usize = 64;
/// How many files may be open: a connection and a file of a session each take one. Programs that
/// look at every number up to their own limit are slow with more.
const OPEN_FILES_MAX: u64 = 65_536;

impl ServerMachine for Program {
    type Server = Running;

    async fn serve(&self, globals: &Globals, args: ServeArgs) -> Result<Running, Failure> {
        let with_cortex = args.with.contains(&FurtherDoor::Cortex);
        let plan = Box::pin(Plan::make(globals, args, self.environment())).await?;
        let cortex = with_cortex.then(|| self.environment());
        if let Some(environment) = cortex {
            // Before anything is waited for.
            CortexPlan::make(&plan.settings, globals, environment)?;
        }
        let log = logging::to_stderr(&plan.settings)?;
        let home = plan.settings.places.home.clone();
        let listener = address::bind(plan.address, &home).await?;
        let claim = match plan.is_private {
            true => None,
            false => Some(announcement::claim(&home)?),
        };
        Box::pin(prepare(plan, cortex, listener, claim, log)).await
    }

    async fn cortex(&self, globals: &Globals, args: CortexArgs) -> Result<Running, Failure> {
        Box::pin(cortex::prepare(globals, args, self.environment())).await
    }

    async fn acp(&self, globals: &Globals, stopped: oneshot::Receiver<()>) -> Result<(), Failure> {
        Box::pin(acp::speak(globals, self.environment(), stopped)).await
    }

    async fn host(
        &self,
        globals: &Globals,
        args: HostArgs,
        stopped: oneshot::Receiver<()>,
    ) -> Result<(), Failure> {
        Box::pin(host::serve(globals, self.environment(), args, stopped)).await
    }

    fn running_server(&self, globals: &Globals) -> Result<RunningServer, Failure> {
        let home = Places::find(self.want(globals))?.home;
        if let Some(record) = running(&home) {
            let ServerRecord { url, token, pid, .. } = record;
            return Ok(RunningServer { url, token: Secret::new(token), pid });
        }
        let path = announcement::path_of(&home);
        let why = match kept(&home) {
            Ok(None) => String::new(),
            Ok(Some(record)) => format!(
                " ({} is left of process {}, which ended without taking it away)",
                path.display(),
                record.pid
            ),
            Err(problem) => format!(" ({problem})"),
        };
        Err(Failure::failed(format!(
            "no server of {} runs{why}; start one: narthex serve",
            home.display()
        )))
    }

    fn make_token(
        &self,
        globals: &Globals,
        name: &str,
        life_ms: Option<i64>,
    ) -> Result<NewToken, Failure> {
        let home = Places::find(self.want(globals))?.home;
        token_file::create(&home, name, life_ms, SystemClock::default().now())
    }

    fn tokens(&self, globals: &Globals) -> Result<Vec<TokenInfo>, Failure> {
        token_file::list(&Places::find(self.want(globals))?.home)
    }

    fn revoke_token(&self, globals: &Globals, name: &str) -> Result<(), Failure> {
        token_file::revoke(&Places::find(self.want(globals))?.home, name)
    }
}

/// Builds the runtime behind a port that is open already, and says where that is.
async fn prepare(
    mut plan: Plan,
    cortex: Option<&Environment>,
    listener: TcpListener,
    claim: Option<Claim>,
    log: logging::Flush,
) -> Result<Running, Failure> {
    let bound = listener
        .local_addr()
        .map_err(|error| Failure::failed(format!("ask for the port: {error}")))?;
    let remote = policy::hold(&mut plan.settings).await?;
    // What governs may have come just now.
    let cortex = cortex
        .map(|environment| CortexPlan::make(&plan.settings, &plan.globals, environment))
        .transpose()?;
    let mut facts = facts(&plan, bound)?;
    facts.model = choose_model(&plan.settings, &mut facts.notices).await;
    let agent = AgentSettings {
        is_attended: true,
        carries_on: true,
        ..machine::agent(&plan.settings, &plan.globals)?
    };
    let measures = Measures::begin(&plan.settings.telemetry)?;
    let built = build(&plan, cortex.as_ref(), &mut facts, &measures).await?;
    let handle = built.handle();
    check_model(&handle, &plan).await?;
    let which = TakeUp {
        roots: facts.roots.clone(),
        agent: agent.clone(),
        limit: TAKE_UP_MAX.min(plan.sessions_max),
    };
    let tokens = tokens(&plan);
    let is_loopback = address::is_loopback(bound.ip());
    let own = cortex.map(|plan| plan.door(&built, Some(Arc::clone(&tokens)), is_loopback));
    let cortex = own.transpose()?;
    if let Some(door) = &cortex {
        facts.cortex = Some(door.facts().await);
    }
    let doors = Doors {
        handle: handle.clone(),
        measures: measures.clone(),
        roots: plan.roots.clone(),
        agent,
        model: facts.model.clone(),
        is_loopback,
        origins: plan.origins.clone(),
        tokens,
        cortex,
    };
    let announcement = match claim.map_or(Ok(None), |claim| announce(claim, &mut facts)) {
        Ok(announcement) => announcement,
        Err(failure) => {
            handle.shutdown().await;
            return Err(failure);
        }
    };
    let remote = remote.map(|remote| {
        let policies = built.policies();
        Beside::start(remote.keep_in_force(move |policy| policies.replace(policy)))
    });
    Ok(Running {
        facts,
        house: built,
        opening: Some(Opening {
            routes: Box::new(|stopping| doors.routes(stopping)),
            listener,
            which: Some(which),
        }),
        stopping: CancellationToken::new(),
        listener: Beside::none(),
        beside: remote.into_iter().collect(),
        announcement,
        measures,
        log,
    })
}

/// Says who is let in.
fn tokens(plan: &Plan) -> Arc<dyn Tokens> {
    Arc::new(Admission::new(
        &plan.token.secret,
        token_file::path_of(&plan.settings.places.home),
        Arc::new(SystemClock::default()),
    ))
}

/// Builds the house, and notes what people should know about that.
async fn build(
    plan: &Plan,
    cortex: Option<&CortexPlan>,
    facts: &mut ServerFacts,
    measures: &Measures,
) -> Result<Narthex, Failure> {
    let mut options = machine::options(plan.settings.clone(), facts.model.clone(), facts.mode);
    options.observers = vec![measures.observer()];
    options.sessions_max = Some(plan.sessions_max);
    options.mcp = machine::mcp(&plan.settings);
    options.neurons = match cortex {
        Some(cortex) => Some(cortex.neurons.clone()),
        None => neurons(plan, facts)?,
    };
    options.sandbox = machine::sandbox(&plan.globals).unwrap_or(NeuronDriver::Host);
    let built =
        narthex::build(options).await.map_err(|error| Failure::failed(error.to_string()))?;
    facts.notices.extend(built.notices().iter().cloned());
    // Only now: commands get the limit that held when their agent was set up.
    allow_many_files();
    Ok(built)
}

/// Makes what sandboxes of sessions are made of. What is wrong with that stops a server that puts
/// every session into one, and nobody else.
fn neurons(plan: &Plan, facts: &mut ServerFacts) -> Result<Option<NeuronOptions>, Failure> {
    match machine::neurons(&plan.settings, &plan.environment) {
        Ok(mut neurons) => {
            // Each is made over the folder of its session: none that is ready would do.
            neurons.warm = 0;
            Ok(Some(neurons))
        }
        Err(failure) if machine::sandbox(&plan.globals) == Some(NeuronDriver::Namespace) => {
            Err(failure)
        }
        Err(failure) => {
            let problem = &failure.message;
            facts.notices.push(format!("{problem}; no session gets a sandbox until then"));
            Ok(None)
        }
    }
}

/// Says of a server what is known before anything is built.
fn facts(plan: &Plan, bound: SocketAddr) -> Result<ServerFacts, Failure> {
    Ok(ServerFacts {
        url: address::url(bound),
        port: bound.port(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        token: Some(plan.token.secret.clone()),
        token_origin: plan.token.giver(),
        roots: plan.root_texts()?,
        mode: plan.settings.mode.value,
        model: None,
        file: None,
        taken_up: 0,
        cortex: None,
        notices: beyond_this_machine(bound)
            .into_iter()
            .chain(plan.settings.notices.iter().cloned())
            .collect(),
    })
}

/// Says what it means to be reached by other machines.
fn beyond_this_machine(bound: SocketAddr) -> Option<String> {
    (!address::is_loopback(bound.ip())).then(|| {
        "other machines can reach this server, and there is no TLS: put a proxy with TLS before \
         it, and treat its tokens like passwords"
            .to_owned()
    })
}

/// Refuses to start with a model that was named and that nobody could use.
async fn check_model(handle: &narthex::Handle, plan: &Plan) -> Result<(), Failure> {
    let Some(model) = plan.settings.asked_model() else { return Ok(()) };
    let checked = handle.check_settings(None, Some(model));
    if checked.is_err() {
        handle.shutdown().await;
    }
    Ok(checked?)
}

/// Chooses the model of sessions that name none. Where there is none, sessions have to name one.
async fn choose_model(settings: &Settings, notices: &mut Vec<String>) -> Option<String> {
    match model_choice::choose(settings).await {
        Ok(choice) => {
            notices.extend(choice.notice);
            Some(choice.model)
        }
        Err(failure) => {
            notices.push(format!("{}\nsessions have to name a model until then", failure.message));
            settings.model.value.clone()
        }
    }
}

/// Writes the file with url and token, unless another server has it.
fn announce(claim: Claim, facts: &mut ServerFacts) -> Result<Option<Announcement>, Failure> {
    let mut announcement = match claim {
        Claim::Own(announcement) => announcement,
        Claim::Others(record) => {
            let who = match record {
                Some(record) => format!("process {} at {}", record.pid, record.url),
                None => "another process".to_owned(),
            };
            facts.notices.push(format!(
                "server.json is that of a server that runs already, {who}, and stays so: narthex \
                 token shows its token, not this one's"
            ));
            return Ok(None);
        }
    };
    announcement.write(&ServerRecord {
        url: facts.url.clone(),
        token: facts.token.as_ref().map(|it| it.expose().clone()).unwrap_or_default(),
        pid: facts.pid,
        version: facts.version.clone(),
        started_at: SystemClock::default().now(),
        roots: facts.roots.clone(),
    })?;
    facts.file = Some(announcement.path().to_owned());
    Ok(Some(announcement))
}

/// Raises the limit of open files as far as the system lets everybody.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // No number means no limit.
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(OPEN_FILES_MAX);
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
    {
        tracing::warn!(%error, "raise the limit of open files");
    }
}
