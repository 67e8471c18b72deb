//! Which layers are in force, noted while they are built.

use super::failure::missing;
use super::layer::{Layer, Layers};
use super::plan::Missing;

/// What has been built so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) layers: Layers,
    pub(super) missing: Vec<Missing>,
}

impl Notes {
    /// A layer is in force.
    pub(super) fn have(&mut self, layer: Layer) {
        self.layers = self.layers.with(layer);
    }

    /// A layer is not in force, or not for all that it is about.
    pub(super) fn lack(&mut self, layer: Layer, reason: impl Into<String>) {
        self.missing.push(missing(layer, reason));
    }
}
