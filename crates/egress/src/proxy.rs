//! What all connections of one door share.

use std::net::SocketAddr;
use std::sync::Arc;

use driver_api::EgressAudit;
use outbound::{Encryption, Guard};
use protocol::NeuronId;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::authority::Authority;
use crate::options::Options;
use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::target::Target;
use crate::wire::{Pulse, Wire};

/// What all connections of one door share.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) neuron: NeuronId,
    pub(crate) rules: Rules,
    /// There is one where there is a credential.
    pub(crate) authority: Option<Authority>,
    pub(crate) encryption: Encryption,
    pub(crate) audit: Arc<dyn EgressAudit>,
    pub(crate) options: Options,
    pub(crate) tasks: TaskTracker,
}

/// A connection to a server, at the address that was judged.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Wire<TcpStream>,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Connects to a place: its addresses are looked up and judged now, and one of those that
    /// were judged is dialled.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        guard: &Guard,
        pulse: &Arc<Pulse>,
    ) -> Result<Link, Refusal> {
        let Options { resolver, dial, limits, .. } = &self.options;
        let host = target.place.to_string();
        let link = outbound::connect((&host, target.port), guard, &**resolver, &**dial);
        match timeout(limits.connect_max, link).await {
            Ok(Ok(link)) => Ok(Link { wire: Wire::new(link.stream, pulse), address: link.address }),
            Ok(Err(error)) => Err(Refusal::connecting(target, &error)),
            Err(_) => Err(too_slow(target, limits.connect_max)),
        }
    }
}

/// A server that takes no connection in time.
pub(crate) fn too_slow(target: &Target, limit: std::time::Duration) -> Refusal {
    Refusal::late(format!("{target}: connecting took longer than {}", stdx::duration(limit)))
}
