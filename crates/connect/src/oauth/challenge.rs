//! `WWW-Authenticate`: what a server wants before it answers.

/// Longest header that is read.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// The bearer challenge of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where the server describes itself.
    pub(super) resource_metadata: Option<String>,
    /// The rights that are needed.
    pub(super) scopes: Vec<String>,
    /// Why it was refused.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Reads a header; a header without a bearer challenge is an empty one.
    pub(crate) fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        let header = header.get(..header.floor_char_boundary(HEADER_BYTES_MAX)).unwrap_or_default();
        for (name, value) in parameters(header) {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = scopes(&value),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        challenge
    }

    /// Tells whether the token is good but does not reach far enough.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Takes a list of scopes apart.
pub(super) fn scopes(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(ToOwned::to_owned).collect()
}

/// Returns the parameters of the bearer challenge, whatever other schemes stand around it.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut is_bearer = false;
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() && after.is_empty() {
            return found;
        }
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        let Some(value) = value else {
            // A word without a value begins a new challenge.
            is_bearer = word.eq_ignore_ascii_case("bearer");
            rest = after;
            continue;
        };
        let (value, after) = read_value(value.trim_start_matches([' ', '\t']));
        if is_bearer {
            found.push((word.to_owned(), value));
        }
        rest = after;
    }
}

fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut is_escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if is_escaped => {
                value.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_challenges_are_read_among_others() {
        let url = Some("https://a.example/x?y=1,2");
        for (header, metadata, scopes, error) in [
            ("Bearer", None, &[][..], None),
            ("", None, &[], None),
            (r#"Bearer resource_metadata="https://a.example/x?y=1,2""#, url, &[], None),
            (
                r#"Basic realm="a", scope="no", bearer realm=x, scope="a b", error=invalid_token"#,
                None,
                &["a", "b"],
                Some("invalid_token"),
            ),
            (
                r#"Bearer error="insufficient_scope", scope = "w\"x" , Digest scope="no""#,
                None,
                &["w\"x"],
                Some("insufficient_scope"),
            ),
            (r#"Bearer scope="unfinished"#, None, &["unfinished"], None),
            ("===,,= =", None, &[], None),
        ] {
            let challenge = Challenge::read(header);
            assert_eq!(challenge.resource_metadata.as_deref(), metadata, "{header}");
            assert_eq!(challenge.scopes, scopes, "{header}");
            assert_eq!(challenge.error.as_deref(), error, "{header}");
        }
    }
}
