//! Settings: every value with where it comes from.
//!
//! Strongest first: managed settings (only tighten) · flags · environment · the project's file
//! (one that is not trusted only denies) · the user's file · the machine's file · built in.

mod bounds;
mod cortex;
mod document;
mod edit;
mod governing;
mod hook_sets;
mod keys;
mod mcp;
mod mistake;
mod neurons;
mod offer;
mod origin;
mod permissions;
mod places;
mod project;
mod providers;
mod server;
mod show;
mod telemetry;

use std::path::PathBuf;

use door_cli::{Failure, Globals, UntrustedProject};
use governance::Managed;
use narthex::governed::{KeptRules, Remote};
use narthex::{HookOrigin, LayerName, Policy, Provider};
use outbound::AllowedTarget;
use protocol::Mode;

use crate::environment::Environment;
use crate::policy::failure;

pub(crate) use bounds::{Bounds, agent};
pub(crate) use cortex::{ADDRESS, AgentTable, CortexSettings, CortexTable, TOKEN};
pub(crate) use document::{Document, Level, LogFormat};
pub(crate) use edit::set;
pub(crate) use hook_sets::HookSets;
pub(crate) use mcp::{
    KnownMcpServer, McpSettings, McpTable, ServersFile, home_file, shown as shown_server,
};
pub(crate) use neurons::{DriverName, NeuronSettings, NeuronsTable};
pub use origin::{Origin, Sourced};
pub(crate) use places::Places;
pub(crate) use project::{Project, is_trusted, trust, trust_offered, write_private};
pub(crate) use providers::{BUILT_IN, BuiltIn, keep_key, kept_keys, shown_url};
pub(crate) use server::{ServerSettings, ServerTable};
pub(crate) use show::list;
pub(crate) use telemetry::{TelemetrySettings, TelemetryTable};

/// The limit of steps of a turn where nothing else is said.
const MAX_TURNS: u32 = 200;
/// How long a model call is retried where nothing else is said, in milliseconds.
const RETRY_BUDGET_MS: u64 = 120_000;

/// What settings are made of.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The flags.
    pub globals: &'a Globals,
    /// The environment.
    pub environment: &'a Environment,
}

/// A model server with where its settings come from.
#[derive(Clone)]
pub struct KnownProvider {
    /// The server, with its key.
    pub provider: Provider,
    /// Where its address comes from.
    pub address: Origin,
    /// Where its key comes from, where there is one.
    pub key: Option<Origin>,
}

impl std::fmt::Debug for KnownProvider {
    // Headers and addresses hold secrets as keys do.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownProvider")
            .field("name", &self.provider.name)
            .field("address", &self.address)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Every setting.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folders and files.
    pub(crate) places: Places,
    /// The model of new sessions.
    pub model: Sourced<Option<String>>,
    /// The mode of new sessions.
    pub mode: Sourced<Mode>,
    /// Text after the system prompt.
    pub append_system_prompt: Sourced<Option<String>>,
    /// Steps per turn.
    pub max_turns: Sourced<u32>,
    /// How long a model call is retried, in milliseconds.
    pub retry_budget_ms: Sourced<u64>,
    /// How much is logged; nothing where absent.
    pub(crate) log_level: Sourced<Option<Level>>,
    /// Levels of single modules in the log, beside the one of all others.
    pub(crate) log_filter: Sourced<Option<String>>,
    /// How the log of a server is written.
    pub(crate) log_format: Sourced<LogFormat>,
    /// Where and for whom to serve.
    pub(crate) server: ServerSettings,
    /// The cortex door.
    pub(crate) cortex: CortexSettings,
    /// Neurons.
    pub(crate) neurons: NeuronSettings,
    /// MCP servers.
    pub(crate) mcp: McpSettings,
    /// Where a server sends its traces.
    pub(crate) telemetry: TelemetrySettings,
    /// How to start the workspace agent.
    pub agent_command: Sourced<Vec<String>>,
    /// The store's file; in the home folder where absent.
    pub store: Sourced<Option<PathBuf>>,
    /// The model servers.
    pub providers: Vec<KnownProvider>,
    /// The variables that may hold keys; commands do not get them.
    pub hidden_env: Vec<String>,
    /// The project's file, where one counts.
    pub(crate) project: Option<PathBuf>,
    /// The rules of managed settings, of the remote policy, and of system, user and project files.
    pub policy: Policy,
    /// The managed settings, where there are any.
    pub managed: Option<Managed>,
    /// The remote policy, where the managed settings name one.
    pub(crate) remote: Option<Remote>,
    /// What bounds a turn.
    pub(crate) bounds: Bounds,
    /// Hooks and checks.
    pub(crate) hook_sets: HookSets,
    /// Private addresses that may be reached.
    pub(crate) network_allow: Vec<AllowedTarget>,
    /// The files that name them, each with what it names.
    pub(crate) network_files: Vec<(Origin, Vec<String>)>,
    /// What a project's files would change if they were trusted.
    pub(crate) untrusted: Option<UntrustedProject>,
    /// What a person should know, one sentence each.
    pub notices: Vec<String>,
}

