//! Layers made by hand over folders made by hand; devices and marks need root, links do not.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, XattrFlags, mknodat, setxattr};

use super::*;

struct Stand {
    _top: tempfile::TempDir,
    upper: PathBuf,
    lower: PathBuf,
    since: Timestamp,
}

#[allow(clippy::disallowed_methods, reason = "what is compared is the time of the file system")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

impl Stand {
    /// Makes a folder with these files, and later an empty layer.
    fn new(files: &[(&str, &str)]) -> Self {
        let top = tempfile::tempdir().unwrap();
        let (upper, lower) = (top.path().join("upper"), top.path().join("lower"));
        for folder in [&upper, &lower] {
            std::fs::create_dir(folder).unwrap();
        }
        for (path, text) in files {
            write(&lower.join(path), text);
        }
        // The file system's clock is coarser than this one.
        let waited = Duration::from_millis(30);
        std::thread::sleep(waited);
        let since = now();
        std::thread::sleep(waited);
        Self { _top: top, upper, lower, since }
    }

    fn layer(&self, path: &str, text: &str) -> &Self {
        write(&self.upper.join(path), text);
        self
    }

    fn whiteout(&self, path: &str) -> &Self {
        std::fs::create_dir_all(self.upper.join(path).parent().unwrap()).unwrap();
        let kind = FileType::CharacterDevice;
        mknodat(CWD, self.upper.join(path), kind, Mode::empty(), 0).unwrap();
        self
    }

    fn bring(&self, how: BringOver) -> BroughtOver {
        bring_over(&self.upper, &self.lower, self.since, how).unwrap()
    }

