//! Direct commands to a neuron: code, tools, packages. Their caller is the one who would be asked.

use axum::Json;
use axum::extract::State;
use http_kit::Json as JsonBody;
use runtime_api::neuron::{
    CodeLanguage, Exec, Executed, Install, NeuronState, PackageManager, ToolRun,
};
use serde::Serialize;

use super::Body;
use super::neuron::{PATH_CHARS_MAX, arguments};
use crate::door::Shared;
use crate::error::{Code, Refused, refused};
use crate::fields::{Fields, TextRule, is_word};
use crate::place::AtNeuron;
use crate::wire::Tool;

/// Code.
const CODE: TextRule = TextRule::of(1, 100_000);

/// A folder, inside of the neuron.
const FOLDER: TextRule = TextRule::of(1, PATH_CHARS_MAX);

/// The name of a tool.
const TOOL: TextRule = TextRule::of(1, 128).that(is_word, "letters, digits, '_' and '-'");

/// The name of a package, with its version where one is meant.
const PACKAGE: TextRule = TextRule::of(1, 128)
    .that(is_package, "letters, digits and any of @._+:/=<>~^-, beginning with no '-'");

/// Packages that are installed at once.
const PACKAGES_MAX: usize = 50;

/// How long code may take that says nothing of it, in milliseconds.
const EXEC_MS: u64 = 120_000;

/// How long an installation may take, in milliseconds: a large tree of packages over a slow line.
const INSTALL_MS: u64 = 1_800_000;

fn is_package(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"@._+:/=<>~^-".contains(&byte);
    name.bytes().all(is_safe) && !name.starts_with('-')
}

/// What came of code.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ran {
    stdout: String,
    stderr: String,
    exit_code: Option<i32>,
    duration_ms: u64,
    timed_out: bool,
    truncated: bool,
}

impl From<Executed> for Ran {
    fn from(done: Executed) -> Self {
        Self {
            stdout: done.stdout,
            stderr: done.stderr,
            exit_code: done.exit_code,
            duration_ms: done.duration_ms,
            timed_out: done.timed_out,
            truncated: done.truncated,
        }
    }
}

pub(crate) async fn exec(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
    JsonBody(body): Body,
) -> Result<Json<Ran>, Refused> {
    let mut fields = Fields::of(body)?;
    let languages = [
        ("bash", CodeLanguage::Bash),
        ("sh", CodeLanguage::Sh),
        ("python", CodeLanguage::Python),
        ("javascript", CodeLanguage::JavaScript),
    ];
    let exec = Exec {
        code: fields.needed_text("code", &CODE),
        language: fields.word("language", &languages).unwrap_or_default(),
        timeout_ms: fields.whole("timeoutMs", 100..=600_000).unwrap_or(EXEC_MS),
        cwd: fields.text("cwd", &FOLDER),
    };
    fields.finish()?;
    door.running(&id).await?;
    Ok(Json(door.neurons.exec(&id, exec).await.map_err(refused)?.into()))
}

/// What came of a tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult {
    tool: String,
    ok: bool,
    output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    duration_ms: u64,
}

pub(crate) async fn tool(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
    JsonBody(body): Body,
) -> Result<Json<ToolResult>, Refused> {
    let mut fields = Fields::of(body)?;
    let tool = fields.needed_text("tool", &TOOL);
    let input = arguments(&mut fields, "params");
    fields.finish()?;
    door.running(&id).await?;
    let offered = door.offered();
    if !offered.contains(&tool) {
        let right = format!("there is no tool '{tool}', expected one of {}", offered.join(", "));
        return Err(Refused::field("tool", "invalid_value", right));
    }
    let run = ToolRun { tool: tool.clone(), input, offered };
    let ran = door.neurons.run_tool(&id, run).await.map_err(refused)?;
    Ok(Json(ToolResult {
        tool,
        ok: !ran.is_error,
        error: ran.is_error.then(|| ran.output.clone()),
        output: ran.output,
        duration_ms: ran.duration_ms,
    }))
}

/// The tools that are offered.
#[derive(Debug, Serialize)]
pub(crate) struct Tools {
    tools: Vec<Tool>,
}

pub(crate) async fn tools(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
) -> Result<Json<Tools>, Refused> {
    // To look at them needs no command, so it matters not which process owns the neuron.
    if door.neurons.info(&id).await.map_err(refused)?.state == NeuronState::Stopped {
        return Err(Code::NotRunning.into());
    }
    let tools = door.neurons.tools(&door.preset.names());
    Ok(Json(Tools { tools: tools.into_iter().map(|tool| Tool::of(&door, tool)).collect() }))
}

/// What came of an installation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Installed {
    manager: &'static str,
    packages: Vec<String>,
    ok: bool,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    duration_ms: u64,
}

pub(crate) async fn install(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
    JsonBody(body): Body,
) -> Result<Json<Installed>, Refused> {
    let mut fields = Fields::of(body)?;
    let managers = [
        ("apt", ("apt", PackageManager::Apt)),
        ("pip", ("pip", PackageManager::Pip)),
        ("npm", ("npm", PackageManager::Npm)),
    ];
    let (name, manager) = fields.word("manager", &managers).unwrap_or(("apt", PackageManager::Apt));
    let packages = packages(&mut fields);
    let timeout_ms = fields.whole("timeoutMs", 1_000..=INSTALL_MS).unwrap_or(INSTALL_MS);
    fields.finish()?;
    door.running(&id).await?;
    let install = Install { manager, packages: packages.clone(), timeout_ms };
    let done = door.neurons.install(&id, install).await.map_err(refused)?;
    Ok(Json(Installed {
        manager: name,
        packages,
        ok: done.exit_code == Some(0),
        exit_code: done.exit_code,
        stdout: done.stdout,
        stderr: done.stderr,
        duration_ms: done.duration_ms,
    }))
}

fn packages(fields: &mut Fields) -> Vec<String> {
    let Some(items) = fields.list_needed("packages", 1..=PACKAGES_MAX) else { return Vec::new() };
    let named = items.into_iter().enumerate();
    named
        .filter_map(|(place, item)| fields.as_text(&format!("packages.{place}"), item, &PACKAGE))
        .collect()
}

/// No driver takes snapshots yet; that is so whatever neuron is meant.
pub(crate) async fn snapshot(AtNeuron(_): AtNeuron) -> Refused {
    Code::NotSupported.into()
}
