//! The layers above all sessions, which may be replaced while the runtime lives, and those that
//! bind some sessions alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use policy::{Layer, Policy};
use runtime_api::PolicyTag;

/// The policy that sessions get when they are opened. Cheap to clone; all clones are one cell.
///
/// A turn keeps the policy that it began with: what it may do does not change under its hands. A
/// session takes the newest when its next turn begins, when its mode or model is set between two
/// turns, and when it is opened again or wakes.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<Mutex<Cell>>);

#[derive(Debug, Default)]
struct Cell {
    newest: Arc<Policy>,
    /// What binds some sessions alone; as many as there are sessions with such layers.
    further: Vec<Further>,
}

#[derive(Debug)]
struct Further {
    tag: Weak<()>,
    layers: Vec<Layer>,
    /// The newest policy with these layers.
    together: Arc<Policy>,
}

impl Policies {
    /// Begins with a policy.
    pub fn new(policy: Policy) -> Self {
        let cell = Cell { newest: Arc::new(policy), further: Vec::new() };
        Self(Arc::new(Mutex::new(cell)))
    }

    /// Returns the newest policy.
    pub fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.cell().newest)
    }

    /// Puts another policy in its place, for turns and sessions that begin from now on.
    pub fn replace(&self, policy: Policy) {
        let mut cell = self.cell();
        cell.newest = Arc::new(policy);
        let Cell { newest, further } = &mut *cell;
        for further in further {
            further.together = Arc::new(tightened(newest, &further.layers));
        }
    }

    /// Keeps layers that bind sessions with this tag, beyond the policy of all.
    pub fn bind(&self, layers: Vec<Layer>) -> PolicyTag {
        let tag = PolicyTag::fresh();
        let mut cell = self.cell();
        cell.further.retain(|further| further.tag.strong_count() > 0);
        let together = Arc::new(tightened(&cell.newest, &layers));
        cell.further.push(Further { tag: tag.downgrade(), layers, together });
        tag
    }

    /// Returns the newest policy of sessions with a tag. The same as long as nothing was replaced.
    pub(crate) fn above(&self, tag: Option<&PolicyTag>) -> Arc<Policy> {
        let cell = self.cell();
        let Some(tag) = tag else { return Arc::clone(&cell.newest) };
        let tag = tag.downgrade();
        let further = cell.further.iter().find(|further| Weak::ptr_eq(&further.tag, &tag));
        Arc::clone(further.map_or(&cell.newest, |further| &further.together))
    }

    fn cell(&self) -> MutexGuard<'_, Cell> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tightened(policy: &Policy, layers: &[Layer]) -> Policy {
    layers.iter().fold(policy.clone(), |policy, layer| policy.tighten(layer.clone()))
}

#[cfg(test)]
mod tests {
    use policy::LayerName;
    use protocol::Mode;

    use super::*;

    fn locked() -> Layer {
        Layer { disable_full_auto: true, ..Layer::new(LayerName::Pushed) }
    }

    #[test]
    fn layers_bind_the_sessions_of_their_tag_alone_also_after_a_change() {
        let policies = Policies::new(Policy::default());
        let tag = policies.bind(vec![locked()]);
        for _ in 0..2 {
            assert!(policies.above(None).check_mode(Mode::FullAuto).is_ok());
            assert!(policies.above(Some(&tag)).check_mode(Mode::FullAuto).is_err());
            policies.replace(Policy::default());
        }
        let (one, two) = (policies.above(Some(&tag)), policies.above(Some(&tag.clone())));
        assert!(Arc::ptr_eq(&one, &two));
    }

    #[test]
    fn layers_go_with_their_last_tag() {
        let policies = Policies::new(Policy::default());
        drop(policies.bind(vec![locked()]));
        let _kept = policies.bind(vec![locked()]);
        assert_eq!(policies.cell().further.len(), 1);
    }
}
