//! A model server for many sessions at once, on one thread of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::script::Script;
use super::wire::{Wire, length};
use crate::model_server::Exchange;
use crate::{moment, wire};

/// Bytes of one write of deltas that nothing holds back.
const WRITE_BYTES: usize = 64 * 1024;

/// How an answer begins that is a stream.
pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";

/// A running server. It ends with the program.
#[derive(Debug)]
pub(crate) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    exchanges: Mutex<HashMap<usize, Vec<Exchange>>>,
    /// The requests of one script, where they are kept.
    bodies: Mutex<Option<(usize, Vec<Vec<u8>>)>>,
    /// Requests that ask for no script.
    strays: AtomicUsize,
    held: AtomicUsize,
    released: watch::Sender<u64>,
}

impl Model {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub(crate) fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("listen")?;
        listener.set_nonblocking(true).context("listen without waiting")?;
        let address = listener.local_addr().context("find the model server's port")?;
        let shared = Arc::new(Shared {
            exchanges: Mutex::default(),
            bodies: Mutex::default(),
            strays: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            released: watch::Sender::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let own = Arc::clone(&shared);
        drop(std::thread::spawn(move || runtime.block_on(accept(listener, own))));
        Ok(Self { address, shared })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forgets what came. With an id, the bodies of that script are kept from now on.
    pub(crate) fn begin(&self, keep: Option<usize>) {
        lock(&self.shared.exchanges).clear();
        *lock(&self.shared.bodies) = keep.map(|id| (id, Vec::new()));
        self.shared.strays.store(0, Ordering::SeqCst);
    }

    /// Returns the exchanges of each script, in their order.
    pub(crate) fn exchanges(&self) -> HashMap<usize, Vec<Exchange>> {
        lock(&self.shared.exchanges).clone()
    }

    /// Returns the bodies that were kept.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.bodies).take().map(|(_, bodies)| bodies).unwrap_or_default()
    }

    /// Returns how many requests asked for no script.
    pub(crate) fn strays(&self) -> usize {
        self.shared.strays.load(Ordering::SeqCst)
    }

    /// Returns how many answers wait to be released.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Lets all held answers go.
    pub(crate) fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        // One that cannot be accepted is missed by whoever counts the requests.
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
        let body = wire.body(length(&head)?).await?;
        let arrived = Instant::now();
        let found = std::str::from_utf8(&body).ok().and_then(Script::find);
        let Some((script, done)) = found.filter(|_| head.starts_with("POST ")) else {
            shared.strays.fetch_add(1, Ordering::SeqCst);
            wire.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await?;
            continue;
        };
        // Noted before it is answered, so that whoever saw the answer finds the note.
        let bytes = body.len();
        let place = {
            let mut exchanges = lock(&shared.exchanges);
            let own = exchanges.entry(script.id).or_default();
            own.push(Exchange { arrived, sent: arrived, bytes });
            own.len() - 1
        };
        if let Some((id, bodies)) = lock(&shared.bodies).as_mut()
            && *id == script.id
        {
            bodies.push(body);
        }
        answer(&mut wire, &script, done, shared).await?;
        let sent = Instant::now();
        if let Some(own) =
            lock(&shared.exchanges).get_mut(&script.id).and_then(|own| own.get_mut(place))
        {
            own.sent = sent;
        }
    }
    Ok(())
}

async fn answer(wire: &mut Wire, script: &Script, done: usize, shared: &Shared) -> Result<()> {
    if done < script.steps {
        return whole(wire, &wire::tool_call(script.first + done)).await;
    }
    if script.is_held {
        let mut released = shared.released.subscribe();
        shared.held.fetch_add(1, Ordering::SeqCst);
        let waited = released.changed().await;
        shared.held.fetch_sub(1, Ordering::SeqCst);
        waited.context("wait for the release of an answer")?;
    }
    match (script.deltas, script.pace_us) {
        (0, _) => whole(wire, &wire::text(script.first + done)).await,
        (deltas, 0) => at_once(wire, deltas).await,
        (deltas, pace_us) => paced(wire, deltas, pace_us).await,
    }
}

async fn whole(wire: &mut Wire, answer: &[u8]) -> Result<()> {
    let mut reply = HEAD.as_bytes().to_vec();
    reply.extend_from_slice(&chunk(answer));
    reply.extend_from_slice(b"0\r\n\r\n");
    wire.write(&reply).await
}

/// Hands deltas out as fast as they are read.
async fn at_once(wire: &mut Wire, deltas: usize) -> Result<()> {
    let mut text = wire::text_opening();
    for number in 0..deltas {
        text.push_str(&wire::text_delta(&format!("word {number:06} of many ")));
    }
    text.push_str(&wire::text_closing());
    wire.write(HEAD.as_bytes()).await?;
    for piece in text.as_bytes().chunks(WRITE_BYTES) {
        wire.write(&chunk(piece)).await?;
    }
    wire.write(b"0\r\n\r\n").await
}

/// Hands deltas out one by one, each with the time at which it goes to the kernel.
async fn paced(wire: &mut Wire, deltas: usize, pace_us: usize) -> Result<()> {
    wire.write(HEAD.as_bytes()).await?;
    wire.write(&chunk(wire::text_opening().as_bytes())).await?;
    let pace = Duration::from_micros(u64::try_from(pace_us).unwrap_or(u64::MAX));
    let mut ticks = tokio::time::interval(pace);
    for _ in 0..deltas {
        ticks.tick().await;
        wire.write(&chunk(wire::text_delta(&moment::stamp()).as_bytes())).await?;
    }
    let mut end = chunk(wire::text_closing().as_bytes());
    end.extend_from_slice(b"0\r\n\r\n");
    wire.write(&end).await
}

/// Frames bytes as a chunk of a body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::served::client::post;
    use crate::served::viewer::Viewer;

    async fn stream(model: &Model, script: Script) -> (usize, usize) {
        let request = post("/v1/messages", &json!({"prompt": script.prompt()}));
        let mut viewer = Viewer::ask(model.address(), &request).await.unwrap();
        let (mut stamps, mut is_over) = (0, false);
        while !is_over {
            let read = viewer.read(|frame| {
                stamps += moment::stamps(frame.data).count();
                is_over |= frame.event == "message_stop";
            });
            read.await.unwrap();
        }
        (stamps, model.exchanges()[&script.id].len())
    }

    #[tokio::test]
    async fn a_viewer_sees_every_delta_of_a_paced_answer() {
        let model = Model::start().unwrap();
        let script = Script { id: 3, deltas: 20, pace_us: 100, ..Script::default() };
        assert_eq!(stream(&model, script).await, (20, 1));
        assert_eq!(stream(&model, Script { id: 4, ..Script::default() }).await, (0, 1));
        assert_eq!(model.strays(), 0);
    }

    #[tokio::test]
    async fn held_answers_wait_until_they_are_released() {
        let model = Model::start().unwrap();
        let script = Script { id: 5, is_held: true, ..Script::default() };
        let released = async {
            while model.held() == 0 {
                tokio::task::yield_now().await;
            }
            model.release();
        };
        let (seen, ()) = tokio::join!(stream(&model, script), released);
        assert_eq!(seen, (0, 1));
        assert_eq!(model.held(), 0);
    }
}
