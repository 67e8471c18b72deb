//! Who guards a server: its own description, then that of its authorization server.

use outbound::{Client, Url};
use serde::Deserialize;
use serde_json::Value;

use super::challenge::Challenge;
use super::{AuthError, wire};
use crate::words::cut;

/// What a server says about itself (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// What a token is asked for.
    pub(super) resource: String,
    /// The issuer that it names; none where the server says nothing about itself.
    pub(super) issuer: Option<String>,
    /// The rights that it knows.
    pub(super) scopes: Vec<String>,
}

/// What an authorization server says about itself (RFC 8414 or OpenID Connect).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

#[derive(Debug, Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Finds what a server says about itself.
///
/// # Errors
/// [`AuthError::Refused`] for a description of something else.
pub(super) async fn resource(
    http: &Client,
    server: &Url,
    challenge: &Challenge,
) -> Result<Resource, AuthError> {
    let named = challenge.resource_metadata.as_deref();
    let places = match named {
        Some(place) => vec![secure(place, "the server's description")?],
        None => well_known(server, "oauth-protected-resource"),
    };
    for place in places {
        let Some(document) = wire::document(http, &place).await? else { continue };
        let Ok(document) = serde_json::from_value::<ResourceDocument>(document) else { continue };
        if !covers(&document.resource, server) {
            let other = cut(&document.resource, 200);
            let reason = format!("the server describes itself as {other}, which it is not");
            return Err(AuthError::Refused(reason));
        }
        return Ok(Resource {
            resource: document.resource,
            issuer: document.authorization_servers.into_iter().next(),
            scopes: document.scopes_supported,
        });
    }
    if named.is_some() {
        let reason = "the server names a description of itself that is not there".to_owned();
        return Err(AuthError::Refused(reason));
    }
    let mut resource = server.clone();
    resource.set_query(None);
    Ok(Resource { resource: resource.to_string(), issuer: None, scopes: Vec::new() })
}

/// Tells whether a description is about a server: the same origin, and the same path or one above.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Finds what an authorization server says about itself.
///
/// # Errors
/// [`AuthError::Refused`] for one that is missing, says to be another, or cannot protect a code.
pub(super) async fn issuer(
    http: &Client,
    server: &Url,
    named: Option<&str>,
) -> Result<Issuer, AuthError> {
    let root = origin_root(server);
    let base = match named {
        Some(issuer) => secure(issuer, "the authorization server")?,
        None => root.clone(),
    };
    let mut places = well_known(&base, "oauth-authorization-server");
    // Of the first kind only the place for the whole path names this issuer.
    places.truncate(1);
    places.extend(well_known(&base, "openid-configuration").into_iter().take(1));
    if !base.path().trim_matches('/').is_empty() {
        let mut after = base.clone();
        let path = base.path().trim_end_matches('/');
        after.set_path(&format!("{path}/.well-known/openid-configuration"));
        places.push(after);
    }
    for place in places {
        let Some(document) = wire::document(http, &place).await? else { continue };
        // Also where it is the server's own origin: a document that names an honest issuer would
        // have the code of its user sent to whatever else it says.
        return checked(document, named.unwrap_or(base.as_str()));
    }
    match named {
        Some(_) => {
            Err(AuthError::Refused("the authorization server does not describe itself".into()))
        }
        // Servers of the revision of March 2025 may be their own, at fixed places.
        None => Ok(Issuer {
            issuer: root.as_str().trim_end_matches('/').to_owned(),
            authorization_endpoint: joined(&root, "authorize"),
            token_endpoint: joined(&root, "token"),
            registration_endpoint: Some(joined(&root, "register")),
            scopes_supported: Vec::new(),
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            token_endpoint_auth_methods_supported: None,
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
        }),
    }
}

