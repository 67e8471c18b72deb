//! Places in every spelling, and what has more than one reading.

use proptest::prelude::*;

use super::*;

fn check(text: &str, default_port: Option<u16>, expected: Result<&str, &str>) {
    let read = Target::parse(text, default_port);
    match expected {
        Ok(spelling) => {
            let target = read.unwrap_or_else(|reason| panic!("{text}: {reason}"));
            assert_eq!(target.to_string(), spelling, "{text}");
        }
        Err(part) => {
            let reason = read.expect_err(text);
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }
}

#[test]
fn one_spelling_for_each_place() {
    for (text, spelling) in [
        ("example.com:443", "example.com:443"),
        ("EXAMPLE.Com:443", "example.com:443"),
        ("example.com.:443", "example.com:443"),
        ("example.com", "example.com:80"),
        ("example.com:", "example.com:80"),
        ("example.com:0443", "example.com:443"),
        ("bücher.example", "xn--bcher-kva.example:80"),
        ("xn--bcher-kva.EXAMPLE", "xn--bcher-kva.example:80"),
        ("ex\u{ff0e}ample", "ex.ample:80"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("127.1:8080", "127.0.0.1:8080"),
        ("0x7f.1", "127.0.0.1:80"),
        ("2130706433", "127.0.0.1:80"),
        ("0177.0.0.1", "127.0.0.1:80"),
        ("127.0.0.1.", "127.0.0.1:80"),
        ("[::1]:1", "[::1]:1"),
        ("[2001:DB8:0:0::1]", "[2001:db8::1]:80"),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1:5"),
    ] {
        check(text, Some(80), Ok(spelling));
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    for (text, part) in [
        ("", "no host"),
        (":80", "no host"),
        (".", "neither"),
        ("a..b", "neither"),
        ("example.com..", "neither"),
        ("user@example.com", "password"),
        ("example.com:443@evil.example", "password"),
        ("::1", "brackets"),
        ("a:1:2", "brackets"),
        ("[::1", "not closed"),
        ("[::1]x", "follow the bracket"),
        ("[::1].", "follow the bracket"),
        ("[fe80::1%25eth0]", "percent"),
        ("[1.2.3.4]", "neither"),
        ("ex%61mple.com", "percent"),
        ("a b", "neither"),
        ("a/b", "neither"),
        ("a\\b", "neither"),
        ("a?b", "neither"),
        ("a#b", "neither"),
        ("a\0b", "neither"),
        ("*.example.com", "neither"),
        ("256.1.1.1", "neither"),
        ("a:0", "65535"),
        ("a:65536", "65535"),
        ("a:+80", "65535"),
        ("a:-1", "65535"),
        ("a:8o", "65535"),
        ("a: 80", "65535"),
    ] {
        check(text, Some(80), Err(part));
    }
    check("example.com", None, Err("no port"));
    check("example.com:", None, Err("no port"));
    check(&format!("{}.example", "a".repeat(64)), Some(80), Err("neither"));
    check(&"a.".repeat(127), Some(80), Ok(&format!("{}a:80", "a.".repeat(126))));
    check(&"a.".repeat(128), Some(80), Err("neither"));
}

#[test]
fn the_usual_port_is_left_out() {
    let target = Target::parse("[::1]:443", None).unwrap();
    assert_eq!(target.authority(443), "[::1]");
    assert_eq!(target.authority(80), "[::1]:443");
}

proptest! {
    /// Whatever comes in: no panic, and what is read is one spelling, that reads as itself and
    /// that no other reader takes for something else.
    #[test]
    fn what_is_read_reads_as_itself(text in "\\PC{0,40}|[a-zA-Z0-9.:@\\[\\]%_-]{0,30}") {
        let Ok(target) = Target::parse(&text, Some(443)) else { return Ok(()) };
        let spelling = target.to_string();
        prop_assert_eq!(Target::parse(&spelling, None), Ok(target.clone()));
        let url = url::Url::parse(&format!("http://{spelling}/")).unwrap();
        let host = url.host_str().unwrap().to_owned();
        prop_assert_eq!(host, target.place.to_string());
        prop_assert_eq!(url.port_or_known_default(), Some(target.port));
        prop_assert!(!spelling.contains(['@', '/', '%', ' ']), "{}", spelling);
    }
}
