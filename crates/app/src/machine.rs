//! What the door asks of the program, answered.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use door_cli::{
    Check, DemoProject, Failure, Globals, House, Machine, Need, SandboxDriver, SchemaName, Setting,
    SettingsFile, UntrustedProject,
};
use driver_api::{Clock, NeuronDriver, RuleBook, SystemClock};
use narthex::governed::KeptRules;
use narthex::{McpOptions, NeuronOptions};
use protocol::{Mode, Timestamp};
use runtime_api::AgentSettings;
use stdx::Secret;

use crate::environment::Environment;
use crate::settings::{self, Places, Project, ServersFile, Settings, Want, home_file};
use crate::{checks, connections, demo, logging, model_choice, policy, schema};

/// How long the start of a session waits for MCP servers: those that take longer bring no tools.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The program around the door.
#[derive(Debug)]
pub(crate) struct Program {
    environment: Environment,
}

impl Program {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { environment }
    }

    pub(crate) fn want<'a>(&'a self, globals: &'a Globals) -> Want<'a> {
        Want { globals, environment: &self.environment }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Makes what neurons are made of, where a command may need some.
    fn neurons_for(
        &self,
        need: Need,
        sandbox: Option<NeuronDriver>,
        (settings, notices): (&Settings, &mut Vec<String>),
    ) -> Result<Option<NeuronOptions>, Failure> {
        let wants_one = sandbox == Some(NeuronDriver::Namespace);
        // A command has one session, for which none that is ready would do.
        let neurons = |settings: &Settings, environment: &Environment| {
            neurons(settings, environment).map(|neurons| {
                let mut neurons = neurons;
                neurons.warm = 0;
                neurons
            })
        };
        match need {
            Need::Demo => Ok(None),
            Need::NewSession if wants_one => neurons(settings, &self.environment).map(Some),
            Need::NewSession => Ok(None),
            // Which sessions will be opened, and whether they are in a sandbox, is not known yet.
            Need::StoredSessions => match neurons(settings, &self.environment) {
                Ok(neurons) => Ok(Some(neurons)),
                Err(failure) => {
                    let problem = &failure.message;
                    notices.push(format!("{problem}; no sandbox can be entered until then"));
                    Ok(None)
                }
            },
            // Nothing runs in them.
            Need::StoredFiles | Need::Archive => {
                let mut still = still_neurons(settings);
                still.warm = 0;
                Ok(Some(still))
            }
        }
    }

    /// Returns a path of the command line as the system finds it.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.environment.cwd.join(path)
    }
}

impl Machine for Program {
    async fn open(&self, globals: &Globals, need: Need) -> Result<House, Failure> {
        let want = self.want(globals);
        let mut settings = match need {
            Need::Archive => Settings::load_what_is_right(want)?,
            Need::NewSession | Need::StoredSessions | Need::StoredFiles | Need::Demo => {
                Settings::load(want)?
            }
        };
        logging::to_file(&settings)?;
        // What is only looked at needs no policy.
        if need != Need::Archive {
            policy::ensure(&mut settings).await?;
        }
        let mut notices = settings.notices.clone();
        let untrusted = settings.untrusted.clone();
        let model = match need {
            Need::NewSession => {
                let choice = model_choice::choose(&settings).await?;
                notices.extend(choice.notice);
                Some(choice.model)
            }
            Need::StoredSessions | Need::StoredFiles | Need::Archive | Need::Demo => {
                settings.model.value.clone()
            }
        };
        let cwd = text(&settings.places.cwd)?;
        let agent = agent(&settings, globals)?;
        let mode = settings.mode.value;
        let asked_model = settings.asked_model().cloned();
        let key_hints = settings.key_hints();
        let home = settings.places.home.clone();
        let runs = matches!(need, Need::NewSession | Need::StoredSessions);
        let sandbox = sandbox(globals);
        let neurons = self.neurons_for(need, sandbox, (&settings, &mut notices))?;
        let servers = runs.then(|| mcp(&settings)).flatten();
        let mut house = options(settings, model.clone(), mode);
        house.mcp = servers;
        house.neurons = neurons;
        house.sandbox = sandbox.unwrap_or(NeuronDriver::Host);
        let built =
            narthex::build(house).await.map_err(|error| Failure::failed(error.to_string()))?;
        // There is one session, which is offered what is there when it begins.
        built.connected(CONNECT_WAIT).await;
        notices.extend(connections::missing(&built));
        notices.extend(built.notices().iter().cloned());
        let handle = built.handle();
        Ok(House {
            handle,
            cwd,
            model,
            asked_model,
            mode,
            sandbox,
            key_hints,
            agent,
            home,
            notices,
            untrusted,
        })
    }

