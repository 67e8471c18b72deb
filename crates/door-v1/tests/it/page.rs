//! The page of the reference.

use axum::body::Body;
use http::Request;

use crate::house::{House, TOKEN};

async fn docs(accept: Option<&str>, token: Option<&str>) -> crate::house::Reply {
    let mut request = Request::builder().uri("/docs").header("host", "localhost");
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    House::plain().ask(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_browser_without_a_token_is_asked_for_it() {
    let browser = Some("text/html,application/xhtml+xml,*/*;q=0.8");
    for token in [None, Some("wrong")] {
        let reply = docs(browser, token).await;
        assert_eq!(reply.status, 401);
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
        assert!(reply.headers["content-type"].to_str().unwrap().starts_with("text/html"));
        let page = String::from_utf8(reply.body).unwrap();
        assert!(page.contains("<form id=\"enter\"") && page.contains("sessionStorage"));
    }
}

#[tokio::test]
async fn others_get_the_envelope_and_the_token_opens_the_page() {
    for accept in [None, Some("*/*"), Some("application/json")] {
        assert_eq!(docs(accept, None).await.code(), (401, "unauthorized".to_owned()));
    }
    let reply = docs(None, Some(TOKEN)).await;
    assert_eq!(reply.status, 200);
    let policy = reply.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(!policy.contains("unsafe-inline"));
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    assert_eq!(reply.headers["referrer-policy"], "no-referrer");
}
