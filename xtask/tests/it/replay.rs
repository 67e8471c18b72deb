//! Every target gets the seeds and the corpus that are in git.

use std::path::{Path, PathBuf};

#[path = "../../../fuzz/fuzz_targets/agent_frames.rs"]
mod agent_frames;
#[path = "../../../fuzz/fuzz_targets/cortex_request.rs"]
mod cortex_request;
#[path = "../../../fuzz/fuzz_targets/egress_hello.rs"]
mod egress_hello;
#[path = "../../../fuzz/fuzz_targets/egress_target.rs"]
mod egress_target;
#[path = "../../../fuzz/fuzz_targets/event.rs"]
mod event;
#[path = "../../../fuzz/fuzz_targets/event_stream.rs"]
mod event_stream;
#[path = "../../../fuzz/fuzz_targets/hooks.rs"]
mod hooks_target;
#[path = "../../../fuzz/fuzz_targets/host.rs"]
mod host;
#[path = "../../../fuzz/fuzz_targets/neuron_files.rs"]
mod neuron_files;
#[path = "../../../fuzz/fuzz_targets/neuron_plan.rs"]
mod neuron_plan;
#[path = "../../../fuzz/fuzz_targets/outbound_url.rs"]
mod outbound_url;
#[path = "../../../fuzz/fuzz_targets/patch.rs"]
mod patch;
#[path = "../../../fuzz/fuzz_targets/rule.rs"]
mod rule;
#[path = "../../../fuzz/fuzz_targets/shell.rs"]
mod shell_target;
#[path = "../../../fuzz/fuzz_targets/v1_request.rs"]
mod v1_request;

/// The one target that is left out: what it feeds is compiled for the fuzzer alone.
const LEFT_OUT: &str = "sse";

/// Looks at one input; panics where something is wrong.
type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 15] = [
    ("agent_frames", agent_frames::check),
    ("cortex_request", cortex_request::check),
    ("egress_hello", egress_hello::check),
    ("egress_target", egress_target::check),
    ("event", event::check),
    ("event_stream", event_stream::check),
    ("hooks", hooks_target::check),
    ("host", host::check),
    ("neuron_files", neuron_files::check),
    ("neuron_plan", neuron_plan::check),
    ("outbound_url", outbound_url::check),
    ("patch", patch::check),
    ("rule", rule::check),
    ("shell", shell_target::check),
    ("v1_request", v1_request::check),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// Feeds a target all that is kept for it; a panic of the target fails the test, with the file.
fn replay(target: &str) {
    let (_, check) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let mut count = 0;
    for kind in ["seeds", "corpus"] {
        let folder = folder().join(kind).join(target);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            let result = std::panic::catch_unwind(|| check(&data));
            assert!(result.is_ok(), "{target} fails with {}", path.display());
            count += 1;
        }
    }
    assert!(count > 0, "{target} has seeds");
}

#[test]
fn agent_frames_holds() {
    replay("agent_frames");
}

#[test]
fn cortex_request_holds() {
    replay("cortex_request");
}

#[test]
fn egress_hello_holds() {
    replay("egress_hello");
}

#[test]
fn egress_target_holds() {
    replay("egress_target");
}

#[test]
fn event_holds() {
    replay("event");
}

#[test]
fn event_stream_holds() {
    replay("event_stream");
}

#[test]
fn hooks_holds() {
    replay("hooks");
}

#[test]
fn host_holds() {
    replay("host");
}

#[test]
fn neuron_files_holds() {
    replay("neuron_files");
}

#[test]
fn neuron_plan_holds() {
    replay("neuron_plan");
}

#[test]
fn outbound_url_holds() {
    replay("outbound_url");
}

#[test]
fn patch_holds() {
    replay("patch");
}

#[test]
fn rule_holds() {
    replay("rule");
}

#[test]
fn shell_holds() {
    replay("shell");
}

#[test]
fn v1_request_holds() {
    replay("v1_request");
}

#[test]
fn every_target_is_replayed() {
    let mut found: Vec<String> = std::fs::read_dir(folder().join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort_unstable();
    found.retain(|name| name != LEFT_OUT);
    assert_eq!(found, TARGETS.map(|(name, _)| name));
}
