//! Opening workspaces: folders of this machine, so far.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{Lender, Workspace, WorkspaceError, Workspaces};
use protocol::SessionId;
use sandbox::{Agent, HostOptions};

/// Opens folders of this machine; one agent process runs the commands of all of them.
#[derive(Debug)]
pub(crate) struct HostWorkspaces {
    agent: Agent,
    hidden_env: Vec<String>,
}

impl HostWorkspaces {
    pub(crate) fn new(agent: Agent, hidden_env: Vec<String>) -> Self {
        Self { agent, hidden_env }
    }
}

#[async_trait]
impl Workspaces for HostWorkspaces {
    async fn open(
        &self,
        cwd: &str,
        roots: &[String],
    ) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        let options = HostOptions {
            cwd: PathBuf::from(cwd),
            roots: roots.iter().map(PathBuf::from).collect(),
            env: self.hidden_env.iter().map(|name| (name.clone(), None)).collect(),
        };
        sandbox::host(options, self.agent.clone())
    }

    fn prepare(&self) {
        self.agent.prestart();
    }

    fn lent(
        &self,
        own: Arc<dyn Workspace>,
        lender: Arc<dyn Lender>,
        session: &SessionId,
    ) -> Arc<dyn Workspace> {
        lent::over(own, lender, session.clone())
    }
}