    fn settings(&self, globals: &Globals) -> Result<(Vec<Setting>, Vec<String>), Failure> {
        let mut settings = Settings::load_what_is_right(self.want(globals))?;
        // They stop the cortex door and nothing else, so that nobody told of them yet.
        let mistakes = settings.cortex_mistakes().map(|mistake| format!("{mistake}; left out"));
        let mistakes: Vec<String> = mistakes.collect();
        settings.notices.extend(mistakes);
        Ok((settings::list(&settings), settings.notices))
    }

    fn set(&self, globals: &Globals, key: &str, value: &str) -> Result<PathBuf, Failure> {
        let want = self.want(globals);
        let places = Places::find(want)?;
        settings::set(&places.user, key, value, |text| Settings::check_user(want, text))?;
        Ok(places.user)
    }

    fn files(&self, globals: &Globals) -> Result<Vec<SettingsFile>, Failure> {
        let places = Places::find(self.want(globals))?;
        let file = |layer: &str, path: &Path| SettingsFile {
            layer: layer.to_owned(),
            path: path.to_owned(),
            state: if path.is_file() { "read" } else { "missing" }.to_owned(),
        };
        let mut files = Vec::new();
        if let Some(path) = &places.managed {
            files.push(file("managed", path));
        }
        let project = Project::find(&places, globals.trust_project);
        if let Err(failure) = &project {
            files.push(SettingsFile {
                layer: "project".to_owned(),
                path: places.cwd.join(".narthex/config.toml"),
                state: format!("wrong: {}", failure.message),
            });
        }
        if let Ok(Some(project)) = project {
            let state = match &project.mistake {
                None if project.is_trusted => "read, trusted",
                None => "not trusted: only its deny rules hold; to use it: narthex config trust",
                Some(_) => "wrong and not trusted: left out",
            };
            let state = state.to_owned();
            files.push(SettingsFile { state, ..file("project", &project.path) });
        }
        if let Ok(Some(servers)) = ServersFile::find(&places, &places.cwd) {
            let known = settings::is_trusted(&places, &servers.path, &servers.text);
            let state = match globals.trust_project || known.unwrap_or(false) {
                true => "read, trusted",
                false => {
                    "not trusted: its MCP servers are not used; to use them: narthex config \
                          trust"
                }
            };
            files.push(SettingsFile { state: state.to_owned(), ..file("project", &servers.path) });
        }
        files.push(file("user", &places.user));
        files.push(file("user", &home_file(&places.home)));
        files.push(file("system", &places.system));
        Ok(files)
    }

    fn trust(&self, globals: &Globals, folder: Option<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
        settings::trust(&Places::find(self.want(globals))?, folder.as_deref())
    }

    fn trust_offered(&self, globals: &Globals, offered: &UntrustedProject) -> Result<(), Failure> {
        settings::trust_offered(&Places::find(self.want(globals))?, offered)
    }

    fn keep_key(
        &self,
        globals: &Globals,
        provider: &str,
        key: Secret<String>,
    ) -> Result<PathBuf, Failure> {
        let settings = Settings::load(self.want(globals))?;
        settings::keep_key(&settings.places.home, &settings.providers, provider, &key)
    }

    async fn checks(&self, globals: &Globals) -> Vec<Check> {
        checks::all(self.want(globals)).await
    }

