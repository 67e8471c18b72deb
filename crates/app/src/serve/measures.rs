//! What is measured of a server: `/metrics`, and traces where somebody takes them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use door_cli::Failure;
use driver_api::Observer;
use http_kit::Problem;
use narthex::Handle;
use runtime_api::{SessionInfo, SessionState};
use telemetry::{Gauges, Meter, Telemetry, TraceOptions, Traces};
use tokio::time::Instant;

use crate::settings::TelemetrySettings;

/// How long the end of a server waits for a collector to take the last spans.
const FINISH_WAIT: Duration = Duration::from_secs(2);
/// The media type of an answer that is a stream: how long one is open is no latency.
const STREAM: &str = "text/event-stream";

/// The counts of a server, and where its spans go.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    meter: Arc<Meter>,
    traces: Option<Traces>,
}

impl Measures {
    /// Begins to count, and to trace where the settings name a collector.
    ///
    /// # Errors
    /// For an address of a collector that is none.
    pub(super) fn begin(settings: &TelemetrySettings) -> Result<Self, Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let start = |endpoint: &String| {
            let options = TraceOptions {
                endpoint: endpoint.clone(),
                headers: settings.headers.value.clone().into_iter().collect(),
                service_name: settings.service_name.value.clone(),
                version: version.to_owned(),
            };
            let origin = &settings.otlp_endpoint.origin;
            Traces::start(options, tokio::runtime::Handle::current())
                .map_err(|error| Failure::usage(format!("{error} ({origin})")))
        };
        let traces = settings.otlp_endpoint.value.as_ref().map(start).transpose()?;
        Ok(Self { meter: Arc::new(Meter::new(version)), traces })
    }

    /// Returns who is to be told of all events.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Telemetry::new(Arc::clone(&self.meter), self.traces.clone()))
    }

    /// Returns the route that shows the counts.
    pub(super) fn routes(&self, handle: Handle) -> Router {
        let state = (Arc::clone(&self.meter), handle);
        Router::new().route("/metrics", get(metrics)).with_state(state)
    }

    /// Counts the requests of routes, also those that the gate refuses.
    pub(super) fn counted(&self, routes: Router) -> Router {
        let meter = Arc::clone(&self.meter);
        routes.layer(middleware::from_fn_with_state(meter, count))
    }

    /// Sends the last spans, for as long as the end of a server can wait for that.
    pub(super) async fn finish(&self) {
        let Some(traces) = self.traces.clone() else { return };
        let finished = tokio::task::spawn_blocking(move || traces.finish(FINISH_WAIT));
        // What did not go is lost, and was told in the log.
        drop(finished.await);
    }
}

async fn metrics(State((meter, handle)): State<(Arc<Meter>, Handle)>) -> Result<Response, Problem> {
    let open = handle.opened().await.map_err(|error| {
        tracing::error!(%error, "list the open sessions");
        Problem::internal()
    })?;
    let text = meter.render(gauges(&open));
    Ok(([(header::CONTENT_TYPE, Meter::media_type())], text).into_response())
}

fn gauges(open: &[SessionInfo]) -> Gauges {
    let mut gauges = Gauges::default();
    for info in open {
        match info.state {
            SessionState::Idle => gauges.idle += 1,
            SessionState::Running => gauges.running += 1,
            SessionState::Waiting => gauges.waiting += 1,
        }
        gauges.queued += u64::from(info.queued);
        gauges.pending += u64::from(info.pending);
    }
    gauges
}

async fn count(State(meter): State<Arc<Meter>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().as_str().to_owned();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    // Paths that no route knows are anybody's words.
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(STREAM.as_bytes()));
    let took = (!is_stream).then(|| begun.elapsed().as_secs_f64());
    meter.http(&method, route, response.status().as_u16(), took);
    response
}
