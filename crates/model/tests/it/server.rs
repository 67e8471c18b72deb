//! A server that answers with the bytes it is told to, one connection after the other.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server; it stops when it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server does with a request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Writes this and closes.
    Close(String),
    /// Writes this and keeps the connection for the next request.
    Keep(String),
    /// Writes this and then says nothing until the client hangs up.
    Hang(String),
}

impl Server {
    /// Starts a server that gives these answers in turn.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (seen, count) = (Arc::clone(&requests), Arc::clone(&connections));
        #[allow(clippy::disallowed_methods, reason = "the test owns the task and aborts it")]
        let task = tokio::spawn(async move {
            let mut answers = answers.into_iter();
            while answers.len() > 0 {
                let Ok((socket, _)) = listener.accept().await else { return };
                *count.lock().unwrap() += 1;
                serve(socket, &mut answers, &seen).await;
            }
        });
        Self { url, requests, connections, task }
    }

    /// Starts a server with one answer that is then closed.
    pub(crate) async fn once(status: &str, headers: &str, body: &str) -> Self {
        Self::start(vec![Answer::Close(reply(status, headers, body))]).await
    }

    /// Returns the requests so far, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns how many connections were made.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(
    mut socket: TcpStream,
    answers: &mut std::vec::IntoIter<Answer>,
    seen: &Mutex<Vec<String>>,
) {
    while let Some(request) = read(&mut socket).await {
        seen.lock().unwrap().push(request);
        let Some(answer) = answers.next() else { return };
        let (Answer::Close(text) | Answer::Keep(text) | Answer::Hang(text)) = &answer;
        if socket.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        match answer {
            Answer::Keep(_) => {}
            Answer::Close(_) => return,
            Answer::Hang(_) => {
                let _closed = socket.read(&mut [0]).await;
                return;
            }
        }
    }
}

async fn read(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut piece = vec![0; 65_536];
        let count = socket.read(&mut piece).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// Writes a reply whose body ends with the connection or with its length.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Writes a stream as one chunk, with the end of the body or without it.
pub(crate) fn stream(body: &str, is_whole: bool) -> String {
    let end = if is_whole { "0\r\n\r\n" } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n{end}",
        body.len()
    )
}
