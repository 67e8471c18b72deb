//! What goes on, what stays behind, what is not followed.

use super::*;

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn outgoing(method: Method, url: &str) -> Outgoing {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::ACCEPT, "text/html"),
        (header::AUTHORIZATION, "Bearer t"),
        (header::COOKIE, "a=b"),
        (KEY, "k"),
        (header::USER_AGENT, "u"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let body = if method == Method::POST { Bytes::from_static(b"body") } else { Bytes::new() };
    Outgoing { method, url: Url::parse(url).unwrap(), headers, body }
}

fn go(outgoing: &mut Outgoing, status: u16, to: &str) -> Result<(), Error> {
    let status = StatusCode::from_u16(status).unwrap();
    let to = HeaderValue::from_bytes(to.as_bytes()).unwrap();
    follow(outgoing, status, &to, &Guard::default(), false)
}

#[test]
fn keys_stay_with_their_origin() {
    for (to, is_same) in [
        ("/next", true),
        ("next?x=1", true),
        ("https://a.example:443/x", true),
        ("//a.example/x", true),
        ("https://a.example:444/x", false),
        ("https://b.example/x", false),
        ("https://a.example./x", false),
        ("https://x.a.example/x", false),
    ] {
        let mut request = outgoing(Method::GET, "https://a.example/first");
        go(&mut request, 302, to).unwrap();
        for name in [header::AUTHORIZATION, header::COOKIE, KEY] {
            assert_eq!(request.headers.contains_key(&name), is_same, "{to} {name}");
        }
        assert!(request.headers.contains_key(header::ACCEPT), "{to}");
    }
}

#[test]
fn keys_do_not_come_back_with_the_way_back() {
    let mut request = outgoing(Method::GET, "https://a.example/");
    go(&mut request, 302, "https://b.example/").unwrap();
    go(&mut request, 302, "https://a.example/").unwrap();
    assert!(!request.headers.contains_key(header::AUTHORIZATION));
}

#[test]
fn methods_change_as_browsers_change_them() {
    for (method, status, expected) in [
        (Method::GET, 301, Method::GET),
        (Method::HEAD, 303, Method::HEAD),
        (Method::POST, 301, Method::GET),
        (Method::POST, 302, Method::GET),
        (Method::POST, 303, Method::GET),
        (Method::PUT, 303, Method::GET),
        (Method::PUT, 302, Method::PUT),
        (Method::POST, 307, Method::POST),
        (Method::POST, 308, Method::POST),
        (Method::HEAD, 302, Method::HEAD),
    ] {
        let mut request = outgoing(method.clone(), "https://a.example/");
        go(&mut request, status, "/x").unwrap();
        assert_eq!(request.method, expected, "{method} {status}");
        assert_eq!(request.body.is_empty(), expected != Method::POST, "{method} {status}");
    }
}

#[test]
fn some_redirects_are_not_followed() {
    for (status, to, said) in [
        (
            302,
            "http://b.example/",
            "a.example:443 redirects from https to http at b.example:80, which is not \
             followed",
        ),
        (
            307,
            "https://b.example/",
            "a.example:443 redirects the body of the request to b.example:443, which is not \
             followed",
        ),
        (302, "file:///etc/passwd", "read the url \"file://\": only http and https are fetched"),
        (
            302,
            "https://u:p@b.example/",
            "read the url \"https://…@b.example\": a name or password in a url is not sent; \
             leave it out",
        ),
        (
            302,
            "https://[::1]/",
            "refused to connect to [::1]:443: it is a loopback address; to allow it, add \
             \"[::1]:443\" to allow in [network] of the settings",
        ),
        (
            302,
            "//2130706433/",
            "refused to connect to 127.0.0.1:443: it is a loopback address; to allow it, add \
             \"127.0.0.1:443\" to allow in [network] of the settings",
        ),
        (
            302,
            "https://[",
            "a.example:443 redirects to an address that cannot be read: invalid IPv6 address",
        ),
    ] {
        let mut request = outgoing(Method::POST, "https://a.example/");
        let error = go(&mut request, status, to).expect_err(to);
        assert_eq!(error.to_string(), said);
        assert_eq!(request.url.as_str(), "https://a.example/");
    }
}

#[test]
fn only_a_location_redirects() {
    let mut headers = HeaderMap::new();
    assert_eq!(location(StatusCode::FOUND, &headers), None);
    headers.insert(header::LOCATION, HeaderValue::from_static("/x"));
    for status in [200, 201, 300, 304, 305, 306, 404] {
        assert_eq!(location(StatusCode::from_u16(status).unwrap(), &headers), None, "{status}");
    }
    assert!(location(StatusCode::PERMANENT_REDIRECT, &headers).is_some());
}