    fn demo(&self) -> Result<DemoProject, Failure> {
        demo::copy()
    }

    fn schema(&self, name: SchemaName) -> String {
        schema::text(name)
    }

    fn now() -> Timestamp {
        SystemClock::default().now()
    }
}

/// Returns the name of a folder as text.
///
/// # Errors
/// For one that is no text.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("the name of folder {} is not UTF-8 text", path.display()))
    })
}

/// Makes the agent's settings, with the further folders of the flags.
///
/// # Errors
/// For a folder that is none.
pub(crate) fn agent(settings: &Settings, globals: &Globals) -> Result<AgentSettings, Failure> {
    let mut roots = Vec::new();
    for root in &globals.add_root {
        let path = settings.places.launched_in.join(root);
        let real = path
            .canonicalize()
            .map_err(|error| Failure::usage(format!("--add-root {}: {error}", path.display())))?;
        if !real.is_dir() {
            return Err(Failure::usage(format!("--add-root {} is no folder", real.display())));
        }
        roots.push(text(&real)?);
    }
    Ok(AgentSettings { roots, ..settings::agent(settings, globals) })
}

/// Makes what a house is built of.
pub(crate) fn options(settings: Settings, model: Option<String>, mode: Mode) -> narthex::Options {
    let rule_book: Option<Arc<dyn RuleBook>> =
        Some(Arc::new(KeptRules::new(&settings.places.home)));
    let mut options = narthex::Options::new(settings.places.home);
    options.store = settings.store.value;
    options.model = model;
    options.mode = mode;
    options.providers = settings.providers.into_iter().map(|known| known.provider).collect();
    options.policy = settings.policy;
    options.agent_command = settings.agent_command.value.into_iter().map(Into::into).collect();
    options.user_home = settings.places.user_home;
    options.hidden_env = settings.hidden_env;
    options.hooks = settings.hook_sets.hooks;
    options.checks = settings.hook_sets.checks;
    options.has_checkpoints = settings.bounds.is_checkpointing();
    options.rule_book = rule_book;
    options
}

/// Makes what MCP servers are made of; nothing where none is configured.
pub(crate) fn mcp(settings: &Settings) -> Option<McpOptions> {
    let known = &settings.mcp.servers;
    if known.is_empty() {
        return None;
    }
    let servers = known.iter().map(|known| known.server.clone()).collect();
    let mut options = McpOptions::new(servers, &settings.places.cwd);
    let threshold = settings.mcp.defer_threshold.value;
    options.defer_threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
    options.allow.clone_from(&settings.network_allow);
    Some(options)
}

/// Makes what neurons are made of. Reads the secrets that are added to their requests.
///
/// # Errors
/// Names the setting or variable that is wrong, or whose secret is not there.
pub(crate) fn neurons(
    settings: &Settings,
    environment: &Environment,
) -> Result<NeuronOptions, Failure> {
    let neurons = &settings.neurons;
    if let Some(mistake) = neurons.mistakes.first() {
        return Err(Failure::usage(mistake.clone()));
    }
    let mut options = still_neurons(settings);
    options.egress = neurons.egress(environment)?;
    Ok(options)
}

/// Makes what neurons are made of in which nothing will run: no secret is read.
fn still_neurons(settings: &Settings) -> NeuronOptions {
    let neurons = &settings.neurons;
    let mut options = NeuronOptions::new(neurons.driver());
    options.isolation = neurons.isolation();
    options.limits = neurons.limits();
    options.neurons_max = usize::try_from(neurons.max.value).unwrap_or(usize::MAX);
    options.warm = usize::try_from(neurons.warm.value).unwrap_or(usize::MAX);
    options.session_writes = neurons.writes();
    options
}

/// Returns what a flag says about what keeps sessions apart.
pub(crate) fn sandbox(globals: &Globals) -> Option<NeuronDriver> {
    globals.sandbox.map(|driver| match driver {
        SandboxDriver::Namespace => NeuronDriver::Namespace,
        SandboxDriver::Host => NeuronDriver::Host,
    })
}
