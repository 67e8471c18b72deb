//! Every range with the addresses at its edges and just beyond them.

use std::net::IpAddr;

use super::AddressClass::*;
use super::*;

fn check(cases: &[(&str, AddressClass)]) {
    for (text, class) in cases {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(classify(address), *class, "{text}");
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn ranges_of_ipv4_end_where_they_should() {
    check(&[
        ("0.0.0.0", Unspecified),
        ("0.0.0.1", Unspecified),
        ("0.255.255.255", Unspecified),
        ("1.0.0.0", Public),
        ("1.1.1.1", Public),
        ("8.8.8.8", Public),
        ("9.255.255.255", Public),
        ("10.0.0.0", Private),
        ("10.1.2.3", Private),
        ("10.255.255.255", Private),
        ("11.0.0.0", Public),
        ("100.63.255.255", Public),
        ("100.64.0.0", Shared),
        ("100.100.100.199", Shared),
        ("100.100.100.200", Metadata),
        ("100.100.100.201", Shared),
        ("100.127.255.255", Shared),
        ("100.128.0.0", Public),
        ("126.255.255.255", Public),
        ("127.0.0.0", Loopback),
        ("127.0.0.1", Loopback),
        ("127.8.9.10", Loopback),
        ("127.255.255.255", Loopback),
        ("128.0.0.0", Public),
        ("168.63.129.15", Public),
        ("168.63.129.16", Metadata),
        ("168.63.129.17", Public),
        ("169.253.255.255", Public),
        ("169.254.0.0", LinkLocal),
        ("169.254.169.253", LinkLocal),
        ("169.254.169.254", Metadata),
        ("169.254.169.255", LinkLocal),
        ("169.254.170.2", Metadata),
        ("169.254.170.23", Metadata),
        ("169.254.255.255", LinkLocal),
        ("169.255.0.0", Public),
        ("172.15.255.255", Public),
        ("172.16.0.0", Private),
        ("172.31.255.254", Private),
        ("172.31.255.255", Private),
        ("172.32.0.0", Public),
        ("191.255.255.255", Public),
        ("192.0.0.0", Reserved),
        ("192.0.0.9", Reserved),
        ("192.0.0.192", Metadata),
        ("192.0.0.255", Reserved),
        ("192.0.1.0", Public),
        ("192.0.1.255", Public),
        ("192.0.2.0", Documentation),
        ("192.0.2.255", Documentation),
        ("192.0.3.0", Public),
        ("192.88.98.255", Public),
        ("192.88.99.0", Reserved),
        ("192.88.99.255", Reserved),
        ("192.88.100.0", Public),
        ("192.167.255.255", Public),
        ("192.168.0.0", Private),
        ("192.168.255.255", Private),
        ("192.169.0.0", Public),
        ("198.17.255.255", Public),
        ("198.18.0.0", Benchmark),
        ("198.19.255.255", Benchmark),
        ("198.20.0.0", Public),
        ("198.51.99.255", Public),
        ("198.51.100.0", Documentation),
        ("198.51.100.255", Documentation),
        ("198.51.101.0", Public),
        ("203.0.112.255", Public),
        ("203.0.113.0", Documentation),
        ("203.0.113.255", Documentation),
        ("203.0.114.0", Public),
        ("223.255.255.255", Public),
        ("224.0.0.0", Multicast),
        ("224.0.0.251", Multicast),
        ("239.255.255.255", Multicast),
        ("240.0.0.0", Reserved),
        ("255.255.255.254", Reserved),
        ("255.255.255.255", Broadcast),
    ]);
}

#[test]
fn ranges_of_ipv6_end_where_they_should() {
    check(&[
        ("::", Unspecified),
        ("::1", Loopback),
        ("::2", Translated),
        ("::ffff", Translated),
        ("::1:0:0", Reserved),
        ("::fffe:ffff:ffff", Reserved),
        ("::1:0:0:0:0", Reserved),
        ("63::", Reserved),
        ("100::", Reserved),
        ("100::ffff:ffff:ffff:ffff", Reserved),
        ("100:0:0:1::", Reserved),
        ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("2000::", Public),
        ("2001:2::", Benchmark),
        ("2001:2:0:ffff:ffff:ffff:ffff:ffff", Benchmark),
        ("2001:2:1::", Reserved),
        ("2001:1::1", Reserved),
        ("2001:3::", Reserved),
        ("2001:10::", Reserved),
        ("2001:1f:ffff::", Reserved),
        ("2001:20::", Reserved),
        ("2001:2f:ffff::", Reserved),
        ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("2001:200::", Public),
        ("2001:4860:4860::8888", Public),
        ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", Public),
        ("2001:db8::", Documentation),
        ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
        ("2001:db9::", Public),
        ("2003::", Public),
        ("2606:4700:4700::1111", Public),
        ("2a00:1450:4001:800::200e", Public),
        ("3ffe:ffff::", Public),
        ("3fff::", Documentation),
        ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
        ("3fff:1000::", Public),
        ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public),
        ("4000::", Reserved),
        ("5f00::", Reserved),
        ("5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("fc00::", Private),
        ("fc00::1", Private),
        ("fd00:ec2::253", Private),
        ("fd00:ec2::254", Metadata),
        ("fd00:ec2::23", Metadata),
        ("fd20:ce::254", Metadata),
        ("fd12:3456::1", Private),
        ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
        ("fe00::", Reserved),
        ("fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("fe80::", LinkLocal),
        ("fe80::1", LinkLocal),
        ("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", LinkLocal),
        ("fec0::", SiteLocal),
        ("feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", SiteLocal),
        ("ff00::", Multicast),
        ("ff02::1", Multicast),
        ("ff0e::fb", Multicast),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Multicast),
    ]);
}

#[test]
fn addresses_inside_others_are_seen() {
    check(&[
        ("::ffff:127.0.0.1", Loopback),
        ("::ffff:7f00:1", Loopback),
        ("::ffff:10.0.0.1", Private),
        ("::ffff:169.254.169.254", Metadata),
        ("::ffff:0.0.0.0", Unspecified),
        ("::ffff:255.255.255.255", Broadcast),
        ("::ffff:8.8.8.8", Public),
        ("::127.0.0.1", Translated),
        ("::8.8.8.8", Translated),
        ("::255.255.255.255", Translated),
        ("::ffff:0:127.0.0.1", Translated),
        ("::ffff:0:8.8.8.8", Translated),
        ("64:ff9b::", Translated),
        ("64:ff9b::7f00:1", Translated),
        ("64:ff9b::8.8.8.8", Translated),
        ("64:ff9b::ffff:ffff", Translated),
        ("64:ff9b::1:0:0", Reserved),
        ("64:ff9b:0:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("64:ff9b:1::", Translated),
        ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Translated),
        ("64:ff9b:2::", Reserved),
        ("2001::", Translated),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Translated),
        ("2001:0:ffff:ffff:ffff:ffff:ffff:ffff", Translated),
        ("2002::", Translated),
        ("2002:7f00:1::", Translated),
        ("2002:c0a8:101::", Translated),
        ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Translated),
        ("2600::5efe:10.0.0.1", Translated),
        ("2600::200:5efe:127.0.0.1", Translated),
        ("2600::201:5efe:127.0.0.1", Public),
        ("fe80::5efe:10.0.0.1", Translated),
    ]);
}

