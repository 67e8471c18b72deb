//! The door of a neuron: what listens on its socket.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{Egress, EgressAudit};
use outbound::Encryption;
use protocol::NeuronId;
use stdx::Secret;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::authority::{Authority, pem};
use crate::error::EgressError;
use crate::exchange;
use crate::kept::Kept;
use crate::options::Options;
use crate::proxy::Proxy;
use crate::rules::Rules;
use crate::rules::credential::Placeholder;

/// The wait after an accept that failed: descriptors come back as connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What commands read to leave through the proxy.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];

/// Places that are inside of the neuron itself.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// What commands read to find root certificates, in place of the machine's.
const BUNDLE_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];

/// What they read to find one more.
const CA_VARIABLES: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// Certificates for the files of a neuron; there are some where there is a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate of the neuron's authority, for [`Options::ca_path`].
    pub ca_pem: String,
    /// The root certificates of this machine and that one, for [`Options::bundle_path`]: what
    /// passes through the proxy is encrypted by servers that are vouched for by those.
    pub bundle_pem: String,
}

/// The one way out of one neuron, for as long as it is kept: dropping it ends all connections.
pub struct Door {
    proxy: Arc<Proxy>,
    stop: DropGuard,
}

impl Door {
    /// Opens the way out: serves the listener, which only the neuron can reach. Needs the runtime
    /// of tokio around it.
    ///
    /// With no rules it refuses everything, and says so.
    ///
    /// # Errors
    /// [`EgressError::Rule`] when a rule or a credential cannot be used, and
    /// [`EgressError::Certificates`] when the authority of the neuron cannot be made.
    pub fn open(
        neuron: NeuronId,
        egress: &Egress,
        listener: UnixListener,
        audit: Arc<dyn EgressAudit>,
        options: Options,
    ) -> Result<Self, EgressError> {
        let kept = match &options.kept {
            Some(bytes) => Kept::read(bytes.expose()).unwrap_or_else(|| {
                tracing::warn!(
                    %neuron, "what was kept of the way out cannot be read: programs of the neuron \
                    will trust its certificate only when they are started anew"
                );
                Kept::default()
            }),
            None => Kept::default(),
        };
        let rules = read(egress, kept.placeholders)?;
        let has_credentials = !rules.credentials().is_empty();
        let (before, now) = (kept.authority, options.clock.now());
        let authority = has_credentials.then(|| Authority::new(before, now)).transpose()?;
        let encryption = Encryption::trusting(options.further_roots.clone());
        let tasks = TaskTracker::new();
        let proxy = Proxy { neuron, rules, authority, encryption, audit, options, tasks };
        let proxy = Arc::new(proxy);
        let stop = CancellationToken::new();
        let accepting = accept(Arc::clone(&proxy), listener, stop.clone());
        proxy.tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Self { proxy, stop: stop.drop_guard() })
    }

    /// Returns the certificate of the neuron's authority as PEM, where there is a credential.
    #[must_use]
    pub fn ca_pem(&self) -> Option<String> {
        Some(pem([self.proxy.authority.as_ref()?.certificate()]))
    }

    /// Returns what the neuron goes on with, where there is a credential, for [`Options::kept`] of
    /// the door that comes after this one. The key of the neuron's authority is in it: it belongs
    /// into no file that the neuron can read.
    #[must_use]
    pub fn kept(&self) -> Option<Secret<Vec<u8>>> {
        let authority = self.proxy.authority.as_ref()?;
        let placeholders = self.proxy.rules.placeholders().map(|(placeholder, _)| placeholder);
        Some(Kept::write(&authority.key(), authority.certificate(), placeholders))
    }

    /// Returns what belongs into the files of the neuron, where there is a credential. Reads the
    /// root certificates of this machine.
    ///
    /// # Errors
    /// [`EgressError::Certificates`] when the machine's cannot be read.
    pub async fn certificates(&self) -> Result<Option<Certificates>, EgressError> {
        let Some(authority) = &self.proxy.authority else { return Ok(None) };
        let roots = outbound::root_certificates().await;
        let roots = roots.map_err(|error| EgressError::Certificates(error.to_string()))?;
        let ca_pem = pem([authority.certificate()]);
        let bundle_pem = format!("{}{ca_pem}", pem(&roots));
        Ok(Some(Certificates { ca_pem, bundle_pem }))
    }

    /// Returns the variables that commands of the neuron need: where the proxy is, where the
    /// certificates are, and the placeholders of credentials. None of them is secret.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let options = &self.proxy.options;
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut variables: Vec<_> =
            PROXY_VARIABLES.iter().map(|name| of(name, &options.proxy_url)).collect();
        variables.push(of("no_proxy", NO_PROXY));
        variables.push(of("NO_PROXY", NO_PROXY));
        // Without it, one widespread runtime passes the variables above over.
        variables.push(of("NODE_USE_ENV_PROXY", "1"));
        if self.proxy.authority.is_some() {
            variables.extend(BUNDLE_VARIABLES.iter().map(|name| of(name, &options.bundle_path)));
            variables.extend(CA_VARIABLES.iter().map(|name| of(name, &options.ca_path)));
        }
        for (Placeholder { variable, text }, credential) in self.proxy.rules.placeholders() {
            if credential.is_some() {
                variables.push(of(variable, text));
            }
        }
        variables
    }

    /// Ends all connections and waits until they are over.
    pub async fn close(self) {
        let Self { proxy, stop } = self;
        drop(stop);
        proxy.tasks.close();
        proxy.tasks.wait().await;
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("neuron", &self.proxy.neuron).finish_non_exhaustive()
    }
}

