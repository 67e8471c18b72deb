//! Where a server listens: loopback, unless somebody said otherwise twice.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use door_cli::Failure;
use tokio::net::{TcpListener, lookup_host};

use super::announcement;
use super::port_owner;

/// Finds the address that a host names. One of IPv4 that is written as one of IPv6 counts as what
/// it is: clients call it by that, and requests are held against it. A name may only lead back to
/// this machine: what a name leads to is not this machine's to say.
///
/// # Errors
/// For a name that is unknown or leads elsewhere.
pub(super) async fn resolve(host: &str) -> Result<IpAddr, Failure> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_canonical());
    }
    let problem = |what: String| Failure::usage(format!("host {host}: {what}"));
    // The port plays no part in it.
    let found = lookup_host((bare, 0)).await.map_err(|error| {
        problem(format!("{error}; expected an address such as 127.0.0.1 or ::1, or localhost"))
    })?;
    let mut addresses: Vec<IpAddr> = found.map(|found| found.ip().to_canonical()).collect();
    if let Some(elsewhere) = addresses.iter().find(|address| !is_loopback(**address)) {
        return Err(problem(format!(
            "the name leads to {elsewhere}, and only names of this machine itself are taken; to \
             listen there name the address"
        )));
    }
    // More programs look for the older kind.
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| problem("the name leads nowhere".to_owned()))
}

/// Tells whether only this machine reaches an address.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Refuses an address that other machines reach, unless that was asked for and there is a token
/// that somebody chose.
///
/// # Errors
/// Says what is missing.
pub(super) fn check_remote(
    address: IpAddr,
    is_allowed: bool,
    has_own_token: bool,
) -> Result<(), Failure> {
    if is_loopback(address) || is_allowed && has_own_token {
        return Ok(());
    }
    let missing = match (is_allowed, has_own_token) {
        (false, false) => "both are missing",
        (false, true) => "--allow-remote is missing",
        (true, _) => "the token is missing",
    };
    Err(Failure::usage(format!(
        "other machines could reach {address}: to listen there takes --allow-remote and a token of \
         your own in NARTHEX_SERVER_TOKEN; {missing}"
    )))
}

/// Opens the port.
///
/// # Errors
/// Says who has the port and how to choose another.
pub(super) async fn bind(
    address: SocketAddr,
    home: &std::path::Path,
) -> Result<TcpListener, Failure> {
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let port = address.port();
    let text = match error.kind() {
        ErrorKind::AddrInUse => {
            let who = who_has(port, home);
            format!(
                "port {port} of {} is in use{who}; choose another with --port, or --port 0 for \
                 any that is free",
                address.ip()
            )
        }
        ErrorKind::AddrNotAvailable => {
            format!("this machine has no address {}; --host 127.0.0.1 always works", address.ip())
        }
        ErrorKind::PermissionDenied => {
            format!("port {port} is not yours to take ({error}); choose one above 1023 with --port")
        }
        _ => format!("listen on {address}: {error}"),
    };
    Err(Failure::usage(text))
}

/// Says who has a port, with a blank before it, or nothing where that cannot be told.
fn who_has(port: u16, home: &std::path::Path) -> String {
    let own = announcement::running(home).filter(|record| record.port() == Some(port));
    if let Some(record) = own {
        return format!(" by narthex serve, process {}", record.pid);
    }
    match port_owner::find(port) {
        Some(owner) => format!(" by {owner}"),
        None => String::new(),
    }
}

/// Writes the address that clients call.
pub(super) fn url(address: SocketAddr) -> String {
    // An address that stands for all of them is none that can be called.
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_is_an_address_or_a_name_of_this_machine() {
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.8.9.1", "127.8.9.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("0.0.0.0", "0.0.0.0"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("[::ffff:7f00:2]", "127.0.0.2"),
            ("::ffff:0.0.0.0", "0.0.0.0"),
            ("localhost", "127.0.0.1"),
        ] {
            assert_eq!(resolve(host).await.unwrap().to_string(), address, "{host}");
        }
        for wrong in ["", "no such name", "nowhere.invalid", "127.0.0.1:80", "http://127.0.0.1"] {
            let failure = resolve(wrong).await.unwrap_err();
            assert!(failure.message.starts_with(&format!("host {wrong}: ")), "{failure}");
        }
    }

    #[test]
    fn other_machines_need_a_flag_and_a_token() {
        let remote = ["0.0.0.0", "::", "192.0.2.1", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"];
        for address in remote.map(|text| text.parse::<IpAddr>().unwrap()) {
            for (flag, token, missing) in [
                (false, false, "both are missing"),
                (false, true, "--allow-remote is missing"),
                (true, false, "the token is missing"),
            ] {
                let failure = check_remote(address, flag, token).unwrap_err();
                assert!(failure.message.ends_with(missing), "{failure}");
                assert_eq!(failure.exit.code(), 2);
            }
            check_remote(address, true, true).unwrap();
        }
        for address in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            check_remote(address.parse().unwrap(), false, false).unwrap();
        }
    }

    #[test]
    fn the_url_is_one_that_can_be_called() {
        for (address, expected) in [
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("[::1]:7420", "http://[::1]:7420"),
            ("0.0.0.0:7420", "http://127.0.0.1:7420"),
            ("[::]:7420", "http://[::1]:7420"),
        ] {
            assert_eq!(url(address.parse().unwrap()), expected);
        }
    }
}
