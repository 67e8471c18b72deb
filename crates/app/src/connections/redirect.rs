//! Where a browser comes back to from an authorization server.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use connect::oauth::Redirect;
use door_cli::Failure;
use driver_api::Fault;
use http_kit::ServerOptions;
use outbound::Url;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Browsers that may have come back before they are heard: the first is the one that counts.
const VISITS_MAX: usize = 4;

/// What somebody reads in the browser.
const DONE: &str = "narthex has been let in, or told why not. You can close this page.\n";

/// What whoever else comes reads: a page that guesses, or an answer to what was asked long ago.
const OTHER: &str = "this is not the answer that narthex waits for: it goes on waiting\n";

/// Shows an address to a person.
type Show = Box<dyn Fn(&str) + Send>;

/// The state that the answer must have; nobody outside can know it before it is shown.
type Expected = Arc<Mutex<Option<String>>>;

/// A listener on this machine, open as long as this is kept.
pub(super) struct Listener {
    uri: String,
    expected: Expected,
    visits: tokio::sync::Mutex<mpsc::Receiver<String>>,
    show: Mutex<Show>,
    _open: DropGuard,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens at a free port of loopback. `show` is given the address that somebody has to visit.
    ///
    /// # Errors
    /// When there is no port.
    pub(super) async fn bind(show: impl Fn(&str) + Send + 'static) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("listen for the browser on 127.0.0.1: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let (sender, visits) = mpsc::channel(VISITS_MAX);
        let expected = Expected::default();
        let routes = Router::new()
            .route("/callback", get(visit))
            .with_state((Arc::clone(&expected), sender));
        let stop = CancellationToken::new();
        let serving = http_kit::serve(listener, routes, ServerOptions::default(), stop.clone());
        // It ends with the guard.
        TaskTracker::new().spawn(serving);
        Ok(Self {
            uri: format!("http://127.0.0.1:{port}/callback"),
            expected,
            visits: tokio::sync::Mutex::new(visits),
            show: Mutex::new(Box::new(show)),
            _open: stop.drop_guard(),
        })
    }
}

async fn visit(
    State((expected, visits)): State<(Expected, mpsc::Sender<String>)>,
    request: Request,
) -> Response {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let state = state_of(&query);
    let is_ours = {
        let expected = expected.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_some() && state == *expected
    };
    if !is_ours {
        return (StatusCode::BAD_REQUEST, OTHER).into_response();
    }
    // More than can be heard come from somebody who guesses.
    if visits.try_send(query).is_err() {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], DONE).into_response()
}

/// Returns the state in the query of an address.
fn state_of(query: &str) -> Option<String> {
    let url = Url::parse(&format!("http://127.0.0.1/?{query}")).ok()?;
    let mut pairs = url.query_pairs();
    pairs.find(|(name, _)| name == "state").map(|(_, value)| value.into_owned())
}

#[async_trait]
impl Redirect for Listener {
    fn uri(&self) -> &str {
        &self.uri
    }

    async fn visit(&self, address: &Url) -> Result<Url, Fault> {
        let state = state_of(address.query().unwrap_or_default());
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = state;
        (self.show.lock().unwrap_or_else(PoisonError::into_inner))(address.as_str());
        let query = self.visits.lock().await.recv().await;
        let query = query.ok_or_else(|| Fault::new("the listener for the browser ended"))?;
        Url::parse(&format!("{}?{query}", self.uri))
            .map_err(|error| Fault::with("read where the browser came back to", error))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn the_browser_comes_back_with_what_the_server_says() {
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        let listener =
            Listener::bind(move |address| *shown.lock().unwrap() = address.to_owned()).await;
        let listener = listener.unwrap();
        let port = Url::parse(listener.uri()).unwrap().port().unwrap();
        let address = Url::parse("https://auth.example/authorize?state=x").unwrap();
        let ask = async |query: &str| {
            let mut stream =
                tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            let request = format!(
                "GET /callback{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let browser = async {
            // Any page can come by, as often as it likes; only who knows the state is heard.
            for query in ["", "?code=z", "?code=z&state=", "?code=z&state=y", "?state=y&state=x"] {
                for _ in 0..=VISITS_MAX {
                    let answer = ask(query).await;
                    assert!(answer.starts_with("HTTP/1.1 400"), "{query}: {answer}");
                }
            }
            ask("?code=a%20b&state=x").await
        };
        let (back, answer) = tokio::join!(listener.visit(&address), browser);
        assert_eq!(back.unwrap().query(), Some("code=a%20b&state=x"));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("close this page"));
        assert_eq!(*seen.lock().unwrap(), address.as_str());
    }
}
