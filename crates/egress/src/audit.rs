//! The record of a request: one event each, whatever becomes of it.

use std::net::IpAddr;
use std::sync::Arc;

use driver_api::{EgressAudit, EgressEvent};
use http::Method;

use crate::proxy::Proxy;
use crate::refusal::{Refusal, shown};
use crate::target::Target;

/// What stands in the record for a request that broke off.
const BROKE_OFF: &str = "it broke off before there was an answer";

/// A request that is not in the record yet. It is told when it is let through or refused, and when
/// it is dropped before, so that no way out is without a line.
#[derive(Debug)]
pub(crate) struct Seen {
    audit: Arc<dyn EgressAudit>,
    event: Option<EgressEvent>,
}

impl Seen {
    /// A request for a place.
    pub(crate) fn new(proxy: &Proxy, method: &Method, target: &Target) -> Self {
        Self::of(proxy, method.as_str(), &target.place.to_string(), target.port)
    }

    /// Something that cannot be read as a request for a place.
    pub(crate) fn unreadable(proxy: &Proxy, method: &str, place: &str) -> Self {
        Self::of(proxy, method, place, 0)
    }

    fn of(proxy: &Proxy, method: &str, host: &str, port: u16) -> Self {
        let event = EgressEvent {
            neuron: proxy.neuron.clone(),
            at: proxy.options.clock.now(),
            method: shown(method),
            host: host.to_owned(),
            port,
            address: None,
            refused: None,
            status: None,
            has_credential: false,
        };
        Self { audit: Arc::clone(&proxy.audit), event: Some(event) }
    }

    /// It goes to this address.
    pub(crate) fn at(&mut self, address: IpAddr) {
        if let Some(event) = &mut self.event {
            event.address = Some(address);
        }
    }

    /// A credential is on it.
    pub(crate) fn with_credential(&mut self) {
        if let Some(event) = &mut self.event {
            event.has_credential = true;
        }
    }

    /// It was let through, with this answer where it is seen.
    pub(crate) fn passed(mut self, status: Option<u16>) {
        self.tell(None, status);
    }

    /// It was refused, or no answer could be had.
    pub(crate) fn refused(mut self, refusal: &Refusal) {
        self.tell(Some(refusal.reason.clone()), Some(refusal.status.as_u16()));
    }

    /// It is no request by itself: those that follow in it have their own lines.
    pub(crate) fn left_to_others(mut self) {
        self.event = None;
    }

    fn tell(&mut self, refused: Option<String>, status: Option<u16>) {
        if let Some(mut event) = self.event.take() {
            event.refused = refused;
            event.status = status;
            self.audit.saw(&event);
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.tell(Some(BROKE_OFF.to_owned()), None);
    }
}
