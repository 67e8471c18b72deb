//! What was written is read again, and nothing else is.

use super::*;

fn plan() -> Plan {
    Plan {
        name: "n-1".to_owned(),
        layers: Layers::ALL.without(Layer::Seccomp),
        base: Base::default(),
        layer: "/var/lib/n".into(),
        disk: Some("/var/lib/n.img".into()),
        folder: Some(Folder { path: "/srv/x".into(), writes: FolderWrites::Through }),
        home: "/home/neuron".into(),
        host_id: Some(HostId { uid: 100_001, gid: 100_001 }),
        limits: Limits { memory_bytes: Some(1 << 30), pids: Some(64), ..Limits::default() },
        cgroup_parents: vec!["/sys/fs/cgroup/a".into()],
        egress: Some(Egress { folder: "/run/e".into(), socket: "proxy".to_owned() }),
        files: vec![ShownFile { outside: "/a".into(), inside: "/run/narthex/ca".into() }],
    }
}

fn report() -> Report {
    Report {
        pid: 7,
        layers: Layers::NONE.with(Layer::User),
        missing: vec![Missing { layer: Layer::Protected, reason: "no".to_owned() }],
        cgroups: vec!["/c".into()],
        workspace: "/workspace".into(),
        is_in_memory: true,
    }
}

#[test]
fn messages_come_back() {
    let bytes = plan().encode().unwrap();
    assert_eq!(Plan::decode(&bytes).unwrap(), plan());
    let root = Plan { base: Base::Root("/srv/root".into()), folder: None, ..plan() };
    assert_eq!(Plan::decode(&root.encode().unwrap()).unwrap(), root);
    let failed = Failure { step: "mount".to_owned(), errno: -1, cause: "no".to_owned() };
    for answer in [Answer::Up(report()), Answer::Failed(failed)] {
        assert_eq!(Answer::decode(&answer.encode().unwrap()).unwrap(), answer);
    }
    let probe = Probe { layers: Layers::ALL, missing: report().missing, landlock_abi: 7 };
    assert_eq!(Probe::decode(&probe.encode().unwrap()).unwrap(), probe);
}

#[test]
fn what_is_cut_or_goes_on_is_refused() {
    let bytes = plan().encode().unwrap();
    for len in 0..bytes.len() {
        assert!(Plan::decode(&bytes[..len]).is_err(), "cut at {len}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Plan::decode(&longer), Err(CodecError::Malformed));
    let stranger = [&[9, 0], &bytes[2..]].concat();
    assert_eq!(Plan::decode(&stranger), Err(CodecError::Version(9)));
    let long = Plan { name: "x".repeat(MESSAGE_MAX), ..plan() };
    assert!(matches!(long.encode(), Err(CodecError::TooLong(_))));
}

#[test]
fn every_layer_has_a_place_and_a_name() {
    for (index, layer) in Layer::ALL.into_iter().enumerate() {
        assert_eq!(layer as usize, index);
        assert!(Layers::ALL.has(layer) && !Layers::NONE.has(layer));
        assert!(!Layers::ALL.without(layer).has(layer));
    }
    let mut names: Vec<_> = Layers::ALL.iter().map(Layer::as_str).collect();
    names.dedup();
    assert_eq!(names.len(), Layer::ALL.len());
    assert_eq!(Layers::from_bits(1 << 31), None);
}
