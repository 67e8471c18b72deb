//! Where writes go.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agent::neuron::{FILES, Folder, FolderWrites, Layer, Limits, layout};

use super::house::{Site, USER, Who, everybody, is_root};

fn site_with(who: Who, writes: FolderWrites) -> Site {
    let mut site = Site::new(who);
    let path = site.folder("project");
    fs::write(path.join("kept"), "kept").unwrap();
    fs::write(path.join("changed"), "before").unwrap();
    fs::write(path.join("removed"), "removed").unwrap();
    for name in ["kept", "changed", "removed"] {
        who.own(&path.join(name));
    }
    site.plan.folder = Some(Folder { path, writes });
    site
}

const WORK: &str = "echo after > changed; rm removed; mkdir -p new/deep; echo x > new/deep/file; \
    cat kept changed new/deep/file; ls";

fn in_folder(path: &Path, script: &str) -> String {
    format!("cd {} && {{ {script}; }}", path.display())
}

#[test]
fn writes_to_an_overlaid_folder_stay_in_the_layer() {
    for who in everybody() {
        let site = site_with(who, FolderWrites::Layer);
        let (path, layer) = (site.home.path().join("project"), site.plan.layer.clone());
        let neuron = site.start();
        assert_eq!(neuron.report.workspace, path.canonicalize().unwrap());
        let seen = neuron.run(&in_folder(&path, WORK));
        assert_eq!(seen, "keptafter\nx\nchanged\nkept\nnew");
        assert_eq!(fs::read_to_string(path.join("changed")).unwrap(), "before");
        assert!(path.join("removed").exists() && !path.join("new").exists());
        let upper = layer.join(layout::FOLDER_UPPER);
        assert_eq!(fs::read_to_string(upper.join("changed")).unwrap(), "after\n");
        assert_eq!(fs::read_to_string(upper.join("new/deep/file")).unwrap(), "x\n");
        assert!(!upper.join("kept").exists());
    }
}

#[test]
fn root_may_give_a_folder_of_somebody_else() {
    if !is_root() {
        return;
    }
    for writes in [FolderWrites::Layer, FolderWrites::Through] {
        let site = site_with(Who::Root, writes);
        let path = site.home.path().join("project");
        for entry in fs::read_dir(&path).unwrap() {
            std::os::unix::fs::chown(entry.unwrap().path(), Some(USER), Some(USER)).unwrap();
        }
        std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
        let neuron = site.start();
        assert_eq!(neuron.run(&in_folder(&path, WORK)), "keptafter\nx\nchanged\nkept\nnew");
        let is_through = writes == FolderWrites::Through;
        assert_eq!(path.join("new/deep/file").exists(), is_through);
        if is_through {
            // Whoever owns the folder owns what is new in it.
            let facts = fs::metadata(path.join("new/deep/file")).unwrap();
            assert_eq!((facts.uid(), facts.gid()), (USER, USER));
        }
    }
}

#[test]
fn x3_what_would_be_executed_outside_stays_as_it_is() {
    for who in everybody() {
        let site = site_with(who, FolderWrites::Through);
        let path = site.home.path().join("project");
        for folder in ["", "sub/"] {
            let git = path.join(folder).join(".git");
            fs::create_dir_all(git.join("hooks")).unwrap();
            fs::write(git.join("config"), "[core]").unwrap();
        }
        fs::create_dir_all(path.join(".git/modules/m/hooks")).unwrap();
        fs::create_dir_all(path.join("m")).unwrap();
        fs::write(path.join("m/.git"), "gitdir: ../.git/modules/m").unwrap();
        fs::write(path.join(".envrc"), "true").unwrap();
        let all = std::process::Command::new("chown")
            .args(["-R", &format!("{0}:{0}", if who.is_other() { USER } else { own_id() })])
            .arg(&path)
            .status();
        assert!(all.unwrap().success());
        let neuron = site.start();
        assert!(neuron.has(Layer::Protected));
        let run = |script: &str| neuron.run(&in_folder(&path, script));
        for file in [
            ".git/hooks/pre-commit",
            ".git/config",
            "sub/.git/hooks/pre-commit",
            "sub/.git/config",
            ".git/modules/m/hooks/x",
            "m/.git",
            ".envrc",
        ] {
            let told = run(&format!("echo evil > {file}"));
            assert!(told.contains("Read-only file system"), "{file}: {told}");
        }
        for script in ["mv .git .moved", "mv .envrc x", "rm -rf .git/hooks", "mv sub/.git x"] {
            let told = run(&format!("{script} && echo done"));
            assert!(!told.contains("done"), "{script}: {told}");
        }
        // All else of git works, and so does the folder.
        assert_eq!(run("echo x > .git/index; cat .git/index; echo y > new; cat new"), "x\ny");
        assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "y\n");
        let reasons: Vec<_> =
            neuron.report.missing.iter().filter(|entry| entry.layer == Layer::Protected).collect();
        for name in [".narthex", ".git/commondir"] {
            assert!(reasons[0].reason.contains(name), "{reasons:?}");
        }
        neuron.kill();
        assert!(!path.join(".narthex").exists(), "nothing is left on the machine");
    }
}

