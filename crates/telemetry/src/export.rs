//! The way to a collector: OTLP over HTTP, through the one client that leaves this program.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::KeyValue;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use outbound::{Servers, Waits};
use stdx::Secret;
use tokio::runtime::Handle;
use url::Url;

use crate::traces::Traces;

/// How long a collector may take. Spans that it does not take in time are lost; sessions are not
/// held up.
const EXPORT_WAIT: Duration = Duration::from_secs(10);

/// The largest answer of a collector that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How many spans wait for the collector; what comes on top of them is lost.
const QUEUE_MAX: usize = 4_096;

/// Where spans go.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The address of the collector, for example `http://127.0.0.1:4318`; `/v1/traces` is added
    /// where there is no path.
    pub endpoint: String,
    /// Headers of each request, for example an authorization.
    pub headers: Vec<(String, Secret<String>)>,
    /// The name of the service.
    pub service_name: String,
    /// The version of the program.
    pub version: String,
}

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The address is none. It is not shown: it may hold a password.
    #[error(
        "telemetry.otlp_endpoint: expected an http or https address, for example \
         http://127.0.0.1:4318"
    )]
    Endpoint,
    /// The exporter cannot be built.
    #[error("telemetry: {0}")]
    Build(String),
}

impl Traces {
    /// Begins to send spans. Nothing is connected before the first are due; a collector that is
    /// away costs spans and a line in the log.
    ///
    /// # Errors
    /// For an address that is none.
    pub fn start(options: TraceOptions, runtime: Handle) -> Result<Self, CollectorError> {
        let endpoint = endpoint(&options.endpoint)?;
        let waits =
            Waits { connect: EXPORT_WAIT, silence: EXPORT_WAIT, keep_alive: EXPORT_WAIT * 3 };
        let client = Post { servers: Servers::new(waits), runtime };
        let reveal = |(name, value): (String, Secret<String>)| (name, value.expose().clone());
        let headers: HashMap<String, String> = options.headers.into_iter().map(reveal).collect();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_WAIT)
            .with_headers(headers)
            .build()
            .map_err(|error| CollectorError::Build(error.to_string()))?;
        let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE_MAX).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder()
            .with_service_name(options.service_name)
            .with_attribute(KeyValue::new("service.version", options.version))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        Ok(Self::new(provider))
    }
}

fn endpoint(text: &str) -> Result<String, CollectorError> {
    let wrong = || CollectorError::Endpoint;
    let mut url = Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    Ok(url.into())
}

/// Sends what the exporter made. The exporter lives on a thread of its own; the request is made
/// where the runtime is.
#[derive(Clone, Debug)]
struct Post {
    servers: Servers,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let servers = self.servers.clone();
        let task = self.runtime.spawn(async move { post(&servers, request).await });
        task.await?
    }
}

async fn post(servers: &Servers, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = request.into_parts();
    let url = Url::parse(&head.uri.to_string())?;
    let mut answer = servers.post(&url, head.headers, body).await?;
    let mut whole = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if whole.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err("the collector's answer is too large".into());
        }
        whole.extend_from_slice(&piece);
    }
    let response = Response::builder().status(answer.status());
    Ok(response.body(Bytes::from(whole))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_usual_one() {
        assert_eq!(endpoint("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(endpoint("https://a.test/otlp").unwrap(), "https://a.test/otlp");
    }

    #[test]
    fn what_is_no_address_is_refused_by_its_name() {
        for text in ["", "collector:4318", "ftp://me:secret@a.test", "http://", "//me:secret@a"] {
            let told = endpoint(text).unwrap_err().to_string();
            assert!(told.contains("telemetry.otlp_endpoint"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
