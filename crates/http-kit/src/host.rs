//! Names of this machine: what `Host` and `Origin` may say on a loopback bind.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a `Host` value or an authority names this machine over loopback: `localhost`, a
/// literal of 127.0.0.0/8, or `[::1]`, each with any port, in any case.
///
/// Nothing is resolved, and other spellings are not read: `127.1`, `0x7f.0.0.1`, `localhost.`,
/// `user@localhost` are foreign.
pub fn is_loopback_host(value: &str) -> bool {
    let (name, port) = match value.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                return is_port(port)
                    && address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
            }
            None => return false,
        },
        None => value.find(':').map_or((value, ""), |colon| value.split_at(colon)),
    };
    let ours = name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    ours && is_port(port)
}

/// Whether an `Origin` value is a page of this machine: `http` or `https` and a name that
/// [`is_loopback_host`] takes, and nothing after it. `null` is none.
pub fn is_loopback_origin(value: &str) -> bool {
    value.split_once("://").is_some_and(|(scheme, host)| {
        (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
            && is_loopback_host(host)
    })
}

/// Nothing, or a colon and a port number; RFC 9110 lets the number be absent after the colon.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        None => text.is_empty(),
        Some(digits) => {
            digits.bytes().all(|b| b.is_ascii_digit())
                && (digits.is_empty() || digits.parse::<u16>().is_ok())
        }
    }
}

#[cfg(test)]
mod tests;
