//! The document, and a page to read it and try it.
//!
//! The page is one file with its script and style inside: a script that the page would load could
//! not carry the bearer, and every route but health needs it. It asks for the token, keeps it for
//! the tab alone, and fetches the document with it.

use std::sync::LazyLock;

use axum::Json;
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_kit::{Caller, Problem};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::openapi::openapi;
use crate::operation::{Operation, Tag};

const STYLE: &str = include_str!("../data/docs.css");
const SCRIPT: &str = include_str!("../data/docs.js");
const FRAME: &str = include_str!("../data/docs.html");

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/openapi.json", document)
            .named("getOpenapi", Tag::Server, "Returns this document")
            .sends("application/json", |_| json!({"type": "object"}), "The document."),
        Operation::get("/docs", page)
            .named("getDocs", Tag::Server, "Shows this document as a page")
            .says(
                "A page to read the reference and try the routes. Without a token a browser gets \
                 401 with the same page, which asks for it.",
            )
            .sends("text/html", |_| json!({"type": "string"}), "The page.")
            .sends(
                "text/html",
                |_| json!({"type": "string"}),
                "The page, which asks for the token.",
            )
            .with_status(StatusCode::UNAUTHORIZED),
    ]
}

/// The document never changes while the program runs.
static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi);

/// The page and what it may do: its own script and style, and requests to its own server.
static PAGE: LazyLock<(String, String)> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let page = FRAME.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT);
    (page, policy)
});

async fn document() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

async fn page(caller: Option<Caller>, headers: HeaderMap) -> Response {
    let is_browser = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")));
    let status = match (caller, is_browser) {
        (Some(_), _) => StatusCode::OK,
        (None, true) => StatusCode::UNAUTHORIZED,
        (None, false) => {
            let what = "this needs the server's token: Authorization: Bearer <token>";
            let bearer = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
            return (bearer, Problem::unauthorized(what)).into_response();
        }
    };
    let (page, policy) = &*PAGE;
    let mut response = (status, Html(page.as_str())).into_response();
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(header::CONTENT_SECURITY_POLICY, policy);
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "no-referrer");
    if status == StatusCode::UNAUTHORIZED {
        put(header::WWW_AUTHENTICATE, "Bearer");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::{FRAME, PAGE, SCRIPT, STYLE};

    #[test]
    fn the_page_is_whole_and_asks_nobody_else() {
        let (page, policy) = &*PAGE;
        assert!(page.contains(SCRIPT) && page.contains(STYLE));
        assert!(FRAME.contains("<script>/*SCRIPT*/</script>"), "the hash is of the script alone");
        assert!(FRAME.contains("<style>/*STYLE*/</style>"), "the hash is of the style alone");
        assert!(!page.contains("http://") && !page.contains("https://"), "an outside address");
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("localStorage"));
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    }
}