#[test]
fn translated_addresses_tell_where_they_end() {
    for (text, inner) in [
        ("64:ff9b::7f00:1", Some("127.0.0.1")),
        ("::10.0.0.1", Some("10.0.0.1")),
        ("::ffff:0:8.8.8.8", Some("8.8.8.8")),
        ("2002:c0a8:101::", Some("192.168.1.1")),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Some("192.0.2.45")),
        ("2600::5efe:10.0.0.1", Some("10.0.0.1")),
        ("64:ff9b:1::7f00:1", None),
        ("2606:4700::1", None),
        ("fe80::1", None),
    ] {
        let inner = inner.map(|inner| inner.parse().unwrap());
        assert_eq!(embedded(text.parse().unwrap()), inner, "{text}");
    }
}

#[test]
fn names_that_mean_a_place_are_known() {
    for (name, class) in [
        ("localhost", Some(Loopback)),
        ("app.localhost", Some(Loopback)),
        ("localhost.localdomain", Some(Loopback)),
        ("ip6-loopback", Some(Loopback)),
        ("metadata.google.internal", Some(Metadata)),
        ("metadata", Some(Metadata)),
        ("instance-data.ec2.internal", Some(Metadata)),
        ("notlocalhost", None),
        ("localhost.example", None),
        ("metadata.example", None),
    ] {
        assert_eq!(classify_name(name), class, "{name}");
    }
}
