//! What a Narthex is built of.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Observer, RuleBook};
use hooks::{CommandChecks, HookLayer};
use model::Provider;
use policy::Policy;
use protocol::Mode;

/// What a Narthex is built of.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Who is told of everything that happens in any session.
    pub observers: Vec<Arc<dyn Observer>>,
    /// How many sessions may be open at once; unlimited where absent.
    pub sessions_max: Option<usize>,
}

impl Options {
    /// Describes a Narthex without model servers, rules, hooks and a workspace agent, that captures
    /// files. Its fields say the rest.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            store: None,
            model: None,
            mode: Mode::default(),
            providers: Vec::new(),
            scenario: None,
            policy: Policy::default(),
            agent_command: Vec::new(),
            user_home: None,
            hidden_env: Vec::new(),
            hooks: Vec::new(),
            checks: Vec::new(),
            has_checkpoints: true,
            rule_book: None,
            observers: Vec::new(),
            sessions_max: None,
        }
    }
}
