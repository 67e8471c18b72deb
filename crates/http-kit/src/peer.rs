//! Whose request it is: the peer of the socket, or whom trusted proxies name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;

/// Addresses of a forwarding header that are read: more proxies stand in no row.
const FORWARDED_MAX: usize = 64;

/// Networks that a setting may list: each is compared with each address.
const NETWORKS_MAX: usize = 64;

/// The header that proxies add the address to from which they were asked.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The other end of a request's connection. [`serve`](crate::serve) adds it to each request as an
/// extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Which proxies are believed about whom they speak for.
///
/// As a setting: `0` for none, a number of proxies that stand in a row before the server, or a
/// list of addresses and networks such as `10.0.0.0/8, ::1`, separated by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TrustedProxies {
    /// None: the peer of the socket counts.
    #[default]
    None,
    /// So many in a row before the server.
    Hops(u32),
    /// All whose address is in one of these.
    Networks(Vec<Network>),
}

/// A network, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl TrustedProxies {
    /// Finds the client behind a peer. What a header says is believed only as far as trusted
    /// proxies wrote it: from its end on.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let is_trusted = |address: IpAddr, place: usize| match self {
            TrustedProxies::None => false,
            TrustedProxies::Hops(count) => usize::try_from(*count).is_ok_and(|it| place < it),
            TrustedProxies::Networks(networks) => networks.iter().any(|it| it.holds(address)),
        };
        let mut client = plain(peer);
        for (place, said) in forwarded(headers).into_iter().enumerate() {
            if !is_trusted(client, place) {
                break;
            }
            // Whoever wrote something else has told nothing: it counts itself.
            let Some(address) = address(said) else { break };
            client = address;
        }
        client
    }
}

/// Returns what proxies said, the nearest one's words first.
fn forwarded(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok());
    let all: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    all.into_iter().rev().take(FORWARDED_MAX).collect()
}

/// Reads an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    let found = bare.parse().ok();
    found.or_else(|| text.parse().ok().map(|it: SocketAddr| it.ip())).map(plain)
}

/// An IPv4 address that came over IPv6 is the IPv4 address.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Returns what stands for a client when its requests are counted: its IPv4 address, or the /64
/// of its IPv6 address, since one client has all of those.
pub fn client_bucket(address: IpAddr) -> IpAddr {
    match plain(address) {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Network {
    /// Tells whether an address is in it.
    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                shared(u128::from(own.to_bits()), u128::from(other.to_bits()), 32, self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                shared(own.to_bits(), other.to_bits(), 128, self.bits)
            }
            _ => false,
        }
    }
}

/// Tells whether two numbers of `width` bits have their first `bits` in common.
fn shared(one: u128, two: u128, width: u8, bits: u8) -> bool {
    let rest = u32::from(width.saturating_sub(bits));
    (one ^ two).checked_shr(rest).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let right = "expected an address or a network such as 10.0.0.0/8";
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| format!("'{text}' is none, {right}"))?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= width).ok_or_else(|| {
                format!("'{text}' has no right length: expected 0 to {width} after the slash")
            })?,
        };
        Ok(Self { address, bits })
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "0" {
            return Ok(TrustedProxies::None);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let hops = text.parse().map_err(|_| format!("'{text}' is too large"))?;
            return Ok(TrustedProxies::Hops(hops));
        }
        let networks: Vec<Network> =
            text.split(',').map(|piece| piece.trim().parse()).collect::<Result<_, _>>()?;
        if networks.len() > NETWORKS_MAX {
            return Err(format!("{} networks: expected at most {NETWORKS_MAX}", networks.len()));
        }
        Ok(TrustedProxies::Networks(networks))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn client(trusted: &str, peer: &str, said: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in said {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        let trusted: TrustedProxies = trusted.parse().unwrap();
        trusted.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn nobody_is_believed_by_default() {
        for said in [&["203.0.113.7"][..], &["1.1.1.1, 2.2.2.2"], &[]] {
            assert_eq!(client("0", "192.0.2.1", said), "192.0.2.1");
            assert_eq!(client("", "192.0.2.1", said), "192.0.2.1");
        }
    }

    #[test]
    fn hops_are_counted_from_the_end() {
        let said = &["6.6.6.6, 203.0.113.7", "198.51.100.9"];
        assert_eq!(client("1", "192.0.2.1", said), "198.51.100.9");
        assert_eq!(client("2", "192.0.2.1", said), "203.0.113.7");
        assert_eq!(client("3", "192.0.2.1", said), "6.6.6.6");
        assert_eq!(client("9", "192.0.2.1", said), "6.6.6.6");
        assert_eq!(client("2", "192.0.2.1", &[]), "192.0.2.1");
        assert_eq!(client("1", "::ffff:192.0.2.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(client("1", "192.0.2.1", &["unknown"]), "192.0.2.1");
    }

    #[test]
    fn networks_are_left_behind() {
        let trusted = "10.0.0.0/8, 192.0.2.1, fd00::/8";
        assert_eq!(client(trusted, "10.1.2.3", &["6.6.6.6, 203.0.113.7, fd00::1"]), "203.0.113.7");
        assert_eq!(client(trusted, "192.0.2.1", &["10.9.9.9"]), "10.9.9.9");
        assert_eq!(client(trusted, "192.0.2.2", &["203.0.113.7"]), "192.0.2.2");
        assert_eq!(client("0.0.0.0/0", "192.0.2.2", &["203.0.113.7:99"]), "203.0.113.7");
    }

    #[test]
    fn a_wrong_setting_says_what_would_be_right() {
        for wrong in ["yes", "10.0.0.0/33", "10.0.0/8", "1,2", "-1", "99999999999999", "::/129"] {
            let error = wrong.parse::<TrustedProxies>().unwrap_err();
            assert!(error.contains('\''), "{error}");
        }
        let many = vec!["10.0.0.1"; NETWORKS_MAX + 1].join(",");
        assert!(many.parse::<TrustedProxies>().unwrap_err().contains("at most"));
    }

    #[test]
    fn a_client_is_its_address_or_its_64() {
        let bucket = |text: &str| client_bucket(text.parse().unwrap()).to_string();
        assert_eq!(bucket("192.0.2.1"), "192.0.2.1");
        assert_eq!(bucket("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(bucket("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(bucket("2001:db8:1:2::"), bucket("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    }
}
