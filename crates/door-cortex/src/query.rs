//! Query parameters: those that a route knows are checked, others are ignored.

use http::Uri;

use crate::error::Refused;

/// The parameters of a request, decoded, in their order.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads them.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Refused> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let right = "expected name=value pairs, percent-encoded, in UTF-8";
        pairs.map(|it| Self(it.0)).map_err(|_| Refused::field("", "invalid_format", right))
    }

    /// Returns a parameter; where it came several times, the last one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a whole number.
    pub(crate) fn whole(&self, name: &str, low: u64, high: u64) -> Result<Option<u64>, Refused> {
        self.get(name).map(|text| whole(name, text, low, high)).transpose()
    }
}

/// Reads a whole number out of a text.
pub(crate) fn whole(name: &str, text: &str, low: u64, high: u64) -> Result<u64, Refused> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|it| is_plain && (low..=high).contains(it));
    let right = match high {
        u64::MAX => format!("expected a whole number of at least {low}"),
        _ => format!("expected a whole number of {low} to {high}"),
    };
    number.ok_or_else(|| Refused::field(name, "invalid_value", right))
}
