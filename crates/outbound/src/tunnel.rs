//! The way through a proxy: `CONNECT`.

use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connect::Duplex;

/// Most bytes of a proxy's answer: a status line and a few headers.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Asks a proxy to connect to a place. What comes after belongs to that place.
pub(crate) async fn open(
    stream: &mut Box<dyn Duplex>,
    place: &str,
    auth: Option<&HeaderValue>,
) -> Result<(), String> {
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n").into_bytes();
    if let Some(auth) = auth {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(auth.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let broken = |error: std::io::Error| format!("the proxy broke the connection: {error}");
    stream.write_all(&request).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut answer = Vec::new();
    // Byte by byte, so that nothing of what comes after is taken; it is a few hundred bytes.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_BYTES_MAX {
            return Err("the proxy's answer does not end".to_owned());
        }
        answer.push(stream.read_u8().await.map_err(broken)?);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("HTTP/1.1" | "HTTP/1.0"), Some(status)) if status.starts_with('2') => Ok(()),
        _ => Err(format!("the proxy refused: {}", line.chars().take(200).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(answer: &str) -> Result<(), String> {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut ours: Box<dyn Duplex> = Box::new(ours);
        theirs.write_all(answer.as_bytes()).await.unwrap();
        let opened = open(&mut ours, "h:443", Some(&HeaderValue::from_static("Basic eA=="))).await;
        drop(ours);
        let mut asked = String::new();
        theirs.read_to_string(&mut asked).await.unwrap();
        assert_eq!(
            asked,
            "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nProxy-Authorization: Basic eA==\r\n\r\n"
        );
        opened
    }

    #[tokio::test]
    async fn only_a_success_opens() {
        assert_eq!(check("HTTP/1.1 200 OK\r\nVia: x\r\n\r\n").await, Ok(()));
        assert_eq!(check("HTTP/1.0 200 Connection established\r\n\r\n").await, Ok(()));
        let refused = check("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        let expected = "the proxy refused: HTTP/1.1 407 Proxy Authentication Required";
        assert_eq!(refused, Err(expected.to_owned()));
        assert!(check("SSH-2.0-x\r\n\r\n").await.is_err());
        assert!(check(&"x".repeat(ANSWER_BYTES_MAX + 1)).await.is_err());
    }
}
