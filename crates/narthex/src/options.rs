//! What a Narthex is built of.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use connect::Server;
use driver_api::{Egress, IsolationLevel, NeuronDriver, NeuronLimits, Observer, RuleBook, Writes};
use hooks::{CommandChecks, HookLayer};
use model::Provider;
use outbound::AllowedTarget;
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
    /// Where an embedding application's endpoint is filled in, if there may be one.
    pub model_slot: Option<model::Slot>,
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
    /// How neurons are kept; without, there are none and no session acts in one.
    pub neurons: Option<NeuronOptions>,
    /// What keeps sessions apart that say nothing of it: `Host` for no sandbox. Another one needs
    /// `neurons`.
    pub sandbox: NeuronDriver,
    /// The MCP servers whose tools sessions are offered; without, none is started or reached.
    pub mcp: Option<McpOptions>,
}

/// How neurons are kept, and what a new one is where whoever asks for it says nothing else.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NeuronOptions {
    /// What keeps them apart.
    pub driver: NeuronDriver,
    /// The least isolation that will do.
    pub isolation: IsolationLevel,
    /// What one may use.
    pub limits: NeuronLimits,
    /// What one may reach.
    pub egress: Egress,
    /// How many may run at once, over all processes with this home.
    pub neurons_max: usize,
    /// How many are kept ready once a first one was asked for, so that the next ones need not be
    /// started: at most 64, each a process of about a megabyte.
    pub warm: usize,
    /// Where writes to the folder of a session go that has a sandbox of its own.
    pub session_writes: Writes,
}

impl NeuronOptions {
    /// Describes neurons that this driver keeps apart as far as it can, that reach nothing.
    pub fn new(driver: NeuronDriver) -> Self {
        let isolation = match driver {
            NeuronDriver::Host => IsolationLevel::None,
            NeuronDriver::Namespace => IsolationLevel::Partial,
        };
        Self {
            driver,
            isolation,
            limits: NeuronLimits::default(),
            egress: Egress::default(),
            neurons_max: NEURONS_MAX,
            warm: 0,
            session_writes: Writes::Folder,
        }
    }
}

/// Neurons of one home where nothing else is said: each is a process and some folders.
const NEURONS_MAX: usize = 256;

/// MCP servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpOptions {
    /// The servers.
    pub servers: Vec<Server>,
    /// Up to how many of their tools are offered as they are; above it there is one that finds
    /// them.
    pub defer_threshold: usize,
    /// The folder of programs that name none.
    pub folder: PathBuf,
    /// Private places that may be reached beside those that the settings of a server name.
    pub allow: Vec<AllowedTarget>,
}

impl McpOptions {
    /// Describes servers whose programs run in a folder.
    pub fn new(servers: Vec<Server>, folder: impl Into<PathBuf>) -> Self {
        let defer_threshold = connect::PoolOptions::DEFER_THRESHOLD;
        Self { servers, defer_threshold, folder: folder.into(), allow: Vec::new() }
    }
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
            model_slot: None,
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
            neurons: None,
            sandbox: NeuronDriver::Host,
            mcp: None,
        }
    }
}
