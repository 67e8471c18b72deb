//! The assembly: the only file that names every driver.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Checkpoints, Checks, Hooks, NoHooks, SystemClock, SystemIds};
use runtime::Policies;
use runtime_api::Handle;

use crate::all_checks::AllChecks;
use crate::folders::Folders;
use crate::options::Options;
use crate::workspaces::HostWorkspaces;

/// A running Narthex.
#[derive(Debug)]
pub struct Narthex {
    handle: Handle,
    policies: Policies,
    notices: Vec<String>,
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
}

/// Builds the house. Opens nothing to the outside; no process starts before it is needed.
///
/// # Errors
/// When the home folder, the store or the scenario cannot be opened; the text says which and why.
pub async fn build(options: Options) -> Result<Narthex, Error> {
    let folders = Folders::create(&options.home)
        .map_err(|source| Error::Home { path: options.home.clone(), source })?;
    let path = options.store.unwrap_or_else(|| options.home.join("narthex.db"));
    // The store may be elsewhere than in the home.
    let left_out = vec![options.home.clone(), path.clone()];
    let wanted = store::Options {
        path: path.clone(),
        blobs: folders.blobs.clone(),
        run: folders.run.clone(),
    };
    let store =
        store::sqlite::open(wanted).await.map_err(|source| Error::Store { path, source })?;
    let mut notices = store.notices().to_vec();
    let (hooks, doubts) = hooks_of(options.hooks)?;
    notices.extend(doubts);
    let providers = options.providers;
    let models = model::build(model::Options { providers, scenario: options.scenario })?;
    let agent = sandbox::Agent::new(sandbox::AgentOptions { command: options.agent_command });
    let policies = Policies::new(options.policy);
    let runtime = runtime::Options {
        store,
        models,
        tools: tools::native(),
        workspaces: Arc::new(HostWorkspaces::new(agent, options.hidden_env)),
        policies: policies.clone(),
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(SystemIds),
        default_model: options.model,
        default_mode: options.mode,
        spill: folders.spill,
        user_home: options.user_home,
        hooks,
        checks: checks_of(options.checks),
        checkpoints: options.has_checkpoints.then(|| {
            let kept = checkpoint::Options::new(folders.checkpoints);
            let kept = checkpoint::Options { left_out, ..kept };
            Arc::new(checkpoint::Keeper::open(kept)) as Arc<dyn Checkpoints>
        }),
        rule_book: options.rule_book,
        observers: options.observers,
        sessions_max: options.sessions_max,
        idle_ms: None,
    };
    Ok(Narthex { handle: runtime.start(), policies, notices })
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
