//! The assembly: the only file that names every driver.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use connect::{Pool, ServerStatus};
use driver_api::{
    Checkpoints, Checks, Clock, Hooks, Ids, Neurons, NoHooks, Store, SystemClock, SystemIds,
    ToolSource,
};
use runtime::Policies;
use runtime_api::{Handle, NeuronHandle};

use crate::all_checks::AllChecks;
use crate::folders::Folders;
use crate::options::{McpOptions, Options};
use crate::workspaces::HostWorkspaces;
use crate::{neurons, servers};

/// A running Narthex.
#[derive(Debug)]
pub struct Narthex {
    handle: Handle,
    policies: Policies,
    notices: Vec<String>,
    /// The driver, and what one may ask of it.
    neurons: Option<(Arc<dyn Neurons>, NeuronHandle)>,
    servers: Option<Arc<Pool>>,
    /// What further servers are made with.
    ground: servers::Ground,
}

/// Why a Narthex could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder for everything that is kept cannot be used.
    #[error("home folder {path}: {source}")]
    Home {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("store {path}: {source}")]
    Store {
        /// The database file.
        path: PathBuf,
        /// Why.
        source: driver_api::StoreError,
    },
    /// A hook cannot be set up.
    #[error(transparent)]
    Hooks(#[from] hooks::HookSetError),
    /// The models cannot be built, for example of a scenario that cannot be read.
    #[error(transparent)]
    Models(#[from] model::Error),
}

impl Narthex {
    /// Returns the handle that doors take.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the policy above all sessions, to be replaced by a newer one.
    pub fn policies(&self) -> Policies {
        self.policies.clone()
    }

    /// Returns what people should know about the start, for example that a damaged store was
    /// mended. One sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns what doors ask of neurons; none where [`Options::neurons`] was absent.
    pub fn neurons(&self) -> Option<NeuronHandle> {
        self.neurons.as_ref().map(|(_, handle)| handle.clone())
    }

    /// Waits until each MCP server was reached once or could not be, at most so long: for whoever
    /// has one session and would rather begin a moment later with all tools. Without servers it
    /// waits for nothing.
    pub async fn connected(&self, limit: Duration) {
        if let Some(pool) = &self.servers {
            pool.settled(limit).await;
        }
    }

    /// Starts or reaches further MCP servers, without waiting for any: for the sessions that are
    /// given them with [`runtime_api::AgentSettings::tools`]. They end with the last clone of what
    /// is returned. Needs a tokio runtime.
    pub fn bring(&self, servers: McpOptions) -> Arc<Pool> {
        self.ground.pool(servers)
    }

    /// Returns how it stands with each MCP server.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.servers.as_ref().map(|pool| pool.status()).unwrap_or_default()
    }

    /// Closes everything, in order: sessions, then MCP servers with all their processes. Neurons
    /// are let go of and run on.
    pub async fn close(&self) {
        self.handle.shutdown().await;
        if let Some(pool) = &self.servers {
            pool.stop().await;
        }
        if let Some((neurons, _)) = &self.neurons {
            neurons.close().await;
        }
    }
}

/// Says which home folder cannot be used.
pub(crate) fn home_error(home: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = home.to_owned();
    move |source| Error::Home { path, source }
}

