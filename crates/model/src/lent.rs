//! An endpoint that an embedding application supplies, with tokens that it mints.
//!
//! The endpoint is filled in while the program runs: the application says where it is once it is
//! connected. Tokens are kept in memory alone.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use driver_api::{
    Clock, Delta, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse, Models,
};
use protocol::{Refusal, RefusalCode, Timestamp, Wire};
use stdx::Secret;
use tokio::sync::mpsc;

use crate::client::Http;
use crate::names::Server;
use crate::provider::{Error, Provider};
use crate::structured::StructuredOutput;

/// Why a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenReason {
    /// There is none yet.
    Initial,
    /// The time of the last one is over.
    Expired,
    /// The endpoint did not take the last one.
    Rejected,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token.
    pub secret: Secret<String>,
    /// When it ends to hold, where that is known.
    pub expires_at: Option<Timestamp>,
}

/// Mints tokens.
#[async_trait]
pub trait Mint: Send + Sync + std::fmt::Debug {
    /// Mints a token for an endpoint. Has a limit of time of its own.
    ///
    /// # Errors
    /// [`ModelErrorKind::Unauthorized`] where it says no, [`ModelErrorKind::Network`] where it
    /// does not answer.
    async fn token(&self, audience: &str, reason: TokenReason) -> Result<Token, ModelError>;
}

/// An endpoint of an application.
#[derive(Debug)]
pub struct Endpoint {
    /// The name before the slash of its models' names.
    pub provider: String,
    /// The wire that it speaks.
    pub wire: Wire,
    /// Where it is.
    pub base_url: String,
    /// Who mints its tokens; it takes requests without one where absent.
    pub mint: Option<Arc<dyn Mint>>,
    /// Whether no other provider may be asked.
    pub is_exclusive: bool,
    /// Tells when a token's time is over.
    pub clock: Arc<dyn Clock>,
}

/// Where an application's endpoint is filled in. Cheap to clone; all clones are one slot.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<Mutex<Option<Arc<Filled>>>>);

impl Slot {
    /// Fills the slot; what was in it before is not asked any more.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with the address.
    pub fn fill(&self, endpoint: Endpoint) -> Result<(), Error> {
        let provider = Provider {
            name: endpoint.provider,
            wire: endpoint.wire,
            base_url: endpoint.base_url,
            key: None,
            headers: Vec::new(),
            structured_output: StructuredOutput::Auto,
        };
        let filled = Filled {
            // Found now, so that what is wrong with it is told to whoever fills it in.
            audience: Server::new(provider.clone())?.base().to_string(),
            provider,
            is_exclusive: endpoint.is_exclusive,
            mint: endpoint.mint,
            clock: endpoint.clock,
            token: tokio::sync::Mutex::default(),
            http: Arc::default(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(filled));
        Ok(())
    }

    fn get(&self) -> Option<Arc<Filled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns models with those of the slot's endpoint before them.
    pub fn before(&self, own: Arc<dyn Models>) -> Arc<dyn Models> {
        Arc::new(WithSlot { own, slot: self.clone() })
    }
}

#[derive(Debug)]
struct Filled {
    audience: String,
    provider: Provider,
    is_exclusive: bool,
    mint: Option<Arc<dyn Mint>>,
    clock: Arc<dyn Clock>,
    /// The newest token; whoever needs another holds it, so that all sessions together ask once.
    token: tokio::sync::Mutex<Option<Token>>,
    http: Arc<Http>,
}

impl Filled {
    /// Returns a token that holds, other than one that was refused.
    async fn token(
        &self,
        mint: &dyn Mint,
        refused: Option<&Secret<String>>,
    ) -> Result<Secret<String>, ModelError> {
        let mut newest = self.token.lock().await;
        let now = self.clock.now();
        let reason = match &*newest {
            None => TokenReason::Initial,
            Some(token) if token.expires_at.is_some_and(|end| end <= now) => TokenReason::Expired,
            Some(token) if refused.is_some_and(|it| it.expose() == token.secret.expose()) => {
                TokenReason::Rejected
            }
            Some(token) => return Ok(token.secret.clone()),
        };
        let token = mint.token(&self.audience, reason).await?;
        let secret = token.secret.clone();
        *newest = Some(token);
        Ok(secret)
    }

    /// Makes the model as it is asked with a token.
    fn model(
        &self,
        name: &str,
        key: Option<Secret<String>>,
    ) -> Result<impl Model + use<>, ModelError> {
        let rejected = |what: String| ModelError::new(ModelErrorKind::Rejected, what);
        let server = Server::new(Provider { key, ..self.provider.clone() });
        let server = server.map_err(|error| rejected(error.to_string()))?;
        server.model(name, &self.http).map_err(|refusal| rejected(refusal.message))
    }
}

#[derive(Debug)]
struct WithSlot {
    own: Arc<dyn Models>,
    slot: Slot,
}

impl Models for WithSlot {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, Refusal> {
        let Some(filled) = self.slot.get() else { return self.own.resolve(name) };
        let provider = &filled.provider.name;
        let model = match name.split_once('/') {
            Some((named, model)) if named == provider => Some(model),
            Some(_) => None,
            None => crate::names::vendor_of(name).filter(|vendor| vendor == provider).map(|_| name),
        };
        match model {
            Some(model) if !model.trim().is_empty() => {
                let info = filled.model(model, None);
                let info = info.map_err(|error| invalid(error.message))?.info().clone();
                let model = model.to_owned();
                Ok(Arc::new(Lent { info, model, filled }))
            }
            Some(_) => Err(invalid(format!("{name:?} names no model; write {provider}/MODEL"))),
            None if filled.is_exclusive => {
                let message = format!(
                    "model: the application lets models of its own endpoint be used alone; \
                     {name:?} is none: write {provider}/MODEL"
                );
                Err(Refusal::new(RefusalCode::LockedByPolicy, message))
            }
            None => self.own.resolve(name),
        }
    }

    fn list(&self) -> Vec<ModelInfo> {
        let Some(filled) = self.slot.get() else { return self.own.list() };
        let provider = &filled.provider.name;
        let own = if filled.is_exclusive { Vec::new() } else { self.own.list() };
        let lent = crate::names::listed(&filled.provider, &filled.http);
        let others = own.into_iter().filter(|info| info.provider != *provider);
        lent.into_iter().chain(others).collect()
    }
}

/// A model behind the endpoint.
#[derive(Debug)]
struct Lent {
    info: ModelInfo,
    model: String,
    filled: Arc<Filled>,
}

#[async_trait]
impl Model for Lent {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError> {
        let filled = &self.filled;
        let Some(mint) = filled.mint.as_deref() else {
            return filled.model(&self.model, None)?.ask(request, deltas).await;
        };
        let token = filled.token(mint, None).await?;
        let first = filled.model(&self.model, Some(token.clone()))?;
        match first.ask(request, deltas.clone()).await {
            // Nothing of an answer has come, so that it is still one request with one answer.
            Err(error) if error.kind == ModelErrorKind::Unauthorized => {
                let token = filled.token(mint, Some(&token)).await?;
                filled.model(&self.model, Some(token))?.ask(request, deltas).await
            }
            answered => answered,
        }
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalCode::InvalidModel, message)
}
