//! Lives and ends: of the launcher, of the first process, of connections.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use agent::neuron::{Answer, COMMANDS, Layers, remove_cgroups};
use agent::wire::Status;

use super::house::{Neuron, Site, everybody, kill, message};
use crate::client::{PATIENCE, SOON, Tree, wait_until};

/// Nobody listens any more: every process that had the socket is gone.
fn wait_refused(site: &Site) {
    let socket = site.socket();
    let is_refused = || UnixStream::connect(&socket).is_err();
    wait_until(SOON, is_refused, || format!("{} is listened on", socket.display()));
}

#[test]
fn the_end_of_the_first_process_is_that_of_all() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let tree = Tree::new();
        let mut client = neuron.client();
        client.bash(&tree.script());
        tree.wait_up(6);
        neuron.kill();
        tree.wait_gone(SOON);
        wait_refused(&neuron.site);
    }
}

#[test]
fn what_a_connection_started_ends_with_it() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let (gone, kept) = (Tree::new(), Tree::new());
        let mut client = neuron.client();
        client.bash(&gone.script());
        let mut other = neuron.client();
        other.bash(&kept.script());
        gone.wait_up(6);
        kept.wait_up(6);
        drop(client);
        gone.wait_gone(SOON);
        assert_eq!(kept.alive().len(), 6);
    }
}

#[test]
fn orphans_of_a_server_that_was_killed_are_ended() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let tree = Tree::new();
        let mut client = neuron.client();
        // The shell's parent is its minder, and that one's the server: both die by its hand, and
        // neither sees the other die.
        let script = format!(
            "minder=$PPID; server=$(cut -d' ' -f4 /proc/$minder/stat); {} & \
            kill -STOP $minder $server; kill -9 $server $minder; wait",
            tree.sleep(1)
        );
        client.spawn(crate::client::bash(&script));
        tree.wait_up(1);
        tree.wait_gone(PATIENCE);
        assert_eq!(neuron.run("echo it lives on"), "it lives on");
    }
}

#[test]
fn commands_inside_cannot_end_the_first_process() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let script =
            "for s in TERM KILL STOP INT SEGV; do kill -$s 1; done; kill -0 1 && echo there";
        assert_eq!(neuron.run(script), "there");
        assert_eq!(neuron.run("echo it lives on"), "it lives on");
    }
}

#[test]
fn true_statuses_come_out() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let mut client = neuron.client();
        assert_eq!(client.run("exit 7").2.status, Status::Code(7));
        assert_eq!(client.run("kill -SEGV $$").2.status, Status::Signal(11));
        assert_eq!(client.run("no-such-program 2>/dev/null").2.status, Status::Code(127));
    }
}

#[test]
fn what_serves_a_connection_cannot_be_kept_from_it_by_a_stop() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let mut client = neuron.client();
        // The shell's parent is its minder, and that one's the server.
        client.spawn(crate::client::bash(
            "kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 60",
        ));
        // Whoever waits for it is told by the end of the stream.
        while client.stream.read(&mut [0; 64]).expect("expected the end in time") > 0 {}
        assert_eq!(neuron.run("echo it lives on"), "it lives on");
    }
}

#[test]
fn a_connection_that_says_nothing_sensible_is_closed() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let mut stream = neuron.connect(b'?');
        assert_eq!(stream.read(&mut [0]).unwrap_or_default(), 0);
        assert_eq!(neuron.run("echo it lives on"), "it lives on");
    }
}

