//! The layers above all sessions, which may be replaced while the runtime lives.

use std::sync::{Arc, Mutex, PoisonError};

use policy::Policy;

/// The policy that sessions get when they are opened. Cheap to clone; all clones are one cell.
///
/// A turn keeps the policy that it began with: what it may do does not change under its hands. A
/// session takes the newest when its next turn begins, when its mode or model is set between two
/// turns, and when it is opened again or wakes.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<Mutex<Arc<Policy>>>);

impl Policies {
    /// Begins with a policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(policy))))
    }

    /// Returns the newest policy.
    pub fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy in its place, for turns and sessions that begin from now on.
    pub fn replace(&self, policy: Policy) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }
}
