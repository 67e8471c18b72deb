//! The settings file: one documented schema for the machine's, the user's and a project's.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use door_cli::Failure;
pub(super) use narthex::governed::read_text;
use narthex::{HookSet, StructuredOutput};
use protocol::{Mode, Wire};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use stdx::Secret;
use tracing_subscriber::filter::Targets;

use super::{AgentTable, CortexTable, McpTable, NeuronsTable, ServerTable, TelemetryTable};
use super::{keys, mistake};

/// A settings file. Keys are written in snake case; camel case is understood too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Settings")]
pub(crate) struct Document {
    /// The model of new sessions, `provider/model`.
    pub(crate) model: Option<String>,
    /// What runs without asking.
    pub(crate) mode: Option<Mode>,
    /// Text after the system prompt.
    #[serde(alias = "appendSystemPrompt")]
    pub(crate) append_system_prompt: Option<String>,
    /// How many steps a turn may take.
    #[serde(alias = "maxTurns")]
    pub(crate) max_turns: Option<NonZeroU32>,
    /// How to start the workspace agent: program and arguments. Not in a project's file.
    #[serde(alias = "agentCommand")]
    pub(crate) agent_command: Option<Vec<String>>,
    /// Which calls run, are asked for, are refused.
    pub(crate) permissions: Permissions,
    /// Model servers by name. Not in a project's file.
    pub(crate) providers: BTreeMap<String, ProviderTable>,
    /// Retries of model calls.
    pub(crate) retry: Retry,
    /// The log.
    pub(crate) log: Log,
    /// `narthex serve`. Not in a project's file.
    pub(crate) server: ServerTable,
    /// The cortex door. Not in a project's file.
    pub(crate) cortex: CortexTable,
    /// What agents of the cortex door are held to. Not in a project's file.
    pub(crate) agent: AgentTable,
    /// Neurons: sandboxes with a life of their own. Not in a project's file.
    pub(crate) neurons: NeuronsTable,
    /// MCP servers. Not in a project's file.
    pub(crate) mcp: McpTable,
    /// Traces of a server. Not in a project's file.
    pub(crate) telemetry: TelemetryTable,
    /// What may be spent.
    pub(crate) budget: BudgetTable,
    /// When conversations are summarised.
    pub(crate) compaction: CompactionTable,
    /// Whether files are captured before they change, so that it can be undone.
    pub(crate) checkpoints: CheckpointsTable,
    /// After how many milliseconds an unanswered question is decided against; 0 means never.
    #[serde(alias = "permissionTimeoutMs")]
    pub(crate) permission_timeout_ms: Option<u64>,
    /// Commands that are told of moments, by moment.
    pub(crate) hooks: HookSet,
    /// A command that examines pending changes.
    pub(crate) checks: ChecksTable,
    /// Which addresses programs of the runtime may reach.
    pub(crate) network: NetworkTable,
}

/// What may be spent. Nothing is limited where nothing is said; a project can only lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BudgetTable {
    /// US dollars of one turn.
    #[serde(alias = "turnUsd", deserialize_with = "dollars")]
    #[schemars(range(min = 0.0))]
    pub(crate) turn_usd: Option<f64>,
    /// Tokens of one turn: read, caches included, and written.
    #[serde(alias = "turnTokens")]
    pub(crate) turn_tokens: Option<u64>,
    /// How long a turn may take, in milliseconds, waiting for people not counted.
    #[serde(alias = "turnMs", deserialize_with = "milliseconds")]
    pub(crate) turn_ms: Option<NonZeroU64>,
    /// US dollars of one session.
    #[serde(alias = "sessionUsd", deserialize_with = "dollars")]
    #[schemars(range(min = 0.0))]
    pub(crate) session_usd: Option<f64>,
    /// Tokens of one session.
    #[serde(alias = "sessionTokens")]
    pub(crate) session_tokens: Option<u64>,
    /// US dollars of all sessions of the store, from midnight UTC on.
    #[serde(alias = "dayUsd", deserialize_with = "dollars")]
    #[schemars(range(min = 0.0))]
    pub(crate) day_usd: Option<f64>,
    /// Tokens of all sessions of the store, from midnight UTC on.
    #[serde(alias = "dayTokens")]
    pub(crate) day_tokens: Option<u64>,
}

fn dollars<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(from)? {
        Some(usd) if !usd.is_finite() || usd < 0.0 => Err(serde::de::Error::custom(format!(
            "{usd} is no amount of dollars: expected 0 or more"
        ))),
        usd => Ok(usd),
    }
}

/// 0 would mean no limit to the runtime, which no file can ask for as if it were the lowest one.
fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU64>, D::Error> {
    let Some(limit) = Option::<u64>::deserialize(from)? else { return Ok(None) };
    NonZeroU64::new(limit).map(Some).ok_or_else(|| {
        serde::de::Error::custom("0 is no limit: expected 1 or more, or nothing for no limit")
    })
}

/// When conversations are summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CompactionTable {
    /// Whether by itself; on where nothing is said.
    pub(crate) auto: Option<bool>,
    /// At which share of the model's window, in percent.
    #[serde(alias = "atPercent", deserialize_with = "percent")]
    #[schemars(range(min = 20, max = 95))]
    pub(crate) at_percent: Option<u8>,
}

fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    match Option::<u8>::deserialize(from)? {
        Some(percent) if !(20..=95).contains(&percent) => {
            Err(serde::de::Error::custom(format!("{percent} is too low or too high: 20 to 95")))
        }
        percent => Ok(percent),
    }
}

/// Files as they were before a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CheckpointsTable {
    /// Whether they are captured; on where nothing is said.
    pub(crate) enabled: Option<bool>,
}

/// A command that examines pending changes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChecksTable {
    /// The program and its arguments.
    pub(crate) command: Option<Vec<String>>,
    /// How long it may take, in milliseconds; 60,000 where nothing is said.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Option<u64>,
}

/// Which addresses programs of the runtime may reach.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetworkTable {
    /// Hosts and networks that may be reached although they are private, for example
    /// `10.0.0.0/8`, `intranet.example` or `localhost:8080`. Not in a project's file.
    pub(crate) allow: Vec<String>,
}

/// Rules of the form `tool` or `tool(pattern)`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Permissions {
    /// Calls that run without asking.
    pub(crate) allow: Vec<String>,
    /// Calls that are asked for whatever the mode.
    pub(crate) ask: Vec<String>,
    /// Calls that are refused whatever else allows them.
    pub(crate) deny: Vec<String>,
}

/// A model server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderTable {
    /// The wire that it speaks; needed for a name that is not built in.
    pub(crate) wire: Option<Wire>,
    /// Where it is, for example `http://127.0.0.1:8000/v1`.
    #[serde(alias = "baseUrl")]
    pub(crate) base_url: Option<String>,
    /// The key.
    #[serde(deserialize_with = "secret")]
    #[schemars(with = "Option<String>", extend("default" = null))]
    pub(crate) key: Option<Secret<String>>,
    /// The environment variable with the key; wins over `key`.
    #[serde(alias = "keyEnv")]
    pub(crate) key_env: Option<String>,
    /// Further headers of every request.
    #[serde(deserialize_with = "secrets")]
    #[schemars(with = "BTreeMap<String, String>", extend("default" = {}))]
    pub(crate) headers: BTreeMap<String, Secret<String>>,
    /// How the server is told what JSON an answer must be: `native`, by its wire's own means;
    /// `prompt`, in words; `auto`, the former where it is known to work.
    #[serde(alias = "structuredOutput")]
    #[schemars(
        with = "Option<String>",
        extend("enum" = ["auto", "native", "prompt", null], "default" = null)
    )]
    pub(crate) structured_output: Option<StructuredOutput>,
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret<String>>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(Secret::new))
}

pub(super) fn secrets<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Secret<String>>, D::Error> {
    let plain = BTreeMap::<String, String>::deserialize(from)?;
    Ok(plain.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
}

/// Retries of model calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retry {
    /// How long a call is retried, in milliseconds.
    #[serde(alias = "budgetMs")]
    pub(crate) budget_ms: Option<u64>,
}

/// The log: a file in the home folder, where it was asked for; a server always writes one, to
/// standard error.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// How much is logged; nothing where absent, and `info` of a server.
    pub(crate) level: Option<Level>,
    /// Levels of single modules, for example `http_kit=debug,access=warn`.
    #[serde(deserialize_with = "filter")]
    pub(crate) filter: Option<String>,
    /// How a server writes its log; `auto` where nothing is said.
    pub(crate) format: Option<LogFormat>,
}

fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    match text.as_deref().map(str::parse::<Targets>) {
        Some(Err(_)) => Err(serde::de::Error::custom(
            "this is no filter: expected modules with levels, for example http_kit=debug",
        )),
        _ => Ok(text),
    }
}

/// How a server writes its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people on a terminal, for programs elsewhere.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LogFormat::Auto => "auto",
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// Failures.
    Error,
    /// And what is odd.
    Warn,
    /// And what happens.
    Info,
    /// And why.
    Debug,
    /// And everything else.
    Trace,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
        all.into_iter().find(|level| level.as_str() == text).ok_or_else(|| {
            format!("unknown level '{text}': expected error, warn, info, debug or trace")
        })
    }
}

impl From<door_cli::LogLevel> for Level {
    fn from(level: door_cli::LogLevel) -> Self {
        match level {
            door_cli::LogLevel::Error => Level::Error,
            door_cli::LogLevel::Warn => Level::Warn,
            door_cli::LogLevel::Info => Level::Info,
            door_cli::LogLevel::Debug => Level::Debug,
            door_cli::LogLevel::Trace => Level::Trace,
        }
    }
}

impl Document {
    /// Reads a file; one that is missing is empty.
    ///
    /// # Errors
    /// Names the file, and the key where one is wrong.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        match read_text(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Reads a file that somebody named.
    ///
    /// # Errors
    /// As [`Document::read`], and when it is missing.
    pub(crate) fn read_required(path: &Path) -> Result<Self, Failure> {
        let text = read_text(path).map_err(|error| unreadable(path, &error))?;
        Self::parse(&text, path)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
        let table: toml::Table =
            text.parse().map_err(|error| wrong(mistake::tell(&error, text)))?;
        keys::check(&table).map_err(wrong)?;
        let document: Self =
            toml::from_str(text).map_err(|error| wrong(mistake::tell(&error, text)))?;
        if document.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(wrong("model is empty: expected provider/model".to_owned()));
        }
        Ok(document)
    }
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("read {}: {error}", path.display()))
}
