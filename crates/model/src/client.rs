//! The HTTP client: built late, and as little of it as a request needs.
//!
//! The first request of a run must leave within milliseconds, so that nothing is set up before it
//! is used; certificates are read by the first connection that needs them.

use std::sync::OnceLock;
use std::time::Duration;

use outbound::{Servers, Waits};

/// How long a connection may take: a server that is alive answers far sooner.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may be silent, before its answer and within it. Models think for minutes
/// without a word; providers send keep-alives well within this.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long an idle connection is kept for the next step.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

const WAITS: Waits =
    Waits { connect: CONNECT_TIMEOUT, silence: SILENCE_TIMEOUT, keep_alive: IDLE_TIMEOUT };

/// The client of all models. A redirect could carry the key and the transcript anywhere, and this
/// client follows none.
#[derive(Debug, Default)]
pub(crate) struct Http {
    servers: OnceLock<Servers>,
}

impl Http {
    /// Returns the client.
    pub(crate) fn servers(&self) -> &Servers {
        self.servers.get_or_init(|| Servers::new(WAITS))
    }
}

/// Makes a client for the machine itself: it knows no proxy.
pub(crate) fn local() -> Servers {
    Servers::local(WAITS)
}
