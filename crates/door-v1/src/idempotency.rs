//! `Idempotency-Key`: the same request sent twice starts one thing.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_kit::{Caller, Problem};
use protocol::SessionId;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::door::Shared;
use crate::error::Code;

/// The header of the key.
pub(crate) const HEADER: &str = "idempotency-key";

/// Set on an answer that was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// How long an answer is kept: longer than any client goes on retrying one request.
pub(crate) const KEPT: Duration = Duration::from_secs(600);

/// Characters of a key: a UUID or a hash fits.
pub(crate) const KEY_CHARS_MAX: usize = 255;

/// Answers that are kept; over it the oldest goes first. At some 500 bytes each that is 2 MiB.
const ANSWERS_MAX: usize = 4_096;

/// The key that a request came with: its caller's own.
pub(crate) struct Key(Option<(Arc<str>, String)>);

/// A key with its caller, and the fingerprint of the body that came with it.
pub(crate) type KeyedBody = Option<((Arc<str>, String), u64)>;

impl Key {
    /// Takes the body's fingerprint, where there is a key. Keys are the caller's own: two bodies
    /// that only an attacker could make alike would fool nobody but him.
    pub(crate) fn with(self, body: &impl Hash) -> KeyedBody {
        let key = self.0?;
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        Some((key, hasher.finish()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let caller = <Caller as FromRequestParts<S>>::from_request_parts(parts, state).await?;
        let mut sent = parts.headers.get_all(HEADER).iter();
        let wrong = || {
            let what = format!("{HEADER}: expected one of 1 to {KEY_CHARS_MAX} visible characters");
            Problem::validation(what)
        };
        let Some(value) = sent.next() else { return Ok(Self(None)) };
        let text = value.to_str().map_err(|_| wrong())?;
        let fits = (1..=KEY_CHARS_MAX).contains(&text.len()) && !text.contains(['\t', ' ']);
        if !fits || sent.next().is_some() {
            return Err(wrong());
        }
        Ok(Self(Some((caller.name, text.to_owned()))))
    }
}

/// What makes two requests the same one: route, session, and the key with its caller. Two callers
/// that count alike must not get each other's answers.
type Place = (&'static str, Option<SessionId>, (Arc<str>, String));

/// A success as it went out.
#[derive(Clone, Debug)]
struct Said {
    status: StatusCode,
    body: Bytes,
}

type Outcome = Option<Result<Said, Problem>>;

#[derive(Debug)]
struct Entry {
    fingerprint: u64,
    since: Instant,
    outcome: watch::Receiver<Outcome>,
}

/// The answers of the last ten minutes to requests with a key. Only successes are kept: what was
/// refused has started nothing and may be tried again. They do not outlive the process.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<Place, Entry>>);

enum Turn {
    /// This request does the work.
    First(watch::Sender<Outcome>),
    /// Another one does or did.
    Later(watch::Receiver<Outcome>),
}

impl Answers {
    fn enter(&self, place: &Place, fingerprint: u64) -> Result<Turn, Problem> {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|_, entry| now.duration_since(entry.since) < KEPT);
        if let Some(entry) = entries.get(place) {
            if entry.fingerprint != fingerprint {
                let what =
                    format!("{HEADER}: this key came before with another body; take a new one");
                return Err(Code::IdempotencyConflict.says(what));
            }
            return Ok(Turn::Later(entry.outcome.clone()));
        }
        if entries.len() >= ANSWERS_MAX {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.since);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                entries.remove(&oldest);
            }
        }
        let (sender, outcome) = watch::channel(None);
        entries.insert(place.clone(), Entry { fingerprint, since: now, outcome });
        Ok(Turn::First(sender))
    }

    fn forget(&self, place: &Place) {
        self.entries().remove(place);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a place unless its work succeeded: also when the work dies.
struct Guard {
    door: Shared,
    place: Option<Place>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.door.answers.forget(&place);
        }
    }
}

/// Does the work once per key and answers with `status` and its JSON. Without a key it is simply
/// done. Either way it is done to its end when the client hangs up.
///
/// # Errors
/// Those of the work; 409 `idempotency_conflict`.
pub(crate) async fn once<T: Serialize + Send + 'static>(
    door: &Shared,
    (route, session, key): (&'static str, Option<SessionId>, KeyedBody),
    status: StatusCode,
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let said = async move {
        let body = serde_json::to_vec(&work.await?).map_err(|error| {
            tracing::error!(%error, "an answer has no JSON form");
            Problem::internal()
        })?;
        Ok(Said { status, body: body.into() })
    };
    let Some((key, fingerprint)) = key else {
        return Ok(respond(door.to_its_end(said).await?, false));
    };
    let place = (route, session, key);
    match door.answers.enter(&place, fingerprint)? {
        Turn::First(sender) => {
            let mut guard = Guard { door: Shared::clone(door), place: Some(place) };
            let done = door.to_its_end(async move {
                let outcome = said.await;
                if outcome.is_ok() {
                    guard.place = None;
                }
                drop(guard);
                sender.send_replace(Some(outcome.clone()));
                outcome
            });
            Ok(respond(done.await?, false))
        }
        Turn::Later(mut outcome) => {
            let outcome = outcome.wait_for(Option::is_some).await;
            let said = outcome.ok().and_then(|outcome| outcome.clone());
            Ok(respond(said.unwrap_or_else(|| Err(Problem::internal()))?, true))
        }
    }
}

fn respond(said: Said, is_replayed: bool) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut response = (said.status, [kind], said.body).into_response();
    if is_replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
