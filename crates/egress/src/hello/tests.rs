//! Hellos of a real client, cut, changed and made up.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// The hello that a real client sends.
fn real(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same message in records of at most `length` bytes.
fn in_records(hello: &[u8], length: usize) -> Vec<u8> {
    let framed = |piece: &[u8]| {
        let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
        [&[22, 3, 1], &length[..], piece].concat()
    };
    hello[5..].chunks(length).flat_map(framed).collect()
}

/// The message with more extensions at its end; lengths are put right.
fn with_extensions(hello: &[u8], more: &[u8]) -> Vec<u8> {
    let mut body = hello[9..].to_vec();
    let session = 34 + 1 + usize::from(body[34]);
    let ciphers = session + 2 + usize::from(u16::from_be_bytes([body[session], body[session + 1]]));
    let at = ciphers + 1 + usize::from(body[ciphers]);
    body.extend_from_slice(more);
    let length = u16::try_from(body.len() - at - 2).unwrap().to_be_bytes();
    body[at..at + 2].copy_from_slice(&length);
    message(1, &body)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[kind], &length[1..], body].concat();
    in_records(&[&[0; 5], &message[..]].concat(), FRAGMENT_BYTES_MAX)
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&kind.to_be_bytes()[..], &length, data].concat()
}

fn server_names(names: &[(u8, &str)]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|(kind, name)| {
            let length = u16::try_from(name.len()).unwrap().to_be_bytes();
            [&[*kind], &length[..], name.as_bytes()].concat()
        })
        .collect();
    let length = u16::try_from(list.len()).unwrap().to_be_bytes();
    extension(SERVER_NAME, &[&length[..], &list].concat())
}

async fn check(bytes: &[u8], target: &str) -> Result<Vec<u8>, Unfit> {
    let target = Target::parse(target, Some(443)).unwrap();
    let mut bytes = bytes;
    expect(&mut bytes, &target, Duration::from_secs(60)).await
}

#[tokio::test]
async fn the_name_must_be_that_of_the_target() {
    let hello = real("api.example.com");
    let other = |name: &str| Err(Unfit::OtherName(Some(name.to_owned())));
    for (target, expected) in [
        ("api.example.com", Ok(hello.clone())),
        ("API.example.com.:443", Ok(hello.clone())),
        ("example.com", other("api.example.com")),
        ("10.0.0.1", other("api.example.com")),
    ] {
        assert_eq!(check(&hello, target).await, expected, "{target}");
    }
    let shouted = server_names(&[(0, "API.Example.com")]);
    let shouted = with_extensions(&real("10.0.0.1"), &shouted);
    assert_eq!(check(&shouted, "api.example.com").await, Ok(shouted.clone()));
    // Clients name no address.
    let hello = real("10.0.0.1");
    assert_eq!(check(&hello, "10.0.0.1").await, Ok(hello.clone()));
    assert_eq!(check(&hello, "api.example.com").await, Err(Unfit::OtherName(None)));
}

#[tokio::test]
async fn records_may_be_cut_anywhere_and_what_follows_is_kept() {
    let hello = real("api.example.com");
    for length in [1, 3, 4, 5, 100] {
        let mut cut = in_records(&hello, length);
        assert_eq!(check(&cut, "api.example.com").await, Ok(cut.clone()), "{length}");
        cut.extend_from_slice(b"\x17\x03\x03\x00\x01x");
        let read = check(&cut, "api.example.com").await.unwrap();
        assert_eq!(read, cut, "{length}");
        assert!(check(&cut, "other.example").await.is_err(), "{length}");
    }
}

#[tokio::test]
async fn what_has_two_readings_is_refused() {
    let hello = real("api.example.com");
    let plain = with_extensions(&hello, &[]);
    assert_eq!(check(&plain, "api.example.com").await, Ok(plain));
    let twice = with_extensions(&hello, &server_names(&[(0, "api.example.com")]));
    let nameless = real("10.0.0.1");
    let two = with_extensions(&nameless, &server_names(&[(0, "a.example"), (0, "b.example")]));
    let kind = with_extensions(&nameless, &server_names(&[(7, "a.example")]));
    let none = with_extensions(&nameless, &server_names(&[]));
    let mut behind = with_extensions(&hello, &[]);
    let last = behind.len();
    behind.insert(last, 0);
    let length = u16::try_from(behind.len() - 5).unwrap().to_be_bytes();
    behind[3..5].copy_from_slice(&length);
    for (bytes, what) in [
        (twice, "a second list of names"),
        (two, "two names"),
        (kind, "a name of another kind"),
        (none, "no name in the list"),
        (behind, "bytes behind the message"),
        (message(1, &hello[9..60]), "a message that is cut"),
        (message(2, &hello[9..]), "another message"),
        (vec![22, 2, 0, 0, 5, 1, 0, 0, 1, 0], "another version"),
        (vec![22, 3, 1, 0, 0], "an empty record"),
        (vec![22, 3, 1, 0xff, 0xff], "a record that is too long"),
        ([&in_records(&hello, 50)[..55], &[21, 3, 3, 0, 2, 1, 0]].concat(), "an alert within"),
    ] {
        let read = check(&bytes, "a.example").await;
        assert!(matches!(read, Err(Unfit::Odd(_))), "{what}: {read:?}");
    }
    let address = with_extensions(&nameless, &server_names(&[(0, "10.0.0.1")]));
    assert!(check(&address, "10.0.0.1").await.is_err(), "an address as a name");
}

#[tokio::test]
async fn hidden_names_are_refused() {
    let hello = real("api.example.com");
    for kind in HIDING {
        let hidden = with_extensions(&hello, &extension(kind, &[0; 40]));
        assert_eq!(check(&hidden, "api.example.com").await, Err(Unfit::Hidden));
    }
}

#[tokio::test]
async fn other_things_are_told_apart() {
    for (bytes, expected) in [
        (&b""[..], Unfit::Ended),
        (b"\x16\x03", Unfit::Ended),
        (b"GET / HTTP/1.1\r\n", Unfit::NotTls(b'G')),
        (b"SSH-2.0-x\r\n", Unfit::NotTls(b'S')),
        (b"\x80\x2e\x01", Unfit::NotTls(0x80)),
    ] {
        assert_eq!(check(bytes, "a.example").await, Err(expected));
    }
    let huge = with_extensions(&real("a.example"), &extension(0x1234, &[0; 16_300]));
    assert_eq!(check(&huge, "a.example").await, Err(Unfit::TooLong));
    let (mut ours, _theirs) = tokio::io::duplex(64);
    let target = Target::parse("a.example:443", None).unwrap();
    let late = expect(&mut ours, &target, Duration::from_millis(10)).await;
    assert_eq!(late, Err(Unfit::Late));
}

proptest! {
    /// No panic, and a hello that is changed by a byte is never read as for another host than the
    /// library reads it for.
    #[test]
    fn both_readers_agree(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
        let mut bytes = real("api.example.com");
        let length = bytes.len();
        bytes[at % length] = byte;
        if let Ok(Some(name)) = parse(&bytes)
            && let Some(Some(second)) = second_opinion(&bytes)
        {
            prop_assert_eq!(name, Some(second));
        }
        drop(parse(&bytes[..cut % length]));
    }

    #[test]
    fn anything_may_come(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(parse(&bytes));
        drop(parse(&[&[22, 3, 1, 0, 200, 1, 0, 0, 196][..], &bytes].concat()));
    }
}
