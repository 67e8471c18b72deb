//! A secret that is set on requests, on their way out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driver_api::EgressCredential;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::EgressError;
use crate::headers;
use crate::rules::Pattern;

/// Shortest secret, and shortest text that is looked for in the headers of answers: a shorter one
/// is in many by chance, and could not be taken out of them.
const NEEDLE_BYTES_MIN: usize = 6;

/// Longest value with its prefix: what servers take of one header.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// Random bytes of a placeholder: it must not be met by chance.
const PLACEHOLDER_BYTES: usize = 16;

/// A secret that is set on requests.
#[derive(Debug)]
pub(crate) struct Credential {
    pub(crate) pattern: Pattern,
    pub(crate) header: HeaderName,
    /// Marked as sensitive: neither `Debug` nor the HTTP stack shows it.
    value: HeaderValue,
    /// What must not come back.
    needles: stdx::Secret<Vec<Vec<u8>>>,
    placeholder: Option<Placeholder>,
}

/// What commands see instead. It is no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    pub(crate) variable: String,
    pub(crate) text: String,
}

impl Credential {
    /// Reads one. `known` are the placeholders that commands know already.
    pub(super) fn read(
        credential: &EgressCredential,
        pattern: Pattern,
        (place, known): (&str, &[Placeholder]),
    ) -> Result<Self, EgressError> {
        let wrong =
            |field: &str, reason: &str| Err(EgressError::rule(format!("{place}.{field}"), reason));
        let Ok(header) = credential.header.parse::<HeaderName>() else {
            return wrong("header", "it is no name of a header: write, say, authorization");
        };
        if headers::shapes_the_message(&header) {
            return wrong("header", "it belongs to the message itself: write, say, authorization");
        }
        let secret = credential.value.expose();
        if secret.len() < NEEDLE_BYTES_MIN {
            let reason = "it is empty or has fewer than 6 bytes, which could not be told from \
                          other text and taken out of answers: use a longer secret";
            return wrong("value", reason);
        }
        let whole = stdx::Secret::new(format!("{}{secret}", credential.prefix));
        if whole.expose().len() > VALUE_BYTES_MAX {
            return wrong("value", "it has more than 8 KiB with its prefix, which no server takes");
        }
        let Ok(mut value) = HeaderValue::from_str(whole.expose()) else {
            return wrong("value", "a header cannot hold it: it has a line end or another control");
        };
        value.set_sensitive(true);
        let placeholder = match &credential.variable {
            None => None,
            Some(variable) if !is_variable(variable) => {
                return wrong("variable", "it is no name of a variable: write, say, API_KEY");
            }
            Some(variable) => match known.iter().find(|known| known.variable == *variable) {
                Some(known) => Some(known.clone()),
                None => {
                    let text = placeholder()
                        .map_err(|reason| EgressError::rule(format!("{place}.variable"), reason))?;
                    Some(Placeholder { variable: variable.clone(), text })
                }
            },
        };
        let needles = stdx::Secret::new(needles(whole.expose(), secret));
        Ok(Self { pattern, header, value, needles, placeholder })
    }

    /// The variable that holds the placeholder.
    pub(super) fn variable(&self) -> Option<&str> {
        self.placeholder.as_ref().map(|placeholder| placeholder.variable.as_str())
    }

    /// What commands see instead.
    pub(crate) fn placeholder(&self) -> Option<&Placeholder> {
        self.placeholder.as_ref()
    }

    /// Sets the header, whatever was in it.
    pub(crate) fn set(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
    }

    /// Removes headers of an answer that tell the secret.
    pub(crate) fn hide(&self, headers: &mut HeaderMap) {
        let telling: Vec<HeaderName> = headers
            .iter()
            .filter(|(name, value)| {
                let name = name.as_str().as_bytes();
                self.needles.expose().iter().any(|needle| {
                    contains(value.as_bytes(), needle)
                        || contains(name, &needle.to_ascii_lowercase())
                })
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in telling {
            headers.remove(name);
        }
    }
}

/// The secret in the forms in which a server may repeat it: the whole value, the secret alone,
/// without its scheme, and what basic authentication wraps.
fn needles(whole: &str, secret: &str) -> Vec<Vec<u8>> {
    let mut needles = vec![whole.as_bytes().to_vec(), secret.as_bytes().to_vec()];
    if let Some((_, token)) = whole.rsplit_once(' ') {
        needles.push(token.as_bytes().to_vec());
        let login = STANDARD.decode(token).unwrap_or_default();
        if let Some(colon) = login.iter().position(|byte| *byte == b':') {
            needles.push(login.get(colon + 1..).unwrap_or_default().to_vec());
            needles.push(login);
        }
    }
    needles.retain(|needle| needle.len() >= NEEDLE_BYTES_MIN);
    needles
}

pub(crate) fn contains(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && text.windows(needle.len()).any(|window| window == needle)
}

pub(crate) fn is_variable(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(fits) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn placeholder() -> Result<String, String> {
    let mut bytes = [0; PLACEHOLDER_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("make a placeholder: {error}"))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("narthex-placeholder-{digits}"))
}
