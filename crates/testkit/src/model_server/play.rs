//! Plays an answer on a connection: pieces, pauses, gates, cuts.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::answer::{Answer, Body, Pace};
use super::gate::At;
use super::http::{self, Connection};
use super::request::{End, Request};
use super::state::State;
use super::wire::{self, Step};

/// Why an answer went no further.
#[derive(Debug)]
enum Break {
    Cut,
    Gone,
}

impl From<std::io::Error> for Break {
    fn from(_: std::io::Error) -> Self {
        Break::Gone
    }
}

/// Plays an answer; returns how it ended.
pub(super) async fn play(
    connection: &mut Connection,
    state: &State,
    request: &Request,
    answer: &Answer,
) -> End {
    let mut out =
        Out { connection, waiting: Vec::new(), sent: 0, is_chunked: false, pace: &answer.pace };
    match out.answer(state, request, answer).await {
        Ok(()) => End::Finished,
        Err(Break::Cut) => End::Cut,
        Err(Break::Gone) => End::ClientGone,
    }
}

/// Answers a request that broke a rule, or that is for no model.
pub(super) async fn refuse(connection: &mut Connection, status: u16, body: &Value) -> End {
    let body = body.to_string();
    let head = http::head(status, "application/json", Some(body.len()), &[]);
    match connection.send((head + &body).as_bytes()).await {
        Ok(()) => End::Finished,
        Err(_) => End::ClientGone,
    }
}

struct Out<'a> {
    connection: &'a mut Connection,
    /// Written and not yet sent: what needs no wait between leaves in one call.
    waiting: Vec<u8>,
    /// How many bytes of the body were written.
    sent: usize,
    is_chunked: bool,
    pace: &'a Pace,
}

impl Out<'_> {
    async fn answer(
        &mut self,
        state: &State,
        request: &Request,
        answer: &Answer,
    ) -> Result<(), Break> {
        self.place(At::Start).await?;
        let mut headers = answer.headers.clone();
        let id = format!("req_scripted_{}", request.number);
        headers.extend(["request-id", "x-request-id"].map(|name| (name.to_owned(), id.clone())));
        match &answer.body {
            Body::Failure { status, message, kind } => {
                let body = wire::error_body(request.api, *status, message, kind.as_deref());
                self.json(*status, &body, &headers).await
            }
            Body::Raw { status, content_type, chunks } => {
                let steps = raw_steps(chunks, self.pace.delay);
                self.stream(*status, content_type, &headers, steps).await
            }
            Body::Speech => {
                let spoken = state.speak(request, &answer.speech);
                if request.wants_stream() {
                    let steps = wire::stream(request.api, &spoken, self.pace);
                    self.stream(200, "text/event-stream", &headers, steps).await
                } else {
                    let body = wire::whole(request.api, &spoken);
                    for at in [At::Head, At::Text, At::Calls, At::End] {
                        self.place(at).await?;
                    }
                    self.json(200, &body, &headers).await
                }
            }
        }
    }

    async fn json(
        &mut self,
        status: u16,
        body: &Value,
        headers: &[(String, String)],
    ) -> Result<(), Break> {
        let body = body.to_string();
        let head = http::head(status, "application/json", Some(body.len()), headers);
        self.waiting.extend(head.into_bytes());
        self.write(body.as_bytes()).await?;
        self.flush().await
    }

    async fn stream(
        &mut self,
        status: u16,
        content_type: &str,
        headers: &[(String, String)],
        steps: Vec<Step>,
    ) -> Result<(), Break> {
        let head = http::head(status, content_type, None, headers);
        self.waiting.extend(head.into_bytes());
        self.is_chunked = true;
        for step in steps {
            match step {
                Step::Data(bytes) => self.write(&bytes).await?,
                Step::Pause(length) => {
                    self.flush().await?;
                    self.pause(length).await?;
                }
                Step::Place(at) => self.place(at).await?,
            }
        }
        self.waiting.extend(b"0\r\n\r\n");
        self.flush().await
    }

    /// Writes bytes of the body, up to the cut if one is near.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Break> {
        let left = self.pace.cut_at.map_or(usize::MAX, |cut_at| cut_at - self.sent.min(cut_at));
        let is_cut = bytes.len() >= left;
        let bytes = bytes.get(..left).unwrap_or(bytes);
        self.sent += bytes.len();
        if self.is_chunked && !bytes.is_empty() {
            self.waiting.extend(format!("{:x}\r\n", bytes.len()).into_bytes());
            self.waiting.extend(bytes);
            self.waiting.extend(b"\r\n");
        } else {
            self.waiting.extend(bytes);
        }
        if !is_cut {
            return Ok(());
        }
        self.flush().await?;
        if self.pace.reset {
            self.connection.reset_on_close();
        }
        Err(Break::Cut)
    }

    async fn flush(&mut self) -> Result<(), Break> {
        if !self.waiting.is_empty() {
            self.connection.send(&self.waiting).await?;
            self.waiting.clear();
        }
        Ok(())
    }

    async fn pause(&mut self, length: Duration) -> Result<(), Break> {
        tokio::select! {
            () = self.connection.closed() => Err(Break::Gone),
            () = tokio::time::sleep(length) => Ok(()),
        }
    }

    /// Passes a place in the answer: waits at its gate, or for ever where it stalls.
    async fn place(&mut self, here: At) -> Result<(), Break> {
        if let Some((at, gate)) = &self.pace.gate
            && *at == here
        {
            self.flush().await?;
            tokio::select! {
                () = self.connection.closed() => return Err(Break::Gone),
                () = gate.pass() => {}
            }
        }
        if self.pace.stall == Some(here) {
            self.flush().await?;
            self.connection.closed().await;
            return Err(Break::Gone);
        }
        Ok(())
    }
}

fn raw_steps(chunks: &[Bytes], delay: Duration) -> Vec<Step> {
    let mut steps = vec![Step::Place(At::Head)];
    for chunk in chunks {
        if !delay.is_zero() {
            steps.push(Step::Pause(delay));
        }
        // An empty chunk would end the transfer.
        if !chunk.is_empty() {
            steps.push(Step::Data(chunk.clone()));
        }
    }
    steps.push(Step::Place(At::End));
    steps
}
