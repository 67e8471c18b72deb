//! The contract of `Checkpoints`, as a list that every driver passes.
//!
//! Workspaces are folders of this machine: what is brought back is compared byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are the bodies of tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use driver_api::{
    ChangeKind, ChangeSet, CheckpointError, Checkpoints, Kept, PathChange, Restore, Restored,
};
use protocol::{SessionId, TreeId};

/// Runs the whole list on one driver. Every case has a session and a workspace of its own.
pub async fn run(checkpoints: &dyn Checkpoints) {
    equal_trees_have_equal_ids(checkpoints).await;
    changes_are_listed_in_the_order_of_paths(checkpoints).await;
    everything_that_a_turn_did_is_taken_back(checkpoints).await;
    what_replaced_something_else_is_taken_back(checkpoints).await;
    paths_that_no_turn_changed_are_left_alone(checkpoints).await;
    what_a_person_changed_since_stays_and_is_named(checkpoints).await;
    what_a_person_put_into_a_new_folder_stays(checkpoints).await;
    five_turns_are_taken_back_at_once(checkpoints).await;
    a_change_between_two_turns_ends_the_way_back(checkpoints).await;
    a_cut_turn_is_only_taken_back_by_force(checkpoints).await;
    force_overwrites_what_came_since(checkpoints).await;
    a_look_changes_nothing(checkpoints).await;
    a_tree_that_is_not_kept_is_said_to_be_gone(checkpoints).await;
    a_forgotten_session_has_no_trees(checkpoints).await;
    a_copy_of_a_session_keeps_its_trees(checkpoints).await;
}

/// What stands at a path, for comparing: its kind, mode, and contents or target.
pub type Snapshot = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// Reads a tree whole, without following links.
pub fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    read_into(&mut found, root, root);
    found
}

fn read_into(found: &mut Snapshot, root: &Path, path: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.mode() & 0o7777;
    let below = path.strip_prefix(root).unwrap().to_owned();
    if metadata.is_symlink() {
        let target = fs::read_link(path).unwrap();
        found.insert(below, ('l', 0, target.as_os_str().as_bytes().to_vec()));
    } else if metadata.is_dir() {
        found.insert(below, ('d', mode, Vec::new()));
        for entry in fs::read_dir(path).unwrap() {
            read_into(found, root, &entry.unwrap().path());
        }
    } else if metadata.is_file() {
        found.insert(below, ('f', mode, fs::read(path).unwrap()));
    } else {
        found.insert(below, ('s', mode, Vec::new()));
    }
}

/// A session with a workspace of its own.
#[derive(Debug)]
pub struct Scene<'a> {
    checkpoints: &'a dyn Checkpoints,
    /// The session.
    pub session: SessionId,
    /// The root of the workspace, with all links resolved.
    pub root: PathBuf,
    _folder: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    /// Makes an empty one.
    pub fn new(checkpoints: &'a dyn Checkpoints, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        Self { checkpoints, session: SessionId::new(name), root, _folder: folder }
    }

    /// Returns a path beneath the root.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Writes a file and the folders above it.
    pub fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Removes a file.
    pub fn remove(&self, below: &str) {
        fs::remove_file(self.path(below)).unwrap();
    }

    /// Sets the permissions of a path.
    pub fn set_mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Reads a file; none where there is none.
    pub fn text(&self, below: &str) -> Option<String> {
        fs::read_to_string(self.path(below)).ok()
    }

    /// Captures the workspace.
    pub async fn capture(&self) -> TreeId {
        let roots = std::slice::from_ref(&self.root);
        self.checkpoints.capture(&self.session, roots).await.unwrap().tree
    }

    /// Captures around a turn.
    pub async fn turn(&self, work: impl FnOnce(&Self)) -> ChangeSet {
        let before = self.capture().await;
        work(self);
        ChangeSet { before, after: Some(self.capture().await) }
    }

    /// Returns the order to take sets back, newest first.
    pub fn order(&self, sets: &[ChangeSet]) -> Restore {
        Restore {
            session: self.session.clone(),
            roots: vec![self.root.clone()],
            sets: sets.to_vec(),
            is_forced: false,
            is_dry: false,
        }
    }

    /// Takes sets back, newest first.
    pub async fn take_back(&self, sets: &[ChangeSet]) -> Restored {
        self.checkpoints.restore(self.order(sets)).await.unwrap()
    }

    /// Returns changes with paths beneath the root.
    pub fn brief(&self, changes: &[PathChange]) -> Vec<(String, ChangeKind)> {
        changes.iter().map(|change| (self.below(&change.path), change.kind)).collect()
    }

    /// Returns kept paths beneath the root.
    pub fn names(&self, kept: &[Kept]) -> Vec<String> {
        assert!(kept.iter().all(|kept| !kept.why.is_empty()), "{kept:?}");
        kept.iter().map(|kept| self.below(&kept.path)).collect()
    }

    fn below(&self, path: &str) -> String {
        let root = format!("{}/", self.root.display());
        path.strip_prefix(&root).unwrap_or(path).to_owned()
    }
}

