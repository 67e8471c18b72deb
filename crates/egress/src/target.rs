//! Where a request wants to go, in one spelling.

use std::fmt;
use std::net::IpAddr;

use url::Host;

#[cfg(test)]
mod tests;

/// Longest name that name servers know.
const NAME_BYTES_MAX: usize = 253;

/// Longest part of a name between two dots.
const LABEL_BYTES_MAX: usize = 63;

/// A name or an address, in one spelling: lower case, without a dot at the end, in the letters
/// that name servers know; addresses of IPv4 that are dressed up as such.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Name(String),
    Address(IpAddr),
}

impl Place {
    /// Reads a host as it stands in an address; IPv6 has its brackets.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it has no host".to_owned());
        }
        // Encoded names have no use, and each reader decodes them in its own way.
        if text.contains('%') {
            return Err("a host has no percent sign".to_owned());
        }
        let bare = text.strip_suffix('.').unwrap_or(text);
        match Host::parse(bare) {
            Ok(Host::Domain(name)) if is_name(&name) => Ok(Place::Name(name)),
            Ok(Host::Ipv4(address)) => Ok(Place::Address(address.into())),
            // A dot after the bracket is none of ours.
            Ok(Host::Ipv6(address)) if bare.len() == text.len() => {
                Ok(Place::Address(IpAddr::V6(address).to_canonical()))
            }
            Ok(_) | Err(_) => Err("the host is neither a name nor an address".to_owned()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Name(name) => f.write_str(name),
            Place::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Place::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Letters, digits, hyphens and underscores between single dots.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| {
        !label.is_empty() && label.len() <= LABEL_BYTES_MAX && label.bytes().all(fits)
    };
    text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label)
}

/// A host with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) port: u16,
}

impl Target {
    /// Reads `host:port`; where the port may be left out, the default stands in.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(authority: &str, default_port: Option<u16>) -> Result<Self, String> {
        if authority.contains('@') {
            return Err("leave the name and password before the host out".to_owned());
        }
        let (host, port) = split(authority)?;
        let port = match port.filter(|digits| !digits.is_empty()) {
            Some(digits) => number(digits)?,
            None => default_port.ok_or("it has no port: write host:port")?,
        };
        Ok(Self { place: Place::parse(host)?, port })
    }

    /// Returns the value of the `Host` header: the port is left out where it is the usual one.
    pub(crate) fn authority(&self, usual_port: u16) -> String {
        if self.port == usual_port { self.place.to_string() } else { self.to_string() }
    }

    /// Tells whether it is an address.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.place, Place::Address(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place, self.port)
    }
}

fn split(authority: &str) -> Result<(&str, Option<&str>), String> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or("the bracket of the host is not closed")? + 1;
        let (host, rest) = authority.split_at_checked(end).unwrap_or((authority, ""));
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err("only a port may follow the bracket of a host".to_owned()),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            Err("an address of IPv6 is written in brackets".to_owned())
        }
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

fn number(digits: &str) -> Result<u16, String> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u16>() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err("the port is no number from 1 to 65535".to_owned()),
    }
}