/// What a mistake in a layer does.
enum Reading {
    /// It ends the reading.
    Strict,
    /// It is kept, and the layer is left out.
    Lenient(Vec<String>),
}

impl Reading {
    fn take<T: Default>(&mut self, read: Result<T, Failure>) -> Result<T, Failure> {
        match (read, self) {
            (Err(failure), Reading::Lenient(mistakes)) => {
                mistakes.push(failure.message);
                Ok(T::default())
            }
            (read, _) => read,
        }
    }
}

impl Settings {
    /// Reads every layer.
    ///
    /// # Errors
    /// A failure of usage that names the file, variable or flag, the key, and what would be right.
    pub fn load(want: Want<'_>) -> Result<Self, Failure> {
        Self::read(want, None, &mut Reading::Strict)
    }

    /// Reads every layer and leaves out what is wrong, which is told in the notices. For commands
    /// that run no session: rules may be among what was left out.
    ///
    /// # Errors
    /// When the folders cannot be told.
    pub fn load_what_is_right(want: Want<'_>) -> Result<Self, Failure> {
        let mut reading = Reading::Lenient(Vec::new());
        let mut settings = Self::read(want, None, &mut reading)?;
        if let Reading::Lenient(mistakes) = reading {
            settings.notices.extend(mistakes.iter().map(|mistake| format!("{mistake}; left out")));
        }
        Ok(settings)
    }

