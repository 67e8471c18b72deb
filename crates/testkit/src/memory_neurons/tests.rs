//! The neurons of tests keep the contract.

use driver_api::{Egress, NeuronLimits, Output, Spawn};

use super::*;

fn spec(id: &str) -> NeuronSpec {
    NeuronSpec {
        id: NeuronId::new(id),
        driver: NeuronDriver::Namespace,
        isolation: IsolationLevel::Full,
        folder: None,
        writes: Writes::Overlay,
        env: vec![("GREETING".to_owned(), "hello".to_owned())],
        limits: NeuronLimits::default(),
        egress: Egress::default(),
    }
}

#[tokio::test]
async fn a_neuron_lives_dies_and_is_replaced() {
    let neurons = MemoryNeurons::with_limit(1);
    let id = NeuronId::new("a");
    neurons.create(spec("a")).await.unwrap();
    assert!(matches!(neurons.create(spec("a")).await, Err(NeuronError::Exists(_))));
    assert!(matches!(neurons.create(spec("b")).await, Err(NeuronError::Capacity(_))));
    let workspace = neurons.workspace(&id, None).await.unwrap();
    let file = workspace.locate("x.txt").await.unwrap();
    workspace.write(&file, b"x").await.unwrap();
    let (output, mut pieces) = mpsc();
    let spawn = Spawn {
        argv: ["sh", "-c", "cat; echo $GREETING; kill -9 $$"].map(str::to_owned).into(),
        cwd: workspace.cwd().to_owned(),
        env: vec![],
        stdin: b"said ".to_vec(),
    };
    let mut process = workspace.spawn(spawn, output).await.unwrap();
    let exit = process.wait().await.unwrap();
    assert_eq!(exit.status, driver_api::ExitStatus::Signal(9));
    let mut said = Vec::new();
    while let Ok(Output::Stdout(bytes)) = pieces.try_recv() {
        said.extend_from_slice(&bytes);
    }
    assert_eq!(said, b"said hello\n");
    neurons.kill(&id);
    assert!(matches!(neurons.workspace(&id, None).await, Err(NeuronError::NotRunning(_))));
    neurons.create(spec("a")).await.unwrap();
    let workspace = neurons.workspace(&id, None).await.unwrap();
    assert!(workspace.locate("x.txt").await.unwrap().stat.is_none(), "it begins anew");
    neurons.destroy(&id).await.unwrap();
    assert!(matches!(neurons.info(&id).await, Err(NeuronError::NotFound(_))));
}

fn mpsc() -> (tokio::sync::mpsc::Sender<Output>, tokio::sync::mpsc::Receiver<Output>) {
    tokio::sync::mpsc::channel(64)
}

#[tokio::test]
async fn layers_know_what_they_changed() {
    let neurons = MemoryNeurons::default();
    let lower = TempDir::new().unwrap();
    for name in ["kept", "changed", "removed"] {
        std::fs::write(lower.path().join(name), name).unwrap();
    }
    let folder = Some(lower.path().to_owned());
    neurons.create(NeuronSpec { folder, ..spec("a") }).await.unwrap();
    let id = NeuronId::new("a");
    let work = neurons.folder(&id);
    std::fs::write(work.join("changed"), "other").unwrap();
    std::fs::write(work.join("added"), "").unwrap();
    std::fs::remove_file(work.join("removed")).unwrap();
    let changes = neurons.changes(&id).await.unwrap();
    let shown: Vec<_> =
        changes.iter().map(|entry| (entry.path.to_str().unwrap(), entry.change)).collect();
    use OverlayChange::{Added, Changed, Removed};
    assert_eq!(shown, [("added", Added), ("changed", Changed), ("removed", Removed)]);
    neurons.fork(&id, NeuronId::new("b")).await.unwrap();
    assert!(neurons.folder(&NeuronId::new("b")).join("added").exists());
    assert!(lower.path().join("removed").exists());
}
