//! A folder that somebody else swaps for a link, again and again, while it is used.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use driver_api::WorkspaceError;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::place::Place;

const ROUNDS_MAX: u32 = 5_000;

/// Exchanges the folder `swap` and a link to `secret` until told to stop. The name always exists.
fn swap_until(stop: &AtomicBool, base: &Path) {
    let (swap, link) = (base.join("swap"), base.join("link"));
    symlink("secret", &link).unwrap();
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, &swap, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
    if swap.is_symlink() {
        renameat_with(CWD, &swap, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[tokio::test]
async fn a_swapped_folder_never_leads_astray() {
    let place = Place::new();
    let base = place.cwd().to_owned();
    for (folder, text) in [("swap", "own"), ("secret", "secret")] {
        std::fs::create_dir(base.join(folder)).unwrap();
        std::fs::write(base.join(folder).join("file"), text).unwrap();
    }
    let file = place.workspace.locate("swap/file").await.unwrap();
    let new = place.workspace.locate("swap/made/new").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, base) = (Arc::clone(&stop), base.clone());
        std::thread::spawn(move || swap_until(&stop, &base))
    };
    let (mut good, mut raced) = (0, 0);
    for round in 0.. {
        // Both outcomes have to be seen, and then some more of each.
        if (good >= 50 && raced >= 50) || round == ROUNDS_MAX {
            break;
        }
        match place.workspace.read(&file, 100).await.map(|contents| contents.bytes) {
            Ok(bytes) => {
                assert_ne!(bytes, b"secret", "a read was led astray");
                good += 1;
            }
            Err(WorkspaceError::Raced(_)) => raced += 1,
            Err(other) => panic!("expected a file or a race, got {other:?}"),
        }
        let text = format!("own {round}");
        let _written = place.workspace.write(&file, text.as_bytes()).await;
        let _written = place.workspace.write(&new, b"own").await;
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    let entries = std::fs::read_dir(base.join("secret")).unwrap().flatten();
    let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["file"], "a write was led astray");
    assert_eq!(std::fs::read(base.join("secret/file")).unwrap(), b"secret");
    assert!(good > 0 && raced > 0, "expected both outcomes, got {good} good and {raced} raced");
}