/// Whatever form a protected place has: the neuron starts, commands run, and what is executed
/// outside today cannot be changed.
#[test]
fn x5_links_and_what_is_missing_are_no_way_around() {
    for who in everybody() {
        let site = site_with(who, FolderWrites::Through);
        let path = site.home.path().join("project");
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path.join(name)).unwrap();
        for folder in ["tools/hooks", "store/hooks", ".git"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::write(path.join("store/config"), "[core]").unwrap();
        fs::write(path.join("env"), "true").unwrap();
        fs::create_dir(path.join("sub")).unwrap();
        link("../tools/hooks", ".git/hooks");
        link("../store", "sub/.git");
        link("env", ".envrc");
        link("nowhere/at/all", ".vscode");
        link(".idea", ".idea");
        link("../../../../../../etc", ".zed");
        let owner = if who.is_other() { USER } else { own_id() };
        let owned = std::process::Command::new("chown")
            .args(["-hR", &format!("{owner}:{owner}")])
            .arg(&path)
            .status();
        assert!(owned.unwrap().success());
        let neuron = site.start();
        let run = |script: &str| neuron.run(&in_folder(&path, script));
        for file in ["tools/hooks/pre-commit", "store/hooks/x", "store/config", "env", ".envrc"] {
            let told = run(&format!("echo evil > {file}"));
            assert!(told.contains("Read-only file system"), "{file}: {told}");
        }
        assert_eq!(run("echo y > new; cat new; echo z > tools/other; cat tools/other"), "y\nz");
        let lacks = neuron.report.missing.iter().find(|entry| entry.layer == Layer::Protected);
        assert!(lacks.is_some(), "that links can be replaced is told: {:?}", neuron.report);
        neuron.kill();
        assert!(fs::read_link(path.join(".vscode")).is_ok() && !path.join("nowhere").exists());
        assert_eq!(fs::read_to_string(path.join("env")).unwrap(), "true");
    }
}

#[test]
fn no_file_lends_its_owners_rights() {
    for who in everybody() {
        let site = site_with(who, FolderWrites::Through);
        let path = site.home.path().join("project");
        let neuron = site.start();
        let run = |script: &str| neuron.run(&in_folder(&path, script));
        for script in ["chmod u+s kept", "chmod g+s kept", "install -m 4755 kept suid"] {
            let told = run(&format!("{script}; echo $?"));
            assert!(told.contains("Function not implemented"), "{script}: {told}");
        }
        assert_eq!(run("chmod 755 kept && stat -c %a kept"), "755");
        for entry in fs::read_dir(&path).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o6000, 0);
        }
    }
}

fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn the_system_is_changed_in_the_layer_alone() {
    if !is_root() {
        // Files of root are not the neuron's then: the next test.
        return;
    }
    let site = Site::new(Who::Root);
    let layer = site.plan.layer.clone();
    let neuron = site.start();
    assert!(neuron.has(Layer::IdMap));
    let mark = &neuron.site.plan.name;
    let script = format!(
        "echo x > /usr/{mark}; echo y >> /usr/bin/ldd; tail -1 /usr/bin/ldd; \
        echo z > /etc/{mark} && cat /etc/{mark}"
    );
    assert_eq!(neuron.run(&script), "y\nz");
    for folder in ["/usr", "/etc"] {
        assert!(!Path::new(folder).join(mark).exists());
    }
    assert!(!fs::read_to_string("/usr/bin/ldd").unwrap().ends_with("y\n"));
    assert!(layer.join(layout::SYSTEM).join("usr/upper").join(mark).exists());
}

#[test]
fn x4_what_the_machine_keeps_to_root_is_not_read() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        // Whatever its mode was: /etc is not id-mapped.
        let script = "find /etc ! -readable 2>/dev/null | head -1; \
            find /etc -user 1000 -type f 2>/dev/null | \
            grep -cv -e hosts -e hostname -e resolv.conf -e passwd -e group";
        let seen = neuron.run(script);
        assert_eq!(seen.lines().last(), Some("0"), "{seen}");
    }
}

#[test]
fn the_layer_is_there_again_for_the_next_neuron() {
    for who in everybody() {
        let site = site_with(who, FolderWrites::Layer);
        let path = site.home.path().join("project");
        let neuron = site.start();
        neuron.run(&in_folder(&path, "echo a > a; echo b > ~/b; echo c > /tmp/c"));
        neuron.run("mkdir -p /home/neuron; echo b > /home/neuron/b");
        neuron.kill();
        let (home, plan) = (tempfile::tempdir().unwrap(), neuron.site.plan.clone());
        who.own(home.path());
        let again = Site { who, plan, home, inherited: None }.start();
        let seen = again.run(&in_folder(&path, "cat a /home/neuron/b /tmp/c"));
        assert_eq!(seen, "a\nb\nc");
    }
}

#[test]
fn links_of_an_earlier_life_lead_nowhere() {
    for who in everybody() {
        let mut site = Site::new(who);
        let target = site.folder("target");
        // A neuron that was here before wants the folder's place to be elsewhere.
        let tmp = site.plan.layer.join(layout::TMP);
        fs::create_dir(&tmp).unwrap();
        who.own(&tmp);
        let home = site.home.path().canonicalize().unwrap();
        let inner = home.strip_prefix("/tmp");
        let Some(first) = inner.ok().and_then(|inner| inner.components().next()) else { return };
        std::os::unix::fs::symlink(&target, tmp.join(first)).unwrap();
        let path = site.folder("project");
        site.plan.folder = Some(Folder { path, writes: FolderWrites::Layer });
        let failure = site.try_start().unwrap_err();
        assert!(failure.step.contains("make way to"), "{failure}");
    }
}

#[test]
fn a_capped_layer_is_full_when_it_is_full() {
    for who in everybody() {
        let mut site = Site::new(who);
        site.plan.limits = Limits { disk_bytes: Some(4 << 20), ..Limits::default() };
        let neuron = site.start();
        assert!(neuron.has(Layer::Disk) && neuron.report.is_in_memory);
        let told =
            neuron.run("head -c 8388608 /dev/zero > /home/neuron/big; stat -c %s /home/neuron/big");
        assert!(told.contains("No space left on device"), "{told}");
        assert!(fs::read_dir(&neuron.site.plan.layer).unwrap().next().is_none());
    }
}

#[test]
fn files_are_served_over_a_connection_of_their_own() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let mut stream = neuron.connect(FILES);
        let mut head = [0; agent::files::wire::HEADER_LEN];
        stream.read_exact(&mut head).unwrap();
        let header = agent::files::wire::Header::parse(head).unwrap();
        let mut payload = vec![0; header.len];
        stream.read_exact(&mut payload).unwrap();
        let hello = agent::files::wire::Reply::decode(header.kind, &payload).unwrap();
        let version = agent::files::wire::VERSION;
        assert_eq!(hello, agent::files::wire::Reply::Hello { version });
        assert_eq!(neuron.run("echo beside it"), "beside it");
    }
}
