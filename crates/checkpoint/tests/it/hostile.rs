//! Names, links and permissions that are not as one would wish.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use checkpoint::Limits;
use driver_api::{ChangeKind, Checkpoints, PathChange};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use testkit::checkpoint_suite::{Scene, snapshot};

use crate::keeper;

#[tokio::test]
async fn nothing_is_written_through_a_link_out_of_the_root() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_link");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "theirs").unwrap();
    scene.write("folder/file", "old");
    scene.write("folder/gone", "old");
    let set = scene
        .turn(|scene| {
            scene.write("folder/file", "turn");
            scene.remove("folder/gone");
        })
        .await;
    fs::remove_dir_all(scene.path("folder")).unwrap();
    symlink(outside.path(), scene.path("folder")).unwrap();
    let theirs = snapshot(outside.path());
    let mut order = scene.order(&[set]);
    for is_forced in [false, true] {
        order.is_forced = is_forced;
        let restored = keeper.restore(order.clone()).await.unwrap();
        assert_eq!(restored.changed, []);
        assert_eq!(scene.names(&restored.kept), ["folder/file", "folder/gone"]);
        assert_eq!(snapshot(outside.path()), theirs);
    }
}

#[tokio::test]
async fn a_root_that_became_a_link_is_not_followed() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_root_link");
    let outside = tempfile::tempdir().unwrap();
    scene.write("file", "old");
    let set = scene.turn(|scene| scene.remove("file")).await;
    fs::remove_dir_all(&scene.root).unwrap();
    symlink(outside.path(), &scene.root).unwrap();
    let restored = scene.take_back(&[set]).await;
    assert_eq!((restored.changed.len(), restored.kept.len()), (0, 1), "{restored:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn names_that_are_no_text_come_back() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_names");
    let names: [&[u8]; 5] = [b"\xff\xfe", b"a\\b", b"new\nline", b" ", b"\xe2\x82"];
    for name in names {
        let folder = scene.root.join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            for name in names {
                fs::remove_dir_all(scene.root.join(OsStr::from_bytes(name))).unwrap();
            }
        })
        .await;
    let restored = scene.take_back(&[set]).await;
    assert_eq!((snapshot(&scene.root), restored.kept), (old, Vec::new()));
    let mut shown: Vec<_> = scene.brief(&restored.changed).into_iter().map(|it| it.0).collect();
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 10, "no two names are shown alike: {shown:?}");
    assert!(shown.iter().any(|path| path.ends_with("\\xff\\xfe")), "{shown:?}");
}

#[tokio::test]
async fn hard_links_come_back_as_files_of_their_own() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_hard");
    scene.write("one", "old");
    fs::hard_link(scene.path("one"), scene.path("two")).unwrap();
    let old = snapshot(&scene.root);
    let set = scene.turn(|scene| scene.write("one", "turn")).await;
    scene.take_back(&[set]).await;
    assert_eq!(snapshot(&scene.root), old);
}

#[tokio::test]
async fn a_path_that_is_too_long_does_not_stop_the_capture() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_long");
    scene.write("file", "old");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, &scene.root, flags, Mode::empty()).unwrap();
    let name = "n".repeat(200);
    for _ in 0..30 {
        mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
        at = openat(&at, name.as_str(), flags, Mode::empty()).unwrap();
    }
    let captured = keeper.capture(&scene.session, std::slice::from_ref(&scene.root)).await.unwrap();
    assert_eq!(captured.left_out.len(), 1, "{captured:?}");
    assert!(captured.left_out[0].starts_with("unreadable: "), "{captured:?}");
}

/// A restore never stops at a name that somebody has, and clears what a killed one left.
#[tokio::test]
async fn leftovers_of_killed_restores_are_cleared_and_nothing_else() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_leftover");
    let ours = ".narthex-restore-0123456789abcdef";
    let busy = ".narthex-restore-00000000000000aa";
    scene.write("folder/edited", "old");
    scene.write("elsewhere/file", "old");
    let set = scene
        .turn(|scene| {
            scene.write("folder/edited", "turn");
            scene.write("made/file", "turn");
        })
        .await;
    let stays = [
        format!("folder/{busy}"),
        "folder/.narthex-restore-note".to_owned(),
        "folder/.narthex-restore-0123456789abcdeg".to_owned(),
        format!("elsewhere/{ours}"),
    ];
    for path in stays.iter().chain(&[format!("folder/{ours}"), format!("made/{ours}")]) {
        scene.write(path, "half");
    }
    let link = "folder/.narthex-restore-00000000000000bb";
    symlink("edited", scene.path(link)).unwrap();
    fs::create_dir(scene.path("folder/.narthex-restore-00000000000000cc")).unwrap();
    let held = fs::File::open(scene.path(&format!("folder/{busy}"))).unwrap();
    held.lock().unwrap();
    for number in 1..9 {
        scene.write(&format!("folder/.narthex-{}-{number}", std::process::id()), "taken");
    }
    let mut order = scene.order(&[set]);
    order.is_dry = true;
    keeper.restore(order.clone()).await.unwrap();
    assert!(scene.text(&format!("folder/{ours}")).is_some(), "a look changes nothing");
    order.is_dry = false;
    let restored = keeper.restore(order).await.unwrap();
    assert_eq!(restored.kept, []);
    assert_eq!(
        (scene.text("folder/edited"), scene.path("made").exists()),
        (Some("old".into()), false)
    );
    assert_eq!(scene.text(&format!("folder/{ours}")), None);
    assert!(stays.iter().all(|path| scene.text(path).is_some()));
    assert!(fs::symlink_metadata(scene.path(link)).unwrap().is_symlink());
    assert!(scene.path("folder/.narthex-restore-00000000000000cc").is_dir());
}

