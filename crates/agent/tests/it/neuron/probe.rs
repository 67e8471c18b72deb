//! What the machine is said to be able to do.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use agent::neuron::{Layer, Layers, PROBE_ARGUMENT, Probe};

use super::house::{Who, everybody, message};
use crate::client::PATIENCE;

fn probe(mut command: Command) -> Probe {
    let (mut near, far) = UnixStream::pair().unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    command.stdin(Stdio::from(OwnedFd::from(far)));
    let mut child = loop {
        match command.spawn() {
            // See `Site::launch`.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
            spawned => break spawned.unwrap(),
        }
    };
    drop(command);
    let bytes = message(&mut near).expect("expected a probe");
    assert!(child.wait().unwrap().success());
    Probe::decode(&bytes).unwrap()
}

#[test]
fn every_layer_is_there_or_missing_with_a_reason() {
    for who in everybody() {
        let home = tempfile::tempdir().unwrap();
        who.own(home.path());
        let probe = probe(who.agent(home.path(), PROBE_ARGUMENT));
        for layer in Layer::ALL {
            let told: Vec<_> = probe.missing.iter().filter(|entry| entry.layer == layer).collect();
            assert_ne!(probe.layers.has(layer), !told.is_empty(), "{layer:?}: {told:?}");
        }
        assert_eq!(probe.layers.has(Layer::Landlock), probe.landlock_abi > 0);
        assert_eq!(probe.layers.has(Layer::HostUser), who == Who::Root);
        for layer in [Layer::User, Layer::Mount, Layer::Network, Layer::Seccomp, Layer::Overlay] {
            assert!(probe.layers.has(layer), "{layer:?}: {:?}", probe.missing);
        }
    }
}

/// Within a user namespace of its own one may forbid what lies below.
fn forbid(limit: &str) -> Probe {
    let who = *everybody().last().unwrap();
    let home = tempfile::tempdir().unwrap();
    who.own(home.path());
    let agent = who.agent(home.path(), PROBE_ARGUMENT);
    let script = format!("echo 0 > /proc/sys/user/{limit} && exec \"$0\" {PROBE_ARGUMENT}");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).arg(agent.get_program());
    if who.is_other() {
        use std::os::unix::process::CommandExt;
        command.uid(super::house::USER).gid(super::house::USER);
    }
    probe(command)
}

#[test]
fn a_machine_without_user_namespaces_is_told_as_such() {
    let probe = forbid("max_user_namespaces");
    assert_eq!(probe.layers, Layers::NONE);
    let told = probe.missing.iter().find(|entry| entry.layer == Layer::User).unwrap();
    assert!(told.reason.contains("no user namespace can be made"), "{}", told.reason);
    assert_eq!(probe.missing.len(), Layer::ALL.len());
}

#[test]
fn a_machine_without_network_namespaces_is_told_as_such() {
    let probe = forbid("max_net_namespaces");
    assert_eq!(probe.layers, Layers::NONE);
    let reason = |layer| {
        let entry = probe.missing.iter().find(|entry| entry.layer == layer).unwrap();
        entry.reason.as_str()
    };
    assert!(reason(Layer::Network).contains("no network namespace can be made"));
    assert!(reason(Layer::User).contains("no neuron can be made here"), "{}", reason(Layer::User));
}
