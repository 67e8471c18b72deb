//! What a neuron may use.

use agent::neuron::{Layer, Limits};

use super::house::{Site, everybody};

#[test]
fn the_limit_of_processes_holds() {
    for who in everybody() {
        let mut site = Site::new(who);
        site.plan.limits = Limits { pids: Some(24), ..Limits::default() };
        let neuron = site.start();
        assert!(neuron.has(Layer::Pids));
        let told =
            neuron.run("for i in $(seq 40); do sleep 30 & done; jobs -p | wc -l; kill $(jobs -p)");
        let is_refused = told.contains("fork: retry") || told.contains("Resource temporarily");
        assert!(is_refused, "{told}");
    }
}

#[test]
fn the_limit_of_memory_holds_where_there_are_cgroups() {
    for who in everybody() {
        let mut site = Site::new(who);
        site.plan.limits = Limits { memory_bytes: Some(48 << 20), ..Limits::default() };
        let neuron = site.start();
        if !neuron.has(Layer::Memory) {
            let reasons = &neuron.report.missing;
            let told = reasons.iter().find(|entry| entry.layer == Layer::Memory).unwrap();
            assert!(told.reason.contains("cgroup"), "{}", told.reason);
            continue;
        }
        assert_eq!(neuron.run("head -c 200M /dev/zero | tail -c 199M | wc -c"), "0");
        assert_eq!(neuron.run("echo it lives on"), "it lives on");
    }
}

#[test]
fn cgroups_are_found_and_removed() {
    for who in everybody() {
        let mut site = Site::new(who);
        site.plan.limits =
            Limits { memory_bytes: Some(64 << 20), cpu_millis: Some(500), ..Limits::default() };
        let neuron = site.start();
        let made = neuron.report.cgroups.clone();
        assert_eq!(agent::neuron::find_cgroups(&neuron.site.plan.name, &[]), made);
        assert!(made.iter().all(|group| group.exists()));
        drop(neuron);
        assert!(!made.iter().any(|group| group.exists()), "{made:?}");
    }
}
