//! What would be done, path by path, and what would not.

use std::collections::{BTreeMap, BTreeSet};

use super::chains::{Chain, Chains};
use crate::error::Result;
use crate::ground::Ground;
use crate::hash::Hash;
use crate::library::{Library, State};
use crate::node::{Key, Node, Stamp};
use crate::tree::Tree;

const CHANGED: &str = "changed since the turn left it";
const OUTSIDE: &str = "not in a folder of the workspace";
const OWN: &str = "this program's own data is never touched";
const UNKNOWN: &str = "it was not seen before the turn, so its older state is not kept";
const HIDDEN: &str = "it cannot be looked at";
const NO_FOLDER: &str = "the folder that it was in is gone";

/// One path that changes.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) key: Key,
    pub(super) now: Option<Node>,
    pub(super) stamp: Option<Stamp>,
    pub(super) target: Option<Node>,
}

impl Step {
    /// The contents that are needed; none where they are there already.
    pub(super) fn contents(&self) -> Option<&Hash> {
        match (&self.now, &self.target) {
            (Some(Node::File { hash: now, .. }), Some(Node::File { hash, .. })) if now == hash => {
                None
            }
            (_, Some(Node::File { hash, .. })) => Some(hash),
            (_, Some(Node::Folder { .. } | Node::Link { .. } | Node::Left(_)) | None) => None,
        }
    }

    pub(super) fn is_folder_now(&self) -> bool {
        self.now.as_ref().is_some_and(holds_names)
    }

    pub(super) fn is_folder_then(&self) -> bool {
        self.target.as_ref().is_some_and(Node::is_folder)
    }
}

fn holds_names(node: &Node) -> bool {
    match node {
        Node::Folder { .. } => true,
        Node::Left(left) => left.is_folder,
        Node::File { .. } | Node::Link { .. } => false,
    }
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: BTreeMap<Key, Step>,
    pub(super) kept: Vec<(Key, String)>,
}

impl Plan {
    /// Holds every path against what is there now.
    pub(super) fn judge(&mut self, ground: &Ground, chains: Chains, is_forced: bool) {
        self.kept.extend(chains.kept);
        // Trees of a time when it was not left out may have much of it: it is named once.
        let mut own = BTreeSet::new();
        for (key, chain) in chains.chains {
            if !ground.covers(&key) {
                self.kept.push((key, OUTSIDE.to_owned()));
                continue;
            }
            if let Some(place) = ground.own(&key) {
                own.insert(place.clone());
                continue;
            }
            match judge(ground, &key, &chain, is_forced) {
                Ok(step) => {
                    if let Some(why) = chain.stop.filter(|_| !is_forced) {
                        self.kept.push((key.clone(), why.to_owned()));
                    }
                    self.steps.extend(step.map(|step| (key, step)));
                }
                Err(why) => self.kept.push((key, why.to_owned())),
            }
        }
        self.kept.extend(own.into_iter().map(|place| (place, OWN.to_owned())));
    }

    /// Sees that what is made has a folder to be in and that what goes is empty by then. Only
    /// where `oldest` is given, the folders above are made as they were in it.
    pub(super) fn settle(
        &mut self,
        ground: &Ground,
        library: &Library<'_>,
        oldest: Option<&Tree>,
    ) -> Result<()> {
        let made: Vec<Key> = self
            .steps
            .values()
            .filter(|step| step.target.is_some())
            .map(|step| step.key.clone())
            .collect();
        for key in made {
            if !self.has_folder(ground, &key) {
                match oldest {
                    Some(tree) => self.add_folders(ground, library, tree, &key)?,
                    None => self.keep(&key, NO_FOLDER),
                }
            }
        }
        let needed: BTreeSet<Key> = self
            .steps
            .values()
            .filter(|step| step.target.is_some())
            .flat_map(|step| std::iter::successors(step.key.parent(), Key::parent))
            .collect();
        let folders: Vec<Key> = self
            .steps
            .values()
            .rev()
            .filter(|step| step.is_folder_now() && !step.is_folder_then())
            .map(|step| step.key.clone())
            .collect();
        for key in folders {
            if let Some(why) = self.what_stays_in(ground, &key, &needed) {
                self.keep(&key, &why);
            }
        }
        Ok(())
    }

    fn keep(&mut self, key: &Key, why: &str) {
        self.steps.remove(key);
        self.kept.push((key.clone(), why.to_owned()));
    }

    /// Whether the folder of a path will be there.
    fn has_folder(&self, ground: &Ground, key: &Key) -> bool {
        let Some(parent) = key.parent().filter(|_| !ground.is_root(key)) else { return true };
        match self.steps.get(&parent) {
            Some(step) => step.is_folder_then(),
            None => ground.is_folder(&parent),
        }
    }

    fn add_folders(
        &mut self,
        ground: &Ground,
        library: &Library<'_>,
        tree: &Tree,
        key: &Key,
    ) -> Result<()> {
        let mut missing = Vec::new();
        let mut at = key.clone();
        while !self.has_folder(ground, &at) {
            let Some(parent) = at.parent() else { break };
            let node = library.node(tree, &parent)?.filter(Node::is_folder);
            let is_free = ground.look(&parent).state == State::Absent;
            let Some(node) = node.filter(|_| is_free && !self.steps.contains_key(&parent)) else {
                self.keep(key, NO_FOLDER);
                return Ok(());
            };
            let target = Some(node);
            missing.push(Step { key: parent.clone(), now: None, stamp: None, target });
            at = parent;
        }
        self.steps.extend(missing.into_iter().map(|step| (step.key.clone(), step)));
        Ok(())
    }

    /// Says what is in a folder that will not go.
    fn what_stays_in(&self, ground: &Ground, key: &Key, needed: &BTreeSet<Key>) -> Option<String> {
        if needed.contains(key) {
            return Some("it holds something that stays".to_owned());
        }
        let Ok(names) = ground.names(key) else { return Some(HIDDEN.to_owned()) };
        let stays = names
            .iter()
            .map(|name| key.join(name.as_bytes()))
            .find(|child| self.steps.get(child).is_none_or(|step| step.target.is_some()))?;
        let name = Key::from_bytes(stays.name()).shown();
        Some(format!("it holds {name}, which stays"))
    }
}

/// Returns what is to be done about a path: nothing where it is as it was.
fn judge(
    ground: &Ground,
    key: &Key,
    chain: &Chain,
    is_forced: bool,
) -> std::result::Result<Option<Step>, &'static str> {
    let target = if is_forced { &chain.oldest } else { &chain.target };
    let now = ground.look(key);
    if now.state == *target {
        return Ok(None);
    }
    let is_left = now.state == chain.left;
    let (State::Absent | State::There(_)) = &now.state else {
        return Err(HIDDEN);
    };
    if !is_forced && chain.is_held {
        return Err(chain.stop.unwrap_or(CHANGED));
    }
    if !is_forced && !is_left {
        return Err(CHANGED);
    }
    let node = |state: &State| match state {
        State::There(node) => Some(node.clone()),
        State::Absent | State::Unknown => None,
    };
    match target {
        State::Unknown => return Err(UNKNOWN),
        State::There(Node::Left(left)) => return Err(left.why.told()),
        State::There(_) | State::Absent => {}
    }
    if let State::There(Node::Left(left)) = &now.state
        && left.why.is_blind()
    {
        return Err(left.why.told());
    }
    Ok(Some(Step {
        key: key.clone(),
        now: node(&now.state),
        stamp: now.stamp,
        target: node(target),
    }))
}
