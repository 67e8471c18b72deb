//! A limited disk: what it holds, and what can be done with it.

use driver_api::{NeuronDriver, NeuronError, NeuronInfo, NeuronSpec, OverlayChange};
use protocol::NeuronId;

use super::{Land, spec};

const MIB: u64 = 1 << 20;

fn limited(id: &str, bytes: u64) -> NeuronSpec {
    let mut wanted = spec(NeuronDriver::Namespace, id);
    wanted.limits.disk_bytes = Some(bytes);
    wanted
}

/// Whether this machine keeps limited disks in memory; it says why then.
fn is_in_memory(info: &NeuronInfo) -> bool {
    let isolation = info.isolation.as_ref().unwrap();
    assert!(isolation.layers.iter().any(|layer| layer == "disk"), "{isolation:?}");
    let reason = isolation.reasons.iter().find(|reason| reason.contains("disk is in memory"));
    let is_root = rustix::process::geteuid().is_root();
    if let Some(reason) = reason {
        assert_eq!(reason.contains("only root"), !is_root, "{reason}");
    }
    reason.is_some()
}

/// The loop devices that stand for an image of this land.
fn devices(land: &Land) -> Vec<String> {
    let home = land.home().display().to_string();
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let files = entries
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    files.filter(|file| file.starts_with(&home)).collect()
}

#[tokio::test]
async fn a_limited_disk_holds_what_it_may_and_no_more() {
    let land = Land::new();
    for bytes in [8 * MIB, 64 * MIB] {
        let made = land.neurons.create(limited("full", bytes)).await.unwrap();
        is_in_memory(&made);
        // Every place that it may write to is on it.
        let script = "for place in . ~ /tmp /usr; do \
            head -c 5M /dev/zero > $place/some 2>/dev/null && echo $place; done; \
            rm -f ./some ~/some /tmp/some /usr/some; \
            head -c 100M /dev/zero > all 2>/dev/null || echo full; stat -c %s all; rm all; \
            head -c 3M /dev/zero > again && echo again";
        let said = land.says("full", script).await;
        let lines: Vec<&str> = said.lines().collect();
        let held: u64 = lines[lines.len() - 2].parse().unwrap();
        assert!(lines.contains(&"full") && lines.last() == Some(&"again"), "{said}");
        assert!(held <= bytes && held >= bytes / 2, "{said}");
        if bytes == 8 * MIB {
            assert_eq!(lines[0], ".", "the second one does not fit any more: {said}");
            assert!(!lines.contains(&"/tmp"), "{said}");
        }
        land.destroy("full").await.unwrap();
        crate::place::wait_for("no device for its disk", || devices(&land).is_empty()).await;
    }
}

#[tokio::test]
async fn a_limited_disk_is_forked_and_looked_at_where_it_can_be_mounted() {
    let land = Land::new();
    let folder = land.project("project");
    std::fs::write(folder.join("old"), "old\n").unwrap();
    let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&folder, open(0o777)).unwrap();
    let wanted = NeuronSpec { folder: Some(folder.clone()), ..limited("from", 32 * MIB) };
    let made = land.neurons.create(wanted).await.unwrap();
    let (from, to) = (NeuronId::new("from"), NeuronId::new("to"));
    assert_eq!(land.says("from", "echo new > new; rm old; echo mine > ~/kept").await, "");
    if is_in_memory(&made) {
        for refused in
            [land.neurons.fork(&from, to).await.err(), land.neurons.changes(&from).await.err()]
        {
            assert!(
                matches!(&refused, Some(NeuronError::NotSupported(why)) if why.contains("memory")),
                "got {refused:?}"
            );
        }
        return;
    }
    let changes = land.neurons.changes(&from).await.unwrap();
    let changes: Vec<_> =
        changes.iter().map(|entry| (entry.path.to_str().unwrap(), entry.change)).collect();
    assert_eq!(changes, [("new", OverlayChange::Added), ("old", OverlayChange::Removed)]);
    let forked = land.neurons.fork(&from, to.clone()).await.unwrap();
    assert!(!is_in_memory(&forked));
    assert_eq!(land.says("to", "ls; cat ~/kept; echo theirs > ~/kept").await, "new\nmine\n");
    assert_eq!(land.says("from", "cat ~/kept").await, "mine\n");
    let full = "head -c 100M /dev/zero > ~/all 2>/dev/null || echo full";
    assert_eq!(land.says("to", full).await, "full\n", "the limit is its own, too");
    // One that does not run any more is looked at as well.
    crate::place::kill(made.pid.unwrap());
    super::wait_for_state(&land, "from", driver_api::NeuronState::Stopped).await;
    assert_eq!(land.neurons.changes(&from).await.unwrap().len(), 2);
    land.neurons.fork(&from, NeuronId::new("late")).await.unwrap();
    assert_eq!(land.says("late", "cat ~/kept new").await, "mine\nnew\n");
    for id in ["from", "to", "late"] {
        land.destroy(id).await.unwrap();
    }
    crate::place::wait_for("no device for their disks", || devices(&land).is_empty()).await;
}
