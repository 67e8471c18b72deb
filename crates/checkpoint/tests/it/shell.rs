//! What a real shell does to a real repository is taken back byte for byte.

use std::path::Path;
use std::process::Command;

use checkpoint::Limits;
use testkit::checkpoint_suite::{Scene, snapshot};

use crate::keeper;

fn bash(folder: &Path, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(folder);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const REPOSITORY: &str = r#"
    umask 022
    git init -q .
    mkdir -p src/deep/er docs empty target/debug
    printf '/target/\n*.log\n' > .gitignore
    for n in 1 2 3 4 5 6 7 8; do printf 'line %s\nsecond\n' $n > src/$n.rs; done
    printf '#!/bin/sh\necho hi\n' > run.sh; chmod 755 run.sh
    head -c 300000 /dev/urandom > docs/picture.bin
    ln -s ../src/1.rs docs/link; ln -s nowhere dangling
    printf 'x' > 'odd name'; printf 'y' > $'new\nline'; printf 'z' > $'bytes-\xff\xfe'
    printf 'deep' > src/deep/er/file
    git add . && git commit -qm first
    printf 'untracked' > untracked.txt; mkdir -p notes && printf 'n' > notes/untracked
    printf 'SECRET=1' > .env; chmod 600 .env
    printf 'log' > small.log
    head -c 100000 /dev/zero > target/debug/built
    chmod 1777 empty
"#;

const HAVOC: &str = r#"
    rm -rf src/deep docs untracked.txt .env small.log
    mv src lib
    sed -i 's/second/third/' lib/3.rs lib/4.rs
    truncate -s 3 lib/5.rs
    : > lib/6.rs
    chmod 000 run.sh; chmod 700 lib; chmod 755 empty
    ln -sfn /etc dangling
    ln -s lib src
    ln lib/1.rs hard
    mkdir -p made/by/shell && printf 'made' > made/by/shell/file
    rm 'odd name' && mkdir 'odd name' && printf 'in' > 'odd name/in'
    mv $'bytes-\xff\xfe' $'bytes-\xfe'; rm $'new\nline'
    rm -r notes && printf 'file' > notes
    printf '\nextra\n' >> .gitignore
    git add -A && git commit -qm second
    printf 'rebuilt' > target/debug/built
"#;

#[tokio::test]
async fn what_a_shell_did_is_taken_back() {
    let (keeper, _home) = keeper(Limits::default());
    let scene = Scene::new(&keeper, "ses_shell");
    bash(&scene.root, REPOSITORY);
    // What rules leave out: git's own folder, and the ignored folder.
    let is_kept = |path: &Path| !path.starts_with(".git") && !path.starts_with("target");
    let kept = || {
        let mut all = snapshot(&scene.root);
        all.retain(|path, _| is_kept(path));
        all
    };
    let old = kept();
    let set = scene.turn(|scene| bash(&scene.root, HAVOC)).await;
    assert_ne!(kept(), old);
    bash(&scene.root, "printf 'person' > mine; printf 'person' > lib/mine");
    let restored = scene.take_back(std::slice::from_ref(&set)).await;
    let mut new = kept();
    assert_eq!(new.remove(Path::new("mine")).unwrap().2, b"person");
    assert_eq!(new.remove(Path::new("lib/mine")).unwrap().2, b"person");
    assert!(new.remove(Path::new("lib")).is_some());
    assert_eq!(new, old);
    assert_eq!(scene.names(&restored.kept), ["lib"]);
    assert_eq!(std::fs::read(scene.path("target/debug/built")).unwrap(), b"rebuilt");
    bash(&scene.root, "git log -1 --format=%s | grep -qx second");
}
