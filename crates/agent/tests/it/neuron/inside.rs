//! What a command sees.

use std::path::Path;

use agent::neuron::{Base, BaseFolder, INSIDE_ID, Layer, Layers, Limits, ShownFile};

use super::house::{Site, Who, everybody};

fn expected(who: Who) -> Layers {
    let mut layers = Layers::ALL;
    // Nothing of these was asked for.
    for layer in [Layer::Memory, Layer::Pids, Layer::Cpu, Layer::Disk, Layer::Protected] {
        layers = layers.without(layer);
    }
    if who == Who::User {
        layers = layers.without(Layer::HostUser).without(Layer::IdMap);
    }
    layers
}

#[test]
fn every_layer_is_in_force_and_commands_run() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let missing: Vec<_> = neuron.report.missing.iter().map(|entry| &entry.reason).collect();
        assert_eq!(neuron.report.layers, expected(who), "{who:?}: {missing:?}");
        assert_eq!(missing.is_empty(), who == Who::Root, "{missing:?}");
        assert_eq!(neuron.run("echo it runs"), "it runs");
        assert_eq!(neuron.run("pwd; cd /workspace && touch x && ls"), "/\nx");
    }
}

#[test]
fn a_command_is_a_nobody_of_the_machine() {
    for who in everybody() {
        let site = Site::new(who);
        let (name, host_id) = (site.plan.name.clone(), site.plan.host_id);
        let neuron = site.start();
        assert_eq!(neuron.run("id -u; id -g; id -G; whoami"), "1000\n1000\n1000\nneuron");
        assert_eq!(neuron.run("uname -n; cat /etc/hostname"), format!("{name}\n{name}"));
        let status = neuron.run("cat /proc/self/status");
        for line in [
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapAmb:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "expected {line} in {status}");
        }
        // On the machine it is the id that it was given.
        let owner = std::fs::read_to_string(format!("/proc/{}/status", neuron.report.pid)).unwrap();
        let uid = owner.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap();
        let uid: u32 = uid.split('\t').next().unwrap().parse().unwrap();
        match host_id {
            Some(id) => assert_eq!(uid, id.uid),
            None => assert_ne!(uid, 0),
        }
        assert_ne!(uid, INSIDE_ID);
    }
}

#[test]
fn nothing_of_the_machine_is_seen() {
    for who in everybody() {
        let site = Site::new(who);
        let secret = site.folder("secret").join("key");
        std::fs::write(&secret, "the key").unwrap();
        let neuron = site.start();
        let run = |script: &str| neuron.run(script);
        assert_eq!(run(&format!("test -e {} || echo gone", secret.display())), "gone");
        assert_eq!(
            run("ls -A /home /tmp /run; ls /root /mnt /sys 2>/dev/null | wc -l"),
            "/home:\nneuron\n\n/run:\n\n/tmp:\n0"
        );
        for path in ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/machine-id"] {
            assert_eq!(run(&format!("test -e {path} || echo gone")), "gone", "{path}");
        }
        assert_eq!(run("cut -d: -f1 /etc/passwd"), "root\nneuron\nnobody");
        // The first process, the one that serves this connection, its minders and the command.
        let pids: usize = run("ls /proc | grep -c '^[0-9]'").parse().unwrap();
        assert!((4..12).contains(&pids), "expected a few processes, got {pids}");
        for path in ["environ", "root/etc", "fd/0", "cwd/etc", "mem", "maps"] {
            let script = format!("cat /proc/1/{path} >/dev/null && echo open");
            assert!(!run(&script).contains("open"), "{path}");
        }
        let mounts = run("cat /proc/self/mounts");
        assert!(!mounts.contains(&*neuron.site.home.path().to_string_lossy()), "{mounts}");
        assert_eq!(run("ls /proc/self/fd | wc -l"), "4");
        assert_eq!(run("cat /proc/self/cgroup | grep -c test-"), "0");
    }
}

#[test]
fn namespaces_are_its_own() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let inside = neuron.run(&format!("readlink /proc/self/ns/{name}"));
            let outside = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert!(inside.starts_with(name), "{inside}");
            assert_ne!(Path::new(&inside), outside);
        }
    }
}

