//! The HTTP client: built late and as little of it as a request needs.
//!
//! The first request of a run must leave within milliseconds. Reading the machine's certificates
//! takes longer than all else together, so that a request to `http://` never does it, and the
//! first one to `https://` does it off the async threads.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::base_url::is_loopback;

/// How long a connection may take: a server that is alive answers far sooner.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may be silent, before its answer and within it. Models think for minutes
/// without a word; providers send keep-alives well within this.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long an idle connection is kept for the next step.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("set up tls: {0}")]
    Tls(#[from] rustls::Error),
    #[error("set up the http client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("find root certificates: this machine has none ({0}); install ca-certificates")]
    NoRoots(String),
    #[error("load root certificates: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// The clients, one for each of the three ways out.
#[derive(Debug, Default)]
pub(crate) struct Http {
    loopback: OnceCell<Client>,
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
}

impl Http {
    /// Returns the client for an address.
    pub(crate) async fn to(&self, url: &Url) -> Result<Client, Error> {
        let client = if url.scheme() == "https" {
            self.tls.get_or_try_init(secure).await?
        } else if is_loopback(url) {
            self.loopback.get_or_try_init(|| async { build(RootCertStore::empty(), true) }).await?
        } else {
            self.plain.get_or_try_init(|| async { build(RootCertStore::empty(), false) }).await?
        };
        Ok(client.clone())
    }
}

/// Makes a client for the machine itself: no proxy and no certificates.
pub(crate) fn local() -> Result<Client, Error> {
    build(RootCertStore::empty(), true)
}

async fn secure() -> Result<Client, Error> {
    tokio::task::spawn_blocking(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // A certificate that cannot be read is no reason to refuse the others.
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let reasons = found.errors.first().map(ToString::to_string);
            return Err(Error::NoRoots(reasons.unwrap_or_else(|| "no store found".to_owned())));
        }
        build(roots, false)
    })
    .await?
}

/// Proxies of the environment are honoured but for the machine itself; reading them is cheap.
fn build(roots: RootCertStore, is_local: bool) -> Result<Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Given a whole configuration, the client builds no verifier of the platform beside it.
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
        // A redirect could carry the key and the transcript anywhere.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("narthex/", env!("CARGO_PKG_VERSION")));
    let builder = if is_local { builder.no_proxy() } else { builder };
    Ok(builder.build()?)
}
