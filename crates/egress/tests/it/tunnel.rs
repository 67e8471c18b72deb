//! Tunnels whose bytes pass through.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, pki_types::CertificateDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::house::{House, allow, client_config, fine, say, status};

const GET: &str = "GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn tls_passes_through_untouched() {
    let mut house = House::new();
    let certificate = house.serve_tls("a.example", fine).await;
    let entrance = house.open(&allow(&["a.example"]));
    assert_eq!(entrance.door.ca_pem(), None);
    assert_eq!(entrance.door.certificates().await, Ok(None));
    let root = &house.vouch.certificate;
    let mut stream = entrance.tls("A.example:443", "a.example", root).await.unwrap();
    let seen = stream.get_ref().1.peer_certificates().unwrap().to_vec();
    assert_eq!(seen, [certificate]);
    let answer = say(&mut stream, GET).await;
    assert!(answer.ends_with("fine"), "{answer}");
    let event = house.record.wait(1).await.remove(0);
    assert_eq!((event.method.as_str(), event.host.as_str()), ("CONNECT", "a.example"));
    assert_eq!((event.port, event.status, event.refused), (443, None, None));
    assert_eq!(event.address, Some("93.184.215.14".parse().unwrap()));
    assert!(!event.has_credential);
}

#[tokio::test]
async fn another_name_in_the_hello_is_refused() {
    let mut house = House::new();
    house.serve_tls("a.example", fine).await;
    house.serve_tls("b.example", fine).await;
    house.serve_tls("93.184.215.77", fine).await;
    let entrance = house.open(&allow(&["a.example", "b.example", "93.184.215.77"]));
    let root = &house.vouch.certificate;
    for (target, name, part) in [
        ("a.example:443", "b.example", "is not for \"b.example\""),
        ("a.example:443", "93.184.215.77", "names no host (SNI)"),
        ("93.184.215.77:443", "a.example", "is not for \"a.example\""),
    ] {
        let before = house.record.all().len();
        let error = entrance.tls(target, name, root).await.unwrap_err().to_string();
        assert!(error.contains("UnrecognisedName"), "{error}");
        let event = house.record.wait(before + 1).await.remove(before);
        let refused = event.refused.unwrap();
        assert!(refused.contains(part), "{refused}");
    }
    assert!(house.heard().is_empty());
}

#[tokio::test]
async fn an_address_is_reached_when_a_rule_names_it() {
    let mut house = House::new();
    house.serve_tls("93.184.215.77", fine).await;
    let entrance = house.open(&allow(&["93.184.215.77"]));
    let root = &house.vouch.certificate;
    let target = "93.184.215.77:443";
    let mut stream = entrance.tls(target, "93.184.215.77", root).await.unwrap();
    assert!(say(&mut stream, GET).await.ends_with("fine"));
}

#[tokio::test]
async fn a_tunnel_is_refused_before_it_opens() {
    let mut house = House::new();
    house.serve_tls("a.example", fine).await;
    let mut egress = allow(&["a.example", "down.example"]);
    house.names.add("down.example", &[&["93.184.215.99"]]);
    let limited = driver_api::EgressRule {
        methods: vec!["GET".to_owned()],
        ..super::house::rule("limited.example")
    };
    egress.allow.push(limited);
    let entrance = house.open(&egress);
    for (target, expected, part) in [
        ("b.example:443", 403, "not in the allow list"),
        ("a.example:22", 403, "port 22"),
        ("limited.example:443", 403, "not seen inside of TLS"),
        ("down.example:443", 502, "connect to down.example:443"),
        ("a.example", 400, "no port"),
        ("user@a.example:443", 400, "password"),
        ("[::1]:443", 403, "not in the allow list"),
        ("a.example:0", 400, "65535"),
    ] {
        let before = house.record.all().len();
        let request = format!("CONNECT {target} HTTP/1.1\r\nconnection: close\r\n\r\n");
        let answer = entrance.say(&request).await;
        assert_eq!(status(&answer), expected, "{target}: {answer}");
        assert!(answer.contains(part), "{target}: {answer}");
        let event = house.record.wait(before + 1).await.remove(before);
        assert_eq!((event.method.as_str(), event.status), ("CONNECT", Some(expected)));
        assert!(event.refused.unwrap().contains(part));
    }
}

#[tokio::test]
async fn a_tunnel_is_for_tls_alone() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    house.serve("b.example", 443, fine).await;
    let entrance = house.open(&allow(&["a.example", "b.example"]));
    let (_, mut stream) = entrance.connect("a.example:80").await;
    let answer = say(&mut stream, GET).await;
    assert_eq!(status(&answer), 403);
    assert!(answer.ends_with("ask for http:// without a tunnel\n"), "{answer}");
    let (_, mut stream) = entrance.connect("b.example:443").await;
    assert_eq!(say(&mut stream, "\u{1}\u{2}\u{3}").await, "");
    let (_, stream) = entrance.connect("b.example:443").await;
    drop(stream);
    let events = house.record.wait(3).await;
    assert!(events[0].refused.as_ref().unwrap().contains("TLS alone"));
    assert!(events[1].refused.as_ref().unwrap().contains("TLS alone"));
    assert!(events[2].refused.as_ref().unwrap().contains("closed before"));
    assert!(house.heard().is_empty());
}

fn hello(name: &str, root: &CertificateDer<'static>) -> Vec<u8> {
    let config = Arc::new(client_config(root, &[]));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn one_direction_may_end_before_the_other() {
    let mut house = House::new();
    house
        .serve_raw("a.example", 443, |mut stream| async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            let text = format!("{} bytes", all.len());
            stream.write_all(text.as_bytes()).await.unwrap();
        })
        .await;
    let entrance = house.open(&allow(&["a.example"]));
    let (_, mut stream) = entrance.connect("a.example:443").await;
    let hello = hello("a.example", &house.vouch.certificate);
    let (first, second) = hello.split_at(20);
    stream.write_all(first).await.unwrap();
    stream.write_all(second).await.unwrap();
    stream.write_all(b"and more").await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = say(&mut stream, "").await;
    assert_eq!(answer, format!("{} bytes", hello.len() + 8));
}

#[tokio::test]
async fn a_hello_may_come_with_the_connect() {
    let mut house = House::new();
    house
        .serve_raw("a.example", 443, |mut stream| async move {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream.write_all(&byte).await.unwrap();
        })
        .await;
    let entrance = house.open(&allow(&["a.example"]));
    let mut stream = entrance.stream().await;
    let hello = hello("a.example", &house.vouch.certificate);
    let together = [b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", &hello[..]].concat();
    stream.write_all(&together).await.unwrap();
    let answer = say(&mut stream, "").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with('\u{16}'), "{answer:?}");
}