#[test]
fn devices_terminals_and_shared_memory_work() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        assert_eq!(
            neuron.run("head -c 4 /dev/zero | wc -c; echo x >/dev/null; echo y > /dev/full"),
            "4\nbash: line 1: echo: write error: No space left on device"
        );
        assert_eq!(
            neuron.run("head -c 9 /dev/urandom | wc -c; echo z > /dev/shm/z; cat /dev/shm/z"),
            "9\nz"
        );
        assert_eq!(
            neuron.run("ls /dev | tr '\\n' ' '"),
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
        );
        assert_eq!(neuron.run("script -qec 'tty' /dev/null 2>&1 | tr -d '\\r'"), "/dev/pts/0");
    }
}

#[test]
fn proc_is_read_only_and_covered() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let script = "cd /proc; for f in sys/kernel/core_pattern sysrq-trigger self/comm; do \
            (echo x > $f) 2>/dev/null && echo $f; done; cat keys kcore 2>/dev/null | wc -c";
        assert_eq!(neuron.run(script), "0");
        // Landlock holds where that layer is off.
        let mut site = Site::new(who);
        site.plan.layers = Layers::ALL.without(Layer::ProcReadOnly);
        let neuron = site.start();
        assert!(!neuron.has(Layer::ProcReadOnly) && neuron.has(Layer::Landlock));
        let denied = neuron.run("echo x > /proc/self/comm");
        assert!(denied.contains("Permission denied"), "{denied}");
        let mut site = Site::new(who);
        site.plan.layers = Layers::ALL.without(Layer::ProcReadOnly).without(Layer::Landlock);
        let neuron = site.start();
        assert_eq!(neuron.run("echo x > /proc/self/comm; cat /proc/self/comm"), "cat");
    }
}

#[test]
fn shown_files_are_there_and_cannot_be_changed() {
    for who in everybody() {
        let mut site = Site::new(who);
        let outside = site.folder("shown").join("ca");
        std::fs::write(&outside, "certificate").unwrap();
        site.plan.files =
            vec![ShownFile { outside: outside.clone(), inside: "/run/narthex/tls/ca".into() }];
        let neuron = site.start();
        let script =
            "cat /run/narthex/tls/ca; (echo x > /run/narthex/tls/ca) 2>/dev/null || echo no";
        assert_eq!(neuron.run(script), "certificateno");
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "certificate");
    }
}

#[test]
fn a_root_filesystem_can_be_the_base() {
    if !everybody().contains(&Who::Root) {
        // The root of this machine is at hand as one, and only root may part it from its mounts.
        return;
    }
    let mut site = Site::new(Who::Root);
    site.plan.base = Base::Root("/".into());
    site.plan.limits = Limits { disk_bytes: Some(8 << 20), ..Limits::default() };
    let neuron = site.start();
    let name = &neuron.site.plan.name;
    assert_eq!(
        neuron.run("cat /etc/hostname; touch /etc/mine && echo made"),
        format!("{name}\nmade")
    );
    assert!(!Path::new("/etc/mine").exists());
}

#[test]
fn a_plan_that_cannot_be_is_refused_by_name() {
    for who in everybody() {
        type Change = fn(&mut Site);
        let wrong: [(&str, Change); 5] = [
            ("name", |site| site.plan.name = "a/b".to_owned()),
            ("home", |site| site.plan.home = "/etc".into()),
            ("layer", |site| site.plan.layer = "/no/such/folder".into()),
            ("base", |site| site.plan.base = Base::Root("/no/such/folder".into())),
            ("host_id", |site| {
                let id = agent::neuron::HostId { uid: 0, gid: 0 };
                site.plan.host_id = Some(id);
            }),
        ];
        for (field, change) in wrong {
            let mut site = Site::new(who);
            change(&mut site);
            let failure = site.try_start().unwrap_err().to_string();
            let is_named = failure.contains(field) || failure.contains("/no/such/folder");
            assert!(is_named, "expected {field} in {failure}");
        }
        let mut site = Site::new(who);
        let absent = BaseFolder { path: "/no/such/folder".into(), is_mapped: false };
        if let Base::Host(folders) = &mut site.plan.base {
            folders.push(absent);
        }
        assert_eq!(site.start().run("echo up"), "up");
    }
}
