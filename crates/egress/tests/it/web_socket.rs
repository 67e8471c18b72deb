//! Requests that turn into something else.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::house::{House, allow, credential, fine, head, say, status};

const ASK: &str = "GET http://a.example/ws HTTP/1.1\r\nhost: a.example\r\n\
                   connection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-key: eA==\r\n\r\n";

/// Switches, then sends everything back in upper case.
async fn shout<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let asked = head(&mut stream).await.to_ascii_lowercase();
    assert!(asked.contains("connection: upgrade\r\n"), "{asked}");
    assert!(asked.contains("upgrade: websocket\r\n"), "{asked}");
    assert!(asked.contains("sec-websocket-key: ea==\r\n"), "{asked}");
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                  upgrade: websocket\r\nsec-websocket-accept: y\r\n\r\n";
    stream.write_all(switch.as_bytes()).await.unwrap();
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() {
        stream.write_all(&byte.to_ascii_uppercase()).await.unwrap();
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    for word in ["abc", "de"] {
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut echo = vec![0; word.len()];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, word.to_ascii_uppercase().into_bytes());
    }
}

#[tokio::test]
async fn a_web_socket_goes_on_through_the_proxy() {
    let mut house = House::new();
    house.serve_raw("a.example", 80, shout::<TcpStream>).await;
    let entrance = house.open(&allow(&["a.example"]));
    let mut stream = entrance.stream().await;
    stream.write_all(ASK.as_bytes()).await.unwrap();
    let answer = head(&mut stream).await;
    assert_eq!(status(&answer), 101);
    assert!(answer.contains("upgrade: websocket\r\n"), "{answer}");
    assert!(answer.contains("sec-websocket-accept: y\r\n"), "{answer}");
    talk(&mut stream).await;
    stream.shutdown().await.unwrap();
    assert_eq!(say(&mut stream, "").await, "");
    let event = house.record.wait(1).await.remove(0);
    assert_eq!((event.status, event.refused), (Some(101), None));
}

#[tokio::test]
async fn a_web_socket_goes_on_inside_of_a_tunnel_that_ends_at_the_proxy() {
    let mut house = House::new();
    house.serve_raw_tls("a.example", shout).await;
    let mut egress = allow(&["a.example"]);
    egress.credentials.push(credential("a.example", "authorization", "Bearer s3cr3t-socket"));
    let entrance = house.open(&egress);
    let mut stream = entrance.tls("a.example:443", "a.example", &entrance.ca()).await.unwrap();
    stream.write_all(ASK.replace("http://a.example", "").as_bytes()).await.unwrap();
    assert_eq!(status(&head(&mut stream).await), 101);
    talk(&mut stream).await;
    let event = house.record.wait(1).await.remove(0);
    assert_eq!((event.status, event.has_credential), (Some(101), true));
}

#[tokio::test]
async fn other_protocols_are_not_offered_and_a_no_is_handed_on() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    let entrance = house.open(&allow(&["a.example"]));
    let h2c = ASK.replace("websocket", "h2c").replace("keep-alive", "close");
    let answer = entrance.say(&h2c).await;
    assert!(answer.ends_with("fine"), "{answer}");
    let heard = house.heard().remove(0).to_ascii_lowercase();
    assert!(!heard.contains("upgrade"), "{heard}");
    let answer = entrance.say(&ASK.replace("keep-alive", "close")).await;
    assert!(answer.ends_with("fine"), "{answer}");
}

#[tokio::test]
async fn a_web_socket_takes_a_rule_for_all_methods() {
    let mut house = House::new();
    house.serve_raw("a.example", 80, shout::<TcpStream>).await;
    let mut egress = allow(&["a.example"]);
    egress.allow[0].methods = vec!["GET".to_owned()];
    let entrance = house.open(&egress);
    let answer = entrance.say(&ASK.replace("keep-alive", "close")).await;
    assert!(status(&answer) == 403 && answer.contains("over a web socket is not seen"), "{answer}");
    assert!(house.dialled().is_empty());
    assert_eq!(house.record.wait(1).await[0].status, Some(403));
}
