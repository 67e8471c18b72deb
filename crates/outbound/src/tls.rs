//! Encryption, set up when the first connection needs it.
//!
//! Reading the machine's certificates takes longer than all else of a start, so that a request to
//! `http://` never does it, and the first one to `https://` does it off the async threads, once
//! for the whole process.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
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
    let failed = |reason: String| Error::Connect { place: place.to_owned(), reason };
    let config = CONFIG.get_or_try_init(load).await?;
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let name = ServerName::try_from(bare.to_owned()).map_err(|error| failed(error.to_string()))?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, stream).await.map_err(|error| failed(root(&error)))
}

async fn load() -> Result<Arc<ClientConfig>, Error> {
    let loading = tokio::task::spawn_blocking(read_roots);
    let roots = loading
        .await
        .map_err(|error| Error::Setup(format!("load root certificates: {error}")))??;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Setup(format!("set up tls: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read is no reason to refuse the others.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reason = found.errors.first().map(ToString::to_string);
        let reason = reason.unwrap_or_else(|| "no store found".to_owned());
        return Err(Error::Setup(format!(
            "find root certificates: this machine has none ({reason}); install ca-certificates"
        )));
    }
    Ok(roots)
}