    /// Checks that every layer could be read if the user's file held this text.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub(crate) fn check_user(want: Want<'_>, text: &str) -> Result<(), Failure> {
        Self::read(want, Some(text), &mut Reading::Strict).map(drop)
    }

    fn read(
        want: Want<'_>,
        user_text: Option<&str>,
        reading: &mut Reading,
    ) -> Result<Self, Failure> {
        let places = Places::find(want)?;
        let system = reading.take(Document::read(&places.system))?;
        let user = reading.take(match (user_text, &want.globals.config) {
            (Some(text), _) => Document::parse(text, &places.user),
            (None, Some(_)) => Document::read_required(&places.user),
            (None, None) => Document::read(&places.user),
        })?;
        let project = reading.take(Project::find(&places, want.globals.trust_project))?;
        let mut settings = Self::built_in(places, want.environment);
        let system_file = Origin::File(LayerName::System, settings.places.system.clone());
        let user_file = Origin::File(LayerName::User, settings.places.user.clone());
        let from_files = [(&system, &system_file), (&user, &user_file)];
        for (document, origin) in from_files {
            settings.take_document(document, origin);
            reading.take(settings.take_server(document, origin))?;
            reading.take(settings.neurons.take_document(document, origin))?;
            reading.take(settings.take_hooks(document, origin))?;
            reading.take(settings.take_network(document, origin))?;
        }
        settings.notices.extend(project::passed_over(
            &settings.places,
            &settings.places.cwd,
            project::FILE,
        ));
        if let Some(project) = &project {
            settings.take_project(project);
        }
        reading.take(settings.take_environment(want.environment))?;
        settings.take_flags(want.globals);
        let trust_flag = want.globals.trust_project;
        reading.take(settings.take_project_hooks(project.as_ref(), trust_flag))?;
        reading.take(settings.take_mcp_servers(want, from_files))?;
        settings.policy = reading.take(permissions::policy(from_files, project.as_ref()))?;
        let kept = KeptRules::new(&settings.places.home);
        for layer in reading.take(kept.layers(&settings.places.cwd).map_err(failure))? {
            settings.policy = settings.policy.tighten(layer);
        }
        if let Some(path) = settings.places.managed.clone() {
            reading.take(settings.take_managed(&path))?;
        }
        settings.notices.extend(permissions::unknown_tools(&settings.policy));
        let keys = reading.take(kept_keys(&settings.places.home))?;
        let known = providers::resolve(from_files, &keys, want.environment);
        settings.providers = reading.take(known)?;
        settings.hidden_env = providers::key_variables(from_files);
        settings.hidden_env.extend(neurons::secret_variables(from_files));
        settings.hidden_env.extend(settings.mcp.secret_variables.iter().cloned());
        settings.project = project.map(|project| project.path);
        for (flag, texts) in [("--allow", &want.globals.allow), ("--deny", &want.globals.deny)] {
            settings.notices.extend(reading.take(permissions::check(flag, texts))?);
        }
        Ok(settings)
    }

    /// Returns the model that a flag or a variable names.
    pub fn asked_model(&self) -> Option<&String> {
        let is_spoken = matches!(self.model.origin, Origin::Flag(_) | Origin::Variable(_));
        self.model.value.as_ref().filter(|_| is_spoken)
    }

    /// Says for every provider with a key where that came from and how another is given.
    pub fn key_hints(&self) -> Vec<(String, String)> {
        let hint = |known: &KnownProvider| {
            let origin = known.key.as_ref()?;
            let name = &known.provider.name;
            let mend = match origin {
                Origin::Variable(variable) => format!("set {variable} to another"),
                Origin::File(..) => "correct it there".to_owned(),
                Origin::BuiltIn | Origin::Keys(_) | Origin::Flag(_) => {
                    format!("give another: narthex login {name}")
                }
            };
            Some((name.clone(), format!("the key of {name} came from {origin}; {mend}")))
        };
        self.providers.iter().filter_map(hint).collect()
    }

    fn built_in(places: Places, environment: &Environment) -> Self {
        Self {
            model: Sourced::built_in(None),
            mode: Sourced::built_in(Mode::default()),
            append_system_prompt: Sourced::built_in(None),
            max_turns: Sourced::built_in(MAX_TURNS),
            retry_budget_ms: Sourced::built_in(RETRY_BUDGET_MS),
            log_level: Sourced::built_in(None),
            log_filter: Sourced::built_in(None),
            log_format: Sourced::built_in(LogFormat::default()),
            server: ServerSettings::default(),
            cortex: CortexSettings::default(),
            neurons: NeuronSettings::default(),
            mcp: McpSettings::default(),
            telemetry: TelemetrySettings::default(),
            agent_command: Sourced::built_in(places::agent_command(environment)),
            store: Sourced::built_in(None),
            providers: Vec::new(),
            hidden_env: Vec::new(),
            project: None,
            policy: Policy::default(),
            managed: None,
            remote: None,
            bounds: Bounds::default(),
            hook_sets: HookSets::default(),
            network_allow: Vec::new(),
            network_files: Vec::new(),
            untrusted: None,
            notices: Vec::new(),
            places,
        }
    }

    fn take_document(&mut self, document: &Document, origin: &Origin) {
        self.model.take_some(document.model.as_ref(), origin);
        self.mode.take(document.mode, origin);
        self.append_system_prompt.take_some(document.append_system_prompt.as_ref(), origin);
        self.max_turns.take(document.max_turns.map(std::num::NonZeroU32::get), origin);
        self.retry_budget_ms.take(document.retry.budget_ms, origin);
        self.log_level.take_some(document.log.level.as_ref(), origin);
        self.log_filter.take_some(document.log.filter.as_ref(), origin);
        self.log_format.take(document.log.format, origin);
        self.agent_command.take(document.agent_command.clone(), origin);
        self.bounds.take_document(document, origin);
        self.cortex.take_document(document, origin);
        self.mcp.take_document(document, origin);
        self.telemetry.take_document(document, origin);
    }

    fn take_server(&mut self, document: &Document, origin: &Origin) -> Result<(), Failure> {
        let user_home = self.places.user_home.clone();
        self.server.take_document(document, user_home.as_deref(), origin)
    }

    /// Takes the private places that a file opens.
    fn take_network(&mut self, document: &Document, origin: &Origin) -> Result<(), Failure> {
        for (place, text) in document.network.allow.iter().enumerate() {
            let target = text.parse().map_err(|error| {
                Failure::usage(format!("{origin}: network.allow[{place}]: {error}"))
            })?;
            self.network_allow.push(target);
        }
        if !document.network.allow.is_empty() {
            self.network_files.push((origin.clone(), document.network.allow.clone()));
        }
        Ok(())
    }

    /// Takes the MCP servers, those of the strongest file first.
    fn take_mcp_servers(
        &mut self,
        want: Want<'_>,
        [(system, system_file), (user, user_file)]: [(&Document, &Origin); 2],
    ) -> Result<(), Failure> {
        let Want { globals, environment } = want;
        if globals.no_mcp {
            return Ok(());
        }
        self.notices.extend(self.mcp.take_tables(user, user_file, environment));
        self.take_home_servers(environment)?;
        self.notices.extend(self.mcp.take_tables(system, system_file, environment));
        self.take_project_servers(environment, globals.trust_project)
    }

    fn take_hooks(&mut self, document: &Document, origin: &Origin) -> Result<(), Failure> {
        let Origin::File(layer, path) = origin else { return Ok(()) };
        let layer = match layer {
            LayerName::System => HookOrigin::System,
            _ => HookOrigin::User,
        };
        self.hook_sets.take(layer, &document.hooks, &document.checks, path)
    }

    /// Takes from a project what is a project's to say. A wider mode or a higher limit than the
    /// user's stays without effect, and what would send keys elsewhere or
    /// start programs is not read from it at all.
    fn take_project(&mut self, project: &Project) {
        let path = project.path.display();
        if let Some(mistake) = &project.mistake {
            self.notices.push(format!(
                "{mistake}; the file is not trusted and was left out, its deny rules too"
            ));
            return;
        }
        if !project.is_trusted {
            self.notices.push(format!(
                "{path} is not trusted and was left out, but for its deny rules; to use it: \
                 narthex config trust"
            ));
            self.offer(&project.path, &project.text, offer::of_document(&project.document));
            return;
        }
        let document = &project.document;
        let origin = Origin::File(LayerName::Project, project.path.clone());
        self.model.take_some(document.model.as_ref(), &origin);
        self.append_system_prompt.take_some(document.append_system_prompt.as_ref(), &origin);
        match document.mode {
            Some(mode) if mode > self.mode.value => self.notices.push(format!(
                "{path} asks for mode {mode}, which is wider than {}; a project cannot loosen",
                self.mode.value
            )),
            mode => self.mode.take(mode, &origin),
        }
        self.bounds.take_project(document, &origin);
        let max_turns = document.max_turns.map(std::num::NonZeroU32::get);
        self.max_turns.take(max_turns.filter(|count| *count < self.max_turns.value), &origin);
        let foreign = [
            ("providers", !document.providers.is_empty()),
            ("agent_command", document.agent_command.is_some()),
            ("log", document.log != document::Log::default()),
            ("server", document.server != ServerTable::default()),
            ("cortex", document.cortex != CortexTable::default()),
            ("agent", document.agent != AgentTable::default()),
            ("neurons", document.neurons != NeuronsTable::default()),
            ("mcp", document.mcp != McpTable::default()),
            ("telemetry", document.telemetry != TelemetryTable::default()),
            ("retry", document.retry.budget_ms.is_some()),
            ("network", !document.network.allow.is_empty()),
            ("checkpoints", document.checkpoints.enabled.is_some()),
            ("permission_timeout_ms", document.permission_timeout_ms.is_some()),
        ];
        for (key, _) in foreign.iter().filter(|(_, is_set)| *is_set) {
            self.notices.push(format!("{path}: '{key}' is not a project's to set; left out"));
        }
    }

    fn take_environment(&mut self, environment: &Environment) -> Result<(), Failure> {
        let origin = |name: &str| Origin::Variable(name.to_owned());
        let wrong = |name: &str, problem: String| Failure::usage(format!("{name}: {problem}"));
        self.telemetry.take_environment(environment);
        self.cortex.take_environment(environment);
        self.neurons.take_environment(environment);
        self.mcp.take_environment(environment);
        if let Some(model) = environment.variable("NARTHEX_MODEL") {
            self.model.take_some(Some(&model.to_owned()), &origin("NARTHEX_MODEL"));
        }
        if let Some(text) = environment.variable("NARTHEX_MODE") {
            let mode = text.parse().map_err(|problem| wrong("NARTHEX_MODE", problem))?;
            self.mode.take(Some(mode), &origin("NARTHEX_MODE"));
        }
        if let Some(text) = environment.variable("NARTHEX_LOG") {
            let level = text.parse().map_err(|problem| wrong("NARTHEX_LOG", problem))?;
            self.log_level.take_some(Some(&level), &origin("NARTHEX_LOG"));
        }
        if let Some(text) = environment.variable("NARTHEX_STORE") {
            let Some(path) = text.strip_prefix("sqlite:").filter(|path| !path.is_empty()) else {
                let problem = format!("'{text}' is no store: expected sqlite:PATH");
                return Err(wrong("NARTHEX_STORE", problem));
            };
            let path = self.places.launched_in.join(path);
            self.store.take_some(Some(&path), &origin("NARTHEX_STORE"));
        }
        Ok(())
    }

    fn take_flags(&mut self, globals: &Globals) {
        let flag = |name: &str| Origin::Flag(name.to_owned());
        self.model.take_some(globals.model.as_ref(), &flag("--model"));
        self.mode.take(globals.mode, &flag("--mode"));
        let text = globals.append_system_prompt.as_ref();
        self.append_system_prompt.take_some(text, &flag("--append-system-prompt"));
        self.max_turns.take(globals.max_turns, &flag("--max-turns"));
        self.bounds.take_flags(globals);
        let level = globals.log_level.map(Level::from);
        self.log_level.take_some(level.as_ref(), &flag("--log-level"));
    }
}
