//! May this call run? Allow, ask or deny, and why. Pure.
#![deny(missing_docs)]

/// All layers together.
#[derive(Clone, Debug, Default)]
pub struct Policy {}
