//! Where a redirect leads, and what of a request may go there.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use crate::error::Error;
use crate::guard::Guard;
use crate::transport::{Outgoing, place};

#[cfg(test)]
mod tests;

/// What goes on to another origin: headers that say what is wanted. Keys have many names, so that
/// what may pass is listed and not what may not.
const KEPT_ACROSS: [HeaderName; 7] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::RANGE,
    header::USER_AGENT,
];

/// Tells whether an answer sends the request elsewhere.
pub(crate) fn location(status: StatusCode, headers: &HeaderMap) -> Option<&HeaderValue> {
    match status.as_u16() {
        301 | 302 | 303 | 307 | 308 => headers.get(header::LOCATION),
        _ => None,
    }
}

/// Turns a request into the one that a redirect asks for.
///
/// # Errors
/// [`Error::Redirect`] for what is never followed, [`Error::Url`] and [`Error::Blocked`] for
/// places that may not be reached.
pub(crate) fn follow(
    outgoing: &mut Outgoing,
    status: StatusCode,
    location: &HeaderValue,
    guard: &Guard,
    may_downgrade: bool,
) -> Result<(), Error> {
    let refused = |reason: String| Error::Redirect { place: place(&outgoing.url), reason };
    let text = std::str::from_utf8(location.as_bytes())
        .map_err(|_| refused("to an address that is no text".to_owned()))?;
    let next = outgoing
        .url
        .join(text)
        .map_err(|error| refused(format!("to an address that cannot be read: {error}")))?;
    let next = guard.check_url(next.as_str())?;
    let to = place(&next);
    if outgoing.url.scheme() == "https" && next.scheme() == "http" && !may_downgrade {
        return Err(refused(format!("from https to http at {to}, which is not followed")));
    }
    let is_other = !is_same_origin(&outgoing.url, &next);
    let becomes_get = match status.as_u16() {
        303 => !matches!(outgoing.method, Method::GET | Method::HEAD),
        301 | 302 => outgoing.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        outgoing.method = Method::GET;
        outgoing.body = Bytes::new();
        for name in [header::CONTENT_TYPE, header::CONTENT_LANGUAGE, header::CONTENT_ENCODING] {
            outgoing.headers.remove(name);
        }
    }
    if is_other && !outgoing.body.is_empty() {
        return Err(refused(format!("the body of the request to {to}, which is not followed")));
    }
    if is_other {
        let names: Vec<HeaderName> = outgoing.headers.keys().cloned().collect();
        for name in names.into_iter().filter(|name| !KEPT_ACROSS.contains(name)) {
            outgoing.headers.remove(name);
        }
    }
    outgoing.url = next;
    Ok(())
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}
