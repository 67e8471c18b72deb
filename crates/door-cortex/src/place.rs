//! Ids that stand in paths. What has not the form of an id is refused before anything is looked
//! for, so that no crafted id gets anywhere near a file.

use axum::extract::{FromRequestParts, RawPathParams};
use http::Uri;
use http::request::Parts;
use protocol::{NeuronId, RequestId, SessionId};

use crate::door::BASE;
use crate::error::{Code, Refused};
use crate::fields::is_word;

/// Characters of a neuron's id.
pub(crate) const NEURON_CHARS_MAX: usize = 64;

/// Characters of the ids of sessions and approvals; the core's have 26 and a prefix.
const ID_CHARS_MAX: usize = 128;

/// What an id of a neuron must be.
pub(crate) const NEURON_RIGHT: &str = "1 to 64 letters, digits, '_' and '-'";

/// The neuron that the path names.
pub(crate) struct AtNeuron(pub(crate) NeuronId);

/// The session that the path names.
pub(crate) struct AtSession(pub(crate) SessionId);

/// The session and the approval that the path names.
pub(crate) struct AtApproval(pub(crate) SessionId, pub(crate) RequestId);

fn has_form(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len()) && is_word(text)
}

fn neuron(text: &str) -> Result<NeuronId, Refused> {
    if has_form(text, NEURON_CHARS_MAX) {
        return Ok(NeuronId::new(text));
    }
    Err(Refused::field("agentId", "invalid_format", format!("expected {NEURON_RIGHT}")))
}

/// Reads an id behind its prefix. Without the prefix it has the form of an id and names nothing.
fn prefixed<'a>(name: &str, prefix: &str, text: &'a str) -> Result<&'a str, Refused> {
    if !has_form(text, ID_CHARS_MAX) {
        let right = "expected 1 to 128 letters, digits, '_' and '-'";
        return Err(Refused::field(name, "invalid_format", right));
    }
    let bare = text.strip_prefix(prefix).filter(|bare| !bare.is_empty());
    bare.ok_or_else(|| Code::NotFound.into())
}

/// Returns a segment of the path, decoded.
async fn segment<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &'static str,
) -> Result<String, Refused> {
    // What is no UTF-8 behind its percent signs is no id either.
    let right = "expected a segment in percent-encoded UTF-8";
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| Refused::field(name, "invalid_format", right))?;
    let found = params.iter().find(|(key, _)| *key == name);
    Ok(found.map(|(_, value)| value.to_owned()).unwrap_or_default())
}

impl<S: Send + Sync> FromRequestParts<S> for AtNeuron {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        neuron(&segment(parts, state, "agentId").await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtSession {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let id = segment(parts, state, "sessionId").await?;
        prefixed("sessionId", "ses-", &id).map(|id| Self(SessionId::new(id)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtApproval {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let session = segment(parts, state, "sessionId").await?;
        let approval = segment(parts, state, "approvalId").await?;
        let session = prefixed("sessionId", "ses-", &session);
        let approval = prefixed("approvalId", "apr-", &approval);
        // What is wrong with either is told before one of them is not found.
        let is_wrong = |refused: &Refused| refused.code() == Code::Validation;
        match (session, approval) {
            (Err(refused), _) | (_, Err(refused)) if is_wrong(&refused) => Err(refused),
            (Ok(session), Ok(approval)) => {
                Ok(Self(SessionId::new(session), RequestId::new(approval)))
            }
            _ => Err(Code::NotFound.into()),
        }
    }
}

/// Answers a path that is no route: one whose id is wrong, or that goes on with a slash, is told
/// so; anything else is not there.
pub(crate) async fn nowhere(uri: Uri) -> Refused {
    let below = uri.path().strip_prefix(BASE).and_then(|path| path.strip_prefix('/'));
    let mut segments = below.unwrap_or_default().split('/');
    let (name, chars_max) = match segments.next() {
        Some("neurons") => ("agentId", NEURON_CHARS_MAX),
        Some("sessions") => ("sessionId", ID_CHARS_MAX),
        _ => return Code::NotFound.into(),
    };
    let Some(id) = segments.next() else { return Code::NotFound.into() };
    if !has_form(id, chars_max) || segments.any(str::is_empty) {
        let right = "expected letters, digits, '_' and '-', and no slash at the end";
        return Refused::field(name, "invalid_format", right);
    }
    Code::NotFound.into()
}
