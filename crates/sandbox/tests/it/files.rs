//! Files of the host beyond the contract: roots, the home folder, owners, failures half way.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use driver_api::WorkspaceError;
use sandbox::HostOptions;
use testkit::workspace_suite::bash;

use crate::place::{Place, agent};

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_root_with_the_working_folder_comes_first() {
    let roots = vec!["other".into(), "".into(), "work/inner".into()];
    let place = Place::with(HostOptions { roots, ..HostOptions::default() });
    let base = place.folder.path().canonicalize().unwrap();
    let expected = [base.clone(), base.join("other"), base.join("work/inner")];
    assert_eq!(place.workspace.roots(), expected);
    // The innermost root is named.
    let located = place.workspace.locate("inner/x/y").await.unwrap();
    assert_eq!(
        (located.root, located.real),
        (Some(base.join("work/inner")), base.join("work/inner/x/y"))
    );
    let located = place.workspace.locate("../other/x").await.unwrap();
    assert_eq!((located.shown().as_str(), located.root), ("x", Some(base.join("other"))));
}

#[tokio::test]
async fn a_working_folder_outside_of_the_roots_becomes_one() {
    let place = Place::with(HostOptions { roots: vec!["other".into()], ..HostOptions::default() });
    assert_eq!(place.workspace.roots()[0], place.cwd());
    assert_eq!(place.workspace.roots().len(), 2);
}

#[tokio::test]
async fn a_folder_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let open = |cwd: &std::path::Path| {
        sandbox::host(HostOptions { cwd: cwd.to_owned(), ..HostOptions::default() }, agent())
    };
    assert!(matches!(open(&file), Err(WorkspaceError::Unfit(_))));
    assert!(matches!(open(&folder.path().join("none")), Err(WorkspaceError::NotFound(_))));
}

#[tokio::test]
async fn a_link_to_the_working_folder_is_real_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real", folder.path().join("link")).unwrap();
    let options = HostOptions { cwd: folder.path().join("link"), ..HostOptions::default() };
    let workspace = sandbox::host(options, agent()).unwrap();
    assert_eq!(workspace.cwd(), folder.path().canonicalize().unwrap().join("real"));
    assert_eq!(bash(&*workspace, "pwd").await.out.trim(), workspace.cwd().to_str().unwrap());
}

#[tokio::test]
async fn the_home_folder_is_that_of_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap();
    let env = vec![("HOME".to_owned(), Some(path.display().to_string()))];
    let place = Place::with(HostOptions { env, ..HostOptions::default() });
    let cases = [
        ("~", path.clone()),
        ("~/", path.clone()),
        ("~/a/b", path.join("a/b")),
        ("~//a", path.join("a")),
        ("~/../x", path.parent().unwrap().join("x")),
        // Not a home folder of somebody, but a name.
        ("~other", place.cwd().join("~other")),
        ("a/~/b", place.cwd().join("a/~/b")),
    ];
    for (given, real) in cases {
        assert_eq!(place.workspace.locate(given).await.unwrap().real, real, "{given}");
    }
    let env = vec![("HOME".to_owned(), None)];
    let homeless = Place::with(HostOptions { env, ..HostOptions::default() });
    let refused = homeless.workspace.locate("~/a").await;
    assert!(matches!(refused, Err(WorkspaceError::Unfit(_))), "got {refused:?}");
}

#[tokio::test]
async fn files_outside_of_the_roots_can_be_used_too() {
    let place = Place::new();
    let path = place.folder.path().join("outside/new.txt");
    let file = place.workspace.locate(path.to_str().unwrap()).await.unwrap();
    assert_eq!(file.root, None);
    place.workspace.write(&file, b"out there").await.unwrap();
    assert_eq!(place.workspace.read(&file, 100).await.unwrap().bytes, b"out there");
    place.workspace.remove(&file).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_is_too_large_is_not_written() {
    let place = Place::new();
    let file = place.workspace.locate("deep/large").await.unwrap();
    let refused = place.workspace.write(&file, &vec![0; (64 << 20) + 1]).await;
    assert!(matches!(refused, Err(WorkspaceError::TooLarge { .. })), "got {refused:?}");
    assert_eq!(names(place.cwd()), Vec::<String>::new());
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing() {
    let place = Place::new();
    // A name that no file system takes, below folders that have to be made first.
    let file = place.workspace.locate(&format!("a/b/{}", "n".repeat(300))).await;
    let refused = match file {
        Ok(file) => place.workspace.write(&file, b"x").await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(WorkspaceError::Unfit(_))), "got {refused:?}");
    assert_eq!(names(place.cwd()), Vec::<String>::new());
    // The folder changes into something else between the check and the write.
    let file = place.workspace.locate("gone/file").await.unwrap();
    std::fs::write(place.cwd().join("gone"), "a file now").unwrap();
    let refused = place.workspace.write(&file, b"x").await;
    assert!(matches!(refused, Err(WorkspaceError::Unfit(_))), "got {refused:?}");
    assert_eq!(names(place.cwd()), ["gone"]);
}

#[tokio::test]
async fn the_owner_of_a_file_stays_its_owner() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else may give files away.
        return;
    }
    let place = Place::new();
    let path = place.cwd().join("theirs");
    std::fs::write(&path, "old").unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4640)).unwrap();
    let file = place.workspace.locate("theirs").await.unwrap();
    place.workspace.write(&file, b"new").await.unwrap();
    let now = std::fs::metadata(&path).unwrap();
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (1234, 4321, 0o640));
}

#[tokio::test]
async fn commands_get_no_secrets_of_ours() {
    let env = vec![("ADDED".to_owned(), Some("by the workspace".to_owned()))];
    let place = Place::with(HostOptions { env, ..HostOptions::default() });
    let out = bash(&*place.workspace, "env; echo; tr '\\0' '\\n' < /proc/$PPID/environ").await.out;
    let (own, minders) = out.split_once("\n\n").unwrap();
    assert!(own.contains("ADDED=by the workspace") && own.contains("NARTHEX=1"), "got {own}");
    // What runs as the same user can read the environment of what stands above it.
    let said = minders.lines().all(|line| line.starts_with("NARTHEX_AGENT_OPEN_FILES="));
    assert!(said, "got {minders}");
}
