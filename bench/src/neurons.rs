//! Neurons, beside what others keep processes apart with on the same machine, in the same run.

mod left;
mod peers;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use driver_api::{
    Egress, IsolationLevel, NeuronDriver, NeuronLimits, NeuronSpec, Neurons, Spawn, Workspace,
    Writes,
};
use protocol::NeuronId;
use sandbox::NeuronOptions;

use self::left::Left;
use self::peers::Peers;
use crate::arguments::Options;
use crate::memory;
use crate::summary::{ms, number, percentile};

/// How often a figure of this part is measured in each of the bench's rounds.
const TURNS: usize = 20;

/// How many neurons live at once for the figure of their memory.
const ALIVE: usize = 200;

/// How many come and go for the figure of what they leave.
const CYCLES: usize = 1_000;

/// How many are kept ready for the figures of the pool.
const READY: usize = 4;

/// How long to wait for a neuron that is to be ready, or for something that is to be gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// The figures of one row, by subject.
#[derive(Debug, Default)]
struct Row {
    host: Vec<f64>,
    bubblewrap: Vec<f64>,
    runc: Vec<f64>,
    narthex: Vec<f64>,
}

/// Measures, and returns the table.
///
/// # Errors
/// The first command that does not end well, and anything that is left behind.
pub(crate) fn part(options: &Options, folder: &Path, agent: &Path) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start an async runtime")?;
    runtime.block_on(measure(options, folder, agent))
}

async fn measure(options: &Options, folder: &Path, agent: &Path) -> Result<String> {
    let home = tempfile::tempdir_in(folder).context("make a home")?;
    let peers = Peers::find(home.path())?;
    let left = Left::now(home.path());
    let cold = keeper(home.path(), agent, 0);
    let warm = keeper(home.path(), agent, READY);
    let isolation = cold.isolation(NeuronDriver::Namespace).await;
    let measured = async {
        let mut table = rounds(options, &peers, (&*cold, &*warm), home.path()).await?;
        table.push_str(&alive(&peers, &*cold).await?);
        table.push_str(&ends(&*cold).await?);
        warm.close().await;
        table.push_str(&cycles(&*cold, &left).await?);
        Ok::<_, anyhow::Error>(table)
    }
    .await;
    warm.close().await;
    // Whatever went wrong, nothing is left.
    for neuron in cold.list().await.unwrap_or_default() {
        drop(cold.destroy(&neuron.id).await);
    }
    let table = measured?;
    let missing = match isolation.reasons.is_empty() {
        true => String::new(),
        false => format!(" Missing layers: {}.", isolation.reasons.join("; ")),
    };
    Ok(format!(
        "Neurons: isolation {}, {} layers.{missing} {} Each cell: p50 / p99 of {} in ms, where \
         nothing else is said.\n\n\
         | what | no isolation | bubblewrap | runc | narthex | goal |\n|---|---|---|---|---|---|\n\
         {table}",
        isolation.level.as_str(),
        isolation.layers.len(),
        peers.describe(),
        options.rounds * TURNS,
    ))
}

fn keeper(home: &Path, agent: &Path, warm: usize) -> Arc<dyn Neurons> {
    let mut options = NeuronOptions::new(home.to_owned(), vec![agent.into()]);
    options.neurons_max = usize::MAX;
    options.warm = warm;
    sandbox::neurons(options)
}

fn spec(id: String) -> NeuronSpec {
    NeuronSpec {
        id: NeuronId::new(id),
        driver: NeuronDriver::Namespace,
        isolation: IsolationLevel::None,
        folder: None,
        writes: Writes::Overlay,
        env: Vec::new(),
        limits: NeuronLimits::default(),
        egress: Egress::default(),
    }
}

/// Runs `true` and waits for its end.
async fn run_true(workspace: &dyn Workspace) -> Result<()> {
    let (sender, mut output) = tokio::sync::mpsc::channel(4);
    let spawn = Spawn {
        argv: vec!["true".to_owned()],
        cwd: workspace.cwd().to_owned(),
        env: Vec::new(),
        stdin: Vec::new(),
    };
    let mut process = workspace.spawn(spawn, sender).await.context("start true")?;
    while output.recv().await.is_some() {}
    let exit = process.wait().await.context("wait for true")?;
    if exit.status != driver_api::ExitStatus::Code(0) {
        bail!("true ended with {:?}", exit.status);
    }
    Ok(())
}

/// Creates a neuron and runs `true` in it. Returns when it was up, and when that had ended.
async fn start(neurons: &dyn Neurons, id: String) -> Result<(f64, f64)> {
    let since = Instant::now();
    let made = neurons.create(spec(id)).await.context("create a neuron")?;
    let up = since.elapsed();
    let workspace = neurons.workspace(&made.id, None).await.context("open a neuron")?;
    run_true(&*workspace).await?;
    Ok((ms(up), ms(since.elapsed())))
}

