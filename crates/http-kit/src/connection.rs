//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::body::{Arriving, BodyTimes};
use crate::wire::Wire;
use crate::{Peer, ServerOptions};

/// Headers of one request: browsers send some twenty.
const HEADERS_MAX: usize = 100;

/// Bytes of a request line with its headers: tokens, cookies and long paths fit.
const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Bytes that a connection holds for each direction before it waits for the other side.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// Bytes that are still taken of a body nobody wants, after its answer: a client that sends
/// everything before it reads would otherwise lose the answer to a reset. The largest body that any
/// door takes has 25 MiB; this is that one twice, and room.
const LINGER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long such a client may send nothing before it has had its answer.
const LINGER_GAP_MAX: Duration = Duration::from_secs(2);

/// How long it may go on sending in all.
const LINGER_TIME_MAX: Duration = Duration::from_secs(30);

/// Serves one connection until it is over, or until `cut`.
pub(crate) async fn run(
    stream: TcpStream,
    app: Router,
    options: &ServerOptions,
    (stop, cut): (CancellationToken, CancellationToken),
) {
    let pulse = Arc::new(Pulse::new());
    let peer = stream.peer_addr().ok().map(Peer);
    let wire = Wire::new(stream, options.stall_max, Arc::clone(&pulse));
    let routes = Routes {
        app,
        peer,
        pulse: Arc::clone(&pulse),
        times: BodyTimes { gap_max: options.body_gap_max, all_max: options.body_time_max },
    };
    let mut http = http1::Builder::new();
    http.max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        // The watch below knows a client that is slow from one that is idle.
        .header_read_timeout(None);
    let mut connection = http.serve_connection(TokioIo::new(wire), routes);
    let mut watch = Watch::new(&pulse, options);
    let mut stopped = pin!(stop.cancelled());
    let mut is_stopping = false;
    let over = poll_fn(|cx| {
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(over) = connection.poll_without_shutdown(cx) {
            return Poll::Ready(Some(over));
        }
        watch.poll(cx).map(|()| None)
    });
    let over = tokio::select! {
        over = over => over,
        () = cut.cancelled() => return,
    };
    if let Some(Err(error)) = &over {
        tracing::debug!(%error, "a connection broke");
    }
    let broke_off = over.is_some_and(|over| over.is_err_and(|error| error.is_parse()));
    if broke_off || pulse.has_unread() {
        let wire = connection.into_parts().io.into_inner();
        tokio::select! {
            () = linger(wire) => {}
            () = cut.cancelled() => {}
        }
    }
}

/// Lets the answer arrive at a client that is still sending: a socket that is closed over unread
/// bytes resets the connection, and the reset may overtake the answer.
async fn linger(mut wire: Wire) {
    if wire.end_writing().is_err() {
        return;
    }
    let mut scratch = vec![0; 16 * 1024];
    let taken = async {
        let mut bytes = 0;
        while bytes < LINGER_BYTES_MAX {
            match timeout(LINGER_GAP_MAX, wire.read(&mut scratch)).await {
                Ok(Ok(count)) if count > 0 => bytes += count as u64,
                _ => return,
            }
        }
    };
    // Either way the connection is closed now.
    let _over = timeout(LINGER_TIME_MAX, taken).await;
}

/// The routes of one connection.
struct Routes {
    app: Router,
    peer: Option<Peer>,
    pulse: Arc<Pulse>,
    times: BodyTimes,
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Answer>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let running = Running::begin(&self.pulse);
        let mut request = request.map(|body| Arriving::watched(body, self.times, &self.pulse));
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let pulse = Arc::clone(&self.pulse);
        let mut app = self.app.clone();
        Box::pin(async move {
            let mut response = Service::call(&mut app, request).await?;
            if pulse.has_unread() {
                // What is left of the body is not read, so no request can follow it.
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response.map(|inner| Answer { inner, _running: running }))
        })
    }
}

/// A response body that keeps its connection from counting as idle.
struct Answer {
    inner: Body,
    _running: Running,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What a connection is doing; all that belongs to it says so here.
pub(crate) struct Pulse(Mutex<Doing>);

struct Doing {
    /// Requests without the end of their response.
    running: usize,
    /// Whether some bytes of the next request are here.
    is_in_header: bool,
    /// When this began.
    since: Instant,
    /// Whether a body was left before its end.
    is_unread: bool,
}

impl Pulse {
    /// A new connection is expected to send a request at once.
    fn new() -> Self {
        let since = Instant::now();
        Self(Mutex::new(Doing { running: 0, is_in_header: true, since, is_unread: false }))
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came in.
    pub(crate) fn heard(&self) {
        let mut doing = self.doing();
        if doing.running == 0 && !doing.is_in_header {
            doing.is_in_header = true;
            doing.since = Instant::now();
        }
    }

    /// Bytes went out: the end of a response is still being taken.
    pub(crate) fn wrote(&self) {
        let mut doing = self.doing();
        if doing.running == 0 && !doing.is_in_header {
            doing.since = Instant::now();
        }
    }

    /// A body is given up before its end.
    pub(crate) fn leave_unread(&self) {
        self.doing().is_unread = true;
    }

    fn has_unread(&self) -> bool {
        self.doing().is_unread
    }

    /// Until when something has to happen.
    fn deadline(&self, header_time_max: Duration, idle_max: Duration) -> Option<Instant> {
        let doing = self.doing();
        let time_max = if doing.is_in_header { header_time_max } else { idle_max };
        (doing.running == 0).then(|| doing.since + time_max)
    }
}

/// One request on its way.
struct Running(Arc<Pulse>);

impl Running {
    fn begin(pulse: &Arc<Pulse>) -> Self {
        pulse.doing().running += 1;
        Self(Arc::clone(pulse))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut doing = self.0.doing();
        doing.running = doing.running.saturating_sub(1);
        doing.is_in_header = false;
        doing.since = Instant::now();
    }
}

/// Ends a connection whose client is slow with its headers, or idle for too long.
struct Watch {
    pulse: Arc<Pulse>,
    header_time_max: Duration,
    idle_max: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Watch {
    fn new(pulse: &Arc<Pulse>, options: &ServerOptions) -> Self {
        Self {
            pulse: Arc::clone(pulse),
            header_time_max: options.header_time_max,
            idle_max: options.idle_max,
            sleep: Box::pin(sleep(options.header_time_max)),
        }
    }

    /// Polled after the connection, in the same task: nothing changes in between.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.pulse.deadline(self.header_time_max, self.idle_max) {
            None => Poll::Pending,
            Some(deadline) => {
                if self.sleep.deadline() != deadline {
                    self.sleep.as_mut().reset(deadline);
                }
                self.sleep.as_mut().poll(cx)
            }
        }
    }
}
