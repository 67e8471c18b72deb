//! What kind of place an address is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(test)]
mod tests;

/// The kinds of addresses. Only [`AddressClass::Public`] may be reached without a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Somewhere on the internet.
    Public,
    /// This machine.
    Loopback,
    /// The network of a house or a company: RFC 1918, and unique local addresses of IPv6.
    Private,
    /// The network of a provider that shares addresses: 100.64.0.0/10.
    Shared,
    /// The same wire: 169.254.0.0/16 and fe80::/10.
    LinkLocal,
    /// What came before unique local addresses: fec0::/10.
    SiteLocal,
    /// A server that hands out the secrets of a cloud machine to whoever asks.
    Metadata,
    /// "This network": 0.0.0.0/8 and `::`. Many systems take it for the machine itself.
    Unspecified,
    /// Everybody on the wire: 255.255.255.255.
    Broadcast,
    /// A group of machines.
    Multicast,
    /// Addresses for books.
    Documentation,
    /// Addresses for measurements.
    Benchmark,
    /// Not given out, or given out for something that is no server.
    Reserved,
    /// An address of IPv6 that a router turns into one of IPv4, which may be any of the others.
    Translated,
}

impl AddressClass {
    /// Tells whether a host name or a network in the settings can open this class. A metadata
    /// server must be named by its own address or name.
    pub(crate) fn opens_by_name(self) -> bool {
        match self {
            AddressClass::Public
            | AddressClass::Loopback
            | AddressClass::Private
            | AddressClass::Shared
            | AddressClass::LinkLocal
            | AddressClass::SiteLocal
            | AddressClass::Documentation
            | AddressClass::Benchmark
            | AddressClass::Reserved => true,
            AddressClass::Metadata | AddressClass::Translated => false,
            AddressClass::Unspecified | AddressClass::Broadcast | AddressClass::Multicast => false,
        }
    }

    /// Tells whether a server can be there at all.
    pub(crate) fn is_never(self) -> bool {
        matches!(
            self,
            AddressClass::Unspecified | AddressClass::Broadcast | AddressClass::Multicast
        )
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressClass::Public => "a public address",
            AddressClass::Loopback => "a loopback address",
            AddressClass::Private => "a private address",
            AddressClass::Shared => "an address of a provider's shared network",
            AddressClass::LinkLocal => "a link-local address",
            AddressClass::SiteLocal => "a site-local address",
            AddressClass::Metadata => "a metadata server of a cloud machine",
            AddressClass::Unspecified => "an unspecified address",
            AddressClass::Broadcast => "a broadcast address",
            AddressClass::Multicast => "a multicast address",
            AddressClass::Documentation => "an address for documentation",
            AddressClass::Benchmark => "an address for benchmarks",
            AddressClass::Reserved => "a reserved address",
            AddressClass::Translated => "an address that is translated into another",
        })
    }
}

/// Returns the class of an address.
///
/// An IPv4 address that is written as one of IPv6 (`::ffff:a.b.c.d`) has the class of the IPv4
/// address, for that is what gets connected.
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Metadata servers, as the clouds document them: most clouds; containers and pods of one; a
/// second cloud; a third; a fourth.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same over IPv6.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254),
];

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [198, 18 | 19, ..] => AddressClass::Benchmark,
        // Protocol assignments, and the relays of 6to4, which nobody runs any more.
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if address.is_unspecified() {
        return AddressClass::Unspecified;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    if is_translated(address) {
        return AddressClass::Translated;
    }
    match address.segments() {
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfec0..=0xfeff, ..] => AddressClass::SiteLocal,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => AddressClass::Documentation,
        [0x2001, 0x0002, 0, ..] => AddressClass::Benchmark,
        // The rest of 2001::/23: identifiers of hosts, anycast of protocols.
        [0x2001, 0x0000..=0x01ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        // Nothing beyond 2000::/3 has been given out for servers.
        _ => AddressClass::Reserved,
    }
}

fn is_translated(address: Ipv6Addr) -> bool {
    match address.segments() {
        // IPv4-compatible, and IPv4-translated.
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] => true,
        // NAT64, well known and local.
        [0x0064, 0xff9b, 0, 0, 0, 0, _, _] | [0x0064, 0xff9b, 1, ..] => true,
        // Teredo, 6to4.
        [0x2001, 0, ..] | [0x2002, ..] => true,
        // ISATAP, below whatever prefix; below fe80::/10 it never leaves the wire.
        [_, _, _, _, 0x0000 | 0x0200, 0x5efe, _, _] => true,
        _ => false,
    }
}

/// Returns the IPv4 address that a translated one ends at, where its place is known.
pub(crate) fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let pair = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        // How long the prefix of a local translator is, only its operator knows.
        [0x0064, 0xff9b, 1, ..] => None,
        [0x2002, high, low, ..] => Some(pair(high, low)),
        [0x2001, 0, .., high, low] => Some(pair(!high, !low)),
        [.., high, low] if is_translated(address) => Some(pair(high, low)),
        _ => None,
    }
}

/// Returns the class of a name that means a place whatever it resolves to.
pub(crate) fn classify_name(name: &str) -> Option<AddressClass> {
    match name {
        "localhost"
        | "localhost.localdomain"
        | "localhost6"
        | "localhost6.localdomain6"
        | "ip6-localhost"
        | "ip6-loopback" => Some(AddressClass::Loopback),
        "metadata"
        | "metadata.google.internal"
        | "metadata.goog"
        | "instance-data"
        | "instance-data.ec2.internal"
        | "metadata.azure.internal"
        | "metadata.tencentyun.com"
        | "metadata.oraclecloud.com" => Some(AddressClass::Metadata),
        _ if name.ends_with(".localhost") => Some(AddressClass::Loopback),
        _ => None,
    }
}
