//! A TCP proxy on a loopback port that does to connections what networks do to them.
//!
//! A test says beforehand where in a server's answer something happens, counted in bytes or in
//! frames of an event stream, and what: a reset, an end, a silence. Nothing depends on time.
//!
//! ```ignore
//! let proxy = Proxy::start(server_port);
//! proxy.plan(Fault { at: At::frame(3), harm: Harm::Reset });
//! // ... the next connection through proxy.port() breaks behind its third frame ...
//! assert_eq!(proxy.struck(), 1);
//! ```
//!
//! The proxy lives on a thread and a runtime of its own and ends when it is dropped.

mod meter;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use meter::Meter;

/// Bytes that are read at once where the test sets no smaller piece.
const PIECE_BYTES: usize = 16 * 1024;

/// Where in the server's part of a connection something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Behind this many bytes. With 0 the server has answered, and nothing of it is handed on.
    Bytes(u64),
    /// Behind this many frames of an event stream, comments counted, and some bytes of the next.
    /// No frame means: behind the head of the answer.
    Frame {
        /// How many frames are handed on whole.
        count: usize,
        /// How many further bytes are.
        more: u64,
    },
}

impl At {
    /// Behind the end of a frame, by its number from 1.
    pub fn frame(count: usize) -> Self {
        Self::Frame { count, more: 0 }
    }
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Both sides get a reset.
    Reset,
    /// Both sides get a proper end.
    Finish,
    /// Nothing is handed on any more, in either direction, and both sockets stay open until
    /// [`Proxy::release`], whatever the two sides do.
    BlackHole,
    /// The server is told that the client will say nothing more; all else goes on.
    HalfClose,
}

/// Something that happens to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: At,
    /// What.
    pub harm: Harm,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    faults: VecDeque<Fault>,
    is_refusing: bool,
    piece_bytes: usize,
    accepted: usize,
    struck: usize,
}

/// The proxy. See the module for what it does.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    released: watch::Sender<u64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy before a port of 127.0.0.1.
    ///
    /// # Panics
    /// Where the machine gives no port or no thread: no test can go on then.
    #[allow(clippy::expect_used, reason = "a test without its proxy cannot go on")]
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind a port");
        listener.set_nonblocking(true).expect("make the listener non-blocking");
        let port = listener.local_addr().expect("read the port").port();
        let shared = Arc::new(Mutex::new(Shared {
            target,
            faults: VecDeque::new(),
            is_refusing: false,
            piece_bytes: PIECE_BYTES,
            accepted: 0,
            struck: 0,
        }));
        let (stop, stopped) = oneshot::channel();
        let released = watch::Sender::new(0);
        let (own, releases) = (Arc::clone(&shared), released.subscribe());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("build the proxy's runtime");
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || runtime.block_on(listen(listener, own, releases, stopped)))
            .expect("start the proxy's thread");
        Self { port, shared, released, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends connections that come from now on to another port.
    pub fn retarget(&self, target: u16) {
        self.shared().target = target;
    }

    /// Plans a fault for a connection to come: each takes the next one, those without one are
    /// left alone.
    pub fn plan(&self, fault: Fault) {
        self.shared().faults.push_back(fault);
    }

    /// Resets new connections as they come, or lets them in again.
    pub fn refuse(&self, is_refusing: bool) {
        self.shared().is_refusing = is_refusing;
    }

    /// Hands on at most this many bytes at once from now on: 1 cuts every frame, line and
    /// character.
    pub fn in_pieces_of(&self, bytes: usize) {
        self.shared().piece_bytes = bytes.max(1);
    }

    /// Resets what lies in black holes.
    pub fn release(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// Returns how many connections have come, refused ones included.
    pub fn accepted(&self) -> usize {
        self.shared().accepted
    }

    /// Returns how many faults have happened.
    pub fn struck(&self) -> usize {
        self.shared().struck
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy's thread was printed when it happened.
            let _ = thread.join().is_ok();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(
    listener: TcpListener,
    shared: Arc<Mutex<Shared>>,
    released: watch::Receiver<u64>,
    mut stop: oneshot::Receiver<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // Dropping the set at the end hangs up on everybody.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(one(client, Arc::clone(&shared), released.clone()));
            }
        }
    }
}

/// What a connection came to.
enum Ended {
    /// One side broke off.
    Broken,
    /// Both have said all.
    Over,
    /// The fault is due.
    Struck(Harm),
}

async fn one(
    mut client: TcpStream,
    shared: Arc<Mutex<Shared>>,
    mut released: watch::Receiver<u64>,
) {
    let (target, fault, piece_bytes) = {
        let mut shared = lock(&shared);
        shared.accepted += 1;
        if shared.is_refusing {
            return reset(client);
        }
        (shared.target, shared.faults.pop_front(), shared.piece_bytes)
    };
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return reset(client);
    };
    // Pieces are to arrive as they are sent.
    let is_set = client.set_nodelay(true).is_ok() && server.set_nodelay(true).is_ok();
    let mut fault = fault.filter(|_| is_set);
    loop {
        let ended = carry(&mut client, &mut server, fault.take(), piece_bytes).await;
        // A release counts for every fault that was counted before it.
        released.mark_unchanged();
        if matches!(ended, Ended::Struck(_)) {
            lock(&shared).struck += 1;
        }
        match ended {
            Ended::Over => return,
            Ended::Broken | Ended::Struck(Harm::Reset) => break,
            Ended::Struck(Harm::Finish) => {
                // Whoever has gone already needs no end.
                let _ = client.shutdown().await.is_ok() && server.shutdown().await.is_ok();
                return;
            }
            Ended::Struck(Harm::BlackHole) => {
                // The sender goes with the proxy.
                let _ = released.changed().await.is_ok();
                break;
            }
            Ended::Struck(Harm::HalfClose) => {
                if server.shutdown().await.is_err() {
                    break;
                }
            }
        }
    }
    reset(client);
    reset(server);
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    // One that is broken already needs none.
    let _ = stream.set_zero_linger().is_ok();
    drop(stream);
}

/// Carries bytes both ways until a fault is due or nothing more can come.
async fn carry(
    client: &mut TcpStream,
    server: &mut TcpStream,
    fault: Option<Fault>,
    piece_bytes: usize,
) -> Ended {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        let mut meter = fault.map(|fault| (Meter::new(fault.at), fault.harm));
        let mut piece = vec![0; piece_bytes];
        loop {
            let count = from_server.read(&mut piece).await?;
            if count == 0 {
                to_client.shutdown().await?;
                return io::Result::Ok(Ended::Over);
            }
            let read = piece.get(..count).unwrap_or_default();
            let due = meter.as_mut().and_then(|(meter, harm)| Some((meter.pass(read)?, *harm)));
            let passed = due.map_or(count, |(bytes, _)| bytes);
            to_client.write_all(piece.get(..passed).unwrap_or_default()).await?;
            if let Some((_, harm)) = due {
                return Ok(Ended::Struck(harm));
            }
        }
    };
    let (mut up, mut down) = (pin!(up), pin!(down));
    let ended = tokio::select! {
        ended = &mut down => match ended {
            // The server has said all; the client may still be sending.
            Ok(Ended::Over) => up.await.map(|()| Ended::Over),
            ended => ended,
        },
        sent = &mut up => match sent {
            Ok(()) => down.await,
            Err(error) => Err(error),
        },
    };
    ended.unwrap_or(Ended::Broken)
}
