//! The life of a neuron within one process.

use std::time::Duration;

use driver_api::{
    IsolationLevel, NeuronDriver, NeuronError, NeuronState, OverlayChange, Workspace,
    WorkspaceError, Writes,
};
use protocol::NeuronId;

use super::{BOTH, Land, is_alive, options, spec, wait_for_state};
use crate::place::kill;

#[tokio::test]
async fn a_neuron_is_created_used_and_destroyed() {
    for driver in BOTH {
        let land = Land::new();
        let made = land.create(driver, "one").await;
        assert_eq!((made.state, made.driver), (NeuronState::Running, Some(driver)));
        assert_eq!(made.owner_pid, None);
        assert!(made.created_at.0 > 1_600_000_000_000, "{made:?}");
        let pid = made.pid.unwrap();
        assert!(is_alive(pid));
        assert_eq!(land.info("one").await.unwrap(), made);
        assert_eq!(land.neurons.list().await.unwrap(), std::slice::from_ref(&made));
        assert_eq!(land.says("one", "echo $((6 * 7)); pwd").await, {
            let folder = made.workspace.unwrap();
            format!("42\n{}\n", folder.display())
        });
        land.destroy("one").await.unwrap();
        assert!(!is_alive(pid) && !land.of("one").exists(), "{driver:?}");
        assert_eq!(land.neurons.list().await.unwrap(), []);
        for gone in [land.info("one").await.err(), land.destroy("one").await.err()] {
            assert!(matches!(gone, Some(NeuronError::NotFound(_))), "got {gone:?}");
        }
        let gone = land.neurons.workspace(&NeuronId::new("one"), None).await;
        assert!(matches!(gone, Err(NeuronError::NotFound(_))), "got {gone:?}");
    }
}

#[tokio::test]
async fn a_host_neuron_says_that_it_is_not_kept_apart() {
    let land = Land::new();
    let made = land.create(NeuronDriver::Host, "open").await;
    let isolation = made.isolation.unwrap();
    assert_eq!((isolation.level, isolation.layers.len()), (IsolationLevel::None, 0));
    assert_eq!(isolation.reasons.len(), 1);
    assert_eq!(land.neurons.isolation(NeuronDriver::Host).await, isolation);
}

/// X6: what was found out once is what each neuron says of itself.
#[tokio::test]
async fn what_keeps_a_neuron_apart_is_what_was_probed() {
    let land = Land::new();
    let probed = land.neurons.isolation(NeuronDriver::Namespace).await;
    assert!(probed.level > IsolationLevel::None, "{probed:?}");
    let made = land.create(NeuronDriver::Namespace, "apart").await.isolation.unwrap();
    assert_eq!(made.level, probed.level, "made {made:?}, probed {probed:?}");
    assert_eq!(made.layers.is_empty(), made.level == IsolationLevel::None, "{made:?}");
}

#[tokio::test]
async fn one_that_runs_is_not_replaced_and_one_that_stopped_is() {
    for driver in BOTH {
        let land = Land::new();
        let first = land.create(driver, "same").await;
        land.says("same", "echo old > file").await;
        let again = land.neurons.create(spec(driver, "same")).await;
        assert!(matches!(again, Err(NeuronError::Exists(_))), "got {again:?}");
        assert_eq!(land.info("same").await.unwrap(), first);
        let workspace = land.workspace("same").await;
        kill(first.pid.unwrap());
        wait_for_state(&land, "same", NeuronState::Stopped).await;
        let stopped = land.info("same").await.unwrap();
        assert_eq!((stopped.pid, stopped.created_at), (None, first.created_at));
        let dead = land.neurons.workspace(&NeuronId::new("same"), None).await;
        assert!(matches!(dead, Err(NeuronError::NotRunning(_))), "got {dead:?}");
        assert_is_dead(&*workspace, "same").await;
        let second = land.create(driver, "same").await;
        assert_ne!(second.pid, first.pid);
        assert_eq!(land.says("same", "ls").await, "", "it begins with nothing");
        // What was opened before acts in the one that took its place.
        let ran = testkit::workspace_suite::bash(&*workspace, "echo here").await;
        assert_eq!(ran.out, "here\n");
    }
}

async fn assert_is_dead(workspace: &dyn Workspace, id: &str) {
    let text = format!("neuron {id} does not run");
    let located = workspace.locate("x").await.unwrap_err();
    assert_eq!(located.to_string(), text);
    let (sender, _output) = tokio::sync::mpsc::channel(1);
    let spawn = driver_api::Spawn {
        argv: vec!["true".to_owned()],
        cwd: workspace.cwd().to_owned(),
        env: Vec::new(),
        stdin: Vec::new(),
    };
    let spawned = workspace.spawn(spawn, sender).await.unwrap_err();
    assert!(matches!(spawned, WorkspaceError::Unfit(_)), "got {spawned:?}");
    assert_eq!(spawned.to_string(), text);
}

