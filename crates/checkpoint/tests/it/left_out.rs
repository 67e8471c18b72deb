//! What rules leave out, and that each is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use checkpoint::Limits;
use driver_api::{ChangeKind, ChangeSet, Checkpoints};
use testkit::checkpoint_suite::{Scene, snapshot};

use crate::keeper;

async fn left_out(scene: &Scene<'_>, keeper: &dyn Checkpoints) -> Vec<String> {
    let captured = keeper.capture(&scene.session, std::slice::from_ref(&scene.root)).await.unwrap();
    let root = format!("{}/", scene.root.display());
    captured.left_out.iter().map(|said| said.replace(&root, "")).collect()
}

#[tokio::test]
async fn everything_left_out_is_told() {
    let (keeper, _home) = keeper(Limits { file_bytes_max: 1000, ..Limits::default() });
    let scene = Scene::new(&keeper, "ses_told");
    scene.write(".git/HEAD", "ref: refs/heads/main");
    scene.write(".git/info/exclude", "private/\n");
    scene.write("private/file", "text");
    scene.write(".gitignore", "target/\n*.o\n");
    scene.write("inner/.gitignore", "!kept.o\n");
    scene.write("inner/kept.o", &"o".repeat(900));
    scene.write("target/debug/file", "built");
    scene.write("large", &"l".repeat(1001));
    scene.write("fits", &"l".repeat(1000));
    let _socket = UnixListener::bind(scene.path("socket")).unwrap();
    for number in 0..7 {
        scene.write(&format!("{number}/target/file"), "built");
    }
    let expected = [
        "git's own folder, which git itself can bring back: .git",
        "ignored by git's rules: 0/target, 1/target, 2/target, 3/target, 4/target and 4 more",
        "larger than 1000 B: large",
        "no file, folder or link: socket",
    ];
    assert_eq!(left_out(&scene, &keeper).await, expected);
}

#[tokio::test]
async fn rules_of_the_folders_above_hold() {
    let (keeper, _home) = keeper(Limits { ignored_file_bytes_max: 0, ..Limits::default() });
    let mut scene = Scene::new(&keeper, "ses_above");
    scene.write(".git/HEAD", "ref: refs/heads/main");
    scene.write(".gitignore", "*.log\n/app/only-here\n");
    for name in ["app/a.log", "app/only-here", "app/inner/only-here"] {
        scene.write(name, "text");
    }
    scene.root = scene.path("app");
    let said = left_out(&scene, &keeper).await;
    assert_eq!(said, ["ignored by git's rules: a.log, only-here"]);
}

#[tokio::test]
async fn small_ignored_files_come_back_and_ignored_folders_do_not() {
    let (keeper, _home) = keeper(Limits { ignored_file_bytes_max: 100, ..Limits::default() });
    let scene = Scene::new(&keeper, "ses_ignored");
    scene.write(".gitignore", ".env\n*.log\nbuild/\n");
    scene.write(".env", "SECRET=1");
    scene.write("long.log", &"l".repeat(101));
    scene.write("build/file", "built");
    let set = scene
        .turn(|scene| {
            scene.remove(".env");
            scene.remove("long.log");
            fs::remove_dir_all(scene.path("build")).unwrap();
            scene.write("other/build/file", "built");
        })
        .await;
    let (before, after) = (set.before.clone(), set.after.clone().unwrap());
    let changes = keeper.changes(&scene.session, &before, &after).await.unwrap();
    let told: Vec<_> = scene.brief(&changes).into_iter().map(|(path, _)| path).collect();
    assert_eq!(told, [".env", "build", "long.log", "other"]);
    let restorable: Vec<bool> = changes.iter().map(|change| change.is_restorable).collect();
    assert_eq!(restorable, [true, false, false, true]);
    let restored = scene.take_back(&[set]).await;
    assert_eq!(scene.brief(&restored.changed), [(".env".to_owned(), ChangeKind::Removed)]);
    assert_eq!(scene.names(&restored.kept), ["build", "long.log", "other"]);
    assert_eq!(scene.text(".env").unwrap(), "SECRET=1");
}

