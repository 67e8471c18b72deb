//! A small net of our own: names, addresses that look public, servers behind them, and a door.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Egress, EgressAudit, EgressCredential, EgressEvent, EgressRule};
use egress::{Door, EgressError, Limits, Options};
use outbound::{Dial, Resolve};
use protocol::NeuronId;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Longest wait of any test for something that is bound to come.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A connection to a server that speaks TLS.
pub(crate) type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// What a server answers to a request, which it sees whole.
pub(crate) type Answer = fn(&str) -> Vec<u8>;

/// An answer that is always fine.
pub(crate) fn fine(_: &str) -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine".to_vec()
}

/// Answers names in turn, the last answer for ever.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>);

impl Names {
    pub(crate) fn add(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let answers = answers.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        if answers.len() > 1 {
            return Ok(answers.pop_front().unwrap());
        }
        Ok(answers.front().cloned().unwrap_or_default())
    }
}

/// Writes down what is dialled, and leads public addresses to the servers of the test. Addresses
/// of this machine lead where they say; port 9 never answers.
#[derive(Debug, Default)]
pub(crate) struct Spy {
    routes: Mutex<HashMap<SocketAddr, SocketAddr>>,
    dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Dial for Spy {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().unwrap().push(address);
        let route = self.routes.lock().unwrap().get(&address).copied();
        match route {
            Some(real) => TcpStream::connect(real).await,
            None if address.port() == 9 => std::future::pending().await,
            None if address.ip().is_loopback() => TcpStream::connect(address).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// The record.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Vec<EgressEvent>>);

impl EgressAudit for Record {
    fn saw(&self, event: &EgressEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Record {
    pub(crate) fn all(&self) -> Vec<EgressEvent> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for so many events and returns them; there are no more.
    pub(crate) async fn wait(&self, count: usize) -> Vec<EgressEvent> {
        eventually("an event", || self.all().len() >= count).await;
        let all = self.all();
        assert_eq!(all.len(), count, "{all:?}");
        all
    }
}

pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what} never came");
        sleep(Duration::from_millis(5)).await;
    }
}

/// An authority that vouches for the servers of a test.
pub(crate) struct Vouch {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Vouch {
    fn new() -> Self {
        let mut wanted = CertificateParams::new(Vec::new()).unwrap();
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = wanted.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(wanted, key), certificate }
    }

    fn server(&self, name: &str) -> (TlsAcceptor, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let wanted = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = wanted.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        (TlsAcceptor::from(Arc::new(config)), certificate)
    }
}

/// The net of one test. Its servers end with it.
pub(crate) struct House {
    pub(crate) names: Arc<Names>,
    pub(crate) record: Arc<Record>,
    pub(crate) vouch: Vouch,
    spy: Arc<Spy>,
    heard: Arc<Mutex<Vec<String>>>,
    folder: TempDir,
    servers: JoinSet<()>,
}

impl House {
    pub(crate) fn new() -> Self {
        super::logs::capture();
        Self {
            names: Arc::default(),
            record: Arc::default(),
            vouch: Vouch::new(),
            spy: Arc::default(),
            heard: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
            servers: JoinSet::new(),
        }
    }

    /// Starts a server on this machine and returns its address.
    pub(crate) async fn listen(&mut self, answer: Answer) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let real = listener.local_addr().unwrap();
        let heard = Arc::clone(&self.heard);
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(talk(stream, answer, Arc::clone(&heard)));
            }
        });
        real
    }

    /// Starts a server that a name and a public address lead to.
    pub(crate) async fn serve(&mut self, name: &str, port: u16, answer: Answer) {
        let real = self.listen(answer).await;
        self.lead(name, port, real);
    }

    /// The same with TLS; returns its certificate.
    pub(crate) async fn serve_tls(
        &mut self,
        name: &str,
        answer: Answer,
    ) -> CertificateDer<'static> {
        self.serve_tls_as(name, name, answer).await
    }

    /// The same with a certificate for another name.
    pub(crate) async fn serve_tls_as(
        &mut self,
        name: &str,
        certified: &str,
        answer: Answer,
    ) -> CertificateDer<'static> {
        let (acceptor, certificate) = self.vouch.server(certified);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let real = listener.local_addr().unwrap();
        let heard = Arc::clone(&self.heard);
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heard) = (acceptor.clone(), Arc::clone(&heard));
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        talk(stream, answer, heard).await;
                    }
                });
            }
        });
        self.lead(name, 443, real);
        certificate
    }

    /// Starts something that is no server of HTTP.
    pub(crate) async fn serve_raw<F>(&mut self, name: &str, port: u16, run: fn(TcpStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let real = listener.local_addr().unwrap();
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(run(stream));
            }
        });
        self.lead(name, port, real);
    }

    /// The same with TLS.
    pub(crate) async fn serve_raw_tls<F>(&mut self, name: &str, run: fn(ServerStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (acceptor, _) = self.vouch.server(name);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let real = listener.local_addr().unwrap();
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move { run(acceptor.accept(stream).await.unwrap()).await });
            }
        });
        self.lead(name, 443, real);
    }

    fn lead(&self, name: &str, port: u16, real: SocketAddr) {
        let mut routes = self.spy.routes.lock().unwrap();
        // Each server has an address of its own, so that hosts may share a port.
        let last = u8::try_from(routes.len()).unwrap();
        let address: IpAddr = match name.parse() {
            Ok(literal) => literal,
            Err(_) => IpAddr::from([93, 184, 215, 14 + last]),
        };
        routes.insert(SocketAddr::new(address, port), real);
        if name.parse::<IpAddr>().is_err() {
            self.names.add(name, &[&[&address.to_string()]]);
        }
    }

    /// What servers were sent.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) fn dialled(&self) -> Vec<String> {
        self.spy.dialled.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            further_roots: vec![self.vouch.certificate.clone()],
            resolver: Arc::clone(&self.names) as _,
            dial: Arc::clone(&self.spy) as _,
            ..Options::default()
        }
    }

    pub(crate) fn open(&self, egress: &Egress) -> Entrance {
        self.open_with(egress, Limits::default())
    }

    pub(crate) fn open_with(&self, egress: &Egress, limits: Limits) -> Entrance {
        self.try_open(egress, Options { limits, ..self.options() }).unwrap()
    }

    /// Opens a door on a fresh socket.
    pub(crate) fn try_open(
        &self,
        egress: &Egress,
        options: Options,
    ) -> Result<Entrance, EgressError> {
        let count = std::fs::read_dir(self.folder.path()).unwrap().count();
        let socket = self.folder.path().join(format!("{count}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let (neuron, audit) = (NeuronId::new("nr_test"), Arc::clone(&self.record) as _);
        let door = Door::open(neuron, egress, listener, audit, options)?;
        Ok(Entrance { door, socket })
    }
}

/// A door and the way to it.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) door: Door,
    socket: PathBuf,
}