    /// What the folder holds: texts of files, targets of links.
    fn held(&self) -> BTreeMap<String, String> {
        fn walk(folder: &Path, top: &Path, held: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(top).unwrap().display().to_string();
                let kind = path.symlink_metadata().unwrap().file_type();
                if kind.is_dir() {
                    walk(&path, top, held);
                    held.insert(name + "/", String::new());
                } else if kind.is_symlink() {
                    held.insert(name, format!("-> {}", path.read_link().unwrap().display()));
                } else {
                    held.insert(name, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut held = BTreeMap::new();
        walk(&self.lower, &self.lower, &mut held);
        held
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn changed(brought: &BroughtOver) -> Vec<(&str, OverlayChange)> {
    brought.changed.iter().map(|path| (path.path.to_str().unwrap(), path.change)).collect()
}

fn kept(brought: &BroughtOver) -> Vec<&str> {
    brought.kept.iter().map(|kept| kept.path.as_str()).collect()
}

const DRY: BringOver = BringOver { is_dry: true, is_forced: false };
const PLAIN: BringOver = BringOver { is_dry: false, is_forced: false };
const FORCED: BringOver = BringOver { is_dry: false, is_forced: true };

#[test]
fn files_folders_and_links_are_brought_over_and_shown_first() {
    use OverlayChange::{Added, Changed, Removed};
    let stand = Stand::new(&[
        ("kept", "k"),
        ("old", "1\n"),
        ("gone", "g"),
        ("tree/a", "a"),
        ("tree/b/c", "c"),
        ("was-file", "f"),
        ("was-folder/x", "x"),
    ]);
    stand.layer("old", "2\n").layer("new/deep/file", "n").layer("was-file/inner", "i");
    stand.layer("was-folder", "f").whiteout("gone").whiteout("tree").whiteout("never");
    symlink("/etc/passwd", stand.upper.join("link")).unwrap();
    std::fs::set_permissions(
        stand.upper.join("new/deep/file"),
        std::fs::Permissions::from_mode(0o4755),
    )
    .unwrap();
    let before = stand.held();
    let looked = stand.bring(DRY);
    assert_eq!(stand.held(), before, "looking changes nothing");
    let expected = [
        ("gone", Removed),
        ("link", Added),
        ("new", Added),
        ("new/deep", Added),
        ("new/deep/file", Added),
        ("old", Changed),
        ("tree", Removed),
        ("was-file", Changed),
        ("was-file/inner", Added),
        ("was-folder", Changed),
    ];
    assert_eq!(changed(&looked), expected);
    let old = looked.changed.iter().find(|path| path.path == Path::new("old")).unwrap();
    assert_eq!((&old.old, &old.new), (&Held::Text("1\n".into()), &Held::Text("2\n".into())));
    let brought = stand.bring(PLAIN);
    assert_eq!((changed(&brought), kept(&brought)), (changed(&looked), vec![]));
    let held: Vec<_> = stand.held().into_iter().collect();
    let expected = [
        ("kept", "k"),
        ("link", "-> /etc/passwd"),
        ("new/", ""),
        ("new/deep/", ""),
        ("new/deep/file", "n"),
        ("old", "2\n"),
        ("was-file/", ""),
        ("was-file/inner", "i"),
        ("was-folder", "f"),
    ];
    assert_eq!(held, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    let mode = stand.lower.join("new/deep/file").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no file lends its owner's rights");
    assert_eq!(stand.bring(PLAIN), BroughtOver::default(), "nothing is left to do");
}

#[test]
fn what_changed_on_both_sides_is_kept_unless_it_is_forced() {
    let stand = Stand::new(&[("both", "1"), ("mine", "1"), ("doomed", "1"), ("tree/x", "1")]);
    stand.layer("both", "2").layer("mine", "2").layer("twice", "2");
    stand.whiteout("doomed").whiteout("tree");
    for (path, text) in [("both", "3"), ("doomed", "3"), ("tree/x", "3"), ("twice", "3")] {
        write(&stand.lower.join(path), text);
    }
    let copied_up = stand.upper.join("removed");
    write(&copied_up, "2");
    setxattr(&copied_up, ORIGIN[0], b"o", XattrFlags::empty()).unwrap();
    let brought = stand.bring(PLAIN);
    assert_eq!(changed(&brought), [("mine", OverlayChange::Changed)]);
    assert_eq!(kept(&brought), ["both", "doomed", "removed", "tree", "twice"]);
    let held = stand.held();
    assert_eq!((&*held["both"], &*held["doomed"], &*held["mine"]), ("3", "3", "2"));
    let forced = stand.bring(FORCED);
    assert_eq!(kept(&forced), Vec::<&str>::new());
    let held = stand.held();
    assert_eq!((&*held["both"], &*held["removed"], &*held["twice"]), ("2", "2", "2"));
    assert!(!held.contains_key("doomed") && !held.contains_key("tree/"), "{held:?}");
}

#[test]
fn what_is_equal_on_both_sides_is_no_change() {
    let stand = Stand::new(&[]);
    stand.layer("same", "x").layer("a/same", "y");
    write(&stand.lower.join("same"), "x");
    write(&stand.lower.join("a/same"), "y");
    assert_eq!(stand.bring(PLAIN), BroughtOver::default());
}

#[test]
fn what_tools_outside_execute_is_brought_over_only_by_force() {
    let stand = Stand::new(&[(".git/config", "1"), (".git/HEAD", "1")]);
    for path in [
        ".envrc",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/modules/x/hooks/post-merge",
        "deep/.vscode/tasks.json",
        ".git/HEAD",
        ".git/refs/heads/hooks/x",
        "hooks/fine",
    ] {
        stand.layer(path, "2");
    }
    let brought = stand.bring(PLAIN);
    assert_eq!(
        kept(&brought),
        [".envrc", ".git/config", ".git/hooks", ".git/modules/x/hooks", "deep/.vscode"]
    );
    let held = stand.held();
    assert_eq!((&*held[".git/HEAD"], &*held[".git/refs/heads/hooks/x"]), ("2", "2"));
    assert!(!held.contains_key(".envrc"), "{held:?}");
    assert_eq!(kept(&stand.bring(FORCED)), Vec::<&str>::new());
    assert_eq!(&stand.held()[".git/hooks/pre-commit"], "2");
}

#[test]
fn no_link_leads_out_of_the_folder_or_of_the_layer() {
    let stand = Stand::new(&[]);
    let outside = tempfile::tempdir().unwrap();
    write(&outside.path().join("secret"), "planted");
    // The folder has a link where the layer has a folder with a file in it.
    symlink(outside.path(), stand.lower.join("way")).unwrap();
    stand.layer("way/secret", "overwritten");
    symlink(outside.path().join("secret"), stand.upper.join("read")).unwrap();
    let brought = stand.bring(FORCED);
    let shown = format!("{brought:?}");
    assert!(!shown.contains("planted"), "{shown}");
    let secret = std::fs::read_to_string(outside.path().join("secret")).unwrap();
    assert_eq!(secret, "planted");
    let held = stand.held();
    assert_eq!(held["way/secret"], "overwritten", "the link gave way to the folder");
    assert!(held["read"].starts_with("-> "), "a link is brought over as one");
}

#[test]
fn what_cannot_be_written_is_named_and_the_rest_goes_on() {
    let stand = Stand::new(&[("a", "1"), ("z", "1")]);
    stand.layer("a", "2").layer("z", "2");
    let pipe = stand.upper.join("pipe");
    rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR).unwrap();
    // Every name that is tried for the copy of a new file is taken.
    let own = std::process::id();
    for number in 0..100 {
        write(&stand.lower.join(format!("sub/.narthex-apply-{own}-{number}")), "");
    }
    stand.layer("sub/new", "2");
    let brought = stand.bring(PLAIN);
    assert_eq!(kept(&brought), ["pipe", "sub/new"]);
    assert!(brought.kept[1].why.contains("could not be written"), "{brought:?}");
    assert_eq!((&*stand.held()["a"], &*stand.held()["z"]), ("2", "2"));
    for number in 0..100 {
        let path = stand.lower.join(format!("sub/.narthex-apply-{own}-{number}"));
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(changed(&stand.bring(PLAIN)), [("sub/new", OverlayChange::Added)]);
    let names: Vec<String> = stand.held().into_keys().collect();
    assert!(!names.iter().any(|name| name.contains("narthex-apply")), "{names:?}");
}
