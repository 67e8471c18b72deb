//! What a runtime is built of.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{
    Checkpoints, Checks, Clock, Hooks, Ids, Models, Neurons, Observer, RuleBook, Store, Tool,
    ToolSource, Workspaces,
};
use protocol::{Mode, encode_id};
use runtime_api::Handle;

use super::calls::{PathLocks, Tenures};
use super::day::Day;
use super::hub::Hub;
use super::own::Sandboxes;
use super::policies::Policies;
use super::toolbox::Toolbox;
use super::viewers::Watchers;

/// How long a session may be idle and unwatched before its state is dropped, in milliseconds.
const IDLE_MS: u64 = 60_000;

/// What a runtime is built of: its drivers, its policy and its defaults.
#[derive(Debug)]
pub struct Options {
    /// Where logs are kept.
    pub store: Arc<dyn Store>,
    /// Where models are found.
    pub models: Arc<dyn Models>,
    /// The tools, in the order in which models see them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What brings further tools, which come and go; sessions are offered them after `tools`.
    pub tool_sources: Vec<Arc<dyn ToolSource>>,
    /// Where tools act.
    pub workspaces: Arc<dyn Workspaces>,
    /// Where tools of sessions in a neuron act; without, there is no such session.
    pub neurons: Option<Arc<dyn Neurons>>,
    /// What sandboxes of sessions' own are; without, there are none.
    pub sandboxes: Option<Sandboxes>,
    /// The layers above the session.
    pub policies: Policies,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Ids and randomness.
    pub ids: Arc<dyn Ids>,
    /// The model of sessions that name none.
    pub default_model: Option<String>,
    /// The mode of sessions that name none.
    pub default_mode: Mode,
    /// The folder for outputs that are too long for a model; a folder per session beneath it.
    pub spill: PathBuf,
    /// The home folder of the user, for rules that begin with `~/`.
    pub user_home: Option<PathBuf>,
    /// Hooks; [`driver_api::NoHooks`] where there are none.
    pub hooks: Arc<dyn Hooks>,
    /// The checks of pending changes, if there are any.
    pub checks: Option<Arc<dyn Checks>>,
    /// Where files are captured before they change; without, nothing can be undone.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// Where rules are kept beyond a session; without, none are.
    pub rule_book: Option<Arc<dyn RuleBook>>,
    /// Who is told of everything that happens.
    pub observers: Vec<Arc<dyn Observer>>,
    /// How many sessions may be open at once; unlimited where absent.
    pub sessions_max: Option<usize>,
    /// How long a session may be idle and unwatched before its state is dropped, in milliseconds;
    /// 60,000 where absent.
    pub idle_ms: Option<u64>,
}

impl Options {
    /// Starts the runtime. It lives as long as a handle does; nothing runs until it is asked.
    pub fn start(self) -> Handle {
        Handle::new(Arc::new(Hub::new(Arc::new(Services::new(self)))))
    }
}

/// What every session of a runtime shares.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) options: Options,
    pub(crate) toolbox: Toolbox,
    pub(crate) path_locks: PathLocks,
    /// How long what calls left running may go on.
    pub(crate) tenures: Tenures,
    /// What all sessions spend together.
    pub(crate) day: Day,
    /// Those who watch all sessions.
    pub(crate) watchers: Watchers,
}

impl Services {
    fn new(options: Options) -> Self {
        let toolbox = Toolbox::new(options.tools.clone(), options.tool_sources.clone());
        let (path_locks, tenures, day, watchers) = Default::default();
        Self { options, toolbox, path_locks, tenures, day, watchers }
    }

    /// Returns a fresh id in its wire form.
    pub(crate) fn fresh_id(&self) -> String {
        encode_id(self.options.ids.id())
    }

    pub(crate) fn idle_ms(&self) -> u64 {
        self.options.idle_ms.unwrap_or(IDLE_MS)
    }
}
