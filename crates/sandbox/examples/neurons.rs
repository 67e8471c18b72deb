//! Measures neurons: `cargo run --release -p sandbox --example neurons AGENT [ROUNDS] [ALIVE]`.
//!
//! Creates and destroys a neuron `ROUNDS` times, runs a command in a running one as often, then
//! lets `ALIVE` of them live at once and destroys them, for both drivers, and prints the medians.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for a person")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver_api::{
    Egress, IsolationLevel, NeuronDriver, NeuronLimits, NeuronSpec, Neurons, Spawn, Writes,
};
use protocol::NeuronId;
use sandbox::NeuronOptions;

fn spec(driver: NeuronDriver, id: &str) -> NeuronSpec {
    NeuronSpec {
        id: NeuronId::new(id),
        driver,
        isolation: IsolationLevel::None,
        folder: None,
        writes: Writes::Overlay,
        env: Vec::new(),
        limits: NeuronLimits::default(),
        egress: Egress::default(),
    }
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1)).unwrap();
    println!("  {what:<28} p50 {:>10.3?}  p95 {:>10.3?}  n {}", at(50), at(95), times.len());
}

async fn run(neurons: &dyn Neurons, id: &NeuronId, argv: &[&str]) {
    let workspace = neurons.workspace(id, None).await.unwrap();
    let (sender, mut output) = tokio::sync::mpsc::channel(16);
    let spawn = Spawn {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: workspace.cwd().to_owned(),
        env: Vec::new(),
        stdin: Vec::new(),
    };
    let mut process = workspace.spawn(spawn, sender).await.unwrap();
    while output.recv().await.is_some() {}
    process.wait().await.unwrap();
}

async fn measure(neurons: Arc<dyn Neurons>, driver: NeuronDriver, (rounds, alive): (usize, usize)) {
    println!("{}", driver.as_str());
    let isolation = neurons.isolation(driver).await;
    println!("  isolation {}: {}", isolation.level.as_str(), isolation.reasons.join("; "));
    let (mut made, mut ended) = (Vec::new(), Vec::new());
    let one = NeuronId::new("one");
    for _ in 0..rounds {
        let since = Instant::now();
        neurons.create(spec(driver, "one")).await.unwrap();
        made.push(since.elapsed());
        let since = Instant::now();
        neurons.destroy(&one).await.unwrap();
        ended.push(since.elapsed());
    }
    show("create", made);
    show("destroy", ended);
    neurons.create(spec(driver, "one")).await.unwrap();
    for argv in [&["true"][..], &["bash", "-c", "echo hi"]] {
        let mut ran = Vec::new();
        run(&*neurons, &one, argv).await;
        for _ in 0..rounds {
            let since = Instant::now();
            run(&*neurons, &one, argv).await;
            ran.push(since.elapsed());
        }
        show(&format!("open and run {}", argv.join(" ")), ran);
    }
    neurons.destroy(&one).await.unwrap();
    let (mut made, mut ran, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let ids: Vec<_> = (0..alive).map(|number| NeuronId::new(format!("n{number}"))).collect();
    for id in &ids {
        let since = Instant::now();
        neurons.create(spec(driver, id.as_str())).await.unwrap();
        made.push(since.elapsed());
    }
    for id in &ids {
        let since = Instant::now();
        run(&*neurons, id, &["true"]).await;
        ran.push(since.elapsed());
    }
    let since = Instant::now();
    assert_eq!(neurons.list().await.unwrap().len(), alive);
    println!("  list of {alive}: {:.3?}", since.elapsed());
    for id in &ids {
        let since = Instant::now();
        neurons.destroy(id).await.unwrap();
        ended.push(since.elapsed());
    }
    show(&format!("create up to {alive}"), made);
    show("first command in each", ran);
    show("destroy", ended);
}

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let program = arguments.get(1).unwrap();
    let count = |place: usize, usual: usize| {
        arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let home = tempfile::tempdir().unwrap();
    let options = NeuronOptions::new(home.path().to_owned(), vec![Path::new(program).into()]);
    let neurons = sandbox::neurons(options);
    for driver in [NeuronDriver::Host, NeuronDriver::Namespace] {
        measure(Arc::clone(&neurons), driver, (count(2, 100), count(3, 100))).await;
    }
}
