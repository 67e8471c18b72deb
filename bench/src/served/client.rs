//! A client of the server: one connection that is kept, one request after the other.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::TOKEN;
use super::script::Script;
use super::wire::{Wire, length};

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns the body of an answer with the status that is right.
    ///
    /// # Errors
    /// For another status, or a body that is no JSON.
    pub(crate) fn json(&self, status: u16) -> Result<Value> {
        if self.status != status {
            let body = String::from_utf8_lossy(&self.body);
            bail!("expected status {status}, the server answered {} {body}", self.status);
        }
        serde_json::from_slice(&self.body).context("read the JSON of an answer")
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { wire: Wire::connect(address).await? })
    }

    /// Sends a whole request and reads its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Reply> {
        self.wire.write(request).await?;
        let head = self.wire.head().await?.context("the server hung up")?;
        let status = status(&head)?;
        let body = self.wire.body(length(&head)?).await?;
        Ok(Reply { status, body })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        self.exchange(&get(path)).await?.json(200).with_context(|| format!("GET {path}"))
    }

    async fn post(&mut self, path: &str, body: &Value, status: u16) -> Result<Value> {
        let reply = self.exchange(&post(path, body)).await?;
        reply.json(status).with_context(|| format!("POST {path}"))
    }

    /// Makes a session and returns its id.
    pub(crate) async fn create(&mut self) -> Result<String> {
        let session = self.post("/v1/sessions", &json!({}), 201).await?;
        text_of(&session, "/id")
    }

    /// Opens a stored session.
    pub(crate) async fn resume(&mut self, session: &str) -> Result<()> {
        self.post("/v1/sessions", &json!({"resume": session}), 201).await.map(drop)
    }

    /// Sends a prompt that asks for a script.
    pub(crate) async fn prompt(&mut self, session: &str, script: &Script) -> Result<()> {
        let path = format!("/v1/sessions/{session}/prompt");
        self.post(&path, &json!({"text": script.prompt()}), 202).await.map(drop)
    }
}

/// Returns a text of an answer.
///
/// # Errors
/// When it is not there.
pub(crate) fn text_of(value: &Value, pointer: &str) -> Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("no {pointer} in {value}"))
}

/// Returns how many things a list of an answer has.
///
/// # Errors
/// When there is no such list.
pub(crate) fn count_of(value: &Value, pointer: &str) -> Result<usize> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::len).with_context(|| format!("no list {pointer} in {value}"))
}

/// Returns the status of an answer.
///
/// # Errors
/// For what is no answer.
pub(crate) fn status(head: &str) -> Result<u16> {
    let word = head.split(' ').nth(1).unwrap_or_default();
    word.parse().with_context(|| format!("no status in {head}"))
}

/// Returns a whole request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n")
        .into()
}

/// Returns a whole request with a body.
pub(crate) fn post(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}
