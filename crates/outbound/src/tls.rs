//! Encryption, set up when the first connection needs it.
//!
//! Reading the machine's certificates takes longer than all else of a start, so that a request to
//! `http://` never does it, and the first one to `https://` does it off the async threads, once
//! for the whole process.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Error, root};

static CONFIG: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// Encrypts a connection to a host, whose certificate must be for that name or address.
pub(crate) async fn encrypt<S>(stream: S, host: &str, place: &str) -> Result<TlsStream<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = CONFIG.get_or_try_init(|| load(&[])).await?;
    encrypt_by(config, stream, host, place).await
}

/// Encrypts connections to servers that this machine's certificates, or further ones, vouch for.
/// Only HTTP/1.1 is offered. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Encryption {
    further: Arc<[CertificateDer<'static>]>,
    config: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl Encryption {
    /// Trusts certificates beside those of the machine. Reads nothing before the first connection.
    #[must_use]
    pub fn trusting(further: Vec<CertificateDer<'static>>) -> Self {
        Self { further: further.into(), config: Arc::new(OnceCell::new()) }
    }

    /// Encrypts a connection to a host, given as in a url; its certificate must be for that name
    /// or address. There is no limit of time but the caller's.
    ///
    /// # Errors
    /// [`Error::Connect`], and [`Error::Setup`] if the machine has no root certificates.
    pub async fn connect<S>(&self, stream: S, host: &str, port: u16) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let place = format!("{host}:{port}");
        if self.further.is_empty() {
            return encrypt(stream, host, &place).await;
        }
        let config = self.config.get_or_try_init(|| load(&self.further)).await?;
        encrypt_by(config, stream, host, &place).await
    }
}

/// Returns the root certificates of this machine.
///
/// # Errors
/// [`Error::Setup`] if it has none.
pub async fn root_certificates() -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = off_thread().await?;
    if found.certs.is_empty() { Err(none_found(&found)) } else { Ok(found.certs) }
}

async fn encrypt_by<S>(
    config: &Arc<ClientConfig>,
    stream: S,
    host: &str,
    place: &str,
) -> Result<TlsStream<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let failed = |reason: String| Error::Connect { place: place.to_owned(), reason };
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let name = ServerName::try_from(bare.to_owned()).map_err(|error| failed(error.to_string()))?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, stream).await.map_err(|error| failed(root(&error)))
}

async fn load(further: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, Error> {
    let found = off_thread().await?;
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read is no reason to refuse the others.
    let known = found.certs.iter().chain(further).cloned();
    if roots.add_parsable_certificates(known).0 == 0 {
        return Err(none_found(&found));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Setup(format!("set up tls: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn off_thread() -> Result<CertificateResult, Error> {
    let loading = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
    loading.await.map_err(|error| Error::Setup(format!("load root certificates: {error}")))
}

fn none_found(found: &CertificateResult) -> Error {
    let reason = found.errors.first().map(ToString::to_string);
    let reason = reason.unwrap_or_else(|| "no store found".to_owned());
    Error::Setup(format!(
        "find root certificates: this machine has none ({reason}); install ca-certificates"
    ))
}
