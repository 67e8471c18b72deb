//! MCP servers: one pool for all sessions of a process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connect::{Pool, PoolOptions};
use driver_api::{Clock, Ids, SystemClock, SystemIds};
use sandbox::{Agent, AgentOptions};
use tokio_util::task::TaskTracker;

use crate::assemble::{Error, home_error};
use crate::folders::Folders;
use crate::options::{McpOptions, Options};
use crate::programs::Programs;

/// Starts or reaches the MCP servers of these options without a runtime around them, to look how
/// it stands with each or to authorize this program at one. Waits for none; needs a tokio runtime.
/// Without [`Options::mcp`] there are no servers.
///
/// # Errors
/// When the home folder cannot be made.
pub fn connections(options: Options) -> Result<Arc<Pool>, Error> {
    let folders = Folders::create(&options.home).map_err(home_error(&options.home))?;
    let agent = Agent::new(AgentOptions { command: options.agent_command });
    let mcp = options.mcp.unwrap_or_else(|| McpOptions::new(Vec::new(), "/"));
    let around = Surroundings {
        home: &options.home,
        run: &folders.run,
        agent,
        hidden_env: options.hidden_env,
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(SystemIds),
    };
    Ok(pool(mcp, around))
}

/// What a pool needs, kept for those that are made later.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) home: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) hidden_env: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

impl Ground {
    pub(crate) fn new(
        (home, run): (PathBuf, &Path),
        (agent, hidden_env): (Agent, Vec<String>),
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Self {
        Self { home, run: run.to_owned(), agent, hidden_env, clock, ids }
    }

    /// Starts or reaches all servers, without waiting for any. Needs a tokio runtime.
    pub(crate) fn pool(&self, options: McpOptions) -> Arc<Pool> {
        let around = Surroundings {
            home: &self.home,
            run: &self.run,
            agent: self.agent.clone(),
            hidden_env: self.hidden_env.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
        };
        pool(options, around)
    }
}

/// What a pool needs beside its options.
pub(crate) struct Surroundings<'a> {
    pub(crate) home: &'a Path,
    /// Where pipes of programs are made.
    pub(crate) run: &'a Path,
    pub(crate) agent: Agent,
    pub(crate) hidden_env: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

/// Starts or reaches all servers, without waiting for any. Needs a tokio runtime.
pub(crate) fn pool(options: McpOptions, around: Surroundings<'_>) -> Arc<Pool> {
    let McpOptions { servers, defer_threshold, folder, allow } = options;
    let launcher = Programs {
        agent: around.agent,
        run: around.run.to_owned(),
        folder,
        hidden_env: around.hidden_env,
        ids: Arc::clone(&around.ids),
        tasks: TaskTracker::new(),
    };
    Pool::start(PoolOptions {
        servers,
        launcher: Arc::new(launcher),
        clock: around.clock,
        ids: around.ids,
        http: outbound::Options { allow, ..outbound::Options::default() },
        home: around.home.to_owned(),
        defer_threshold,
    })
}
