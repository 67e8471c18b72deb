//! What an agent is built of.

mod environment;
mod opening;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use driver_api::RuleBook;
use futures_util::future::BoxFuture;
use model::Provider;
use policy::Policy;
use protocol::event::{PermissionRequest, PlanRequest, QuestionRequest};
use protocol::{Mode, SessionId};
use runtime_api::{AgentSettings, Budget, Handle, Limits, Overflow, Position};
use stdx::Secret;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::line::Line;
use super::{Agent, Core, requests, workspace_agent};
use crate::callbacks::{Callbacks, Decision, PlanDecision, Reply};
use crate::governed::{Governing, KeptRules, Wanted};
use crate::{Error, KNOWN_SERVERS, KnownServer, Options, assemble};

/// Describes an agent; [`AgentBuilder::build`] starts it.
///
/// What governs the machine governs its agents, without being asked for: the managed settings
/// (`/etc/narthex/managed-settings.json`, else the file that `NARTHEX_MANAGED_SETTINGS` or
/// `NEURALINVERSE_MANAGED_SETTINGS` names), the remote policy that they name, and the hooks in
/// them. What people allowed for good is kept in the home and counts again, as in the terminal.
///
/// No other settings file is read, and of the environment nothing more than what
/// [`AgentBuilder::from_env`] asks for and `PATH`, where the workspace agent has to be found.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct AgentBuilder {
    cwd: Option<PathBuf>,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    user_home: Option<PathBuf>,
    model: Option<String>,
    mode: Option<Mode>,
    title: Option<String>,
    resume: Option<SessionId>,
    providers: Vec<Provider>,
    keys: Vec<(String, Secret<String>)>,
    hidden_env: Vec<String>,
    allow: Vec<String>,
    deny: Vec<String>,
    policy: Policy,
    managed: Vec<PathBuf>,
    append_system_prompt: Option<String>,
    max_turns: Option<u32>,
    budget: Budget,
    permission_timeout: Duration,
    has_no_checkpoints: bool,
    agent_command: Option<Vec<OsString>>,
    callbacks: Callbacks,
    runtime: Option<Handle>,
}

/// A runtime of an agent's own.
struct Owned {
    handle: Handle,
    /// The mode of a session that names none.
    mode: Mode,
    /// The rules that were kept, where they count.
    kept: Option<Arc<KeptRules>>,
    notices: Vec<String>,
    /// Keeps the remote policy fresh.
    fresh: Option<BoxFuture<'static, ()>>,
}

