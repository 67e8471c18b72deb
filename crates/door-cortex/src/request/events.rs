//! The record of a session as a stream.

use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderMap, HeaderValue, Uri, header};
use http_kit::{Admitted, sse};
use tokio_util::sync::CancellationToken;

use crate::door::Shared;
use crate::error::Refused;
use crate::frame::KEEPALIVE;
use crate::place::AtSession;
use crate::query::{self, Query};
use crate::viewer::Viewer;

/// The header that a client resumes with.
const LAST_EVENT_ID: &str = "last-event-id";

/// How long a stream goes on after the program began to stop: as long as runs have to end.
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// Makes the response that sends frames, until they end or the program has had its time to stop.
pub(super) fn response<S>(frames: S, stopping: CancellationToken) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    let farewell = async move {
        stopping.cancelled().await;
        tokio::time::sleep(FAREWELL_MAX).await;
    };
    let mut response = sse::response_with(frames.take_until(farewell), KEEPALIVE);
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::CONNECTION, "keep-alive"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(crate) async fn events(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    uri: Uri,
    headers: HeaderMap,
    admitted: Option<Extension<Admitted>>,
) -> Result<Response, Refused> {
    let asked = Query::of(&uri)?.whole("after", 0, u64::MAX)?;
    // A client that connects anew keeps its address, so the header wins.
    let after = match headers.get(LAST_EVENT_ID) {
        None => asked,
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            Some(query::whole("Last-Event-ID", text, 0, u64::MAX)?)
        }
    };
    let info = door.session(&id).await?;
    if let Err(refused) = door.awake(info).await {
        // Its record can be read all the same, and what comes of it elsewhere.
        tracing::debug!(session = %id, code = refused.code().as_str(), "a session is not opened");
    }
    let viewer = Viewer::begin(&door, &id, after).await?;
    let frames = stream::unfold(viewer, |mut viewer| async move {
        viewer.next().await.map(|frame| (frame, viewer))
    });
    Ok(response(frames.take_until(is_over(admitted)), door.stopping.clone()))
}

/// Waits until a caller is not let in any more: its token was revoked, or is over. Looks as often
/// as a stream shows that it is alive.
pub(super) async fn is_over(admitted: Option<Extension<Admitted>>) {
    let Some(Extension(admitted)) = admitted else { return std::future::pending().await };
    while admitted.holds() {
        tokio::time::sleep(sse::HEARTBEAT_EVERY).await;
    }
}
