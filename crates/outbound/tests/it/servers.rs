//! Servers that the settings name.

use std::time::Duration;

use outbound::{HeaderMap, HeaderValue, Servers, StatusCode, Url, Waits, header};

use crate::net::{Net, ok, to};

const WAITS: Waits = Waits {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(5),
    keep_alive: Duration::from_secs(5),
};

#[tokio::test]
async fn they_are_reached_wherever_they_are_and_send_nobody_elsewhere() {
    let mut net = Net::default();
    let place = net
        .listen(|head| match head.starts_with("POST") {
            true => to("http://example.com/"),
            false => ok("x"),
        })
        .await;
    let servers = Servers::new(WAITS);
    let url = Url::parse(&format!("http://{place}/x")).unwrap();
    let got = servers.get(&url, HeaderMap::new()).await.unwrap();
    assert_eq!(got.bytes().await.unwrap(), b"x");
    let got = servers.post(&url, HeaderMap::new(), "body").await.unwrap();
    assert_eq!(got.status(), StatusCode::FOUND);
    assert_eq!(net.heads().len(), 2);
    let head = net.heads().remove(1);
    assert!(head.contains("content-length: 4\r\n"), "{head}");
}

#[tokio::test]
async fn a_login_in_the_address_becomes_a_header() {
    let mut net = Net::default();
    let place = net.listen(|_| ok("x")).await;
    let url = Url::parse(&format!("http://us%20er:p%3Aw@{place}/x")).unwrap();
    let servers = Servers::local(WAITS);
    servers.get(&url, HeaderMap::new()).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer own"));
    servers.get(&url, headers).await.unwrap();
    let heads = net.heads();
    assert!(heads[0].contains("authorization: Basic dXMgZXI6cDp3\r\n"), "{}", heads[0]);
    assert!(heads[1].contains("authorization: Bearer own\r\n"), "{}", heads[1]);
    assert!(heads.iter().all(|head| head.starts_with("GET /x HTTP/1.1\r\n")));
}
