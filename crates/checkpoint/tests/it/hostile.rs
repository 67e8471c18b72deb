//! Names, links and permissions that are not as one would wish.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use checkpoint::Limits;
use driver_api::Checkpoints;
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
