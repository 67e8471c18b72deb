//! The floor of a server: answers constants, and writes a recorded stream to whoever asks for it.
//!
//! One thread, no checks, nothing stored. It ends when its standard input does.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::model::{HEAD, chunk};
use super::wire::{Wire, length};
use crate::table;

/// Bytes of one chunk of a recorded stream.
const CHUNK_BYTES: usize = 64 * 1024;

/// What all connections share.
struct Shared {
    /// The recorded stream, framed as chunks.
    stream: Vec<u8>,
    /// Its first event, and its last, each as a chunk.
    first: Vec<u8>,
    last: Vec<u8>,
    /// Those who wait until as many are there as they said.
    crowds: Mutex<HashMap<usize, Arc<Barrier>>>,
}

/// Is the floor. `/constant/N` answers N bytes; `/fan/N` streams the recording as soon as N ask,
/// and `/paced/N/COUNT/MICROSECONDS` its first event so many times at that pace.
///
/// # Errors
/// When no port can be opened.
pub(crate) fn run(recording: &Path) -> Result<()> {
    // Whoever measures the start alone records nothing.
    let recorded = std::fs::read(recording).unwrap_or_default();
    let stream = recorded.chunks(CHUNK_BYTES).flat_map(chunk).chain(*b"0\r\n\r\n").collect();
    let events = std::str::from_utf8(&recorded).context("read the recording")?;
    let event = |text: Option<&str>| chunk(text.unwrap_or_default().as_bytes());
    let first = event(events.split_inclusive("\n\n").next());
    let last = event(events.split_inclusive("\n\n").last());
    let shared = Arc::new(Shared { stream, first, last, crowds: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ended, end) = tokio::sync::oneshot::channel();
    drop(std::thread::spawn(move || {
        // Whatever it says, it is over then.
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        // Nobody listens any more: it is over already.
        let _ = ended.send(());
    }));
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listen")?;
        let port = listener.local_addr().context("find the port")?.port();
        table::line(&format!("{{\"type\":\"ready\",\"port\":{port}}}"))?;
        tokio::select! {
            () = accept(listener, shared) => Ok(()),
            _ = end => Ok(()),
        }
    })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            if let Ok(wire) = Wire::new(stream) {
                drop(serve(wire, &shared).await);
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut wire: Wire, shared: &Shared) -> Result<()> {
    while let Some(head) = wire.head().await? {
        drop(wire.body(length(&head)?).await?);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut words = path.split('/').skip(1);
        let kind = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        match (kind, numbers.as_slice()) {
            ("constant", [bytes]) => constant(&mut wire, *bytes).await?,
            ("fan", [crowd]) => {
                begin(&mut wire, shared, *crowd).await?;
                wire.write(&shared.stream).await?;
            }
            ("paced", [crowd, count, pace_us]) => {
                begin(&mut wire, shared, *crowd).await?;
                let pace = Duration::from_micros(u64::try_from(*pace_us)?);
                let mut ticks = tokio::time::interval(pace);
                for _ in 0..*count {
                    ticks.tick().await;
                    wire.write(&shared.first).await?;
                }
                wire.write(&shared.last).await?;
                wire.write(b"0\r\n\r\n").await?;
            }
            _ => bail!("does not know {path}"),
        }
    }
    Ok(())
}

async fn constant(wire: &mut Wire, bytes: usize) -> Result<()> {
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
    );
    reply.extend(std::iter::repeat_n('x', bytes));
    wire.write(reply.as_bytes()).await
}

/// Begins a stream and waits until as many have asked for one.
async fn begin(wire: &mut Wire, shared: &Shared, crowd: usize) -> Result<()> {
    wire.write(HEAD.as_bytes()).await?;
    let all = {
        let mut crowds = shared.crowds.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(crowds.entry(crowd).or_insert_with(|| Barrier::new(crowd).into()))
    };
    all.wait().await;
    Ok(())
}