#[tokio::test]
async fn crafted_ids_touch_nothing() {
    let land = Land::new();
    let long = "x".repeat(65);
    for id in ["", ".", "..", "a/b", "../../etc", "a b", "a.b", "a\0", ".locks", long.as_str()] {
        let id = NeuronId::new(id);
        let failures = [
            land.neurons.create(spec(NeuronDriver::Host, id.as_str())).await.err(),
            land.neurons.info(&id).await.err(),
            land.neurons.workspace(&id, None).await.err(),
            land.neurons.destroy(&id).await.err(),
            land.neurons.fork(&id, NeuronId::new("b")).await.err(),
            land.neurons.fork(&NeuronId::new("b"), id.clone()).await.err(),
            land.neurons.changes(&id).await.err(),
        ];
        for failure in failures {
            assert!(matches!(failure, Some(NeuronError::Invalid(_))), "{id:?}: {failure:?}");
        }
    }
    assert!(!land.home().exists(), "nothing was made");
}

#[tokio::test]
async fn commands_get_their_variables_and_no_secret() {
    for driver in BOTH {
        let land = Land::new();
        let mut wanted = spec(driver, "vars");
        wanted.env = vec![("OWN".into(), "value".into()), ("API_KEY".into(), "given".into())];
        land.neurons.create(wanted).await.unwrap();
        let env = land.says("vars", "env").await;
        let get = |name: &str| {
            let prefix = format!("{name}=");
            env.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
        };
        assert_eq!(get("OWN").as_deref(), Some("value"));
        assert_eq!(
            get("API_KEY").as_deref(),
            Some("given"),
            "what was asked for is not taken away"
        );
        assert_eq!(get("TERM").as_deref(), Some("dumb"));
        // Of this process's own nothing is inherited; these are set anew, or by the shell.
        let known = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "LOGNAME", "NARTHEX", "PWD"];
        let shell = ["OLDPWD", "SHLVL", "_", "GIT_TERMINAL_PROMPT"];
        for (name, _) in std::env::vars() {
            if !known.contains(&name.as_str()) && !shell.contains(&name.as_str()) {
                assert_eq!(get(&name), None, "{name}");
            }
        }
        assert_eq!(
            land.says("vars", "cd && touch own && cd $TMPDIR && touch own; echo $?").await,
            "0\n"
        );
    }
}

#[tokio::test]
async fn there_are_no_more_than_may_be() {
    let land = Land::new();
    let mut options = options(&land.home());
    options.neurons_max = 2;
    let neurons = sandbox::neurons(options);
    for id in ["a", "b"] {
        neurons.create(spec(NeuronDriver::Host, id)).await.unwrap();
    }
    let full = neurons.create(spec(NeuronDriver::Host, "c")).await;
    assert!(matches!(full, Err(NeuronError::Capacity(_))), "got {full:?}");
    assert!(!land.of("c").exists());
    neurons.destroy(&NeuronId::new("a")).await.unwrap();
    neurons.create(spec(NeuronDriver::Host, "c")).await.unwrap();
}

#[tokio::test]
async fn a_folder_of_the_machine_is_worked_in() {
    let land = Land::new();
    let folder = land.project("project");
    std::fs::write(folder.join("old"), "old\n").unwrap();
    std::fs::write(folder.join("gone"), "gone\n").unwrap();
    // Whoever the neuron's user is: what lies there is everybody's.
    let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&folder, open(0o777)).unwrap();
    let mut wanted = spec(NeuronDriver::Namespace, "over");
    wanted.folder = Some(folder.clone());
    let made = land.neurons.create(wanted).await.unwrap();
    assert_eq!((made.workspace.as_ref(), made.folder.as_ref()), (Some(&folder), Some(&folder)));
    let script = "cat old && echo new > new && rm gone && mkdir deep && echo x > deep/x; ls";
    assert_eq!(land.says("over", script).await, "old\ndeep\nnew\nold\n");
    assert!(!folder.join("new").exists() && folder.join("gone").exists(), "it stays as it is");
    let changes = land.neurons.changes(&NeuronId::new("over")).await.unwrap();
    let changes: Vec<_> =
        changes.iter().map(|entry| (entry.path.to_str().unwrap(), entry.change)).collect();
    let expected = [
        ("deep", OverlayChange::Added),
        ("deep/x", OverlayChange::Added),
        ("gone", OverlayChange::Removed),
        ("new", OverlayChange::Added),
    ];
    assert_eq!(changes, expected);
}