impl Entrance {
    pub(crate) async fn stream(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    /// Sends something and returns all that comes back.
    pub(crate) async fn say(&self, request: &str) -> String {
        let mut stream = self.stream().await;
        say(&mut stream, request).await
    }

    /// Asks for a page over a connection of its own.
    pub(crate) async fn get(&self, url: &str) -> String {
        self.say(&format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
    }

    /// Asks for a tunnel. Returns the answer, and what is behind it where there is one.
    pub(crate) async fn connect(&self, target: &str) -> (String, UnixStream) {
        let mut stream = self.stream().await;
        let request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        (head, stream)
    }

    /// Opens a tunnel and speaks TLS in it.
    pub(crate) async fn tls(
        &self,
        target: &str,
        name: &str,
        root: &CertificateDer<'static>,
    ) -> io::Result<TlsStream<UnixStream>> {
        let (head, stream) = self.connect(target).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let config = Arc::new(client_config(root, &[]));
        timeout(LONG, TlsConnector::from(config).connect(name, stream)).await.unwrap()
    }

    /// The certificate of the neuron's authority.
    pub(crate) fn ca(&self) -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject as _;
        CertificateDer::from_pem_slice(self.door.ca_pem().unwrap().as_bytes()).unwrap()
    }
}

pub(crate) fn client_config(root: &CertificateDer<'static>, alpn: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Sends something and returns all that comes back, until the other side ends.
pub(crate) async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, text: &str) -> String {
    // The other side may have refused before it has read everything.
    drop(stream.write_all(text.as_bytes()).await);
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    drop(timeout(LONG, reading).await.expect("an answer never ended"));
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads the head of an answer.
pub(crate) async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    };
    timeout(LONG, reading).await.expect("a head never came");
    String::from_utf8(head).unwrap()
}

/// Reads one request, answers it, and ends.
async fn talk<S>(mut stream: S, answer: Answer, heard: Arc<Mutex<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = Vec::new();
    while !is_whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let answer = answer(&request);
    heard.lock().unwrap().push(request);
    if stream.write_all(&answer).await.is_ok() {
        drop(stream.shutdown().await);
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

pub(crate) fn allow(hosts: &[&str]) -> Egress {
    Egress { allow: hosts.iter().map(|host| rule(host)).collect(), credentials: Vec::new() }
}

pub(crate) fn rule(host: &str) -> EgressRule {
    EgressRule { host: host.to_owned(), port: None, methods: Vec::new(), allows_private: false }
}

pub(crate) fn credential(host: &str, header: &str, value: &str) -> EgressCredential {
    EgressCredential {
        host: host.to_owned(),
        header: header.to_owned(),
        prefix: String::new(),
        value: stdx::Secret::new(value.to_owned()),
        variable: Some("API_KEY".to_owned()),
    }
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    let digits = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    digits.unwrap_or_else(|| panic!("no answer: {answer:?}")).parse().unwrap()
}
