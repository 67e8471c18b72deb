//! A scripted model server on a loopback port, for tests.
//!
//! It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini, as a stream and
//! whole. A test pushes answers; each request takes the next one. Requests are recorded, and
//! checked as strictly as the strictest provider does: a fault is answered with 400 in the
//! provider's form and kept in [`ModelServer::violations`].
//!
//! ```ignore
//! let server = ModelServer::start().await;
//! server.push(Answer::call("read_file", json!({"path": "a.txt"})));
//! server.push(Answer::text("It says hello."));
//! // ... run the product with server.anthropic_base() ...
//! assert_eq!(tool_results(&server.request(2).await)[0].text, "hello");
//! server.assert_clean();
//! ```
//!
//! The server lives on a thread and a runtime of its own: a test's paused clock does not reach
//! it, and a blocked test does not stop it. It ends when it is dropped.

mod answer;
mod gate;
mod http;
mod play;
mod prefix;
mod request;
mod rules;
mod scenario;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub use answer::{Answer, Call};
pub use gate::{At, Gate};
pub use request::{Api, End, Request, ToolResult, last_user_text, said, tool_names, tool_results};
pub use scenario::{Scenario, parse_answer};

use http::{Connection, Head};
use state::{State, lock};

/// How long a test waits for something that must happen; generous, since machines are shared.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How the server treats requests.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches of a test server")]
pub struct Options {
    /// Whether requests are checked. Default: yes.
    pub strict: bool,
    /// Whether a request must bring a key. Default: yes; servers on loopback want none.
    pub needs_key: bool,
    /// Whether a Gemini signature may come back in the other alphabet of base64, as Google's own
    /// library sends it. Default: no; ours sends what it got.
    pub takes_any_alphabet: bool,
    /// Whether requests are kept and their prefixes measured. Default: yes; a speed test that
    /// sends gigabytes says no and has counts only.
    pub keeps_requests: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { strict: true, needs_key: true, takes_any_alphabet: false, keeps_requests: true }
    }
}

/// A rule that a request broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the request.
    pub request: usize,
    /// Its language.
    pub api: Api,
    /// What is wrong, with the place in the body.
    pub message: String,
}

/// The server. See the module for what it does.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Where the machine gives no port or no thread: no test can go on then.
    #[allow(clippy::unused_async, reason = "tests await it; binding may become asynchronous")]
    pub async fn start() -> Self {
        Self::start_blocking(Options::default())
    }

    /// Starts a server with settings of its own, from code that need not be asynchronous.
    ///
    /// # Panics
    /// As [`ModelServer::start`].
    #[allow(clippy::expect_used, reason = "a test without its server cannot go on")]
    pub fn start_blocking(options: Options) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind a port of 127.0.0.1");
        listener.set_nonblocking(true).expect("make the listener non-blocking");
        let address = listener.local_addr().expect("read the port");
        let state = Arc::new(State::new(options));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("build the server's runtime");
        let thread = std::thread::Builder::new()
            .name("model-server".to_owned())
            .spawn(move || runtime.block_on(listen(listener, shared, stopped)))
            .expect("start the server's thread");
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the root address, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base address for Anthropic clients.
    pub fn anthropic_base(&self) -> String {
        self.url()
    }

    /// Returns the base address for OpenAI clients, with `/v1`.
    pub fn openai_base(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Returns the base address for Gemini clients; they add `/v1` or `/v1beta`.
    pub fn gemini_base(&self) -> String {
        self.url()
    }

    /// Appends an answer to the queue.
    pub fn push(&self, answer: Answer) -> &Self {
        lock(&self.state.script).queue.push_back(answer);
        self
    }

    /// Appends answers to the queue.
    pub fn push_all(&self, answers: impl IntoIterator<Item = Answer>) -> &Self {
        lock(&self.state.script).queue.extend(answers);
        self
    }

    /// Appends an answer for the conversation whose user text holds `key`. The longest key that
    /// fits wins; conversations without one take from the queue.
    pub fn push_for(&self, key: &str, answer: Answer) -> &Self {
        let mut script = lock(&self.state.script);
        match script.keyed.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1.push_back(answer),
            None => script.keyed.push((key.to_owned(), VecDeque::from([answer]))),
        }
        drop(script);
        self
    }

    /// Answers every request that fits with the same answer; the queue stays untouched.
    pub fn route(
        &self,
        fits: impl Fn(&Request) -> bool + Send + Sync + 'static,
        answer: Answer,
    ) -> &Self {
        self.route_with(move |request| fits(request).then(|| answer.clone()))
    }

    /// Lets a function answer the requests for which it returns something.
    pub fn route_with(
        &self,
        route: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
    ) -> &Self {
        lock(&self.state.script).routes.push(Arc::new(route));
        self
    }

    /// Lets a signature pass that another server, or an answer of raw bytes, handed out.
    pub fn accept_signature(&self, signature: &str, text: &str) {
        lock(&self.state.record).issued.sign(signature, text);
    }

    /// Returns how many scripted answers of the queue nobody has taken.
    pub fn answers_left(&self) -> usize {
        lock(&self.state.script).queue.len()
    }

    /// Returns how many model requests have arrived.
    pub fn request_count(&self) -> usize {
        lock(&self.state.record).count
    }

    /// Returns how many requests found no scripted answer.
    pub fn unscripted_count(&self) -> usize {
        lock(&self.state.record).unscripted
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        lock(&self.state.record).requests.clone()
    }

    /// Returns the rules that requests broke.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.state.record).violations.clone()
    }

    /// Waits for a request by its number, from 1.
    ///
    /// # Panics
    /// Where it does not come within 30 seconds.
    pub async fn request(&self, number: usize) -> Arc<Request> {
        let what = format!("model request {number}");
        let index = number.saturating_sub(1);
        self.wait(&what, |state| lock(&state.record).requests.get(index).cloned()).await
    }

    /// Waits until the answer of a request has ended, and returns the request.
    ///
    /// # Panics
    /// Where that does not happen within 30 seconds.
    pub async fn ended(&self, number: usize) -> Arc<Request> {
        let what = format!("the end of model request {number}");
        let index = number.saturating_sub(1);
        let find = |state: &State| {
            let request = lock(&state.record).requests.get(index).cloned();
            request.filter(|request| request.end().is_some())
        };
        self.wait(&what, find).await
    }

    /// Asserts that no request broke a rule and none went without a script.
    ///
    /// # Panics
    /// Where one did, with all of them.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "requests broke rules: {violations:#?}");
        assert_eq!(self.unscripted_count(), 0, "requests without a scripted answer");
    }

    /// Returns what happened as JSON, for programs that are not written in Rust.
    pub fn report(&self) -> Value {
        let violations = self
            .violations()
            .into_iter()
            .map(|violation| json!({"request": violation.request, "message": violation.message}));
        let requests = self.requests().into_iter().map(|request| {
            json!({
                "number": request.number, "path": request.path, "body": request.body,
                "end": format!("{:?}", request.end()), "commonPrefix": request.common_prefix,
            })
        });
        json!({
            "requests": requests.collect::<Vec<_>>(),
            "violations": violations.collect::<Vec<_>>(),
            "unscripted": self.unscripted_count(),
            "answersLeft": self.answers_left(),
        })
    }

    #[allow(clippy::panic, reason = "a test that waits in vain must fail, with what it saw")]
    async fn wait<T>(&self, what: &str, find: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.state.changed.subscribe();
        let search = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = find(&self.state) {
                    return found;
                }
                // The sender lives in the state that this server holds.
                let _ = changes.changed().await.is_ok();
            }
        };
        match tokio::time::timeout(WAIT_MAX, search).await {
            Ok(found) => found,
            Err(_) => panic!(
                "{what} did not come within {WAIT_MAX:?}; {} requests came; violations: {:#?}",
                self.request_count(),
                self.violations()
            ),
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was printed when it happened.
            let _ = thread.join().is_ok();
        }
    }
}