#[test]
fn more_connections_than_may_be_wait() {
    let who = everybody()[0];
    let neuron = Site::new(who).start();
    let mut open: Vec<UnixStream> = (0..70).map(|_| neuron.connect(COMMANDS)).collect();
    let mut head = [0; 9];
    open[0].read_exact(&mut head).unwrap();
    let last = open.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(last.read_exact(&mut head).is_err(), "expected it to wait");
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut last = open.pop().unwrap();
    drop(open);
    last.read_exact(&mut head).unwrap();
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing() {
    for who in everybody() {
        for delay in [0, 1, 2, 3, 5, 8, 12, 20] {
            let site = Site::new(who);
            let (mut launcher, mut stream) = site.launch();
            std::thread::sleep(Duration::from_millis(delay));
            launcher.kill().unwrap();
            launcher.wait().unwrap();
            let answer = message(&mut stream).ok().map(|bytes| Answer::decode(&bytes).unwrap());
            match answer {
                // It was told: the neuron is ours, if it was let go.
                Some(Answer::Up(report)) => drop(Neuron { report, site }),
                Some(Answer::Failed(failure)) => panic!("{failure}"),
                None => {
                    wait_refused(&site);
                    remove_cgroups(&agent::neuron::find_cgroups(&site.plan.name, &[]));
                }
            }
        }
    }
}

#[test]
fn a_driver_that_is_gone_gets_no_neuron() {
    for who in everybody() {
        let site = Site::new(who);
        let (mut launcher, stream) = site.launch();
        drop(stream);
        assert!(!launcher.wait().unwrap().success());
        wait_refused(&site);
        let left = agent::neuron::find_cgroups(&site.plan.name, &[]);
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn without_layers_it_is_a_daemon_of_the_machine() {
    for who in everybody() {
        let mut site = Site::new(who);
        site.plan.layers = Layers::NONE;
        let neuron = site.start();
        assert_eq!(neuron.report.layers, Layers::NONE);
        let outside = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(neuron.run("readlink /proc/self/ns/pid"), outside.to_string_lossy());
        let pid =
            neuron.run("cut -d' ' -f4 /proc/$PPID/stat | xargs -I% cut -d' ' -f4 /proc/%/stat");
        assert_eq!(pid, neuron.report.pid.to_string());
        kill(neuron.report.pid);
        wait_refused(&neuron.site);
    }
}

#[test]
fn a_neuron_whose_folder_is_removed_ends() {
    let start = |who, layers| {
        let mut site = Site::new(who);
        site.plan.layers = layers;
        let (neuron, tree) = (site.start(), Tree::new());
        let mut client = neuron.client();
        client.bash(&tree.script());
        tree.wait_up(6);
        neuron.site.open_layer();
        std::fs::remove_dir_all(&neuron.site.plan.layer).unwrap();
        (neuron, tree, client)
    };
    // All at once: it is looked at every fifteen seconds.
    let all: Vec<_> = everybody()
        .into_iter()
        .flat_map(|who| [start(who, Layers::ALL), start(who, Layers::NONE)])
        .collect();
    for (neuron, tree, _client) in &all {
        tree.wait_gone(PATIENCE);
        wait_refused(&neuron.site);
    }
}

#[test]
fn groups_that_were_left_behind_are_removed_by_the_next_start() {
    let name = |age: &str| format!("narthex-neuron-left-{age}-{}", std::process::id());
    let root = std::path::Path::new("/sys/fs/cgroup");
    let places = [root.to_path_buf(), root.join("unified")];
    let made = |path: &std::path::PathBuf| std::fs::create_dir(path).is_ok();
    // Only root can make one, and only where cgroups are mounted.
    let unified = |place: &&std::path::PathBuf| place.join("cgroup.procs").exists();
    let Some(place) = places.iter().find(unified) else { return };
    let (old, fresh) = (place.join(name("old")), place.join(name("fresh")));
    if !made(&old) || !made(&fresh) {
        return;
    }
    let before = std::time::SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::open(&old).unwrap().set_modified(before).unwrap();
    let _neuron = Site::new(everybody()[0]).start();
    wait_until(SOON, || !old.exists(), || format!("{} is there", old.display()));
    assert!(fresh.exists(), "its process may be on its way");
    std::fs::remove_dir(&fresh).unwrap();
}
