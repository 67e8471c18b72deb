//! Taking change sets back.

mod apply;
mod aside;
mod chains;
mod plan;

use driver_api::{Kept, PathChange, Restore, Restored};

use crate::depot::Depot;
use crate::error::Result;
use crate::ground::Ground;
use crate::keeper::kind;
use crate::library::{Library, State};
use crate::node::{Key, Node};
use crate::objects::Shelf;
use crate::tree;
use plan::{Plan, Step};

/// Takes change sets back, or looks what that would do.
///
/// # Errors
/// Before anything is changed: a tree that is gone, contents that are missing or damaged.
pub(crate) fn restore(depot: &Depot, restore: &Restore) -> Result<Restored> {
    let _lock = depot.enter()?;
    let library = Library::new(&depot.objects);
    let roots = tree::roots(&restore.roots);
    let chains = chains::follow(depot, &library, restore, &roots)?;
    let fence = depot.fence(&roots);
    let mut ground = Ground::open(roots, fence, depot.limits);
    if !restore.is_dry {
        aside::clear(&ground, chains.chains.keys());
    }
    let oldest = restore.sets.last().map(|set| library.tree(&set.before)).transpose()?;
    let mut plan = Plan::default();
    plan.judge(&ground, chains, restore.is_forced);
    plan.settle(&ground, &library, oldest.as_ref().filter(|_| restore.is_forced))?;
    verify(depot, &plan)?;
    let Plan { steps, mut kept } = plan;
    let mut changed: Vec<(Key, PathChange)> = steps.values().map(told).collect();
    if !restore.is_dry {
        let failed = apply::apply(&mut ground, &depot.objects, &steps);
        changed.retain(|(key, _)| !failed.iter().any(|(other, _)| other == key));
        kept.extend(failed);
    }
    kept.sort();
    Ok(Restored {
        changed: changed.into_iter().map(|(_, change)| change).collect(),
        kept: kept.into_iter().map(|(key, why)| Kept { path: key.shown(), why }).collect(),
    })
}

fn told(step: &Step) -> (Key, PathChange) {
    let state = |node: &Option<Node>| node.clone().map_or(State::Absent, State::There);
    let change = PathChange {
        path: step.key.shown(),
        // What became of the path since its older state, as everywhere.
        kind: kind(&state(&step.target), &state(&step.now)),
        is_restorable: true,
    };
    (step.key.clone(), change)
}

/// Reads everything that will be needed, so that nothing is begun that cannot be finished.
fn verify(depot: &Depot, plan: &Plan) -> Result<()> {
    for hash in plan.steps.values().filter_map(Step::contents) {
        depot.objects.read(Shelf::Contents, hash)?;
    }
    Ok(())
}