impl AgentBuilder {
    /// Sets the folder in which the agent works. Required, but for a session that is resumed.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Adds a further folder that tools may use.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.roots.push(folder.into());
        self
    }

    /// Sets the folder with everything that is kept: sessions, captured files. It is created,
    /// private to its owner. Required, but where [`AgentBuilder::from_env`] finds one or
    /// [`AgentBuilder::runtime`] has one.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Some(folder.into());
        self
    }

    /// Sets the home folder of the user, for rules that begin with `~/`.
    pub fn user_home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.user_home = Some(folder.into());
        self
    }

    /// Sets the model: `provider/model`, or `demo` for the scripted one.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the mode. Where nobody does it is `ask`, or what a policy locks instead.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the title of a new session.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Goes on with a stored session. Its model stays unless another is named; its mode is the
    /// one that is named here, else that of a new session: rights that were given for another run
    /// do not come back. A turn that a crash cut ends as interrupted. One that is open in
    /// [`AgentBuilder::runtime`] already is refused: it belongs to whoever opened it.
    pub fn resume(mut self, session: impl Into<String>) -> Self {
        self.resume = Some(SessionId::new(session));
        self
    }

    /// Adds a model server, in place of a known one of the same name.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.retain(|known| known.name != provider.name);
        self.providers.push(provider);
        self
    }

    /// Sets the key of a model server, by its name: one of [`KNOWN_SERVERS`] or one that
    /// [`AgentBuilder::provider`] adds.
    pub fn key(mut self, provider: impl Into<String>, key: impl Into<String>) -> Self {
        self.keys.push((provider.into(), Secret::new(key.into())));
        self
    }

    /// Names a variable that commands never see, beside those whose names say that they are
    /// secret and those that usually hold the keys of [`KNOWN_SERVERS`].
    pub fn hide_env(mut self, variable: impl Into<String>) -> Self {
        self.hidden_env.push(variable.into());
        self
    }

    /// Adds a rule that allows calls without asking, for example `run_shell(npm test *)`.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.allow.push(rule.into());
        self
    }

    /// Adds a rule that denies calls, whatever else allows them.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.deny.push(rule.into());
        self
    }

    /// Sets stronger layers of rules, for example those of a company. Nothing else of the builder
    /// widens what they forbid, and they widen nothing that the machine's managed settings and the
    /// remote policy forbid.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Adds a file of managed settings beside those of the machine, which hold all the same: for
    /// tests, and for programs that bring settings of their own. The file must be there, and
    /// only one file may name a `remotePolicyUrl`.
    pub fn managed_settings(mut self, file: impl Into<PathBuf>) -> Self {
        self.managed.push(file.into());
        self
    }

    /// Sets text that the model reads after the system prompt.
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.append_system_prompt = Some(text.into());
        self
    }

    /// Limits the model calls of one prompt; 200 where nobody does.
    pub fn max_turns(mut self, count: u32) -> Self {
        self.max_turns = Some(count);
        self
    }

    /// Limits what may be spent; a turn that reaches it ends with reason `budget`, or asks whether
    /// to go on where [`AgentBuilder::on_question`] is set.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Decides against a request that no callback has answered after so long. Without, a callback
    /// may take as long as it likes.
    pub fn permission_timeout(mut self, length: Duration) -> Self {
        self.permission_timeout = length;
        self
    }

    /// Leaves out the capture of files before a turn's first change. It cannot be undone then.
    pub fn without_checkpoints(mut self) -> Self {
        self.has_no_checkpoints = true;
        self
    }

    /// Sets the command that starts the workspace agent, in place of what
    /// [`agent_main`](crate::agent_main) describes.
    pub fn agent_command(mut self, command: impl IntoIterator<Item = OsString>) -> Self {
        self.agent_command = Some(command.into_iter().collect());
        self
    }

    /// Sets what answers permission requests. Without any callback, calls that need approval are
    /// denied at once. See [`Callbacks`] for what holds for all of them.
    pub fn on_permission<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(PermissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Decision> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_permission(callback);
        self
    }

    /// Sets what answers questions; without, they are dismissed.
    pub fn on_question<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(QuestionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_question(callback);
        self
    }

    /// Sets what decides on plans; without, they are rejected.
    pub fn on_plan<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(PlanRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = PlanDecision> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_plan(callback);
        self
    }

    /// Sets all callbacks at once.
    pub fn callbacks(mut self, callbacks: Callbacks) -> Self {
        self.callbacks = callbacks;
        self
    }

    /// Uses a runtime that is there already, for example that of another agent: many sessions
    /// share one store and one workspace agent then. What belongs to the runtime (home, model
    /// servers, policy and managed settings, checkpoints, workspace agent) is that runtime's, and
    /// closing this agent leaves it open. Rules that were kept for a project count for the agent
    /// alone that the runtime was built for: others may work elsewhere.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the agent. No process is started and no server is asked before the first prompt
    /// needs it, but for the one of a remote policy: where none is kept yet, it is waited for, ten
    /// seconds at most. Call it inside a tokio runtime; the agent's tasks run there.
    ///
    /// # Errors
    /// [`Error::Option`] names what is missing or wrong; [`Error::Governed`] where managed settings
    /// cannot be read or a required remote policy is not there; [`Error::Build`],
    /// [`Error::Refused`] (for example `locked_by_policy`, `model_not_allowed`,
    /// `session_not_found`, `owned_elsewhere`), [`Error::Failed`].
    pub async fn build(mut self) -> Result<Agent, Error> {
        let tokio = tokio::runtime::Handle::try_current()
            .map_err(|_| Error::option("build", "must be called inside a tokio runtime"))?;
        let cwd = self.cwd.as_deref().map(|folder| folder_of("cwd", folder)).transpose()?;
        if cwd.is_none() && self.resume.is_none() {
            return Err(Error::option("cwd", "say in which folder the agent works"));
        }
        let settings = self.settings()?;
        let (handle, owned) = match self.runtime.take() {
            Some(handle) => (handle, None),
            None => {
                let owned = Box::pin(self.own_runtime()).await?;
                (owned.handle.clone(), Some(owned))
            }
        };
        let opened = Box::pin(self.open(&handle, owned.as_ref(), (cwd, settings))).await;
        let session = match opened {
            Ok(info) => info.id,
            Err(error) => {
                if owned.is_some() {
                    handle.shutdown().await;
                }
                return Err(error);
            }
        };
        let (line, tasks) = (Line::new(), TaskTracker::new());
        let core = Arc::new(Core { handle, session, line, tasks });
        let owns_runtime = owned.is_some();
        let stopping = CancellationToken::new();
        let mut notices = Vec::new();
        if let Some(owned) = owned {
            notices = owned.notices;
            if let Some(fresh) = owned.fresh {
                drop(
                    core.tasks.spawn_on(stopping.clone().run_until_cancelled_owned(fresh), &tokio),
                );
            }
        }
        let agent = Agent {
            core: Arc::clone(&core),
            tokio: tokio.clone(),
            notices,
            owns_runtime,
            stopping,
            is_closed: false.into(),
            closed: CancellationToken::new(),
        };
        if !self.callbacks.is_empty() {
            let (live, ring) = (Position::Live, Overflow::Ring);
            let events = core.handle.subscribe(&core.session, live, ring).await?;
            let answering = requests::answer_all(Arc::clone(&core), events, self.callbacks);
            // It ends with the session.
            drop(core.tasks.spawn_on(answering, &tokio));
        }
        Ok(agent)
    }

    fn settings(&self) -> Result<AgentSettings, Error> {
        for (option, rules) in [("allow", &self.allow), ("deny", &self.deny)] {
            for rule in rules {
                rule.parse::<policy::Rule>()
                    .map_err(|error| Error::option(option, format!("'{rule}': {error}")))?;
            }
        }
        let roots = self.roots.iter().map(|folder| folder_of("root", folder));
        let standard = Limits::default();
        let max_turns = self.max_turns.unwrap_or(standard.max_turns);
        if max_turns == 0 {
            return Err(Error::option("max_turns", "must be at least 1"));
        }
        let timeout = self.permission_timeout.as_millis();
        Ok(AgentSettings {
            append_system_prompt: self.append_system_prompt.clone(),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            roots: roots.collect::<Result<_, _>>()?,
            limits: Limits { max_turns, budget: self.budget, ..standard },
            is_attended: !self.callbacks.is_empty(),
            interaction_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
            ..AgentSettings::default()
        })
    }

    /// Builds a runtime of the agent's own, under what governs the machine.
    async fn own_runtime(&mut self) -> Result<Owned, Error> {
        let mut options = self.options()?;
        let governing = Governing::of(Wanted {
            home: &options.home,
            mode: self.mode,
            policy: std::mem::take(&mut self.policy),
            files: &self.managed,
        });
        let governing = governing.await?;
        let kept = Arc::new(KeptRules::new(&options.home));
        let mode = governing.mode;
        let may_persist = governing.policy.may_persist();
        options.policy = governing.policy;
        options.mode = mode;
        options.hooks = governing.hooks;
        options.rule_book = Some(Arc::clone(&kept) as Arc<dyn RuleBook>);
        let house = assemble::build(options).await?;
        let mut notices = governing.notices;
        notices.extend(house.notices().iter().cloned());
        let policies = house.policies();
        let fresh = governing.standing.map(|standing| {
            let fresh = standing.keep_in_force(move |policy| policies.replace(policy));
            Box::pin(fresh) as BoxFuture<'static, ()>
        });
        let kept = may_persist.then_some(kept);
        Ok(Owned { handle: house.handle(), mode, kept, notices, fresh })
    }

    fn options(&mut self) -> Result<Options, Error> {
        let home = self.home.take().ok_or_else(|| {
            Error::option("home", "say where sessions are kept, or call from_env")
        })?;
        let agent_command = match self.agent_command.take() {
            Some(command) => command,
            None => workspace_agent::command()?,
        };
        let mut hidden_env = std::mem::take(&mut self.hidden_env);
        let usual = KNOWN_SERVERS.iter().filter_map(|known| known.key_variable);
        hidden_env.extend(usual.map(str::to_owned));
        Ok(Options {
            model: self.model.clone(),
            providers: self.all_providers()?,
            agent_command,
            user_home: self.user_home.take(),
            hidden_env,
            has_checkpoints: !self.has_no_checkpoints,
            ..Options::new(home)
        })
    }

    /// Returns the model servers: those that were given, then the known ones, with their keys.
    fn all_providers(&mut self) -> Result<Vec<Provider>, Error> {
        let mut providers = std::mem::take(&mut self.providers);
        for known in KNOWN_SERVERS.iter().map(KnownServer::provider) {
            if providers.iter().all(|given| given.name != known.name) {
                providers.push(known);
            }
        }
        for (name, key) in std::mem::take(&mut self.keys) {
            let found = providers.iter_mut().find(|provider| provider.name == name);
            let provider = found.ok_or_else(|| {
                let reason = format!("there is no model server '{name}'; add it by provider");
                Error::option("key", reason)
            })?;
            provider.key = Some(key);
        }
        Ok(providers)
    }
}

/// Returns a folder's real path as text.
fn folder_of(option: &'static str, folder: &Path) -> Result<String, Error> {
    let wrong = |reason: String| Error::option(option, format!("{}: {reason}", folder.display()));
    let real = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !real.is_dir() {
        return Err(wrong("is no folder".to_owned()));
    }
    real.into_os_string().into_string().map_err(|_| wrong("is not UTF-8 text".to_owned()))
}
