//! Neurons: created, listed, destroyed.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::Json as JsonBody;
use protocol::NeuronId;
use runtime_api::neuron::{CreateNeuron, NeuronLimits};
use serde::Serialize;
use serde_json::Value;

use super::Body;
use crate::door::Shared;
use crate::error::{Refused, refused};
use crate::fields::{Fields, TextRule, is_word};
use crate::place::{AtNeuron, NEURON_CHARS_MAX, NEURON_RIGHT};
use crate::tree::Tree;
use crate::wire::Neuron;

/// Variables of a neuron's commands.
const VARIABLES_MAX: usize = 64;

/// Characters of the path of a folder: the system takes no longer ones.
pub(super) const PATH_CHARS_MAX: usize = 4_096;

/// What an id of a neuron must be.
pub(super) const AGENT_ID: TextRule = TextRule::of(1, NEURON_CHARS_MAX).that(is_word, NEURON_RIGHT);

/// A folder of the machine.
const FOLDER: TextRule = TextRule::of(1, PATH_CHARS_MAX).that(is_absolute, "an absolute path");

/// The name of a variable.
const VARIABLE_NAME: TextRule =
    TextRule::of(1, 256).that(is_variable, "a name of letters, digits and '_', no digit first");

/// The value of a variable.
const VARIABLE: TextRule = TextRule::of(0, 4_096).that(has_no_nul, "a text without NUL");

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && has_no_nul(path)
}

fn has_no_nul(text: &str) -> bool {
    !text.contains('\0')
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// All neurons.
#[derive(Debug, Serialize)]
pub(crate) struct Neurons {
    neurons: Vec<Neuron>,
}

/// A neuron that is no more.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Destroyed {
    agent_id: NeuronId,
    destroyed: bool,
}

pub(crate) async fn list(State(door): State<Shared>) -> Result<Json<Neurons>, Refused> {
    let neurons = door.neurons.list().await.map_err(refused)?;
    Ok(Json(Neurons { neurons: neurons.into_iter().map(Neuron::from).collect() }))
}

pub(crate) async fn create(
    State(door): State<Shared>,
    JsonBody(body): Body,
) -> Result<(StatusCode, Json<Neuron>), Refused> {
    let wanted = CreateNeuron { driver: door.driver, ..read(body)? };
    let asked = Shared::clone(&door);
    // Half a neuron is nobody's: it is made to its end, and found again in the list.
    let work = async move { asked.neurons.create(wanted).await.map_err(refused) };
    let info = door.to_its_end(work).await?;
    Ok((StatusCode::CREATED, Json(info.into())))
}

fn read(body: Tree) -> Result<CreateNeuron, Refused> {
    let mut fields = Fields::of(body)?;
    let mut neuron = CreateNeuron::new(NeuronId::new(fields.needed_text("agentId", &AGENT_ID)));
    neuron.folder = fields.text("workspace", &FOLDER).map(PathBuf::from);
    neuron.env = variables(&mut fields);
    let mebibytes = fields.whole("memoryMb", 128..=65_536);
    let cores = fields.whole("vcpus", 1..=32);
    neuron.limits = NeuronLimits {
        memory_bytes: mebibytes.map(|it| it << 20),
        cpu_millis: cores.and_then(|it| u32::try_from(it * 1_000).ok()),
        ..NeuronLimits::default()
    };
    fields.finish()?;
    Ok(neuron)
}

fn variables(fields: &mut Fields) -> Vec<(String, String)> {
    let Some(object) = fields.object("env") else { return Vec::new() };
    if object.len() > VARIABLES_MAX {
        let right = format!("expected at most {VARIABLES_MAX} variables");
        fields.refuse("env", "too_big", right);
        return Vec::new();
    }
    let names: Vec<String> = object.keys().cloned().collect();
    fields.inside("env", object, |inner| {
        let mut read = Vec::new();
        for name in names {
            let value = inner.text(&name, &VARIABLE);
            match VARIABLE_NAME.check(&name) {
                Ok(()) => read.extend(value.map(|value| (name, value))),
                // The name is told as a number of characters: it may be a value by mistake.
                Err((code, message)) => inner.refuse("", code, message),
            }
        }
        read
    })
}

pub(crate) async fn show(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
) -> Result<Json<Neuron>, Refused> {
    Ok(Json(door.neurons.info(&id).await.map_err(refused)?.into()))
}

pub(crate) async fn destroy(
    State(door): State<Shared>,
    AtNeuron(id): AtNeuron,
) -> Result<Json<Destroyed>, Refused> {
    let (asked, neuron) = (Shared::clone(&door), id.clone());
    let work = async move { asked.neurons.destroy(&neuron).await.map_err(refused) };
    door.to_its_end(work).await?;
    Ok(Json(Destroyed { agent_id: id, destroyed: true }))
}

/// Reads arguments that are any object; an empty one where nothing was said.
pub(super) fn arguments(fields: &mut Fields, name: &str) -> serde_json::Map<String, Value> {
    fields.object(name).unwrap_or_default()
}