const PLACE: &str = "CHECKPOINT_TEST_READ_ONLY";

/// Only somebody whom permissions stop can say something here: an administrator is sent back as
/// nobody in particular.
#[tokio::test]
async fn read_only_folders_are_opened_up_and_closed_again() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("hostile::read_only_folders_are_opened_up_and_closed_again");
    }
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_read_only");
    scene.write("closed/inner/edited", "old");
    scene.write("closed/inner/gone", "old");
    scene.write("closed/secret", "old");
    scene.set_mode("closed/inner", 0o555);
    scene.set_mode("closed", 0o500);
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            scene.set_mode("closed", 0o700);
            scene.set_mode("closed/inner", 0o700);
            scene.write("closed/inner/edited", "turn");
            scene.remove("closed/inner/gone");
            scene.write("closed/inner/made", "turn");
            scene.set_mode("closed/inner", 0o555);
            scene.set_mode("closed", 0o500);
        })
        .await;
    let restored = scene.take_back(&[set]).await;
    assert_eq!((snapshot(&scene.root), restored.kept), (old.clone(), Vec::new()));
    // What cannot be read is noticed, told, and its permissions are taken back.
    let set = scene
        .turn(|scene| {
            scene.set_mode("closed", 0o700);
            scene.set_mode("closed/secret", 0o000);
            scene.set_mode("closed", 0o000);
        })
        .await;
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    let told: Vec<_> = scene.brief(&restored.changed).into_iter().map(|it| it.0).collect();
    assert_eq!(told, ["closed"], "{restored:?}");
    assert!(scene.names(&restored.kept).contains(&"closed/secret".to_owned()), "{restored:?}");
    scene.set_mode("closed", 0o700);
    scene.set_mode("closed/secret", 0o644);
    scene.set_mode("closed", 0o500);
    assert_eq!(snapshot(&scene.root), old);
    scene.set_mode("closed", 0o700);
    scene.set_mode("closed/inner", 0o700);
}

/// A folder that may be listed and not searched: its names are known and nothing else.
#[tokio::test]
async fn what_cannot_be_looked_at_is_left_out_and_not_taken_for_removed() {
    if rustix::process::geteuid().is_root() {
        return as_nobody(
            "hostile::what_cannot_be_looked_at_is_left_out_and_not_taken_for_removed",
        );
    }
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_unseen");
    scene.write("listed/inner/file", "old");
    scene.write("listed/file", "old");
    scene.write("edited", "old");
    let old = snapshot(&scene.root);
    let set = scene
        .turn(|scene| {
            scene.write("edited", "turn");
            scene.set_mode("listed", 0o444);
        })
        .await;
    let roots = [scene.root.clone()];
    let told = keeper.capture(&scene.session, &roots).await.unwrap().left_out;
    let [file, inner] = ["listed/file", "listed/inner"].map(|name| scene.path(name));
    assert_eq!(told, [format!("unreadable: {}, {}", file.display(), inner.display())]);
    let changes =
        keeper.changes(&scene.session, &set.before, set.after.as_ref().unwrap()).await.unwrap();
    let is_removed = |change: &PathChange| change.kind == ChangeKind::Removed;
    assert!(!changes.iter().any(is_removed), "{changes:?}");
    // A turn while it cannot be looked at says nothing about it, nor one that opens it again.
    let quiet = scene.turn(|scene| scene.write("edited", "turn two")).await;
    let opened = scene.turn(|scene| scene.set_mode("listed", 0o755)).await;
    let changes =
        keeper.changes(&scene.session, &opened.before, opened.after.as_ref().unwrap()).await;
    let names: Vec<_> = scene.brief(&changes.unwrap()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["listed"]);
    let restored = scene.take_back(&[opened, quiet, set]).await;
    assert_eq!(scene.text("edited").unwrap(), "old");
    assert_eq!(snapshot(&scene.root), old, "{restored:?}");
}

fn as_nobody(case: &str) {
    const NOBODY: u32 = 65_534;
    assert!(std::env::var_os(PLACE).is_none(), "still an administrator");
    // The program may lie where nobody else may look.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(&program)
        .args(["--exact", case])
        .env(PLACE, "1")
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
