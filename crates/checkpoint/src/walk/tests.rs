//! What is read again and what is not.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::tree;

struct Bench {
    folder: tempfile::TempDir,
    objects: Objects,
    limits: Limits,
    stats: Stats,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let objects = Objects::new(&folder.path().join("kept"));
        Self { folder, objects, limits: Limits::default(), stats: Stats::default() }
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.folder.path().join("root").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn walk(&self, is_trusted: bool, settled_before_ns: i64) -> Result<Seen> {
        let roots = tree::roots(&[self.folder.path().join("root")]);
        let walk = Walk {
            roots: &roots,
            limits: &self.limits,
            fence: &Fence::around(&self.folder.path().join("kept"), &[], &roots),
            stats: &self.stats,
            is_trusted,
            earlier: None,
            objects: &self.objects,
            batch: None,
            settled_before_ns,
        };
        walk.run()
    }
}

#[test]
fn only_what_looks_different_is_read_again() {
    let mut bench = Bench::new();
    for number in 0..100 {
        bench.write(&format!("{}/{number}", number % 7), "some text");
    }
    let first = bench.walk(true, i64::MAX).unwrap();
    assert_eq!((first.read, first.unchanged, first.files.len()), (100, 0, 100));
    bench.stats.files = first.files;
    let second = bench.walk(true, i64::MAX).unwrap();
    assert_eq!((second.read, second.unchanged), (0, 100));
    assert_eq!(second.entries, first.entries);
    bench.write("3/3", "text some");
    let third = bench.walk(true, i64::MAX).unwrap();
    assert_eq!((third.read, third.unchanged), (1, 99));
    // What is not known to be kept is read to be kept again.
    assert_eq!(bench.walk(false, i64::MAX).unwrap().read, 100);
}

#[test]
fn what_changed_a_moment_ago_is_read_again() {
    let bench = Bench::new();
    bench.write("file", "some text");
    let metadata = fs::metadata(bench.folder.path().join("root/file")).unwrap();
    let changed_at = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
    assert_eq!(bench.walk(true, changed_at).unwrap().files.len(), 0);
    assert_eq!(bench.walk(true, changed_at + 1).unwrap().files.len(), 1);
}

#[test]
fn limits_end_the_walk() {
    let mut bench = Bench::new();
    for number in 0..50 {
        bench.write(&number.to_string(), "ten bytes.");
    }
    bench.limits.entries_max = 51;
    bench.limits.tree_bytes_max = 500;
    assert_eq!(bench.walk(true, 0).unwrap().entries.len(), 51);
    bench.limits.tree_bytes_max = 499;
    let error = bench.walk(true, 0).unwrap_err().to_string();
    assert_eq!(error, "the files of the workspace have more than 499 B");
    bench.limits.tree_bytes_max = 500;
    bench.limits.entries_max = 50;
    let error = bench.walk(true, 0).unwrap_err().to_string();
    assert_eq!(error, "the workspace has more than 50 files and folders");
}
