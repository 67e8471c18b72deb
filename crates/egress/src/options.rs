//! What a door is made of beside its rules.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Clock, SystemClock};
use outbound::{Dial, Resolve, SystemResolver, TcpDial};
use rustls::pki_types::CertificateDer;
use stdx::Secret;
use tokio::sync::Semaphore;

/// Connections of one neuron at once: package managers and test runners open some dozens. Each
/// costs two descriptors of this process, and those of all neurons share its limit.
const CONNECTIONS_MAX: usize = 128;

/// How long name, connection and encryption may take together.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// From the opening of a tunnel to the end of the client's hello, and again to the end of the
/// handshake where TLS ends here: a client sends its hello at once.
const HELLO_MAX: Duration = Duration::from_secs(10);

/// For the head of a request, counted from the end of the one before: clients keep idle
/// connections for about as long, and one that trickles gets no further.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How long a request or a tunnel may stand still, with no byte in either direction: a model that
/// thinks says nothing for minutes.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// How much and how long. All have a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait to be accepted.
    pub connections_max: usize,
    /// How long name, connection and encryption towards a server may take together.
    pub connect_max: Duration,
    /// How long the TLS hello of a client may take, and then its handshake.
    pub hello_max: Duration,
    /// From the end of an answer (or a connection's beginning) to the end of the next head.
    pub idle_max: Duration,
    /// How long nothing may move within a request or a tunnel.
    pub silence_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            connect_max: CONNECT_MAX,
            hello_max: HELLO_MAX,
            idle_max: IDLE_MAX,
            silence_max: SILENCE_MAX,
        }
    }
}

/// What a door is made of beside its rules.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where commands of the neuron reach the door, an `http://` address as they see it.
    pub proxy_url: String,
    /// Where they find the certificate of the neuron's authority, alone.
    pub ca_path: String,
    /// Where they find the machine's root certificates with that one among them.
    pub bundle_path: String,
    /// What [`Door::kept`] was of the door that the neuron had before: its authority and its
    /// placeholders, which are fresh ones where this is absent or cannot be read. With another
    /// authority, commands that have read the certificate trust the proxy no more, and other
    /// placeholders are none that they know.
    ///
    /// [`Door::kept`]: crate::Door::kept
    pub kept: Option<Secret<Vec<u8>>>,
    /// Certificates that servers may be vouched for by, beside those of the machine.
    pub further_roots: Vec<CertificateDer<'static>>,
    /// How much and how long.
    pub limits: Limits,
    /// Places for connections of all doors that have this one; a connection that finds none waits
    /// to be accepted. Without an end where nothing is said, beside the limit of each door.
    pub connections: Arc<Semaphore>,
    /// Turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Connects to addresses.
    pub dial: Arc<dyn Dial>,
    /// The time of audit events and certificates.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            proxy_url: "http://127.0.0.1:3128".to_owned(),
            ca_path: "/run/narthex/egress-ca.pem".to_owned(),
            bundle_path: "/run/narthex/egress-roots.pem".to_owned(),
            kept: None,
            further_roots: Vec::new(),
            limits: Limits::default(),
            connections: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            resolver: Arc::new(SystemResolver::default()),
            dial: Arc::new(TcpDial),
            clock: Arc::new(SystemClock::default()),
        }
    }
}
