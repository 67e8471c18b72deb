//! A capture that is killed leaves nothing that is named and broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use checkpoint::{Keeper, Options};
use driver_api::{ChangeSet, Checkpoints, Restore};
use protocol::{SessionId, TreeId};
use testkit::checkpoint_suite::snapshot;

const PLACE: &str = "CHECKPOINT_TEST_PLACE";
const FILES: usize = 300;
const KILLS: u64 = 24;

fn keeper(place: &Path) -> Keeper {
    Keeper::open(Options::new(place.join("kept")))
}

fn fill(root: &Path, round: usize) {
    for number in 0..FILES {
        let folder = root.join(format!("{:02}", number % 20));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("{round} {number} ").repeat(200);
        fs::write(folder.join(number.to_string()), text).unwrap();
    }
}

/// Not a case: the process that is killed. It captures one tree after the other.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let (keeper, session) = (keeper(&place), SessionId::new("ses_killed"));
    let root = place.join("root");
    for round in 0.. {
        fill(&root, round);
        keeper.capture(&session, std::slice::from_ref(&root)).await.unwrap();
    }
}

#[tokio::test]
async fn whatever_the_moment_every_named_tree_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let root = place.join("root");
    fill(&root, 0);
    let mut named = 0;
    for number in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "deaths::the_process_that_is_killed"])
            .env(PLACE, &place)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(20 + number * 13));
        child.kill().unwrap();
        child.wait().unwrap();
        // The newest are those that the death may have hurt; all of them once, at the end.
        let newest = if number + 1 == KILLS { usize::MAX } else { 2 };
        named = check(&place, &root, newest).await;
    }
    assert!(named > 0, "no child lived long enough to name a tree");
    let aside = fs::read_dir(place.join("kept/aside")).unwrap();
    assert_eq!(aside.count(), 0, "what was left aside is cleared by whoever comes next");
}

/// Brings back the newest trees that are named, with nothing but force, and a fresh one.
async fn check(place: &Path, root: &Path, newest: usize) -> usize {
    let (keeper, session) = (keeper(place), SessionId::new("ses_killed"));
    let roots = [root.to_owned()];
    let now = snapshot(root);
    let tree = keeper.capture(&session, &roots).await.unwrap().tree;
    let list = fs::read_to_string(place.join("kept/sessions/ses_killed")).unwrap();
    let ids: Vec<TreeId> = list.lines().map(TreeId::new).collect();
    for id in ids.iter().rev().skip(1).take(newest).chain([&tree]) {
        let restore = Restore {
            session: session.clone(),
            roots: roots.to_vec(),
            sets: vec![ChangeSet { before: id.clone(), after: None }],
            is_forced: true,
            is_dry: false,
        };
        let restored = keeper.restore(restore).await.unwrap();
        assert_eq!(restored.kept, []);
    }
    assert_eq!(snapshot(root), now);
    ids.len()
}