fn checked(document: Value, named: &str) -> Result<Issuer, AuthError> {
    let issuer: Issuer = serde_json::from_value(document).map_err(|error| {
        AuthError::Refused(format!("the authorization server's description: {error}"))
    })?;
    let same = |one: &str, other: &str| one.trim_end_matches('/') == other.trim_end_matches('/');
    if !same(named, &issuer.issuer) {
        let (named, other) = (cut(named, 200), cut(&issuer.issuer, 200));
        let reason = format!("the authorization server of {named} says to be {other}");
        return Err(AuthError::Refused(reason));
    }
    let methods = issuer.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        let reason = "the authorization server does not offer PKCE with S256";
        return Err(AuthError::Refused(reason.to_owned()));
    }
    Ok(issuer)
}

/// Returns where a document about a url lies: for its path first, then for its host.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let paths = if path.is_empty() {
        vec![format!("/.well-known/{name}")]
    } else {
        vec![format!("/.well-known/{name}{path}"), format!("/.well-known/{name}")]
    };
    let place = |path: String| {
        let mut place = url.clone();
        place.set_path(&path);
        place.set_query(None);
        place
    };
    paths.into_iter().map(place).collect()
}

fn origin_root(url: &Url) -> Url {
    let mut root = url.clone();
    root.set_path("/");
    root.set_query(None);
    root
}

fn joined(root: &Url, path: &str) -> String {
    format!("{root}{path}")
}

/// Reads an address that secrets may be sent to: encrypted, or on this machine.
pub(super) fn secure(text: &str, what: &str) -> Result<Url, AuthError> {
    let refused = |reason: &str| AuthError::Refused(format!("{what}: {reason}"));
    let url = Url::parse(text).map_err(|_| refused("its address cannot be read"))?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "https" || (url.scheme() == "http" && is_here) {
        Ok(url)
    } else {
        Err(refused("its address is not https"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_covers_its_path_and_what_is_below() {
        let server: Url = "https://a.example/mcp/x".parse().unwrap();
        for (resource, expected) in [
            ("https://a.example/mcp/x", true),
            ("https://a.example/mcp/", true),
            ("https://a.example", true),
            ("https://a.example:443/mcp", true),
            ("https://a.example/mc", false),
            ("https://a.example/mcp/x/y", false),
            ("https://b.example/mcp/x", false),
            ("http://a.example/mcp/x", false),
            ("nothing", false),
        ] {
            assert_eq!(covers(resource, &server), expected, "{resource}");
        }
    }

    #[test]
    fn documents_lie_before_the_path() {
        let places = |url: &str| {
            let url: Url = url.parse().unwrap();
            well_known(&url, "x").iter().map(|place| place.path().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(places("https://a.example/"), ["/.well-known/x"]);
        assert_eq!(places("https://a.example/a/b/?q"), ["/.well-known/x/a/b", "/.well-known/x"]);
    }

    #[test]
    fn an_issuer_must_be_itself_and_offer_pkce() {
        let document = |issuer: &str, methods: Value| {
            serde_json::json!({"issuer": issuer, "authorization_endpoint": "https://a.example/a",
                "token_endpoint": "https://a.example/t",
                "code_challenge_methods_supported": methods})
        };
        let both = serde_json::json!(["plain", "S256"]);
        let named = "https://a.example/";
        assert!(checked(document("https://a.example", both.clone()), named).is_ok());
        assert!(checked(document("https://b.example", both), named).is_err());
        for methods in [serde_json::json!(["plain"]), Value::Null] {
            assert!(checked(document("https://a.example", methods), named).is_err());
        }
    }

    #[test]
    fn secrets_go_over_encryption_or_stay_here() {
        for (url, expected) in [
            ("https://a.example/x", true),
            ("http://localhost:3/x", true),
            ("http://127.0.0.1/x", true),
            ("http://[::1]:4/", true),
            ("http://a.example/x", false),
            ("ftp://a.example/x", false),
            ("x", false),
        ] {
            assert_eq!(secure(url, "it").is_ok(), expected, "{url}");
        }
    }
}
