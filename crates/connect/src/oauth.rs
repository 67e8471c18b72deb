//! Tokens for servers that want them: OAuth 2.1 as MCP uses it.
//!
//! A server's tokens lie in one private file under `connections/` of the home folder and are
//! shared by every session and every process: whoever refreshes holds a lock, looks whether
//! somebody else was faster, and writes the new pair before using it.

mod authorize;
mod challenge;
mod discovery;
mod record;
mod registration;
mod store;
mod token;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Clock, Fault};
use outbound::Url;
use stdx::Secret;

use crate::OAuthClient;
pub(crate) use challenge::Challenge;
use record::Record;
use store::Store;

/// How long before its end a token is replaced: a request that is under way needs it for a while.
const REFRESH_AHEAD: Duration = Duration::from_secs(60);

/// Shows a person the way to an authorization server and waits for them to come back.
#[async_trait]
pub trait Redirect: Send + Sync + std::fmt::Debug {
    /// Returns the address that the person is sent back to: a listener on this machine that waits
    /// already.
    fn uri(&self) -> &str;

    /// Shows an address to the person and returns the one that they came back with.
    ///
    /// # Errors
    /// A fault where nobody came back.
    async fn visit(&self, address: &Url) -> Result<Url, Fault>;
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The server or its authorization server does not keep to the rules; a token from there
    /// could not be trusted.
    #[error("{0}")]
    Refused(String),
    /// The authorization server said no.
    #[error("the authorization server answered {code}{}", after_colon(.description.as_deref()))]
    Denied {
        /// Its word for it, such as `access_denied`.
        code: String,
        /// Its explanation.
        description: Option<String>,
    },
    /// It could not be reached.
    #[error(transparent)]
    Outbound(#[from] outbound::Error),
    /// The disk, the listener or the person failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

fn after_colon(text: Option<&str>) -> String {
    text.map(|text| format!(": {text}")).unwrap_or_default()
}

/// The tokens of one server. One request at a time looks after them.
#[derive(Debug)]
pub(crate) struct Tokens {
    server: Url,
    client: OAuthClient,
    http: outbound::Client,
    store: Store,
    clock: Arc<dyn Clock>,
    /// What was last read or written; the lock makes refreshes of this process wait in line.
    known: tokio::sync::Mutex<Option<Record>>,
    challenge: Mutex<Option<Challenge>>,
    /// Whether the last request was refused for want of a token.
    is_refused: AtomicBool,
}

impl Tokens {
    /// Prepares the tokens of a server. Opens and reads nothing.
    pub(crate) fn new(
        server: Url,
        client: OAuthClient,
        http: outbound::Client,
        home: &std::path::Path,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let store = Store::new(home, &server);
        let (known, challenge, is_refused) = Default::default();
        Self { server, client, http, store, clock, known, challenge, is_refused }
    }

    /// Returns the token to send, refreshed where it is about to end; none where there is none.
    ///
    /// # Errors
    /// Any of [`AuthError`]; a token that still holds is returned rather than an error.
    pub(crate) async fn bearer(&self) -> Result<Option<Secret<String>>, AuthError> {
        let mut known = self.known.lock().await;
        if known.as_ref().is_none_or(|record| record.token.is_none()) {
            // Another process may have been authorized.
            *known = self.store.read().await?;
        }
        let Some(token) = known.as_ref().and_then(|record| record.token.clone()) else {
            return Ok(None);
        };
        let now_ms = self.clock.now().0;
        let left_ms = token.expires_at_ms.map_or(i64::MAX, |end| end.saturating_sub(now_ms));
        let ahead_ms = i64::try_from(REFRESH_AHEAD.as_millis()).unwrap_or(i64::MAX);
        let is_last = token.refresh.is_none() && left_ms > 0;
        if left_ms > ahead_ms || is_last {
            return Ok(Some(token.access));
        }
        match self.refresh(&mut known, &token.access).await {
            Err(_) if left_ms > 0 => Ok(Some(token.access)),
            Err(error) => Err(error),
            Ok(()) => Ok(access(known.as_ref())),
        }
    }

    /// Takes note that the server refused a request, and returns the token to try once more with,
    /// if there is another one than `used`.
    ///
    /// # Errors
    /// Any of [`AuthError`].
    pub(crate) async fn replace(
        &self,
        used: Option<&Secret<String>>,
        challenge: Challenge,
    ) -> Result<Option<Secret<String>>, AuthError> {
        let is_step_up = challenge.is_insufficient_scope();
        self.remember(challenge);
        // More rights come from a person alone.
        if is_step_up {
            return Ok(None);
        }
        let mut known = self.known.lock().await;
        if let Some(used) = used
            && access(known.as_ref()).as_ref() == Some(used)
        {
            self.refresh(&mut known, used).await?;
        } else if known.is_none() {
            *known = self.store.read().await?;
        }
        Ok(access(known.as_ref()).filter(|access| Some(access) != used))
    }

    /// Forgets what is kept of the server. Returns whether there was a token.
    ///
    /// # Errors
    /// A fault of the disk, or of the lock that another process holds.
    pub(crate) async fn forget(&self) -> Result<bool, AuthError> {
        let mut known = self.known.lock().await;
        let lock = self.store.lock(&*self.clock).await?;
        let kept = self.store.read().await?;
        let had_token = kept.is_some_and(|record| record.token.is_some());
        self.store.remove().await?;
        *known = None;
        drop(lock);
        Ok(had_token)
    }

    /// Takes note of whether the server let a request in.
    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Relaxed);
    }

    /// Tells whether a person has to authorize this client before anything else helps.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    fn remember(&self, challenge: Challenge) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge);
    }

    fn challenge(&self) -> Option<Challenge> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces a token, unless somebody else has done so.
    async fn refresh(
        &self,
        known: &mut Option<Record>,
        used: &Secret<String>,
    ) -> Result<(), AuthError> {
        let lock = self.store.lock(&*self.clock).await?;
        let Some(mut record) = self.store.read().await? else {
            *known = None;
            return Ok(());
        };
        let token = record.token.take().filter(|token| token.access == *used);
        let Some(token) = token else {
            *known = self.store.read().await?;
            return Ok(());
        };
        let Some(refresh) = &token.refresh else {
            *known = Some(record);
            return Ok(());
        };
        match token::refresh(&self.http, &record, refresh, self.clock.now().0).await {
            Ok(mut fresh) => {
                // A server that does not rotate leaves it out.
                fresh.refresh = fresh.refresh.or_else(|| token.refresh.clone());
                if fresh.scopes.is_empty() {
                    fresh.scopes.clone_from(&token.scopes);
                }
                record.token = Some(fresh);
            }
            // The pair is spent: nothing but a person helps.
            Err(AuthError::Denied { code, .. }) if code == "invalid_grant" => {}
            Err(error) => return Err(error),
        }
        self.store.write(&record).await?;
        *known = Some(record);
        drop(lock);
        Ok(())
    }
}

fn access(record: Option<&Record>) -> Option<Secret<String>> {
    Some(record?.token.as_ref()?.access.clone())
}
