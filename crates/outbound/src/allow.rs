//! What the settings open: names, addresses, networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use url::Host;

use crate::address::{AddressClass, classify, classify_name, embedded};
use crate::guard::is_name;

#[cfg(test)]
mod tests;

/// A place that may be reached though it is not public: one entry of `[network] allow`.
///
/// Written as a host name (`intranet.example`), all names below one (`*.corp.example`), an address
/// (`10.0.0.5`, `fd00::5`), each with or without a port (`localhost:8080`, `[::1]:8080`), or as a
/// network (`10.0.0.0/8`).
///
/// A name opens whatever addresses it resolves to, but for metadata servers, which must be named
/// by themselves. An address or network opens those addresses under every name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowedTarget {
    place: Place,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Name(String),
    Below(String),
    Network { address: IpAddr, prefix: u8 },
}

/// Why an entry cannot be read; says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read {entry:?}: {reason}")]
pub struct TargetError {
    entry: String,
    reason: String,
}

impl AllowedTarget {
    /// Tells whether the entry opens a name that means a place by itself, such as `localhost`.
    pub(crate) fn opens_name(&self, name: &str, port: u16) -> bool {
        let fits = match &self.place {
            Place::Name(own) => own == name,
            // Whoever opens all names of a company does not think of a metadata server.
            Place::Below(tail) => {
                is_below(name, tail) && classify_name(name) != Some(AddressClass::Metadata)
            }
            Place::Network { .. } => false,
        };
        fits && self.has_port(port)
    }

    /// Tells whether the entry opens an address, reached by this name if by any.
    pub(crate) fn opens(&self, name: Option<&str>, address: IpAddr, port: u16) -> bool {
        let class = classify(address);
        if class.is_never() || !self.has_port(port) {
            return false;
        }
        match (&self.place, name) {
            (Place::Network { address: network, prefix }, _) => {
                let address = address.to_canonical();
                is_within(address, *network, *prefix)
                    && (is_whole(*network, *prefix)
                        || class.opens_by_name()
                        || (class == AddressClass::Translated && is_public_behind(address)))
            }
            (Place::Name(own), Some(name)) => {
                own == name
                    && (class.opens_by_name()
                        || classify_name(name) == Some(AddressClass::Metadata))
            }
            (Place::Below(tail), Some(name)) => is_below(name, tail) && class.opens_by_name(),
            (Place::Name(_) | Place::Below(_), None) => false,
        }
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

fn is_below(name: &str, tail: &str) -> bool {
    name.strip_suffix(tail).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Whoever opens the network of a translator wants the internet behind it, not this house.
fn is_public_behind(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => embedded(address)
            .is_some_and(|inner| classify(IpAddr::V4(inner)) == AddressClass::Public),
    }
}

fn is_whole(network: IpAddr, prefix: u8) -> bool {
    prefix == width(network)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = mask(32, prefix);
            u128::from(address.to_bits()) & mask == u128::from(network.to_bits()) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = mask(128, prefix);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

/// The bits of a network among the `width` low bits.
fn mask(width: u8, prefix: u8) -> u128 {
    let low = width.saturating_sub(prefix);
    u128::MAX.checked_shl(u32::from(low)).unwrap_or(0)
}

impl FromStr for AllowedTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        parse(text.trim())
            .map_err(|reason| TargetError { entry: text.chars().take(200).collect(), reason })
    }
}

fn parse(text: &str) -> Result<AllowedTarget, String> {
    if text.is_empty() {
        return Err("it is empty; write a host, host:port or network".to_owned());
    }
    if let Some((_, rest)) = text.split_once("://") {
        let place = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        return Err(format!("it is a url; write the place alone, such as {place:?}"));
    }
    if let Some((address, prefix)) = text.split_once('/') {
        return network(address, prefix);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) =
            rest.split_once(']').ok_or_else(|| "the bracket is not closed".to_owned())?;
        let address = address
            .parse::<Ipv6Addr>()
            .map_err(|_| format!("{address:?} is no address of ipv6"))?;
        let port = match rest {
            "" => None,
            _ => Some(port(rest.strip_prefix(':').ok_or("only a port may follow the bracket")?)?),
        };
        return Ok(AllowedTarget { place: single(IpAddr::V6(address)), port });
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(AllowedTarget { place: single(IpAddr::V6(address)), port: None });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => {
            return Err("write an address of ipv6 with a port as [address]:port".to_owned());
        }
        Some((host, number)) => (host, Some(port(number)?)),
        None => (text, None),
    };
    Ok(AllowedTarget { place: place(host)?, port })
}

fn port(text: &str) -> Result<u16, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err(format!("{text:?} is no port; write a number from 1 to 65535")),
    }
}

fn place(host: &str) -> Result<Place, String> {
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(single(IpAddr::V4(address)));
    }
    if host == "*" {
        return Err("it would open everything; name hosts or networks".to_owned());
    }
    let (name, is_below) = match host.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (host, false),
    };
    if name.contains('*') {
        return Err("a star may only stand for whole names in front, as *.corp.example".to_owned());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    match Host::parse(name) {
        Ok(Host::Domain(name)) if !is_name(&name) => Err(format!("{name:?} is no host name")),
        Ok(Host::Domain(name)) if is_below => Ok(Place::Below(name)),
        Ok(Host::Domain(name)) => Ok(Place::Name(name)),
        Ok(Host::Ipv4(address)) => {
            Err(format!("it is another spelling of an address; write {address}"))
        }
        Ok(Host::Ipv6(_)) | Err(_) => Err(format!("{name:?} is no host name")),
    }
}

fn network(address: &str, prefix: &str) -> Result<AllowedTarget, String> {
    let address =
        address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let parsed: IpAddr = address
        .parse()
        .map_err(|_| format!("{address:?} is no address; a network is written as 10.0.0.0/8"))?;
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = match prefix.parse::<u8>() {
        Ok(length) if is_number && length <= width(parsed) => length,
        _ => {
            return Err(format!(
                "{prefix:?} is no length of a prefix; write a number up to {}, and no port",
                width(parsed)
            ));
        }
    };
    let start = first(parsed, prefix);
    if start != parsed {
        return Err(format!("it has bits behind its prefix; write {start}/{prefix}"));
    }
    // What is written as IPv6 but means IPv4 is kept as what it means.
    let (address, prefix) = match (parsed, parsed.to_canonical()) {
        (IpAddr::V6(_), IpAddr::V4(inner)) if prefix >= 96 => (IpAddr::V4(inner), prefix - 96),
        _ => (parsed, prefix),
    };
    Ok(AllowedTarget { place: Place::Network { address, prefix }, port: None })
}

fn first(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let bits = u128::from(address.to_bits()) & mask(32, prefix);
            IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(0)))
        }
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask(128, prefix)))
        }
    }
}

fn single(address: IpAddr) -> Place {
    let address = address.to_canonical();
    Place::Network { address, prefix: width(address) }
}

impl fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.port) {
            (Place::Name(name), _) => f.write_str(name)?,
            (Place::Below(name), _) => write!(f, "*.{name}")?,
            (Place::Network { address, prefix }, _) if !is_whole(*address, *prefix) => {
                write!(f, "{address}/{prefix}")?;
            }
            (Place::Network { address: IpAddr::V6(address), .. }, Some(_)) => {
                write!(f, "[{address}]")?;
            }
            (Place::Network { address, .. }, _) => write!(f, "{address}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}
