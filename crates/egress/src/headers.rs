//! Headers that concern one connection only, and those that shape a message.

use http::{HeaderMap, HeaderName, Method, Request, Version, header};

/// What concerns the connection between two neighbours, beside what `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What the stack writes itself.
const OWN: [HeaderName; 3] = [header::HOST, header::CONTENT_LENGTH, header::EXPECT];

/// Tells whether a header is not a caller's to set.
pub(crate) fn shapes_the_message(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || OWN.contains(name)
}

/// Removes what is not for the other side.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter_map(|token| token.parse().ok())
        // Nobody may have the proxy forget how long a message is.
        .filter(|name| !OWN.contains(name))
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Removes from a request what is not for the server: the length is written anew from the body,
/// and the stack has answered an expectation itself.
pub(crate) fn clean_request(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in &OWN {
        headers.remove(name);
    }
}

/// Removes from an answer what is not for the client.
pub(crate) fn clean_response(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
}

/// Tells whether a request asks to go on as a web socket. Other protocols are not offered a
/// server: the request is forwarded as if it had not asked.
pub(crate) fn asks_for_web_socket<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let mut protocols = tokens(headers, &header::UPGRADE);
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
        && protocols.next().is_some_and(|first| first.eq_ignore_ascii_case("websocket"))
        && protocols.next().is_none()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn what_concerns_one_connection_stays_there() {
        let mut request = headers(&[
            ("connection", "close, X-Private"),
            ("connection", "x-second,"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("x-private", "1"),
            ("x-second", "2"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("host", "example.com"),
            ("accept", "*/*"),
        ]);
        clean_request(&mut request);
        assert_eq!(request.keys().collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn the_length_of_an_answer_is_kept_where_it_counts() {
        let mut answer = headers(&[("content-length", "5"), ("connection", "content-length")]);
        clean_response(&mut answer);
        assert_eq!(answer.keys().collect::<Vec<_>>(), ["content-length"]);
        let mut answer = headers(&[("content-length", "5"), ("transfer-encoding", "chunked")]);
        clean_response(&mut answer);
        assert!(answer.is_empty());
    }

    #[test]
    fn only_a_web_socket_is_one() {
        for (method, connection, upgrade, expected) in [
            ("GET", "Upgrade", "websocket", true),
            ("GET", "keep-alive, upgrade", "WebSocket", true),
            ("GET", "keep-alive", "websocket", false),
            ("GET", "upgrade", "h2c", false),
            ("GET", "upgrade", "h2c, websocket", false),
            ("GET", "upgrade", "websocket, h2c", false),
            ("POST", "upgrade", "websocket", false),
        ] {
            let request = Request::builder()
                .method(method)
                .header("connection", connection)
                .header("upgrade", upgrade)
                .body(())
                .unwrap();
            assert_eq!(asks_for_web_socket(&request), expected, "{method} {connection} {upgrade}");
        }
    }
}
