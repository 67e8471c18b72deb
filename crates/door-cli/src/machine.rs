//! What the door asks of the program around it: settings, checks, the assembly.
//!
//! A door knows neither settings files nor drivers; `app` implements this trait for it.

mod connections;
mod policy;
mod server;

use std::future::Future;
use std::path::PathBuf;

use protocol::{Mode, NeuronDriver, Timestamp};
use runtime_api::{AgentSettings, Handle};
use serde::Serialize;
use stdx::Secret;
use terminal::Failure;

use crate::args::{Globals, SchemaName};

pub use connections::{ConnectionInfo, ConnectionMachine};
pub use policy::{
    ExplainedCall, ExplainedPart, ExplainedRule, NewKey, PolicyInForce, PolicyLayer, PolicyMachine,
    PolicyWord, SignedBundle, VerifiedBundle,
};
pub use server::{
    CortexFacts, NewToken, RunningServer, Server, ServerFacts, ServerMachine, TokenInfo,
    TokenOrigin,
};

/// What a command needs of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A model for a new session: where none can be found, the failure says what to do.
    NewSession,
    /// The sessions that are stored; a model is theirs.
    StoredSessions,
    /// The stored sessions whose files are brought back; nothing runs in them.
    StoredFiles,
    /// Stored sessions that are looked at or copied, never run: a settings file that is wrong is
    /// told and left out.
    Archive,
    /// Only the scripted model.
    Demo,
}

/// A runtime and what the settings say about new sessions.
#[derive(Debug)]
pub struct House {
    /// The runtime.
    pub handle: Handle,
    /// The working folder, real and absolute.
    pub cwd: String,
    /// The model of new sessions.
    pub model: Option<String>,
    /// The model that a flag or a variable names; a stored session keeps its own without one.
    pub asked_model: Option<String>,
    /// The mode of every session that is opened here.
    pub mode: Mode,
    /// What a flag says about what keeps sessions apart; a stored one keeps what it has.
    pub sandbox: Option<NeuronDriver>,
    /// What to say of a provider's key when it was not taken, by the provider's name.
    pub key_hints: Vec<(String, String)>,
    /// The agent; whether somebody answers is the door's to say.
    pub agent: AgentSettings,
    /// The folder with everything that is kept.
    pub home: PathBuf,
    /// What a person should know about the settings, one sentence each.
    pub notices: Vec<String>,
    /// A project's settings file that was found and is not trusted as it is.
    pub untrusted: Option<UntrustedProject>,
}

/// A project's files that nobody has trusted yet as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UntrustedProject {
    /// The files; there is at least one.
    pub files: Vec<UntrustedFile>,
}

/// A file that waits for trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it held when it was read: this is shown and trusted, whatever the file holds by then.
    pub text: String,
    /// What it would change, one line each, after "it would": rules that allow, hooks with their
    /// commands.
    pub summary: Vec<String>,
}

/// One setting as `config show` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key, with dots between tables.
    pub key: String,
    /// The value as TOML would write it; never a secret. Empty where nothing is set.
    pub value: String,
    /// Where the value comes from.
    pub origin: String,
}

/// One settings file as `config path` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Which layer it is.
    pub layer: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there, is trusted, or anything else worth knowing.
    pub state: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Good.
    Ok,
    /// Works, but worth a look.
    Warn,
    /// Does not work.
    Fail,
}

/// One line of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The group, for example `store`.
    pub group: String,
    /// The name, stable for programs.
    pub name: String,
    /// How it ended.
    pub status: CheckStatus,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A fresh copy of the demo's project.
#[derive(Debug)]
pub struct DemoProject {
    /// Where it lies.
    pub folder: PathBuf,
    /// Its files by name, as they were copied.
    pub files: Vec<(String, String)>,
    /// The prompt that it is given.
    pub prompt: String,
    /// What stands in the command whose success proves the repair.
    pub proof: String,
}

/// The program around the door.
pub trait Machine: ConnectionMachine + PolicyMachine + ServerMachine {
    /// Reads the settings and builds the runtime.
    fn open(&self, globals: &Globals, need: Need) -> impl Future<Output = Result<House, Failure>>;

    /// Lists every setting with its origin, and what is wrong with files that were left out.
    ///
    /// # Errors
    /// When the home folder cannot be told.
    fn settings(&self, globals: &Globals) -> Result<(Vec<Setting>, Vec<String>), Failure>;

    /// Sets a value in the user's file and returns that file's path.
    ///
    /// # Errors
    /// For an unknown key or a value that does not fit it; the file is unchanged then.
    fn set(&self, globals: &Globals, key: &str, value: &str) -> Result<PathBuf, Failure>;

    /// Lists the settings files, strongest first.
    ///
    /// # Errors
    /// When the home folder cannot be told.
    fn files(&self, globals: &Globals) -> Result<Vec<SettingsFile>, Failure>;

    /// Trusts the files of a project as they are now and returns their paths.
    ///
    /// # Errors
    /// When there is no such file or one is wrong.
    fn trust(&self, globals: &Globals, folder: Option<PathBuf>) -> Result<Vec<PathBuf>, Failure>;

    /// Trusts files exactly as they were read.
    ///
    /// # Errors
    /// When that cannot be kept.
    fn trust_offered(&self, globals: &Globals, offered: &UntrustedProject) -> Result<(), Failure>;

    /// Keeps a provider's key and returns the file's path.
    ///
    /// # Errors
    /// For a provider that is unknown or takes no key.
    fn keep_key(
        &self,
        globals: &Globals,
        provider: &str,
        key: Secret<String>,
    ) -> Result<PathBuf, Failure>;

    /// Checks what works here. Changes nothing.
    fn checks(&self, globals: &Globals) -> impl Future<Output = Vec<Check>>;

    /// Copies the demo's project into a fresh folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    fn demo(&self) -> Result<DemoProject, Failure>;

    /// Returns a schema as JSON text.
    fn schema(&self, name: SchemaName) -> String;

    /// Returns the wall-clock time.
    fn now() -> Timestamp;
}
