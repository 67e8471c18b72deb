//! A small HTTP server for tests: one request per connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status: 200, headers, body: body.to_string() }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// What a server does; none keeps the client waiting until it goes.
pub(crate) type Handler = Arc<dyn Fn(Asked) -> BoxFuture<'static, Option<Reply>> + Send + Sync>;

/// A server that ends when it is dropped.
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

/// Listens on a port of its choice, or on the one given.
pub(crate) async fn listen(port: u16, handler: Handler) -> HttpServer {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let handler = Arc::clone(&handler);
            connections.spawn(answer(stream, handler));
            while connections.try_join_next().is_some() {}
        }
    });
    HttpServer { address, _task: task }
}

async fn answer(mut stream: TcpStream, handler: Handler) {
    let Some(asked) = read(&mut stream).await else { return };
    let reply = handler(asked);
    let mut rest = [0u8; 64];
    let reply = tokio::select! {
        reply = reply => reply,
        // The client has gone.
        _ = stream.read(&mut rest) => return,
    };
    let Some(reply) = reply else {
        let _gone = stream.read(&mut rest).await;
        return;
    };
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{}", reply.body.len(), reply.body));
    let _sent = stream.write_all(head.as_bytes()).await;
    let _shut = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut piece = [0u8; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: HashMap<String, String> = lines.filter_map(header).collect();
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let mut piece = [0u8; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&piece[..count]);
    }
    Some(Asked { method, path, headers, body: String::from_utf8(body).ok()? })
}
