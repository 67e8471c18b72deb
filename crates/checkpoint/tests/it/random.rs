//! Random work between captures: what is taken back is as it was, and nothing else is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use checkpoint::{Keeper, Limits};
use driver_api::ChangeSet;
use proptest::collection::vec;
use proptest::prelude::*;
use testkit::checkpoint_suite::{Scene, Snapshot, snapshot};

use crate::keeper;

#[derive(Clone, Debug)]
enum Work {
    Write(String, u8),
    Folder(String),
    Remove(String),
    Rename(String, String),
    Mode(String, u32),
    Link(String, String),
}

fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just("a"), Just("b"), Just("a-"), Just("Ü"), Just(".c")], 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, byte)| Work::Write(path, byte)),
        2 => path().prop_map(Work::Folder),
        3 => path().prop_map(Work::Remove),
        2 => (path(), path()).prop_map(|(from, to)| Work::Rename(from, to)),
        1 => (path(), prop_oneof![Just(0o600), Just(0o755), Just(0o444), Just(0o1777)])
            .prop_map(|(path, mode)| Work::Mode(path, mode)),
        1 => (path(), path()).prop_map(|(path, target)| Work::Link(path, target)),
    ]
}

/// Does what can be done, never through a link out of the folder.
fn perform(root: &Path, work: &[Work]) {
    for one in work {
        let _done = match one {
            Work::Write(path, byte) => {
                let path = root.join(path);
                let made = fs::create_dir_all(path.parent().unwrap());
                made.and_then(|()| fs::write(&path, vec![*byte; usize::from(*byte) * 20]))
            }
            Work::Folder(path) => fs::create_dir_all(root.join(path)),
            Work::Remove(path) => {
                let path = root.join(path);
                fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path))
            }
            Work::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
            Work::Mode(path, mode) => {
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(*mode))
            }
            Work::Link(path, target) => symlink(target, root.join(path)),
        };
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

async fn one_turn(keeper: &Keeper, start: &[Work], turn: &[Work]) {
    let scene = Scene::new(keeper, "ses_random");
    perform(&scene.root, start);
    let old = snapshot(&scene.root);
    let set = scene.turn(|scene| perform(&scene.root, turn)).await;
    let new = snapshot(&scene.root);
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    assert_eq!((snapshot(&scene.root), &restored.kept), (old.clone(), &Vec::new()));
    // What was taken back is what the trees say differs, and both are what differs.
    let named: BTreeSet<PathBuf> =
        restored.changed.iter().map(|it| it.path.clone().into()).collect();
    let differing = differing(&old, &new).into_iter().map(|below| join(&scene.root, &below));
    assert_eq!(named, differing.collect());
}

fn join(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_owned() } else { root.join(below) }
}

fn differing(old: &Snapshot, new: &Snapshot) -> BTreeSet<PathBuf> {
    let all: BTreeSet<&PathBuf> = old.keys().chain(new.keys()).collect();
    all.into_iter().filter(|path| old.get(*path) != new.get(*path)).cloned().collect()
}

/// Turns with a person's work after each.
async fn turns_and_people(keeper: &Keeper, start: &[Work], rounds: &[(Vec<Work>, Vec<Work>)]) {
    let scene = Scene::new(keeper, "ses_people");
    perform(&scene.root, start);
    let mut sets: Vec<ChangeSet> = Vec::new();
    // What the oldest turn that changed a path found there.
    let mut touched = BTreeMap::new();
    for (turn, person) in rounds {
        let before = snapshot(&scene.root);
        let set = scene.turn(|scene| perform(&scene.root, turn)).await;
        for below in differing(&before, &snapshot(&scene.root)) {
            let found = before.get(&below).cloned();
            touched.entry(below).or_insert(found);
        }
        sets.insert(0, set);
        perform(&scene.root, person);
    }
    let now = snapshot(&scene.root);
    let restored = scene.take_back(&sets).await;
    let then = snapshot(&scene.root);
    let changed: BTreeSet<PathBuf> =
        restored.changed.iter().map(|it| it.path.clone().into()).collect();
    let kept: BTreeSet<PathBuf> = restored.kept.iter().map(|it| it.path.clone().into()).collect();
    let moved: BTreeSet<_> =
        differing(&now, &then).into_iter().map(|below| join(&scene.root, &below)).collect();
    assert_eq!(moved, changed, "what is said to have changed is what changed");
    for (below, found) in &touched {
        let path = join(&scene.root, below);
        let is_old = then.get(below) == found.as_ref();
        assert!(is_old || kept.contains(&path), "{} is neither old nor named", path.display());
    }
    for below in differing(&now, &then) {
        assert!(touched.contains_key(&below), "{} was never a turn's", below.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn a_turn_is_taken_back_whole(start in vec(work(), 0..24), turn in vec(work(), 0..24)) {
        let (keeper, _home) = keeper(Limits::default());
        block_on(one_turn(&keeper, &start, &turn));
    }

    #[test]
    fn peoples_work_survives(
        start in vec(work(), 0..16),
        rounds in vec((vec(work(), 0..8), vec(work(), 0..4)), 1..4),
    ) {
        let (keeper, _home) = keeper(Limits::default());
        block_on(turns_and_people(&keeper, &start, &rounds));
    }
}
