//! Handlers, by what they are about.

pub(crate) mod approval;
pub(crate) mod command;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod neuron;
pub(crate) mod run;
pub(crate) mod session;
mod transcript;

use http_kit::Json;

use crate::tree::Tree;

/// Bytes of a body, but those of runs: a tool's arguments with a large file in them fit.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a run's body: four images of 5 MiB in base64, and words.
const RUN_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A body.
type Body = Json<Tree, BODY_BYTES_MAX>;