/// Builds the house. Opens nothing to the outside; no process starts before it is needed.
///
/// # Errors
/// When the home folder, the store or the scenario cannot be opened; the text says which and why.
pub async fn build(options: Options) -> Result<Narthex, Error> {
    let folders = Folders::create(&options.home).map_err(home_error(&options.home))?;
    let path = options.store.unwrap_or_else(|| options.home.join("narthex.db"));
    // The store may be elsewhere than in the home.
    let left_out = vec![options.home.clone(), path.clone()];
    let (store, mut notices) = store_of(path, &folders).await?;
    let (hooks, doubts) = hooks_of(options.hooks)?;
    notices.extend(doubts);
    let providers = options.providers;
    let mut models = model::build(model::Options { providers, scenario: options.scenario })?;
    if let Some(slot) = options.model_slot {
        models = slot.before(models);
    }
    let command = options.agent_command;
    let agent = sandbox::Agent::new(sandbox::AgentOptions { command: command.clone() });
    let policies = Policies::new(options.policy);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let mut tools = tools::native();
    tools.extend(tools::chosen());
    let checks = checks_of(options.checks);
    let home = options.home.clone();
    let keeper = options.neurons.as_ref().map(|own| neurons::driver(own, home, command, &clock));
    let (home, hidden_env) = (options.home.clone(), options.hidden_env.clone());
    let time = (Arc::clone(&clock), Arc::clone(&ids));
    let ground = servers::Ground::new((home, &folders.run), (agent.clone(), hidden_env), time);
    let servers = options.mcp.map(|own| ground.pool(own));
    let sources = servers.iter().map(|pool| Arc::clone(pool) as Arc<dyn ToolSource>);
    let (spill, user_home) = (folders.spill.clone(), options.user_home.clone());
    let sandboxes = options.neurons.as_ref();
    let sandboxes = sandboxes.map(|own| neurons::sandboxes(own, options.sandbox));
    let runtime = runtime::Options {
        store,
        models,
        tools: tools.clone(),
        tool_sources: sources.collect(),
        neurons: keeper.clone(),
        sandboxes,
        workspaces: Arc::new(HostWorkspaces::new(agent, options.hidden_env)),
        policies: policies.clone(),
        clock: Arc::clone(&clock),
        ids: Arc::clone(&ids),
        default_model: options.model,
        default_mode: options.mode,
        spill: folders.spill,
        user_home: options.user_home,
        hooks,
        checks: checks.clone(),
        checkpoints: options.has_checkpoints.then(|| checkpoints(folders.checkpoints, left_out)),
        rule_book: options.rule_book,
        observers: options.observers,
        sessions_max: options.sessions_max,
        idle_ms: None,
    };
    let handle = runtime.start();
    let neurons = keeper.zip(options.neurons).map(|(keeper, own)| {
        let around = neurons::Surroundings {
            tools,
            policies: policies.clone(),
            checks,
            clock,
            ids,
            spill,
            user_home,
            sessions: handle.clone(),
        };
        let asked = neurons::handle(own, Arc::clone(&keeper), around);
        (keeper, asked)
    });
    Ok(Narthex { handle, policies, notices, neurons, servers, ground })
}

/// Makes what captures files before they change.
fn checkpoints(folder: PathBuf, left_out: Vec<PathBuf>) -> Arc<dyn Checkpoints> {
    let kept = checkpoint::Options::new(folder);
    Arc::new(checkpoint::Keeper::open(checkpoint::Options { left_out, ..kept }))
}

/// Opens the store, and says what people should know about that.
async fn store_of(
    path: PathBuf,
    folders: &Folders,
) -> Result<(Arc<dyn Store>, Vec<String>), Error> {
    let blobs = folders.blobs.clone();
    let wanted = store::Options { path: path.clone(), blobs, run: folders.run.clone() };
    let store = store::sqlite::open(wanted).await;
    let store = store.map_err(|source| Error::Store { path, source })?;
    let notices = store.notices().to_vec();
    Ok((store, notices))
}

/// Makes the hooks, and says what is probably not meant.
fn hooks_of(layers: Vec<hooks::HookLayer>) -> Result<(Arc<dyn Hooks>, Vec<String>), Error> {
    if layers.is_empty() {
        return Ok((Arc::new(NoHooks), Vec::new()));
    }
    let hooks = hooks::CommandHooks::new(layers)?;
    let doubts = hooks.doubts().to_vec();
    Ok((Arc::new(hooks), doubts))
}

/// Makes one check of all.
fn checks_of(checks: Vec<hooks::CommandChecks>) -> Option<Arc<dyn Checks>> {
    (!checks.is_empty()).then(|| Arc::new(AllChecks(checks)) as Arc<dyn Checks>)
}
