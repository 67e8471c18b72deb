//! A small net of our own: names, addresses that look public, and servers behind them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbound::{Client, Dial, Limits, Options, Resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A public address that tests give to their servers.
pub(crate) const PUBLIC: &str = "8.8.8.8";

/// What a server does with the head of a request: the pieces it writes, each after a pause.
pub(crate) type Answer = fn(&str) -> Vec<(Duration, Vec<u8>)>;

/// Answers names in turn, the last answer for ever; remembers what was asked.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn add(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answers = answers.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        if answers.len() > 1 {
            return Ok(answers.pop_front().unwrap());
        }
        Ok(answers.front().cloned().unwrap_or_default())
    }
}

/// Writes down what is dialled, and leads public addresses to the test's servers.
#[derive(Debug, Default)]
pub(crate) struct Spy {
    routes: Mutex<HashMap<SocketAddr, SocketAddr>>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Dial for Spy {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().unwrap().push(address);
        let route = self.routes.lock().unwrap().get(&address).copied();
        match route {
            Some(real) => TcpStream::connect(real).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// The net of one test. Its servers end with it.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) names: Arc<Names>,
    pub(crate) spy: Arc<Spy>,
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
    servers: JoinSet<()>,
}

impl Net {
    /// Starts a server that a public address leads to.
    pub(crate) async fn serve(&mut self, public: &str, answer: Answer) {
        let real = self.listen(answer).await;
        self.spy.routes.lock().unwrap().insert(public.parse().unwrap(), real);
    }

    /// Starts a server on this machine and returns its address.
    pub(crate) async fn listen(&mut self, answer: Answer) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let real = listener.local_addr().unwrap();
        let heads = Arc::clone(&self.heads);
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(talk(stream, answer, Arc::clone(&heads)));
            }
        });
        real
    }

    pub(crate) fn options(&self) -> Options {
        let limits = Limits {
            redirects_max: 3,
            response_bytes_max: 1_000,
            request_bytes_max: 100,
            connect_timeout: Duration::from_millis(500),
            answer_timeout: Duration::from_millis(400),
            idle_timeout: Duration::from_millis(200),
            total_timeout: Duration::from_millis(1_500),
        };
        let (resolver, dial) = (Arc::clone(&self.names) as _, Arc::clone(&self.spy) as _);
        Options { limits, resolver, dial, ..Options::default() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    pub(crate) fn dialled(&self) -> Vec<String> {
        self.spy.dialled.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn talk(mut stream: TcpStream, answer: Answer, heads: Arc<Mutex<Vec<String>>>) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let pieces = answer(&head);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        heads.lock().unwrap().push(head);
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        for (pause, piece) in pieces {
            tokio::time::sleep(pause).await;
            if stream.write_all(&piece).await.is_err() {
                return;
            }
        }
    }
}

/// An answer with a body, all at once.
pub(crate) fn ok(body: &str) -> Vec<(Duration, Vec<u8>)> {
    now(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// A redirect.
pub(crate) fn to(location: &str) -> Vec<(Duration, Vec<u8>)> {
    now(&format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
}

/// Some text, all at once.
pub(crate) fn now(text: &str) -> Vec<(Duration, Vec<u8>)> {
    vec![(Duration::ZERO, text.as_bytes().to_vec())]
}
