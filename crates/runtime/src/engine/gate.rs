//! The gate: every call of every loop passes here, in one order, and fails closed.
//!
//! Schema, then facts (real paths are looked up first), then policy; what must be asked for is
//! asked for, or denied where nobody can be asked.

use std::path::{Path, PathBuf};

use driver_api::{Access, CallFacts, Tool, ToolError, Workspace};
use policy::{Call as PolicyCall, Homes, PathUse, Policy};
use protocol::event::ToolCall;
use protocol::{Mode, Target, ToolCallId};
use serde_json::{Map, Value};

/// How many faults of a value are told at once.
const FAULTS_MAX: usize = 5;

/// Characters of one fault: it quotes what is wrong, which may be long.
const FAULT_CHARS_MAX: usize = 400;

/// A compiled schema of arguments.
#[derive(Debug)]
pub(crate) struct Schema(Option<jsonschema::Validator>);

impl Schema {
    /// Compiles a schema. One that does not compile lets everything through: the tool's own
    /// decoding still refuses what it cannot read.
    pub(crate) fn compile(schema: &Value) -> Self {
        Self(jsonschema::validator_for(schema).ok())
    }

    /// Says what is wrong with arguments, if anything is.
    fn faults(&self, input: &Map<String, Value>) -> Option<String> {
        faults(self.0.as_ref()?, &Value::Object(input.clone()))
    }
}

/// Says what is wrong with a value, if anything is.
pub(crate) fn faults(validator: &jsonschema::Validator, value: &Value) -> Option<String> {
    let faults: Vec<String> = validator
        .iter_errors(value)
        .take(FAULTS_MAX)
        .map(|fault| {
            let place = fault.instance_path().to_string();
            let text =
                if place.is_empty() { fault.to_string() } else { format!("{place}: {fault}") };
            match text.char_indices().nth(FAULT_CHARS_MAX) {
                Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
                None => text,
            }
        })
        .collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// What the look-ups found.
#[derive(Debug)]
pub(crate) enum Examined {
    /// The arguments are wrong; the model is told how.
    Wrong(String),
    /// The call is understood.
    Described(Box<(ToolCall, CallFacts)>),
}

/// Checks arguments and looks up what the call is about.
pub(crate) async fn examine(
    tool: &dyn Tool,
    schema: &Schema,
    id: &ToolCallId,
    input: &Map<String, Value>,
    workspace: &dyn Workspace,
) -> Examined {
    let name = &tool.spec().name;
    if let Some(faults) = schema.faults(input) {
        return Examined::Wrong(format!("the arguments of {name} are wrong: {faults}"));
    }
    match tool.facts(input, workspace).await {
        Ok(facts) => {
            let paths = facts.paths.iter().map(|path| path.located.real.display().to_string());
            let target = Target {
                summary: facts.summary.clone(),
                effect: facts.effect,
                paths: paths.collect(),
            };
            let (tool_call_id, tool_name) = (id.clone(), name.clone());
            let call = ToolCall { tool_call_id, tool_name, input: input.clone(), target };
            Examined::Described(Box::new((call, facts)))
        }
        Err(ToolError::Fault(fault)) => {
            tracing::error!(tool = %name, %fault, "describe a call");
            Examined::Wrong(format!("{name} failed inside: try again or do without it"))
        }
        Err(error) => Examined::Wrong(error.to_string()),
    }
}

/// The home folders that rules are about, where a session acts.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownHomes {
    own: Option<PathBuf>,
    outer: Option<PathBuf>,
}

impl KnownHomes {
    /// Notes those of a workspace and of the user of this machine.
    pub(crate) fn of(workspace: &dyn Workspace, user: Option<&Path>) -> Self {
        let Homes { own, outer } = homes(workspace, user);
        Self { own: own.map(Path::to_owned), outer: outer.map(Path::to_owned) }
    }

    /// Hands them to the policy.
    pub(crate) fn get(&self) -> Homes<'_> {
        Homes { own: self.own.as_deref(), outer: self.outer.as_deref() }
    }
}

/// Returns the home folders that rules are about: in a workspace with a home of its own that one,
/// and the user's where they protect.
pub(crate) fn homes<'a>(workspace: &'a dyn Workspace, user: Option<&'a Path>) -> Homes<'a> {
    match workspace.home() {
        Some(home) => Homes { own: Some(home), outer: user },
        None => user.into(),
    }
}

/// What a verdict rests on besides the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) mode: Mode,
    pub(crate) cwd: &'a Path,
    pub(crate) homes: Homes<'a>,
    /// The session's own folder for long outputs: reading on there is not asked for.
    pub(crate) lent: &'a Path,
}

impl Judge<'_> {
    /// Hands the facts of a call to the policy.
    pub(crate) fn with<T>(
        &self,
        tool: &str,
        facts: &CallFacts,
        judge: impl FnOnce(&Policy, Mode, &PolicyCall<'_>) -> T,
    ) -> T {
        let paths: Vec<PathUse<'_>> = facts
            .paths
            .iter()
            .map(|path| {
                let is_write = path.access == Access::Write;
                let is_lent = !is_write && path.located.real.starts_with(self.lent);
                let is_inside = path.located.root.is_some() || is_lent;
                PathUse { real: &path.located.real, is_write, is_inside }
            })
            .collect();
        let call = PolicyCall {
            tool,
            effect: facts.effect,
            command: facts.command.as_deref(),
            host: None,
            paths: &paths,
            cwd: self.cwd,
            homes: self.homes,
        };
        judge(self.policy, self.mode, &call)
    }
}
