//! What lies on disk: who may read it, what is shared, what goes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use checkpoint::{Keeper, Limits, Options};
use driver_api::{CheckpointError, Checkpoints};
use protocol::SessionId;
use testkit::checkpoint_suite::Scene;

use crate::keeper;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    let inner: Vec<PathBuf> = all.iter().flat_map(|path| folders(path)).collect();
    all.extend(inner);
    all.push(folder.to_owned());
    all
}

#[tokio::test]
async fn nobody_else_can_read_it_and_nothing_is_left_aside() {
    let (keeper, home) = keeper(Limits::default());
    let kept = home.path().join("kept");
    let scene = Scene::new(&keeper, "ses_modes");
    assert!(!kept.exists(), "nothing is made before it is needed");
    for number in 0..40 {
        scene.write(&number.to_string(), &number.to_string());
    }
    scene.capture().await;
    for path in files(&kept) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
    }
    for path in folders(&kept) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{path:?}");
    }
    assert_eq!(files(&kept.join("aside")), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn equal_contents_are_kept_once_and_an_unchanged_tree_writes_nothing() {
    let (keeper, home) = keeper(Limits::default());
    let kept = home.path().join("kept");
    let (one, two) = (Scene::new(&keeper, "ses_one"), Scene::new(&keeper, "ses_two"));
    for scene in [&one, &two] {
        for number in 0..20 {
            scene.write(&number.to_string(), "the same everywhere");
        }
    }
    one.capture().await;
    two.capture().await;
    // One for the contents, and for each tree at least one piece.
    assert!(files(&kept.join("objects")).len() < 10);
    let look = || {
        let stat = |path: PathBuf| {
            let metadata = fs::metadata(&path).unwrap();
            (path, metadata.ino(), metadata.mtime_nsec())
        };
        files(&kept).into_iter().map(stat).collect::<Vec<_>>()
    };
    let before = look();
    one.capture().await;
    assert_eq!(look(), before);
}

#[tokio::test]
async fn a_change_costs_what_is_new() {
    let (keeper, home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_cost");
    for number in 0..2_000 {
        scene.write(&format!("{}/{number}", number % 50), &format!("file {number}"));
    }
    scene.capture().await;
    let size =
        || fs::read_to_string(home.path().join("kept/size")).unwrap().parse::<u64>().unwrap();
    let before = size();
    scene.write("7/7", "edited");
    scene.capture().await;
    let added = size() - before;
    assert!(added < 40_000, "{added} bytes for one edit in a tree of 2,000 files");
}

#[tokio::test]
async fn damaged_contents_are_refused_before_anything_changes_and_heal() {
    for is_removed in [true, false] {
        let (keeper, home) = keeper(Limits::default());
        let scene = Scene::new(&keeper, "ses_damage");
        scene.write("first", "contents of the first");
        scene.write("second", "contents of the second");
        let set = scene
            .turn(|scene| {
                scene.remove("first");
                scene.remove("second");
            })
            .await;
        let objects = files(&home.path().join("kept/objects"));
        let is_second = |path: &&PathBuf| {
            let bytes = fs::read(path).unwrap();
            bytes.windows(6).any(|part| part == b"second")
                && !bytes.windows(5).any(|w| w == b"/root")
        };
        let second = objects.iter().find(is_second).unwrap();
        if is_removed {
            fs::remove_file(second).unwrap();
        } else {
            let mut bytes = fs::read(second).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(second, bytes).unwrap();
        }
        let error = keeper.restore(scene.order(&[set])).await.unwrap_err();
        assert!(matches!(error, CheckpointError::Fault(_)), "{error}");
        assert_eq!((scene.text("first"), scene.text("second")), (None, None));
        // The next capture keeps the contents again.
        scene.write("first", "contents of the first");
        scene.write("second", "contents of the second");
        let set = scene.turn(|scene| scene.remove("second")).await;
        scene.take_back(&[set]).await;
        assert_eq!(scene.text("second").unwrap(), "contents of the second");
    }
}

#[tokio::test]
async fn a_store_that_lost_everything_but_its_heads_goes_on() {
    let (keeper, home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_lost");
    scene.write("data/file", "some contents");
    let lost = scene.turn(|scene| scene.write(".gitignore", "data/\n")).await;
    for path in files(&home.path().join("kept/objects")) {
        fs::remove_file(path).unwrap();
    }
    let error = keeper.restore(scene.order(&[lost])).await.unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
    assert_eq!(scene.text(".gitignore").unwrap(), "data/\n");
    // Nothing tells any more that the ignored folder was captured once.
    scene.remove(".gitignore");
    let set = scene.turn(|scene| scene.remove("data/file")).await;
    assert_eq!(scene.take_back(&[set]).await.kept, []);
    assert_eq!(scene.text("data/file").unwrap(), "some contents");
}

#[tokio::test]
async fn the_oldest_sessions_go_first() {
    let (keeper, home) = keeper(Limits { kept_bytes_max: 400_000, ..Limits::default() });
    let scenes: Vec<_> =
        (0..6).map(|number| Scene::new(&keeper, &format!("ses_{number}"))).collect();
    let mut sets = Vec::new();
    for (number, scene) in scenes.iter().enumerate() {
        let noise: String = (0..12_000)
            .map(|n| format!("{:08x}", n * 2_654_435_761_u64 + number as u64 * 977))
            .collect();
        scene.write("file", &noise);
        sets.push(scene.turn(|scene| scene.write("file", "")).await);
    }
    let kept: u64 = files(&home.path().join("kept/objects"))
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert!(kept <= 400_000, "{kept}");
    let first = keeper.restore(scenes[0].order(&sets[..1])).await;
    assert!(matches!(first, Err(CheckpointError::Gone(_))), "{first:?}");
    let last = scenes[5].take_back(&sets[5..]).await;
    assert_eq!(last.kept, []);
    assert!(scenes[5].text("file").unwrap().len() > 50_000);
}

fn noise(number: u64) -> String {
    (0..12_000_u64).map(|n| format!("{:08x}", n * 2_654_435_761 + number * 977)).collect()
}

#[tokio::test]
async fn the_past_of_a_busy_session_goes_before_the_newest_turn_of_another() {
    let (keeper, home) = keeper(Limits { kept_bytes_max: 800_000, ..Limits::default() });
    let quiet = Scene::new(&keeper, "ses_quiet");
    quiet.write("file", &noise(1_000));
    let quiet_set = quiet.turn(|scene| scene.write("file", "")).await;
    let busy = Scene::new(&keeper, "ses_busy");
    busy.write("file", "the beginning");
    let mut sets = Vec::new();
    for number in 0..40 {
        sets.push(busy.turn(|scene| scene.write("file", &noise(number))).await);
    }
    // Its own newest turns, and what it began with no more.
    sets.reverse();
    assert_eq!(busy.take_back(&sets[..3]).await.kept, []);
    assert_eq!(busy.text("file").unwrap(), noise(36));
    let first = keeper.restore(busy.order(&sets[39..])).await;
    assert!(matches!(first, Err(CheckpointError::Gone(_))), "{first:?}");
    assert_eq!(quiet.take_back(&[quiet_set]).await.kept, []);
    assert_eq!(quiet.text("file").unwrap(), noise(1_000));
    let kept: u64 =
        files(&home.path().join("kept")).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(kept <= 810_000, "{kept}");
}

#[tokio::test]
async fn what_only_a_forgotten_session_needed_goes_from_every_folder() {
    let (keeper, home) = keeper(Limits::default());
    let kept = home.path().join("kept");
    let (one, two) = (Scene::new(&keeper, "ses_one"), Scene::new(&keeper, "ses_two"));
    for scene in [&one, &two] {
        scene.write("file", scene.session.as_str());
        scene.capture().await;
    }
    let count = |name: &str| files(&kept.join(name)).len();
    assert_eq!((count("stats"), count("trees")), (2, 2));
    keeper.forget(&one.session).await.unwrap();
    assert_eq!((count("stats"), count("trees"), count("objects")), (1, 1, 2));
    keeper.forget(&two.session).await.unwrap();
    assert_eq!((count("stats"), count("trees"), count("objects")), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeping_and_capturing_do_not_disturb_each_other() {
    let home = tempfile::tempdir().unwrap();
    // Two keepers, as two processes would have.
    let open = || Keeper::open(Options::new(home.path().join("kept")));
    let (one, two) = (open(), open());
    let sweeping = async {
        for number in 0..30 {
            let scene = Scene::new(&one, &format!("ses_short_{number}"));
            scene.write("file", &number.to_string());
            scene.write("shared", "what both have");
            scene.capture().await;
            one.forget(&SessionId::new(format!("ses_short_{number}"))).await.unwrap();
        }
    };
    let capturing = async {
        let scene = Scene::new(&two, "ses_long");
        for number in 0..30 {
            scene.write("file", &number.to_string());
            scene.write("shared", "what both have");
            let set = scene
                .turn(|scene| {
                    scene.remove("file");
                    scene.remove("shared");
                })
                .await;
            assert_eq!(scene.take_back(&[set]).await.kept, []);
            assert_eq!(scene.text("file").unwrap(), number.to_string());
            assert_eq!(scene.text("shared").unwrap(), "what both have");
        }
    };
    tokio::join!(sweeping, capturing);
}
