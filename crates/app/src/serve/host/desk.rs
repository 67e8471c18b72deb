//! What the host door asks about policy and models.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use door_host::{
    EndpointKind, MintError, ModelEndpoint, Pushed, Rejected, Surroundings, TokenReason,
    TokenSource,
};
use driver_api::{Clock, ModelError, ModelErrorKind, SystemClock};
use governance::Managed;
use governance::bundle::{self, Accepted, Envelope, Rejection, Terms};
use narthex::protocol::Timestamp;
use narthex::{Handle, Layer, LayerName, Narthex, Policies, Wire};
use outbound::Url;
use runtime_api::PolicyTag;
use serde_json::Value;

use crate::settings::Settings;

/// Policy and models, for the host door.
#[derive(Debug)]
pub(super) struct Desk {
    /// Holds no model that a host does not let be used: the slot is before all others.
    handle: Handle,
    policies: Policies,
    managed: Option<Managed>,
    source: Option<String>,
    /// What the newest host pushed.
    pushed: Mutex<Option<Accepted>>,
    slot: model::Slot,
    /// The model of the settings.
    model: Option<String>,
    clock: Arc<dyn Clock>,
}

impl Desk {
    pub(super) fn new(
        settings: &Settings,
        house: &Narthex,
        slot: model::Slot,
        model: Option<String>,
    ) -> Self {
        Self {
            handle: house.handle(),
            policies: house.policies(),
            managed: settings.managed.clone(),
            source: settings.places.managed.as_ref().map(|path| path.display().to_string()),
            pushed: Mutex::default(),
            slot,
            model,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl Surroundings for Desk {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn locked(&self) -> Vec<String> {
        let policy = self.policies.current();
        let any = |is_locked: fn(&Layer) -> bool| policy.layers().any(is_locked);
        let keys = [
            ("permissions.mode", any(|layer| layer.locked_mode.is_some())),
            ("disableFullAuto", any(|layer| layer.disable_full_auto)),
            ("permissions.allowPersist", any(|layer| layer.disable_persist)),
            ("models.allowed", any(|layer| layer.models.is_some())),
        ];
        keys.into_iter().filter(|(_, is)| *is).map(|(key, _)| key.to_owned()).collect()
    }

    fn policy_source(&self) -> Option<String> {
        self.source.clone()
    }

    fn push(&self, envelope: &Value) -> Result<Pushed, Rejected> {
        let rejected = |Rejection { reason, message }: Rejection| Rejected {
            reason: reason.as_str(),
            message,
        };
        let envelope = Envelope::from_value(envelope).map_err(rejected)?;
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.managed.as_ref().map(Managed::host_keys).unwrap_or_default();
        let accepts_unsigned =
            self.managed.as_ref().is_some_and(|managed| managed.embed.trust_host);
        let terms = Terms {
            layer: LayerName::Pushed,
            keys: &keys,
            accepts_unsigned,
            now: self.clock.now(),
            in_force: pushed.as_ref().map(|accepted| &accepted.bundle),
            policy: &self.policies.current(),
        };
        let accepted = bundle::verify(&envelope, &terms).map_err(rejected)?;
        let answer = Pushed {
            id: accepted.bundle.id.clone(),
            stripped_keys: accepted.stripped_keys.clone(),
        };
        *pushed = Some(accepted);
        Ok(answer)
    }

    fn binding(&self, models: Option<&[String]>) -> Option<PolicyTag> {
        let mut layers = Vec::new();
        let pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(accepted) = &*pushed {
            match accepted.bundle.is_expired(self.clock.now()) {
                false => layers.push(accepted.layer.clone()),
                true => tracing::warn!(id = accepted.bundle.id, "the pushed policy has expired"),
            }
        }
        drop(pushed);
        if let Some(models) = models {
            let models = Some(models.to_vec());
            layers.push(Layer { models, ..Layer::new(LayerName::Pushed) });
        }
        (!layers.is_empty()).then(|| self.policies.bind(layers))
    }

    fn lend_models(
        &self,
        endpoint: &ModelEndpoint,
        is_exclusive: bool,
        tokens: Arc<dyn TokenSource>,
    ) -> Result<(), String> {
        if is_exclusive && !is_loopback(endpoint.base_url()) {
            return Err("baseUrl: an exclusive endpoint has to be on this machine, for example \
                        http://127.0.0.1:4100"
                .to_owned());
        }
        let (provider, wire) = match endpoint.kind() {
            EndpointKind::Anthropic => ("anthropic", Wire::Anthropic),
            EndpointKind::Openai => ("openai", Wire::OpenaiChat),
        };
        let mint: Option<Arc<dyn model::Mint>> = match endpoint.wants_tokens() {
            true => Some(Arc::new(HostMint(tokens))),
            false => None,
        };
        let filled = self.slot.fill(model::Endpoint {
            provider: provider.to_owned(),
            wire,
            base_url: endpoint.base_url().to_owned(),
            mint,
            is_exclusive,
            clock: Arc::clone(&self.clock),
        });
        filled.map_err(|error| format!("baseUrl: {error}"))
    }

    fn default_model(&self, allowed: Option<&[String]>) -> Option<String> {
        let is_allowed = |model: &String| {
            allowed.is_none_or(|allowed| allowed.contains(model))
                && self.handle.check_settings(None, Some(model)).is_ok()
        };
        let listed = || self.handle.models().into_iter().map(|listing| listing.id);
        let named = allowed.unwrap_or_default().iter().filter(|name| !name.contains('*')).cloned();
        self.model.clone().into_iter().chain(named).chain(listed()).find(is_allowed)
    }
}

/// Asks a host for tokens.
#[derive(Debug)]
struct HostMint(Arc<dyn TokenSource>);

#[async_trait]
impl model::Mint for HostMint {
    async fn token(
        &self,
        audience: &str,
        reason: model::TokenReason,
    ) -> Result<model::Token, ModelError> {
        let reason = match reason {
            model::TokenReason::Initial => TokenReason::Initial,
            model::TokenReason::Expired => TokenReason::Expired,
            model::TokenReason::Rejected => TokenReason::Rejected,
        };
        match self.0.token(audience, reason).await {
            Ok(minted) => Ok(model::Token { secret: minted.secret, expires_at: minted.expires_at }),
            Err(error) => {
                let kind = match error {
                    MintError::Refused(_) => ModelErrorKind::Unauthorized,
                    MintError::Gone => ModelErrorKind::Network,
                };
                Err(ModelError::new(kind, error.to_string()))
            }
        }
    }
}

fn is_loopback(base_url: &str) -> bool {
    let Ok(url) = Url::parse(base_url) else { return false };
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn an_exclusive_endpoint_is_on_this_machine() {
        for here in
            ["http://127.0.0.1:1", "http://[::1]:1/v1", "http://localhost", "http://127.9.9.9"]
        {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "http://192.0.2.7:4100",
            "https://example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://127.0.0.1@example.com",
            "no url",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}