#[tokio::test]
async fn what_a_turn_began_to_ignore_is_still_taken_back() {
    let (keeper, _home) = keeper(Limits { ignored_file_bytes_max: 0, ..Limits::default() });
    let scene = Scene::new(&keeper, "ses_rules");
    for name in ["data/edited", "data/gone", "data/same", "single"] {
        scene.write(name, "old");
    }
    let old = snapshot(&scene.root);
    let first = scene
        .turn(|scene| {
            scene.write(".gitignore", "data/\nsingle\nhidden\n");
            scene.write("data/edited", "turn");
            scene.remove("data/gone");
            scene.write("single", "turn");
            scene.write("data/hidden", "turn");
            scene.write("hidden", "turn");
        })
        .await;
    // The paths stay in sight for the turns that follow.
    let second = scene.turn(|scene| scene.write("data/same", "second turn")).await;
    let restored = scene.take_back(&[second, first]).await;
    assert_eq!(scene.names(&restored.kept), ["data/hidden", "hidden"]);
    for name in ["data/hidden", "hidden"] {
        scene.remove(name);
    }
    assert_eq!(snapshot(&scene.root), old);
}

#[tokio::test]
async fn what_a_turn_stopped_ignoring_is_never_removed() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_unignored");
    scene.write(".gitignore", "build/\n");
    scene.write("build/precious", "was there before");
    let set = scene.turn(|scene| scene.write(".gitignore", "")).await;
    let mut order = scene.order(&[set]);
    for is_forced in [false, true] {
        order.is_forced = is_forced;
        let restored = keeper.restore(order.clone()).await.unwrap();
        assert_eq!(scene.names(&restored.kept), ["build"]);
        assert_eq!(scene.text("build/precious").unwrap(), "was there before");
    }
    assert_eq!(scene.text(".gitignore").unwrap(), "build/\n");
}

#[tokio::test]
async fn a_change_to_a_large_file_is_noticed_and_named() {
    let (keeper, _home) = keeper(Limits { file_bytes_max: 10, ..Limits::default() });
    let scene = Scene::new(&keeper, "ses_large");
    scene.write("grows", "small");
    scene.write("large", "more than ten bytes");
    scene.write("stays", "more than ten bytes");
    let set = scene
        .turn(|scene| {
            scene.write("grows", "not small any more");
            scene.write("large", "and still more than that");
            scene.write("made", "more than ten bytes");
        })
        .await;
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    let expected =
        [("grows".to_owned(), ChangeKind::Modified), ("made".to_owned(), ChangeKind::Added)];
    assert_eq!(scene.brief(&restored.changed), expected);
    assert_eq!(scene.names(&restored.kept), ["large"]);
    assert_eq!(restored.kept[0].why, "it was too large to keep");
    assert_eq!(scene.text("grows").unwrap(), "small");
    assert_eq!(scene.text("made"), None);
    let changes = keeper.changes(&scene.session, &set.before, &set.after.unwrap()).await.unwrap();
    let restorable: Vec<bool> = changes.iter().map(|change| change.is_restorable).collect();
    assert_eq!(restorable, [true, false, true]);
}

#[tokio::test]
async fn a_workspace_over_the_limits_is_refused_with_the_reason() {
    let (keeper, _home) = keeper(Limits { entries_max: 5, ..Limits::default() });
    let scene = Scene::new(&keeper, "ses_many");
    for number in 0..4 {
        scene.write(&number.to_string(), "");
    }
    let roots = [scene.root.clone()];
    assert_eq!(keeper.capture(&scene.session, &roots).await.unwrap().files, 5);
    scene.write("4", "");
    let error = keeper.capture(&scene.session, &roots).await.unwrap_err().to_string();
    assert_eq!(error, "the workspace has more than 5 files and folders");
}

#[tokio::test]
async fn gits_own_folder_is_left_alone() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_git");
    scene.write(".git/HEAD", "ref: refs/heads/main");
    scene.write("inner/.git/HEAD", "ref: refs/heads/main");
    scene.write("inner/file", "old");
    let set = scene
        .turn(|scene| {
            scene.write(".git/HEAD", "ref: refs/heads/other");
            fs::remove_dir_all(scene.path("inner")).unwrap();
            fs::set_permissions(&scene.root, fs::Permissions::from_mode(0o700)).unwrap();
        })
        .await;
    let restored = scene.take_back(&[ChangeSet { ..set }]).await;
    assert_eq!(scene.names(&restored.kept), ["inner/.git"]);
    assert_eq!(scene.text("inner/file").unwrap(), "old");
    assert_eq!(scene.text(".git/HEAD").unwrap(), "ref: refs/heads/other");
}
