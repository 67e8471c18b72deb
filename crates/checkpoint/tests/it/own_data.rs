//! The program's own data within the workspace: a turn that is taken back leaves it alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use checkpoint::{Keeper, Options};
use driver_api::{ChangeSet, Checkpoints};
use testkit::checkpoint_suite::{Scene, Snapshot, snapshot};

const TOLD: &str = "this program's own data, which is never touched: ";
const NEVER: &str = "this program's own data is never touched";

/// A keeper as the program makes one: its home, with the checkpoints in it, is left out, and so is
/// a store.
fn keeper_of(home: &Path, store: &Path) -> Keeper {
    let left_out = vec![home.to_owned(), store.to_owned()];
    Keeper::open(Options { left_out, ..Options::new(home.join("checkpoints")) })
}

/// A folder with a home and a store in it, and a file.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("root");
    let home = root.join(".state/home");
    fs::create_dir_all(home.join("blobs")).unwrap();
    for name in ["home/rules", "home/blobs/old", "x.db", "x.db-wal"] {
        fs::write(root.join(".state").join(name), "old").unwrap();
    }
    fs::write(root.join("edited"), "old").unwrap();
    (folder, root)
}

fn scene_in<'a>(keeper: &'a Keeper, name: &str, root: &Path) -> Scene<'a> {
    let mut scene = Scene::new(keeper, name);
    scene.root = root.to_owned();
    scene
}

/// What the program does in its own places while a turn runs, and what the turn does.
fn work(scene: &Scene<'_>) {
    for name in ["home/rules", "home/blobs/new", "x.db", "x.db-cut-1"] {
        scene.write(&format!(".state/{name}"), "turn");
    }
    scene.remove(".state/x.db-wal");
    scene.remove(".state/home/blobs/old");
    scene.write("edited", "turn");
    scene.write("made/file", "turn");
}

/// All of it but what the turn itself changed.
fn own(root: &Path) -> Snapshot {
    let mut all = snapshot(&root.join(".state"));
    // The keeper counts and locks while it works.
    all.retain(|path, _| !path.starts_with("home/checkpoints"));
    all
}

#[tokio::test]
async fn own_data_within_the_workspace_is_never_touched() {
    let (_folder, root) = place();
    let (home, store) = (root.join(".state/home"), root.join(".state/x.db"));
    let keeper = keeper_of(&home, &store);
    let scene = scene_in(&keeper, "ses_within", &root);
    let roots = [root.clone()];
    let told = keeper.capture(&scene.session, &roots).await.unwrap().left_out;
    let [home, store] = [home, store].map(|path| path.display().to_string());
    assert_eq!(told, [format!("{TOLD}{home}, {store}, {store}-wal")]);
    let set = scene.turn(work).await;
    let (from, to) = (&set.before, set.after.as_ref().unwrap());
    let changes = keeper.changes(&scene.session, from, to).await.unwrap();
    let names: Vec<_> = scene.brief(&changes).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["edited", "made", "made/file"]);
    let mut order = scene.order(&[set]);
    for (is_forced, is_cut) in [(false, false), (true, false), (true, true)] {
        scene.write("edited", "turn");
        scene.write("made/file", "turn");
        order.is_forced = is_forced;
        if is_cut {
            order.sets[0].after = None;
        }
        let ours = own(&root);
        let restored = keeper.restore(order.clone()).await.unwrap();
        assert_eq!(restored.kept, [], "{order:?}");
        assert_eq!((scene.text("edited"), scene.text("made/file")), (Some("old".into()), None));
        assert_eq!(own(&root), ours);
    }
}

#[tokio::test]
async fn trees_that_have_own_data_do_not_bring_it_back() {
    let (_folder, root) = place();
    let aside = tempfile::tempdir().unwrap();
    let options = Options::new(aside.path().join("kept"));
    // As it was captured before anybody left it out.
    let careless = Keeper::open(options.clone());
    let set = scene_in(&careless, "ses_old", &root).turn(work).await;
    let left_out = vec![root.join(".state/home"), root.join(".state/x.db")];
    let keeper = Keeper::open(Options { left_out, ..options });
    let scene = scene_in(&keeper, "ses_old", &root);
    let (from, to) = (&set.before, set.after.as_ref().unwrap());
    let changes = keeper.changes(&scene.session, from, to).await.unwrap();
    assert_eq!(changes.len(), 3, "{changes:?}");
    let ours = own(&root);
    for is_forced in [false, true] {
        let mut order = scene.order(std::slice::from_ref(&set));
        order.is_forced = is_forced;
        let kept = keeper.restore(order).await.unwrap().kept;
        assert_eq!(scene.names(&kept), [".state/home", ".state/x.db"]);
        assert!(kept.iter().all(|kept| kept.why == NEVER), "{kept:?}");
        assert_eq!((scene.text("edited"), scene.text("made")), (Some("old".into()), None));
        assert_eq!(own(&root), ours);
    }
}

#[tokio::test]
async fn a_workspace_within_the_home_is_one_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    let keeper = keeper_of(&home, &home.join("narthex.db"));
    let root = home.join("work/one");
    fs::create_dir_all(&root).unwrap();
    let scene = scene_in(&keeper, "ses_beneath", &root);
    scene.write("edited", "old");
    let old = snapshot(&root);
    let set = scene
        .turn(|scene| {
            scene.write("edited", "turn");
            scene.write("made", "turn");
        })
        .await;
    assert_eq!(scene.take_back(&[set]).await.kept, []);
    assert_eq!(snapshot(&root), old);
}

#[tokio::test]
async fn the_home_itself_is_no_workspace_and_the_checkpoints_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    let keeper = keeper_of(&home, &home.join("narthex.db"));
    let scene = scene_in(&keeper, "ses_home", &home);
    let error =
        keeper.capture(&scene.session, std::slice::from_ref(&home)).await.unwrap_err().to_string();
    assert!(error.contains("is the folder of this program's own data"), "{error}");
    for root in ["checkpoints", "checkpoints/objects"] {
        let root = home.join(root);
        let error = keeper.capture(&scene.session, &[root]).await.unwrap_err().to_string();
        assert!(error.contains("is the folder of this program's own data"), "{error}");
    }
    // Beside another root it is named.
    let other = Scene::new(&keeper, "ses_other");
    let roots = [home.clone(), other.root.clone()];
    let told = keeper.capture(&scene.session, &roots).await.unwrap().left_out;
    assert_eq!(told, [format!("{TOLD}{}", home.display())]);
}

/// Without being told, the folder of the checkpoints is left out, along whatever links it is named.
#[tokio::test]
async fn the_checkpoints_are_left_out_by_themselves() {
    let (_folder, root) = place();
    symlink(".state/home", root.join("link")).unwrap();
    let keeper = Keeper::open(Options::new(root.join("link/kept")));
    let scene = scene_in(&keeper, "ses_alone", &root);
    let set: ChangeSet = scene.turn(|scene| scene.write("edited", "turn")).await;
    assert_eq!(scene.take_back(std::slice::from_ref(&set)).await.kept, []);
    assert_eq!(scene.text("edited").unwrap(), "old");
    // All is there still.
    scene.write("edited", "turn");
    assert_eq!(scene.take_back(&[set]).await.changed.len(), 1);
}
