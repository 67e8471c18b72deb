//! Following each path through the change sets, from the newest to the oldest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use driver_api::Restore;

use crate::capture::look;
use crate::depot::Depot;
use crate::error::Result;
use crate::library::{Difference, Library, State};
use crate::node::Key;
use crate::rules;

const BETWEEN: &str = "changed between two turns; brought back to that and no further";
const UNSEEN: &str = "the turn was cut, and what it left was never looked at";
const NEWLY_IGNORED: &str = "came up in a turn that also changed what is ignored";

/// One path through the sets.
#[derive(Debug)]
pub(super) struct Chain {
    /// What the newest set that changed the path left.
    pub(super) left: State,
    /// How far back the path goes without meeting somebody else's change.
    pub(super) target: State,
    /// Before the oldest set that changed it.
    pub(super) oldest: State,
    /// Why it goes back no further than to its target.
    pub(super) stop: Option<&'static str>,
    /// Whether it does not go back at all unless it is told to.
    pub(super) is_held: bool,
}

/// What the sets say about all paths that they changed.
#[derive(Debug, Default)]
pub(super) struct Chains {
    pub(super) chains: BTreeMap<Key, Chain>,
    /// Paths that nothing is done about, with the reason.
    pub(super) kept: Vec<(Key, String)>,
}

/// Follows every path.
pub(super) fn follow(
    depot: &Depot,
    library: &Library<'_>,
    restore: &Restore,
    roots: &[Key],
) -> Result<Chains> {
    let mut all = Chains::default();
    let mut newer = None;
    for set in &restore.sets {
        let before = library.tree(&set.before)?;
        let after = match (&set.after, newer) {
            (Some(after), _) => library.tree(after)?,
            // What came next is the closest that anybody saw.
            (None, Some(newer)) => newer,
            (None, None) => look(depot, library, roots.to_vec(), &before)?,
        };
        let differences = library.compare(&before, &after)?;
        let has_new_rules = differences.iter().any(|one| one.key.name() == rules::NAME.as_bytes());
        for one in differences {
            if has_new_rules && one.is_ignored_newcomer() {
                all.kept.push((one.key, NEWLY_IGNORED.to_owned()));
            } else if one.is_change() {
                all.link(one, set.after.is_some());
            }
        }
        newer = Some(before);
    }
    Ok(all)
}

impl Chains {
    fn link(&mut self, one: Difference, is_seen: bool) {
        match self.chains.entry(one.key) {
            Entry::Vacant(place) => {
                place.insert(Chain {
                    left: one.after,
                    target: one.before.clone(),
                    oldest: one.before,
                    stop: (!is_seen).then_some(UNSEEN),
                    is_held: !is_seen,
                });
            }
            Entry::Occupied(mut place) => {
                let chain = place.get_mut();
                if chain.stop.is_none() && !is_seen {
                    chain.stop = Some(UNSEEN);
                } else if chain.stop.is_none() && one.after != chain.target {
                    chain.stop = Some(BETWEEN);
                } else if chain.stop.is_none() {
                    chain.target = one.before.clone();
                }
                chain.oldest = one.before;
            }
        }
    }
}
