//! A proxy that the settings name.

use outbound::{Client, Error, Options};

use crate::net::{Net, PUBLIC, now, ok};

fn client(net: &Net, proxy: &str) -> Client {
    Client::new(Options { proxy: Some(proxy.to_owned()), ..net.options() }).unwrap()
}

#[tokio::test]
async fn a_named_proxy_is_asked_and_the_check_stays() {
    let mut net = Net::default();
    net.serve("10.0.0.9:3128", |_| ok("through")).await;
    net.names.add("proxy.example", &[&["10.0.0.9"]]);
    net.names.add("a.example", &[&[PUBLIC]]);
    net.names.add("inside.example", &[&["10.0.0.1"]]);
    let client = client(&net, "http://user:pass@proxy.example:3128");
    for url in ["http://a.example/x", "http://known-to-the-proxy.example/"] {
        let got = client.get(url).send().await.unwrap();
        assert_eq!(got.bytes().await.unwrap(), b"through");
    }
    let head = net.heads().remove(0);
    assert!(head.starts_with("GET http://a.example/x HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"), "{head}");
    for url in ["http://inside.example/", "http://10.0.0.1/", "http://169.254.169.254/"] {
        assert!(matches!(client.get(url).send().await, Err(Error::Blocked(_))), "{url}");
    }
    assert_eq!(net.dialled(), ["10.0.0.9:3128", "10.0.0.9:3128"]);
}

#[tokio::test]
async fn an_encrypted_place_is_reached_through_a_tunnel() {
    let mut net = Net::default();
    net.serve("10.0.0.9:3128", |_| now("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"))
        .await;
    net.names.add("a.example", &[&[PUBLIC]]);
    let client = client(&net, "http://10.0.0.9:3128");
    let error = client.get("https://a.example/x").send().await.unwrap_err().to_string();
    assert_eq!(error, "connect to 10.0.0.9:3128: the proxy refused: HTTP/1.1 403 Forbidden");
    assert!(net.heads()[0].starts_with("CONNECT a.example:443 HTTP/1.1\r\n"));
}

#[test]
fn a_proxy_that_cannot_be_used_is_told_without_its_password() {
    for proxy in ["socks5://user:secret@h:1", "user:secret@h", "http://"] {
        let made = Client::new(Options { proxy: Some(proxy.to_owned()), ..Options::default() });
        let said = made.map(|_| ()).unwrap_err().to_string();
        assert!(said.starts_with("use the proxy of the settings: "), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}
