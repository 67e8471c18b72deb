//! Names that are ours, names that only look like it, and any text at all.

use http::uri::Authority;
use proptest::prelude::*;

use super::{is_loopback_host, is_loopback_origin};

const OURS: &[&str] = &[
    "localhost",
    "LocalHost",
    "LOCALHOST:1",
    "localhost:7420",
    "localhost:",
    "127.0.0.1",
    "127.0.0.1:65535",
    "127.3.2.1:9",
    "127.255.255.255",
    "[::1]",
    "[::1]:8080",
    "[0:0:0:0:0:0:0:1]:1",
];

const FOREIGN: &[&str] = &[
    "",
    ":80",
    "attacker.example",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "127.0.0.1.nip.example",
    "attacker.example:7420",
    "notlocalhost",
    "localhost.",
    "localhost:65536",
    "localhost:-1",
    "localhost:+1",
    "localhost:80:80",
    "localhost: 80",
    "localhost:8o",
    " localhost",
    "localhost ",
    "localhost/",
    "localhost#",
    "localhost,attacker.example",
    "user@localhost",
    "localhost@attacker.example",
    "localhost:80@attacker.example",
    "127.1",
    "127.0.0.01",
    "0127.0.0.1",
    "0x7f.0.0.1",
    "2130706433",
    "127.0.0.1.",
    "127.0.0.256",
    "128.0.0.1",
    "0.0.0.0",
    "192.168.1.9",
    "::1",
    "[::1",
    "::1]",
    "[::1]x",
    "[::1]:x",
    "[::]",
    "[::2]",
    "[::ffff:127.0.0.1]",
    "[::1%lo]",
    "[127.0.0.1]",
    "[localhost]",
    "[[::1]]",
    "ⓛocalhost",
];

#[test]
fn loopback_names_are_ours() {
    for host in OURS {
        assert!(is_loopback_host(host), "{host:?}");
        assert!(is_loopback_origin(&format!("http://{host}")), "{host:?}");
        assert!(is_loopback_origin(&format!("HTTPS://{host}")), "{host:?}");
    }
}

#[test]
fn all_other_names_are_foreign() {
    for host in FOREIGN {
        assert!(!is_loopback_host(host), "{host:?}");
        assert!(!is_loopback_origin(&format!("http://{host}")), "{host:?}");
    }
}

#[test]
fn an_origin_is_a_scheme_and_a_name() {
    for origin in [
        "",
        "null",
        "localhost",
        "http:localhost",
        "http:/localhost",
        "http:///localhost",
        "//localhost",
        "://localhost",
        "file://localhost",
        "ftp://localhost",
        "chrome-extension://localhost",
        "http://localhost/",
        "http://localhost/page",
        "http://localhost?x",
        "http://http://localhost",
        "http://localhost http://attacker.example",
        "https://attacker.example",
        " http://localhost",
    ] {
        assert!(!is_loopback_origin(origin), "{origin:?}");
    }
}

/// What another parser makes of an authority.
fn names_loopback(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

proptest! {
    #[test]
    fn every_loopback_address_and_port_is_ours(
        rest in any::<[u8; 3]>(),
        port in proptest::option::of(any::<u16>()),
    ) {
        let [b, c, d] = rest;
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let host = format!("127.{b}.{c}.{d}{port}");
        prop_assert!(is_loopback_host(&host));
    }

    #[test]
    fn every_other_address_is_foreign(parts in any::<[u8; 4]>()) {
        let [a, b, c, d] = parts;
        prop_assume!(a != 127);
        let host = format!("{a}.{b}.{c}.{d}:80");
        prop_assert!(!is_loopback_host(&host));
    }

    #[test]
    fn whatever_passes_names_loopback_for_another_parser_too(
        base in proptest::sample::select(OURS),
        at in any::<proptest::sample::Index>(),
        inserted in "[a-zA-Z0-9.:@\\[\\]/%#?,\\- \\\\]{1,3}",
    ) {
        let mut host = base.to_owned();
        host.insert_str(at.index(base.len() + 1), &inserted);
        if is_loopback_host(&host) {
            prop_assert!(names_loopback(&host), "{host:?}");
            prop_assert!(!host.contains('@'), "{host:?}");
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in ".*") {
        if is_loopback_host(&text) {
            prop_assert!(names_loopback(&text), "{text:?}");
        }
        let _decided = is_loopback_origin(&text);
    }
}