/// The subjects take turns. No neuron is removed meanwhile: a file system that was just told to
/// forget some hundred files takes longer to make the next ones.
async fn rounds(
    options: &Options,
    peers: &Peers,
    (cold, warm): (&dyn Neurons, &dyn Neurons),
    home: &Path,
) -> Result<String> {
    let (mut started, mut up, mut pooled, mut pooled_up, mut inside) =
        (Row::default(), Row::default(), Row::default(), Row::default(), Row::default());
    let running = cold.create(spec("running".to_owned())).await.context("create a neuron")?;
    let running = cold.workspace(&running.id, None).await.context("open a neuron")?;
    run_true(&*running).await?;
    let container = peers.start_container()?;
    // The first one is made as any other, and has the others made ready.
    start(warm, "warm-first".to_owned()).await?;
    for turn in 0..options.rounds * TURNS {
        started.host.push(peers.bare()?);
        started.bubblewrap.extend(peers.bubblewrap()?);
        started.runc.extend(peers.runc(turn)?);
        let (at, all) = start(cold, format!("cold-{turn}")).await?;
        up.narthex.push(at);
        started.narthex.push(all);
        wait_for_ready(home).await?;
        let (at, all) = start(warm, format!("warm-{turn}")).await?;
        pooled_up.narthex.push(at);
        pooled.narthex.push(all);
        // The one that takes its place must not be in anybody's way.
        wait_for_ready(home).await?;
        inside.host.push(peers.bare()?);
        inside.runc.extend(container.run()?);
        let since = Instant::now();
        run_true(&*running).await?;
        inside.narthex.push(ms(since.elapsed()));
    }
    Ok([
        started.show("`true` in a fresh one, from nothing to its end", "≤ 4"),
        up.show("a fresh one, until commands can run", ""),
        pooled.show("`true` in one from the pool, from the request to its end", ""),
        pooled_up.show("one from the pool, until commands can run", ""),
        inside.show("`true` in a running one", "≤ 1.5"),
    ]
    .concat())
}

/// Waits until as many are ready as should be.
async fn wait_for_ready(home: &Path) -> Result<()> {
    let since = Instant::now();
    loop {
        let entries = std::fs::read_dir(home.join("neurons")).context("list neurons")?;
        let ready = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            let text = std::fs::read_to_string(entry.path().join("state.json"));
            name.to_string_lossy().starts_with(".warm-")
                && text.is_ok_and(|text| text.contains("\"pid\""))
        });
        if ready.count() >= READY {
            // It is written down a moment before it can be given away.
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            bail!("no neuron is ready after {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What one of many takes, in MiB: proportional (what they share is counted once) and resident.
async fn alive(peers: &Peers, neurons: &dyn Neurons) -> Result<String> {
    let mut count = neurons.list().await.context("list neurons")?.len();
    while count < ALIVE {
        start(neurons, format!("alive-{count}")).await?;
        count += 1;
    }
    let all = neurons.list().await.context("list neurons")?;
    let roots: HashSet<u32> = all.iter().filter_map(|info| info.pid).collect();
    if roots.len() != all.len() {
        bail!("{} of {} neurons run", roots.len(), all.len());
    }
    let own = cell(memory::of_trees(&roots), roots.len());
    let bubblewrap = peers.alive_in_bubblewrap(ALIVE)?.map(|sizes| cell(sizes, ALIVE));
    let runc = peers.alive_in_runc(ALIVE)?.map(|sizes| cell(sizes, ALIVE));
    let [bubblewrap, runc] = [bubblewrap, runc].map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
    Ok(format!(
        "| memory of one of {} that live, after a command each (of the others: a `sleep`), MiB \
         proportional / resident | – | {bubblewrap} | {runc} | {own} |  |\n",
        roots.len()
    ))
}

#[allow(clippy::cast_precision_loss, reason = "counts of neurons are far below 2^52")]
fn cell((proportional, resident): (f64, f64), count: usize) -> String {
    let each = count.max(1) as f64;
    format!("{} / {}", number(proportional / each), number(resident / each))
}

/// Ends all that live.
async fn ends(neurons: &dyn Neurons) -> Result<String> {
    let mut row = Row::default();
    for info in neurons.list().await.context("list neurons")? {
        let since = Instant::now();
        neurons.destroy(&info.id).await.context("destroy a neuron")?;
        row.narthex.push(ms(since.elapsed()));
    }
    Ok(row.show("the end of one that lives, with its files", ""))
}

/// Lets many come and go, and looks whether anything is left of them.
async fn cycles(neurons: &dyn Neurons, before: &Left) -> Result<String> {
    let mut row = Row::default();
    for cycle in 0..CYCLES {
        let since = Instant::now();
        let (_, _) = start(neurons, "cycle".to_owned()).await?;
        neurons.destroy(&NeuronId::new("cycle")).await.context("destroy a neuron")?;
        row.narthex.push(ms(since.elapsed()));
        if cycle == 0 {
            neurons.close().await;
        }
    }
    neurons.close().await;
    before.wait_for_nothing(PATIENCE).await?;
    Ok(row.show(
        &format!("{CYCLES} created, used and destroyed one after the other; nothing is left"),
        "nothing left",
    ))
}

impl Row {
    fn show(&self, what: &str, goal: &str) -> String {
        let cell = |figures: &[f64]| match (percentile(figures, 50), percentile(figures, 99)) {
            (Some(half), Some(most)) => format!("{} / {}", number(half), number(most)),
            _ => "–".to_owned(),
        };
        let cells = [&self.host, &self.bubblewrap, &self.runc, &self.narthex].map(|all| cell(all));
        format!("| {what} | {} | {goal} |\n", cells.join(" | "))
    }
}