#[tokio::test]
async fn writes_go_through_where_that_is_wanted() {
    for driver in BOTH {
        let land = Land::new();
        let folder = land.project("through");
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&folder, open(0o777)).unwrap();
        let mut wanted = spec(driver, "through");
        wanted.folder = Some(folder.clone());
        wanted.writes = Writes::Folder;
        land.neurons.create(wanted).await.unwrap();
        assert_eq!(land.says("through", "echo new > new; cat new").await, "new\n");
        assert_eq!(std::fs::read(folder.join("new")).unwrap(), b"new\n");
        let refused = land.neurons.changes(&NeuronId::new("through")).await;
        assert!(matches!(refused, Err(NeuronError::NotSupported(_))), "got {refused:?}");
        let refused = land.neurons.fork(&NeuronId::new("through"), NeuronId::new("to")).await;
        assert!(matches!(refused, Err(NeuronError::NotSupported(_))), "got {refused:?}");
        land.destroy("through").await.unwrap();
        assert!(folder.join("new").exists(), "what was written through stays");
    }
}

#[tokio::test]
async fn a_working_folder_is_entered_or_refused() {
    for driver in BOTH {
        let land = Land::new();
        let made = land.create(driver, "cwd").await;
        land.says("cwd", "mkdir -p real/deep && ln -s real link && touch file").await;
        let id = NeuronId::new("cwd");
        let workspace = land.neurons.workspace(&id, Some("link/deep")).await.unwrap();
        let root = made.workspace.unwrap();
        assert_eq!(workspace.cwd(), root.join("real/deep"));
        assert_eq!(workspace.roots(), std::slice::from_ref(&root));
        assert!(!workspace.is_local());
        let outside = land.neurons.workspace(&id, Some("/usr")).await.unwrap();
        assert_eq!(outside.roots(), [std::path::PathBuf::from("/usr"), root]);
        for (path, is_missing) in [("none", true), ("file", false)] {
            let refused = land.neurons.workspace(&id, Some(path)).await;
            match refused {
                Err(NeuronError::Workspace(WorkspaceError::NotFound(_))) if is_missing => {}
                Err(NeuronError::Workspace(WorkspaceError::Unfit(_))) if !is_missing => {}
                other => panic!("expected a refusal of {path}, got {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_that_is_given_up_leaves_nothing() {
    for driver in BOTH {
        let land = Land::new();
        for delay_ms in [0, 1, 2, 4, 8, 16, 32] {
            let creating = land.neurons.create(spec(driver, "given-up"));
            let made = tokio::time::timeout(Duration::from_millis(delay_ms), creating).await;
            if made.is_ok() {
                land.destroy("given-up").await.unwrap();
            }
            let since = std::time::Instant::now();
            while land.of("given-up").exists()
                || !land.leftovers().is_empty()
                || land.processes() > 0
            {
                assert!(since.elapsed() < crate::place::PATIENCE, "expected nothing to be left");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        // The name is free at last.
        let since = std::time::Instant::now();
        while let Err(error) = land.neurons.create(spec(driver, "given-up")).await {
            assert!(matches!(error, NeuronError::Exists(_)), "got {error:?}");
            assert!(since.elapsed() < crate::place::PATIENCE);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_create_the_same_one_does() {
    for driver in BOTH {
        let land = Land::new();
        let all = (0..4).map(|_| land.neurons.create(spec(driver, "wanted")));
        let all = futures_util::future::join_all(all).await;
        let made = all.iter().filter(|made| made.is_ok()).count();
        assert_eq!(made, 1, "got {all:?}");
        for refused in all.iter().filter_map(|made| made.as_ref().err()) {
            assert!(matches!(refused, NeuronError::Exists(_)), "got {refused:?}");
        }
    }
}

/// X7: it is told as a fault of ours, and never as the end of a command.
#[tokio::test]
async fn a_launcher_that_fails_leaves_nothing() {
    for command in [vec!["/no/such/agent".into()], vec!["true".into()], vec!["cat".into()], vec![]]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&folder.path().join("home"));
        options.command = command;
        let neurons = sandbox::neurons(options);
        for driver in BOTH {
            let failed = neurons.create(spec(driver, "never")).await;
            assert!(matches!(failed, Err(NeuronError::Fault(_))), "got {failed:?}");
        }
        assert_eq!(neurons.list().await.unwrap(), []);
        let left: Vec<_> = std::fs::read_dir(folder.path().join("home/neurons")).unwrap().collect();
        assert_eq!(left.len(), 1, "expected the locks alone, got {left:?}");
        let isolation = neurons.isolation(NeuronDriver::Namespace).await;
        assert_eq!((isolation.level, isolation.reasons.len()), (IsolationLevel::None, 1));
    }
}