/// Checks what a neuron may reach, as [`Door::open`] does, before there is a neuron.
///
/// # Errors
/// [`EgressError::Rule`] when a rule or a credential cannot be used.
pub fn check(egress: &Egress) -> Result<(), EgressError> {
    read(egress, Vec::new()).map(drop)
}

fn read(egress: &Egress, known: Vec<Placeholder>) -> Result<Rules, EgressError> {
    let rules = Rules::read(egress, known)?;
    let mut variables = egress.credentials.iter().filter_map(|own| own.variable.as_deref());
    if let Some(taken) = variables.find(|variable| is_own(variable)) {
        let reason = format!("{taken} is set by the proxy itself: choose another name");
        return Err(EgressError::rule("egress.credentials", reason));
    }
    Ok(rules)
}

fn is_own(variable: &str) -> bool {
    let own = PROXY_VARIABLES.iter().chain(&BUNDLE_VARIABLES).chain(&CA_VARIABLES);
    own.chain(&["no_proxy", "NO_PROXY", "NODE_USE_ENV_PROXY"]).any(|own| *own == variable)
}

async fn accept(proxy: Arc<Proxy>, listener: UnixListener, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(proxy.options.limits.connections_max));
    let of_all = Arc::clone(&proxy.options.connections);
    let (mut is_full, mut are_all_full) = (false, false);
    loop {
        if permits.available_permits() == 0 && !std::mem::replace(&mut is_full, true) {
            tracing::warn!(neuron = %proxy.neuron, "all connections of a neuron are taken");
        }
        // Nobody closes these.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        if of_all.available_permits() == 0 && !std::mem::replace(&mut are_all_full, true) {
            tracing::warn!(neuron = %proxy.neuron, "all connections of all neurons are taken");
        }
        let Ok(place) = Arc::clone(&of_all).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                wait_out(&error).await;
                continue;
            }
        };
        let (own, stop) = (Arc::clone(&proxy), stop.clone());
        proxy.tasks.spawn(async move {
            stop.run_until_cancelled(Box::pin(exchange::run(&own, stream))).await;
            drop((permit, place));
        });
    }
}

/// A failed accept never ends the door, and never spins.
async fn wait_out(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "no connection of a neuron could be accepted; trying on");
        sleep(ACCEPT_PAUSE).await;
    }
}
