//! What can be written, what it opens, and what is said of what cannot be written.

use super::*;

fn parse(text: &str) -> AllowedTarget {
    text.parse().unwrap()
}

#[test]
fn entries_come_back_as_they_are_meant() {
    for (text, shown) in [
        ("intranet.example", "intranet.example"),
        ("  Intranet.EXAMPLE. ", "intranet.example"),
        ("localhost:8080", "localhost:8080"),
        ("*.corp.example:443", "*.corp.example:443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("10.0.0.5", "10.0.0.5"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.5/32", "10.0.0.5"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[::1]:8080", "[::1]:8080"),
        ("fd00::/8", "fd00::/8"),
        ("[fd00::]/8", "fd00::/8"),
        ("::/0", "::/0"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
    ] {
        let target = parse(text);
        assert_eq!(target.to_string(), shown, "{text}");
        assert_eq!(parse(shown), target, "{shown}");
    }
}

#[test]
fn what_cannot_be_read_says_what_to_write() {
    for (text, reason) in [
        ("", "it is empty; write a host, host:port or network"),
        ("http://h:80/x", "it is a url; write the place alone, such as \"h:80\""),
        ("*", "it would open everything; name hosts or networks"),
        ("a*.example", "a star may only stand for whole names in front, as *.corp.example"),
        ("10.0.0.1/8", "it has bits behind its prefix; write 10.0.0.0/8"),
        ("fd00::1/8", "it has bits behind its prefix; write fd00::/8"),
        ("10.0.0.0/33", "\"33\" is no length of a prefix; write a number up to 32, and no port"),
        (
            "10.0.0.0/8:80",
            "\"8:80\" is no length of a prefix; write a number up to 32, and no port",
        ),
        ("10.0.0.0/+8", "\"+8\" is no length of a prefix; write a number up to 32, and no port"),
        ("host/8", "\"host\" is no address; a network is written as 10.0.0.0/8"),
        ("127.1", "it is another spelling of an address; write 127.0.0.1"),
        ("0x7f000001", "it is another spelling of an address; write 127.0.0.1"),
        ("localhost:0", "\"0\" is no port; write a number from 1 to 65535"),
        ("localhost:", "\"\" is no port; write a number from 1 to 65535"),
        ("localhost:+80", "\"+80\" is no port; write a number from 1 to 65535"),
        ("localhost:http", "\"http\" is no port; write a number from 1 to 65535"),
        ("[::1", "the bracket is not closed"),
        ("[::1]8080", "only a port may follow the bracket"),
        ("[localhost]", "\"localhost\" is no address of ipv6"),
        ("fd00::zz:80", "write an address of ipv6 with a port as [address]:port"),
        ("a..example", "\"a..example\" is no host name"),
        ("a b", "\"a b\" is no host name"),
    ] {
        let said = text.parse::<AllowedTarget>().map_err(|error| error.to_string());
        assert_eq!(said, Err(format!("read {text:?}: {reason}")));
    }
}

/// Tells whether one entry opens an address that is reached by a name, or without one.
fn opens(entry: &str, name: &str, address: &str, port: u16) -> bool {
    let name = (!name.is_empty()).then_some(name);
    parse(entry).opens(name, address.parse().unwrap(), port)
}

#[test]
fn names_open_what_they_resolve_to_on_their_port() {
    assert!(opens("intranet.example", "intranet.example", "10.0.0.1", 80));
    assert!(opens("intranet.example:80", "intranet.example", "127.0.0.1", 80));
    assert!(opens("localhost:8080", "localhost", "::1", 8080));
    assert!(opens("*.corp.example", "a.b.corp.example", "fd00::1", 443));
    assert!(!opens("intranet.example:80", "intranet.example", "10.0.0.1", 81));
    assert!(!opens("intranet.example", "other.example", "10.0.0.1", 80));
    assert!(!opens("intranet.example", "x.intranet.example", "10.0.0.1", 80));
    assert!(!opens("intranet.example", "", "10.0.0.1", 80));
    assert!(!opens("*.corp.example", "corp.example", "10.0.0.1", 80));
    assert!(!opens("*.corp.example", "xcorp.example", "10.0.0.1", 80));
}

#[test]
fn networks_open_addresses_under_every_name() {
    assert!(opens("10.0.0.0/8", "", "10.255.255.255", 80));
    assert!(opens("10.0.0.0/8", "any.example", "10.0.0.0", 80));
    assert!(opens("10.0.0.0/8", "", "::ffff:10.0.0.1", 80));
    assert!(opens("127.0.0.1:8080", "", "127.0.0.1", 8080));
    assert!(opens("fc00::/7", "", "fd00::1", 80));
    assert!(opens("0.0.0.0/0", "", "127.0.0.1", 80));
    assert!(!opens("10.0.0.0/8", "", "11.0.0.0", 80));
    assert!(!opens("10.0.0.0/8", "", "9.255.255.255", 80));
    assert!(!opens("127.0.0.1:8080", "", "127.0.0.1", 8081));
    assert!(!opens("127.0.0.1:8080", "", "127.0.0.2", 8080));
    assert!(!opens("0.0.0.0/0", "", "::1", 80));
    assert!(!opens("::/0", "", "127.0.0.1", 80));
}

#[test]
fn metadata_servers_must_be_named_by_themselves() {
    assert!(opens("169.254.169.254", "", "169.254.169.254", 80));
    assert!(opens("169.254.169.254:80", "x.example", "169.254.169.254", 80));
    assert!(opens("metadata.google.internal", "metadata.google.internal", "169.254.169.254", 80));
    assert!(!opens("169.254.0.0/16", "", "169.254.169.254", 80));
    assert!(!opens("0.0.0.0/0", "", "169.254.169.254", 80));
    assert!(!opens("intranet.example", "intranet.example", "169.254.169.254", 80));
    assert!(!opens("*.google.internal", "metadata.google.internal", "169.254.169.254", 80));
    assert!(!parse("*.google.internal").opens_name("metadata.google.internal", 80));
}

#[test]
fn a_translator_opens_the_internet_behind_it_alone() {
    assert!(opens("64:ff9b::/96", "", "64:ff9b::808:808", 80));
    assert!(opens("64:ff9b::7f00:1", "", "64:ff9b::7f00:1", 80));
    assert!(!opens("64:ff9b::/96", "", "64:ff9b::7f00:1", 80));
    assert!(!opens("::/0", "", "64:ff9b::a00:1", 80));
    assert!(!opens("64:ff9b:1::/48", "", "64:ff9b:1::808:808", 80));
    assert!(!opens("intranet.example", "intranet.example", "64:ff9b::808:808", 80));
    assert!(!opens("10.0.0.0/8", "", "64:ff9b::a00:1", 80));
}

#[test]
fn nothing_opens_what_is_no_server() {
    for address in ["0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "224.0.0.1", "ff02::1"] {
        for entry in [address, "0.0.0.0/0", "::/0", "x.example"] {
            assert!(!opens(entry, "x.example", address, 80), "{entry} {address}");
        }
    }
}