async fn listen(listener: TcpListener, state: Arc<State>, mut stop: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // Dropping the set at the end hangs up on every client.
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => return,
            Some(_) = clients.join_next() => {}
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    clients.spawn(serve(stream, Arc::clone(&state)));
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let mut connection = Connection::new(stream);
    loop {
        match connection.request().await {
            Ok(Some((head, body))) => {
                let is_last = head.is_last();
                if answer(&mut connection, &state, head, body).await != End::Finished || is_last {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                let body = json!({"error": {"message": error.to_string()}});
                play::refuse(&mut connection, 400, &body).await;
                return;
            }
        }
    }
}

async fn answer(connection: &mut Connection, state: &State, head: Head, body: bytes::Bytes) -> End {
    let path = head.path.split('?').next().unwrap_or_default();
    let api = Api::of_path(path).filter(|_| head.method == "POST");
    let Some(api) = api else {
        let (status, answer) = aside(&head.method, path, body.len());
        return play::refuse(connection, status, &answer).await;
    };
    let (request, status) = state.arrive(api, head, body);
    let end = match request.violations.first() {
        Some(message) => {
            let body = wire::error_body(api, status, message, None);
            play::refuse(connection, status, &body).await
        }
        None => play::play(connection, state, &request, &state.pick(&request)).await,
    };
    state.ended(&request, end);
    end
}

/// Answers what is no model request: lists of models and token counts.
fn aside(method: &str, path: &str, length: usize) -> (u16, Value) {
    let tokens = length / 4 + 1;
    match (method, path) {
        ("POST", "/v1/messages/count_tokens") => (200, json!({"input_tokens": tokens})),
        ("POST", path) if path.ends_with(":countTokens") => (200, json!({"totalTokens": tokens})),
        ("GET", "/v1/models") => {
            let model = json!({
                "id": "scripted", "type": "model", "object": "model", "display_name": "scripted",
                "owned_by": "testkit", "created": 1_790_000_000,
                "created_at": "2026-10-01T00:00:00Z",
            });
            (200, json!({"object": "list", "has_more": false, "data": [model]}))
        }
        ("GET", "/v1beta/models") => (200, json!({"models": [{"name": "models/scripted"}]})),
        _ => {
            let message = format!("this server knows no {method} {path}");
            (404, json!({"error": {"type": "not_found_error", "message": message}}))
        }
    }
}
