//! Who may come in: bearer tokens, compared in constant time.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::HeaderMap;
use http::request::Parts;
use sha2::{Digest, Sha256};
use stdx::Secret;
use subtle::ConstantTimeEq;

use crate::Problem;
use crate::gate::bearer;

/// Which tokens come in, and as whom.
pub trait Tokens: Send + Sync + fmt::Debug {
    /// The caller that a presented token stands for, `None` for a token that is not known. The
    /// time it takes must not tell how much of a token was right.
    fn admits(&self, presented: &str) -> Option<Caller>;
}

/// Who sent a request. Handlers may take one as an argument, and `Option<Caller>` on open routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// A name for logs and for the record of who allowed what; never a token.
    pub name: Arc<str>,
}

/// Whether a caller is still let in: for answers that go on long after the gate. Handlers may take
/// one as an argument.
#[derive(Debug, Clone)]
pub struct Admitted {
    tokens: Arc<dyn Tokens>,
    presented: Secret<String>,
    caller: Caller,
}

impl Admitted {
    pub(crate) fn by(tokens: &Arc<dyn Tokens>, presented: &str) -> Option<Self> {
        let caller = tokens.admits(presented)?;
        let presented = Secret::new(presented.to_owned());
        Some(Self { tokens: Arc::clone(tokens), presented, caller })
    }

    /// Lets a request in by its bearer token, if it has one that is known.
    pub fn of(tokens: &Arc<dyn Tokens>, headers: &HeaderMap) -> Option<Self> {
        bearer(headers).and_then(|token| Self::by(tokens, token))
    }

    /// Who was let in.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Asks once more: false when the token was revoked, is over, or is another's by now.
    pub fn holds(&self) -> bool {
        self.tokens.admits(self.presented.expose()).as_ref() == Some(&self.caller)
    }
}

impl<S: Sync> FromRequestParts<S> for Admitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let admitted = parts.extensions.get::<Self>().cloned();
        admitted.ok_or_else(|| Problem::unauthorized("this needs a token"))
    }
}

/// One token for one caller.
#[derive(Clone)]
pub struct OneToken {
    digest: [u8; 32],
    caller: Caller,
}

impl OneToken {
    /// Admits this token as `name`. An empty token admits nobody.
    pub fn new(token: &Secret<String>, name: impl Into<Arc<str>>) -> Self {
        Self { digest: digest(token.expose()), caller: Caller { name: name.into() } }
    }
}

impl Tokens for OneToken {
    fn admits(&self, presented: &str) -> Option<Caller> {
        // Digests have one length, so neither the length nor a common beginning shows in time.
        let same = bool::from(digest(presented).ct_eq(&self.digest));
        (same && !presented.is_empty()).then(|| self.caller.clone())
    }
}

impl fmt::Debug for OneToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneToken").field("caller", &self.caller).finish_non_exhaustive()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::unauthorized("this needs a token"))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Option<Self>, std::convert::Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

#[cfg(test)]
mod tests {
    use stdx::Secret;

    use super::{OneToken, Tokens};

    #[test]
    fn only_the_very_token_is_admitted() {
        let tokens = OneToken::new(&Secret::new("s3cret".to_owned()), "owner");
        assert_eq!(tokens.admits("s3cret").unwrap().name.as_ref(), "owner");
        for wrong in ["", "s3cre", "s3crett", "S3cret", " s3cret", "s3cret "] {
            assert_eq!(tokens.admits(wrong), None, "{wrong:?}");
        }
        assert!(!format!("{tokens:?}").contains("s3cret"));
    }

    #[test]
    fn an_empty_token_admits_nobody() {
        let tokens = OneToken::new(&Secret::new(String::new()), "owner");
        assert_eq!(tokens.admits(""), None);
    }
}
