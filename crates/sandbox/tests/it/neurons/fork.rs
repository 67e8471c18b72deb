//! A neuron that begins with the files of another one.

use driver_api::{NeuronDriver, NeuronError};
use protocol::NeuronId;

use super::{BOTH, Land, spec};

/// Writes all kinds of things, and keeps a process writing while it is copied.
const FILL: &str = "mkdir -p deep/er && echo text > deep/er/file && chmod 751 deep/er/file && \
    ln -s er/file deep/link && ln deep/er/file hard && touch -d @1000000000 deep/er && \
    truncate -s 1000000000 sparse && mkfifo pipe && echo home > ~/kept && echo tmp > $TMPDIR/kept";

const LOOK: &str = "cat deep/link hard ~/kept $TMPDIR/kept; \
    stat -c %a deep/er/file; stat -c %Y deep/er; stat -c %h hard; \
    stat -c %s sparse; [ $(stat -c %b sparse) -lt 100 ] && echo holes; [ -p pipe ] && echo pipe; \
    [ -O hard ] && echo own";

const SEEN: &str = "text\ntext\nhome\ntmp\n751\n1000000000\n2\n1000000000\nholes\npipe\nown\n";

#[tokio::test]
async fn a_fork_has_all_that_the_other_one_had_and_goes_its_own_way() {
    for driver in BOTH {
        let land = Land::new();
        land.create(driver, "from").await;
        assert_eq!(land.says("from", FILL).await, "");
        let forked = land.neurons.fork(&NeuronId::new("from"), NeuronId::new("to")).await.unwrap();
        assert_eq!(forked.driver, Some(driver));
        assert_eq!(land.says("to", LOOK).await, SEEN, "{driver:?}");
        land.says("to", "echo other > deep/er/file; rm hard").await;
        assert_eq!(land.says("from", LOOK).await, SEEN, "{driver:?}");
        land.destroy("from").await.unwrap();
        assert_eq!(land.says("to", "cat deep/er/file").await, "other\n");
    }
}

#[tokio::test]
async fn a_fork_sees_the_same_folder_with_the_same_changes() {
    let land = Land::new();
    let folder = land.project("project");
    let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    for name in ["kept", "gone", "hidden/old"] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "lower\n").unwrap();
        std::fs::set_permissions(path.parent().unwrap(), open(0o777)).unwrap();
    }
    let mut wanted = spec(NeuronDriver::Namespace, "from");
    wanted.folder = Some(folder);
    land.neurons.create(wanted).await.unwrap();
    let script = "rm gone && rm -r hidden && mkdir hidden && echo new > hidden/new; echo $?";
    assert_eq!(land.says("from", script).await, "0\n");
    let (from, to) = (NeuronId::new("from"), NeuronId::new("to"));
    land.neurons.fork(&from, to.clone()).await.unwrap();
    assert_eq!(land.says("to", "ls . hidden; cat kept").await, {
        ".:\nhidden\nkept\n\nhidden:\nnew\nlower\n"
    });
    let changes = land.neurons.changes(&to).await.unwrap();
    assert_eq!(changes, land.neurons.changes(&from).await.unwrap());
    assert_eq!(changes.len(), 3, "got {changes:?}");
}

#[tokio::test]
async fn a_neuron_that_is_forked_goes_on() {
    for driver in BOTH {
        let land = Land::new();
        land.create(driver, "busy").await;
        let workspace = land.workspace("busy").await;
        let script = "n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n > count; done; echo done";
        let (mut process, mut output) = testkit::workspace_suite::start(&*workspace, script).await;
        while land.says("busy", "cat count").await.trim().parse().unwrap_or(0) < 2 {}
        land.neurons.fork(&NeuronId::new("busy"), NeuronId::new("copy")).await.unwrap();
        let copied: u64 = land.says("copy", "cat count").await.trim().parse().unwrap_or(0);
        let read = || land.says("busy", "cat count");
        while read().await.trim().parse().unwrap_or(0) <= copied {}
        land.says("busy", "touch stop").await;
        process.wait().await.unwrap();
        while output.recv().await.is_some() {}
    }
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused() {
    let land = Land::new();
    let (one, other) = (NeuronId::new("one"), NeuronId::new("other"));
    let missing = land.neurons.fork(&one, other.clone()).await;
    assert!(matches!(missing, Err(NeuronError::NotFound(_))), "got {missing:?}");
    land.create(NeuronDriver::Host, "one").await;
    land.create(NeuronDriver::Host, "other").await;
    for to in [one.clone(), other] {
        let taken = land.neurons.fork(&one, to).await;
        assert!(matches!(taken, Err(NeuronError::Exists(_))), "got {taken:?}");
    }
}
