//! A client that says exactly what it is told to.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Longer than anything here takes; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    held: Vec<u8>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert!(values.next().is_none(), "{name} twice in {}", self.head);
        value
    }

    /// The code in the envelope of the test door.
    pub(crate) fn code(&self) -> &str {
        self.body.split('"').nth(3).unwrap_or_default()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), held: Vec::new() }
    }

    /// One whose system holds little for it: what it does not read soon waits at the server.
    pub(crate) async fn connect_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self { stream: socket.connect(address).await.unwrap(), held: Vec::new() }
    }

    /// One that is narrow and takes packets as small as those of a real network: those of loopback
    /// are larger than all that its system holds.
    pub(crate) async fn connect_narrow_and_far(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket2::SockRef::from(&socket).set_tcp_mss(536).unwrap();
        Self { stream: socket.connect(address).await.unwrap(), held: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    async fn more(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.held)).await;
        read.expect("the server says nothing").unwrap() > 0
    }

    /// The next head: `None` where the server closed instead.
    async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.held.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.more().await {
                assert!(self.held.is_empty(), "half an answer: {:?}", self.held);
                return None;
            }
        }
    }

    /// The head of a stream's answer.
    pub(crate) async fn stream_head(&mut self) -> Answer {
        let head = self.head().await.unwrap();
        Answer { status: status(&head), head, body: String::new() }
    }

    /// Reads until `wanted` has come.
    pub(crate) async fn until(&mut self, wanted: &str) {
        while !String::from_utf8_lossy(&self.held).contains(wanted) {
            assert!(self.more().await, "closed before {wanted:?}");
        }
    }

    /// The next answer, with a body of known length.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await.expect("closed without an answer");
        let mut answer = Answer { status: status(&head), head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.held.len() < length {
            assert!(self.more().await, "half a body: {answer:?}");
        }
        answer.body = String::from_utf8(self.held.drain(..length).collect()).unwrap();
        answer
    }

    /// All that still comes; a reset counts as an end.
    pub(crate) async fn end(&mut self) -> Vec<u8> {
        loop {
            match timeout(PATIENCE, self.stream.read_buf(&mut self.held)).await {
                Ok(Ok(0) | Err(_)) => return std::mem::take(&mut self.held),
                Ok(Ok(_)) => {}
                Err(_) => panic!("the server keeps the connection"),
            }
        }
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// One request on a connection of its own.
pub(crate) async fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let mut client = Client::connect(address).await;
    client.send(request).await;
    client.answer().await
}

/// A request with the token of the test door.
pub(crate) fn request(line: &str, headers: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// The same with a JSON body.
pub(crate) fn json(line: &str, body: &str) -> String {
    request(line, "content-type: application/json\r\n", body)
}