async fn equal_trees_have_equal_ids(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_equal");
    scene.write("a/b", "text");
    let first = scene.capture().await;
    assert_eq!(scene.capture().await, first);
    scene.write("a/b", "other");
    let second = scene.capture().await;
    assert_ne!(second, first);
    scene.set_mode("a/b", 0o600);
    assert_ne!(scene.capture().await, second);
    scene.set_mode("a/b", 0o644);
    scene.write("a/b", "text");
    assert_eq!(scene.capture().await, first);
    let roots = [scene.root.clone()];
    let captured = checkpoints.capture(&scene.session, &roots).await.unwrap();
    assert_eq!((captured.tree, captured.files, captured.left_out), (first, 3, Vec::new()));
}

async fn changes_are_listed_in_the_order_of_paths(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_changes");
    for name in ["same", "edited", "gone", "mode", "folder/gone"] {
        scene.write(name, name);
    }
    symlink("same", scene.path("link")).unwrap();
    let set = scene
        .turn(|scene| {
            scene.write("edited", "more");
            scene.remove("gone");
            scene.set_mode("mode", 0o755);
            fs::remove_dir_all(scene.path("folder")).unwrap();
            scene.write("new/file", "new");
            fs::remove_file(scene.path("link")).unwrap();
            symlink("elsewhere", scene.path("link")).unwrap();
        })
        .await;
    let (before, after) = (set.before, set.after.unwrap());
    let changes = checkpoints.changes(&scene.session, &before, &after).await.unwrap();
    assert!(changes.iter().all(|change| change.is_restorable), "{changes:?}");
    let expected = [
        ("edited", ChangeKind::Modified),
        ("folder", ChangeKind::Removed),
        ("folder/gone", ChangeKind::Removed),
        ("gone", ChangeKind::Removed),
        ("link", ChangeKind::Modified),
        ("mode", ChangeKind::Modified),
        ("new", ChangeKind::Added),
        ("new/file", ChangeKind::Added),
    ];
    let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(scene.brief(&changes), expected);
    assert_eq!(checkpoints.changes(&scene.session, &after, &after).await.unwrap(), []);
    let restored = scene.take_back(&[ChangeSet { before, after: Some(after) }]).await;
    assert_eq!(scene.brief(&restored.changed), expected);
}

async fn everything_that_a_turn_did_is_taken_back(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_all");
    for name in ["edited", "gone", "run", "deep/er/file", "moved/a", "moved/b"] {
        scene.write(name, name);
    }
    scene.write(".hidden/also", "hidden");
    scene.set_mode("run", 0o751);
    fs::create_dir_all(scene.path("empty/inner")).unwrap();
    scene.set_mode("empty/inner", 0o711);
    symlink("../nowhere", scene.path("deep/link")).unwrap();
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            scene.write("edited", "");
            scene.remove("gone");
            scene.set_mode("run", 0o600);
            fs::remove_dir_all(scene.path("deep")).unwrap();
            fs::rename(scene.path("moved"), scene.path("away")).unwrap();
            fs::remove_dir_all(scene.path("empty")).unwrap();
            fs::remove_dir_all(scene.path(".hidden")).unwrap();
            scene.write("fresh/one/two", "new");
            symlink("edited", scene.path("fresh/link")).unwrap();
        })
        .await;
    let restored = scene.take_back(&[set]).await;
    assert_eq!((snapshot(&scene.root), restored.kept), (old, Vec::new()));
}

async fn what_replaced_something_else_is_taken_back(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_kinds");
    for name in ["file-folder", "file-link", "folder-file/a", "folder-link/b/c", "target"] {
        scene.write(name, name);
    }
    symlink("target", scene.path("link-file")).unwrap();
    symlink("target", scene.path("link-folder")).unwrap();
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            for name in ["file-folder", "file-link", "link-file", "link-folder"] {
                scene.remove(name);
            }
            for name in ["folder-file", "folder-link"] {
                fs::remove_dir_all(scene.path(name)).unwrap();
            }
            scene.write("file-folder/x/y", "x");
            symlink("target", scene.path("file-link")).unwrap();
            scene.write("folder-file", "now a file");
            symlink("/", scene.path("folder-link")).unwrap();
            scene.write("link-file", "now a file");
            scene.write("link-folder/z", "now a folder");
        })
        .await;
    let restored = scene.take_back(&[set]).await;
    assert_eq!((snapshot(&scene.root), restored.kept), (old, Vec::new()));
}

