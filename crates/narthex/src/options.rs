//! What a Narthex is built of.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use driver_api::RuleBook;
use hooks::{CommandChecks, HookLayer};
use model::Provider;
use policy::Policy;
use protocol::Mode;

/// What a Narthex is built of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder with everything that is kept (`NARTHEX_HOME`); created with mode 0700.
    pub home: PathBuf,
    /// The SQLite file; `home/narthex.db` where absent.
    pub store: Option<PathBuf>,
    /// The model of sessions that name none.
    pub model: Option<String>,
    /// The mode of sessions that name none.
    pub mode: Mode,
    /// The model servers.
    pub providers: Vec<Provider>,
    /// The scenario of the scripted model `demo`; the built-in one where absent.
    pub scenario: Option<PathBuf>,
    /// Managed, user and project layers. Session rules come with each session.
    pub policy: Policy,
    /// How to start the workspace agent: program and arguments.
    pub agent_command: Vec<OsString>,
    /// The home folder of the user, for rules that begin with `~/`.
    pub user_home: Option<PathBuf>,
    /// Variables that commands never see, beside those whose names say that they are secret: the
    /// ones that hold the keys of model servers.
    pub hidden_env: Vec<String>,
    /// Hooks of every layer, those of a project with the folder they belong to.
    pub hooks: Vec<HookLayer>,
    /// Checks; every one of them examines each pending change.
    pub checks: Vec<CommandChecks>,
    /// Whether files are captured before they change, so that it can be undone.
    pub has_checkpoints: bool,
    /// Where rules are kept beyond a session; without, none are.
    pub rule_book: Option<Arc<dyn RuleBook>>,
}
