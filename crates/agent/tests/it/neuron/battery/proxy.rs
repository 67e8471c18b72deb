//! The real way out of the battery's neurons, and a small net of our own behind it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use driver_api::{Egress, EgressAudit, EgressEvent, EgressRule};
use egress::{Door, Options};
use outbound::{Dial, Resolve};
use protocol::NeuronId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// The one place that may be reached.
const PUBLIC: &str = "93.184.215.14";

/// A proxy on a thread of its own, with what it dialled.
pub(super) struct Outside {
    dialled: Arc<Dialled>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Names(Mutex<BTreeMap<String, usize>>);

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.0.lock().unwrap();
        let count = asked.entry(name.to_owned()).or_default();
        *count += 1;
        let address = match name {
            "allowed.example" => PUBLIC,
            "meta.example" => "169.254.169.254",
            "inner.example" => "127.0.0.1",
            // Never the same twice, and never what may be reached.
            "turning.example" if *count % 2 == 1 => "10.0.0.7",
            "turning.example" => "127.0.0.1",
            "other.example" | "notallowed.example" => "93.184.215.99",
            _ => return Err(io::Error::other("no such name")),
        };
        Ok(vec![address.parse().unwrap()])
    }
}

/// Leads the one public address to the server of the battery.
#[derive(Debug)]
struct Dialled {
    all: Mutex<Vec<SocketAddr>>,
    server: SocketAddr,
}

#[async_trait]
impl Dial for Dialled {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.all.lock().unwrap().push(address);
        if address.ip().to_string() == PUBLIC {
            return TcpStream::connect(self.server).await;
        }
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

#[derive(Debug)]
struct Silent;

impl EgressAudit for Silent {
    fn saw(&self, _: &EgressEvent) {}
}

fn rule(host: &str, allows_private: bool) -> EgressRule {
    EgressRule { host: host.to_owned(), port: None, methods: Vec::new(), allows_private }
}

impl Outside {
    /// Serves a socket in a folder.
    pub(super) fn open(folder: &Path, name: &str) -> Self {
        let socket = folder.join(name);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let server_at = server.local_addr().unwrap();
        let dialled = Arc::new(Dialled { all: Mutex::default(), server: server_at });
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let dial = Arc::clone(&dialled);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let hosts = ["allowed.example", "meta.example", "inner.example"];
                let mut allow: Vec<_> = hosts.into_iter().map(|host| rule(host, false)).collect();
                allow.push(rule("turning.example", false));
                let egress = Egress { allow, credentials: Vec::new() };
                let options =
                    Options { resolver: Arc::new(Names::default()), dial, ..Options::default() };
                let listener = UnixListener::from_std(listener).unwrap();
                let neuron = NeuronId::new("nr_battery");
                let door = Door::open(neuron, &egress, listener, Arc::new(Silent), options);
                let door = door.unwrap();
                let server = TcpListener::from_std(server).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = serve(server) => {}
                }
                door.close().await;
            });
        });
        Self { dialled, stop: Some(stop), thread: Some(thread) }
    }

    /// The addresses that were dialled and must not have been.
    pub(super) fn strayed(&self) -> Vec<SocketAddr> {
        let all = self.dialled.all.lock().unwrap().clone();
        all.into_iter()
            .filter(|at| at.ip().to_string() != PUBLIC || !matches!(at.port(), 80 | 443))
            .collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ended = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Answers whatever it is sent with the names that it heard.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut bytes = vec![0; 16 << 10];
            // One piece is enough: none of the requests is longer.
            let count = stream.read(&mut bytes).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let body: String = ["allowed.example", "other.example"]
                .iter()
                .filter(|name| text.contains(*name))
                .map(|name| format!("heard {name}\n"))
                .collect();
            let len = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n{body}");
            let _gone = stream.write_all(answer.as_bytes()).await;
            let _gone = stream.shutdown().await;
        });
    }
}