async fn paths_that_no_turn_changed_are_left_alone(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_alone");
    scene.write("turns", "old");
    scene.write("mine", "old");
    let set = scene.turn(|scene| scene.write("turns", "new")).await;
    scene.write("mine", "edited by a person");
    scene.write("also-mine", "new");
    let untouched = fs::metadata(scene.path("mine")).unwrap();
    let restored = scene.take_back(&[set]).await;
    assert_eq!(scene.brief(&restored.changed), [("turns".to_owned(), ChangeKind::Modified)]);
    assert_eq!(restored.kept, []);
    assert_eq!(scene.text("turns").unwrap(), "old");
    assert_eq!(scene.text("mine").unwrap(), "edited by a person");
    assert_eq!(scene.text("also-mine").unwrap(), "new");
    let after = fs::metadata(scene.path("mine")).unwrap();
    assert_eq!((after.ino(), after.ctime_nsec()), (untouched.ino(), untouched.ctime_nsec()));
}

async fn what_a_person_changed_since_stays_and_is_named(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_person");
    for name in ["edited", "removed", "mode", "clean"] {
        scene.write(name, "old");
    }
    let set = scene
        .turn(|scene| {
            for name in ["edited", "mode", "clean"] {
                scene.write(name, "turn");
            }
            scene.remove("removed");
            scene.write("made", "turn");
        })
        .await;
    scene.write("edited", "person");
    scene.write("removed", "person");
    scene.write("made", "person");
    scene.set_mode("mode", 0o600);
    let restored = scene.take_back(&[set]).await;
    assert_eq!(scene.brief(&restored.changed), [("clean".to_owned(), ChangeKind::Modified)]);
    assert_eq!(scene.names(&restored.kept), ["edited", "made", "mode", "removed"]);
    for name in ["edited", "removed", "made"] {
        assert_eq!(scene.text(name).unwrap(), "person", "{name}");
    }
    assert_eq!(scene.text("mode").unwrap(), "turn");
    assert_eq!(scene.text("clean").unwrap(), "old");
}

async fn what_a_person_put_into_a_new_folder_stays(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_folder");
    let set = scene.turn(|scene| scene.write("new/inner/file", "turn")).await;
    scene.write("new/mine", "person");
    let restored = scene.take_back(&[set]).await;
    assert_eq!(scene.names(&restored.kept), ["new"]);
    assert!(restored.kept[0].why.contains("mine"), "{restored:?}");
    assert_eq!(scene.text("new/mine").unwrap(), "person");
    assert!(!scene.path("new/inner").exists());
}

async fn five_turns_are_taken_back_at_once(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_five");
    scene.write("grows", "0");
    scene.write("toggles", "there");
    let old = snapshot(&scene.root);
    let mut sets = Vec::new();
    for number in 1..=5 {
        let set = scene
            .turn(|scene| {
                scene.write("grows", &number.to_string());
                scene.write(&format!("made/{number}"), "new");
                if number % 2 == 1 { scene.remove("toggles") } else { scene.write("toggles", "") }
            })
            .await;
        sets.insert(0, set);
    }
    let middle = scene.take_back(&sets[..2]).await;
    assert_eq!(middle.kept, []);
    assert_eq!(scene.text("grows").unwrap(), "3");
    assert!(scene.path("made/3").exists() && !scene.path("made/4").exists());
    let rest = scene.take_back(&sets[2..]).await;
    assert_eq!((snapshot(&scene.root), rest.kept), (old, Vec::new()));
}

async fn a_change_between_two_turns_ends_the_way_back(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_between");
    scene.write("shared", "old");
    scene.write("other", "old");
    let first = scene
        .turn(|scene| {
            scene.write("shared", "first turn");
            scene.write("other", "first turn");
        })
        .await;
    scene.write("shared", "person");
    let second = scene.turn(|scene| scene.write("shared", "second turn")).await;
    let sets = [second, first];
    let restored = scene.take_back(&sets).await;
    assert_eq!(scene.text("shared").unwrap(), "person");
    assert_eq!(scene.text("other").unwrap(), "old");
    assert_eq!(scene.names(&restored.kept), ["shared"]);
    let mut order = scene.order(&sets);
    order.is_forced = true;
    checkpoints.restore(order).await.unwrap();
    assert_eq!(scene.text("shared").unwrap(), "old");
}

async fn a_cut_turn_is_only_taken_back_by_force(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_cut");
    scene.write("edited", "old");
    scene.write("same", "old");
    let old = snapshot(&scene.root);
    let before = scene.capture().await;
    scene.write("edited", "turn");
    scene.write("new", "turn");
    let sets = [ChangeSet { before, after: None }];
    let restored = scene.take_back(&sets).await;
    assert_eq!(restored.changed, []);
    assert_eq!(scene.names(&restored.kept), ["edited", "new"]);
    let mut order = scene.order(&sets);
    order.is_forced = true;
    let restored = checkpoints.restore(order).await.unwrap();
    assert_eq!((snapshot(&scene.root), restored.kept), (old, Vec::new()));
}

