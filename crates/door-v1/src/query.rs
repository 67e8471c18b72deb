//! Query parameters. One that is unknown, double or out of its range is refused by name.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Uri;
use http::request::Parts;
use http_kit::Problem;

/// The parameters of a request, decoded, in their order.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        pairs
            .map(|pairs| Self(pairs.0))
            .map_err(|error| Problem::validation(format!("query: {error}")))
    }

    /// Takes a parameter out.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let Some(place) = self.0.iter().position(|(key, _)| key == name) else { return Ok(None) };
        let (_, value) = self.0.remove(place);
        if self.0.iter().any(|(key, _)| key == name) {
            return Err(Problem::validation(format!("{name}: came twice, expected once")));
        }
        Ok(Some(value))
    }

    /// Takes a whole number within a range out.
    pub(crate) fn take_number(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        number(name, &text, range).map(Some)
    }

    /// Takes `true` or `false` out; false where it is absent.
    pub(crate) fn take_flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let shown = shown(other);
                Err(Problem::validation(format!("{name}: is {shown}, expected true or false")))
            }
        }
    }

    /// Refuses parameters that a route does not have.
    fn refuse_others(&self, known: &[&str]) -> Result<(), Problem> {
        let Some((name, _)) = self.0.iter().find(|(name, _)| !known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let right = match known {
            [] => "expected none".to_owned(),
            known => format!("expected {}", known.join(", ")),
        };
        let what = format!("{}: is no parameter of this route, {right}", shown(name));
        Err(Problem::validation(what))
    }
}

/// Stands before every route: lets only requests through whose parameters it has.
pub(crate) async fn known(
    State(known): State<Arc<[&'static str]>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    Query::of(request.uri())?.refuse_others(&known)?;
    Ok(next.run(request).await)
}

/// Reads a whole number within a range.
pub(crate) fn number(
    name: &str,
    text: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, Problem> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().ok().filter(|value| is_plain && range.contains(value));
    value.ok_or_else(|| {
        let (low, high, shown) = (range.start(), range.end(), shown(text));
        let what = format!("{name}: is {shown}, expected a whole number of {low} to {high}");
        Problem::validation(what)
    })
}

/// Quotes what a client sent, cut to what a message may hold.
pub(crate) fn shown(text: &str) -> String {
    /// Characters of a client's text in a message about it: enough to know it again.
    const SHOWN_CHARS_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, number};

    #[test]
    fn numbers_are_plain_digits_within_their_range() {
        assert_eq!(number("limit", "1000", 1..=1000).unwrap(), 1000);
        for wrong in ["", "0", "1001", "+1", "-1", " 1", "1e3", "0x1", "99999999999999999999999"] {
            let message = number("limit", wrong, 1..=1000).unwrap_err().message;
            assert!(
                message.starts_with("limit: is ") && message.contains("1 to 1000"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_a_route_does_not_have_is_refused_by_name() {
        let mut query = Query(vec![
            ("a".to_owned(), "true".to_owned()),
            ("b".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
            ("x".repeat(100), String::new()),
        ]);
        assert!(query.take_flag("a").unwrap());
        assert_eq!(query.take("b").unwrap_err().message, "b: came twice, expected once");
        let message = query.refuse_others(&["a", "b"]).unwrap_err().message;
        assert!(message.contains("xxx\"…: is no parameter") && message.len() < 160, "{message}");
        assert!(message.ends_with("expected a, b"), "{message}");
        assert!(query.refuse_others(&[]).unwrap_err().message.ends_with("expected none"));
        query.0.pop();
        query.refuse_others(&["b"]).unwrap();
    }
}