async fn force_overwrites_what_came_since(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_force");
    scene.write("a/edited", "old");
    scene.write("a/removed", "old");
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            scene.write("a/edited", "turn");
            scene.remove("a/removed");
            scene.write("made", "turn");
        })
        .await;
    fs::remove_dir_all(scene.path("a")).unwrap();
    scene.write("made", "person");
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    assert_eq!(restored.changed, []);
    assert_eq!(scene.names(&restored.kept), ["a/edited", "a/removed", "made"]);
    let mut order = scene.order(&[set]);
    order.is_forced = true;
    let restored = checkpoints.restore(order).await.unwrap();
    assert_eq!((snapshot(&scene.root), restored.kept), (old, Vec::new()));
}

async fn a_look_changes_nothing(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_dry");
    scene.write("edited", "old");
    scene.write("folder/file", "old");
    let set = scene
        .turn(|scene| {
            scene.write("edited", "turn");
            fs::remove_dir_all(scene.path("folder")).unwrap();
            scene.write("new/file", "turn");
            scene.write("mine", "turn");
        })
        .await;
    scene.write("mine", "person");
    scene.write("new/mine", "person");
    let now = snapshot(&scene.root);
    let mut order = scene.order(&[set]);
    order.is_dry = true;
    let told = checkpoints.restore(order.clone()).await.unwrap();
    assert_eq!(snapshot(&scene.root), now);
    assert_eq!(scene.names(&told.kept), ["mine", "new"]);
    order.is_dry = false;
    assert_eq!(checkpoints.restore(order).await.unwrap(), told);
}

async fn a_tree_that_is_not_kept_is_said_to_be_gone(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_gone");
    scene.write("file", "old");
    let known = scene.capture().await;
    scene.write("file", "new");
    for id in ["", "../x", "0", &"0".repeat(64)] {
        let unknown = TreeId::new(id);
        let changes = checkpoints.changes(&scene.session, &known, &unknown).await;
        assert!(matches!(changes, Err(CheckpointError::Gone(tree)) if tree == unknown), "{id}");
        let mut order = scene.order(&[
            ChangeSet { before: known.clone(), after: None },
            ChangeSet { before: unknown.clone(), after: Some(known.clone()) },
        ]);
        order.is_forced = true;
        let restored = checkpoints.restore(order).await;
        assert!(matches!(restored, Err(CheckpointError::Gone(tree)) if tree == unknown), "{id}");
        assert_eq!(scene.text("file").unwrap(), "new");
    }
}

async fn a_forgotten_session_has_no_trees(checkpoints: &dyn Checkpoints) {
    let scene = Scene::new(checkpoints, "ses_forgotten");
    let other = Scene::new(checkpoints, "ses_remembered");
    for scene in [&scene, &other] {
        scene.write("shared", "the same contents in both");
        scene.write("own", scene.session.as_str());
    }
    let set = scene.turn(|scene| scene.remove("shared")).await;
    let kept = other.turn(|scene| fs::remove_dir_all(&scene.root).unwrap()).await;
    checkpoints.forget(&scene.session).await.unwrap();
    checkpoints.forget(&scene.session).await.unwrap();
    let gone = checkpoints.restore(scene.order(&[set])).await;
    assert!(matches!(gone, Err(CheckpointError::Gone(_))), "{gone:?}");
    assert_eq!(scene.text("shared"), None);
    let restored = other.take_back(&[kept]).await;
    assert_eq!(restored.kept, []);
    assert_eq!(other.text("shared").unwrap(), "the same contents in both");
    assert_eq!(other.text("own").unwrap(), "ses_remembered");
}

async fn a_copy_of_a_session_keeps_its_trees(checkpoints: &dyn Checkpoints) {
    let mut scene = Scene::new(checkpoints, "ses_original");
    scene.write("file", "old");
    let set = scene.turn(|scene| scene.write("file", "new")).await;
    let copy = SessionId::new("ses_copy");
    checkpoints.adopt(&scene.session, &copy).await.unwrap();
    checkpoints.forget(&scene.session).await.unwrap();
    scene.session = copy.clone();
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    assert_eq!(restored.kept, []);
    assert_eq!(scene.text("file").unwrap(), "old");
    checkpoints.forget(&copy).await.unwrap();
    let gone = checkpoints.restore(scene.order(&[set])).await;
    assert!(matches!(gone, Err(CheckpointError::Gone(_))), "{gone:?}");
}
